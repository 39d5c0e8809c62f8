/** What people do with an encoder, on top of `PretrainedModel`: similarity, search, classification, tagging, mask filling, question answering, reranking. */
import type { RawTensor } from '../core.js';
import { describe, guarded, HeedError, invalid } from '../error.js';
import {
  listOf,
  oneOf,
  optional,
  plainOptions,
  type Read,
  type Reader,
  readOptions,
  size,
  text,
  texts,
} from '../options.js';
import type { SignalLike } from '../platform.js';
import { MAX_SIZE, readTensor, Tensor, type TensorInput } from '../tensor.js';
import type { PretrainedModel } from './model.js';

export interface TaskOptions {
  signal?: SignalLike;
}

/** How many results are wanted; Infinity: all. */
const topCount: Reader<number> = (value, name) => (value === Infinity ? value : size(value, name));
const strings = listOf(text, 'an array of strings');

/** A task's own options, read; and the others, which the model's `predict` reads. */
function taskOptions<S extends Record<string, Reader<unknown>>>(
  task: string,
  model: PretrainedModel,
  schema: S,
  given: object | undefined,
): [own: Read<S>, call: object] {
  const predict = guarded(`${task}: model`, () => model.predict);
  if (typeof predict !== 'function')
    throw invalid(`${task}: model`, describe(model), 'a model that `fromPretrained` gave');
  const entries = Object.entries(plainOptions(task, given));
  const isOwn = ([name]: [string, unknown]) => Object.hasOwn(schema, name);
  const own = readOptions(task, schema, Object.fromEntries(entries.filter(isOwn)));
  return [own, Object.fromEntries(entries.filter((entry) => !isOwn(entry)))];
}

// Vectors --------------------------------------------------------------------------------------------------------------

/** Cosines between the rows of a [N,E] and b [M,E] (default: a itself): [N,M]. A zero row is similar to nothing. */
export function similarity(a: TensorInput, b: TensorInput = a): Tensor {
  const [x, y] = [readRows('similarity: a', a), readRows('similarity: b', b)];
  const [n, width] = x.shape as [number, number];
  const [m, other] = y.shape as [number, number];
  if (width !== other)
    throw new HeedError(
      'SHAPE_MISMATCH',
      `similarity: got vectors of ${width} and ${other} entries; expected the same`,
    );
  const norms = ({ data }: RawTensor, rows: number) =>
    Float64Array.from({ length: rows }, (_, i) => Math.sqrt(dot(data, i, data, i, width)) || 1);
  if (n * m > MAX_SIZE)
    throw new HeedError('OUT_OF_MEMORY', `similarity: got ${n} and ${m} vectors; expected at most 2^31 - 1 pairs`);
  const [na, nb] = [norms(x, n), norms(y, m)];
  const out = guarded('similarity', () => new Float32Array(n * m));
  for (let i = 0; i < n; i++)
    for (let j = 0; j < m; j++) out[i * m + j] = dot(x.data, i, y.data, j, width) / (na[i]! * nb[j]!);
  return new Tensor(out, [n, m]);
}

export interface Hit {
  /** Row of the corpus. */
  index: number;
  score: number;
}

export const searchSchema = { topK: optional(topCount, 10) };

/** For each query [N,E] the `topK` most similar rows of the corpus [M,E], exactly, best first. */
export function semanticSearch(queries: TensorInput, corpus: TensorInput, options?: { topK?: number }): Hit[][] {
  const { topK } = readOptions('semanticSearch', searchSchema, options);
  const { data, shape } = similarity(queries, corpus);
  const [n, m] = shape as [number, number];
  return Array.from({ length: n }, (_, i) => best(data.subarray(i * m, (i + 1) * m), topK));
}

/** The `count` largest entries, largest first; equal ones in order. */
export function best(scores: ArrayLike<number>, count: number): Hit[] {
  const hits: Hit[] = [];
  for (let index = 0; index < scores.length; index++) {
    const score = scores[index]!;
    if (hits.length === count && !(score > hits[count - 1]!.score)) continue;
    let at = hits.length;
    while (at > 0 && score > hits[at - 1]!.score) at--;
    hits.splice(at, 0, { index, score });
    if (hits.length > count) hits.pop();
  }
  return hits;
}

/** A matrix [rows, width]; rows that hold nothing could be any number. */
export function readRows(name: string, value: unknown): RawTensor {
  const rows = readTensor(name, value);
  const { shape } = rows;
  if (shape.length !== 2 || (shape[1] === 0 && shape[0] !== 0))
    throw new HeedError('SHAPE_MISMATCH', `${name}: got shape [${shape.join(', ')}]; expected [rows, width]`);
  return rows;
}

function dot(a: Float32Array, i: number, b: Float32Array, j: number, width: number): number {
  let sum = 0;
  for (let k = 0; k < width; k++) sum += a[i * width + k]! * b[j * width + k]!;
  return sum;
}

// Classification -------------------------------------------------------------------------------------------------------

export interface Label {
  label: string;
  score: number;
}

/**
 * Labels of each text, best first. Scores are a softmax over the labels; each its own sigmoid where config.json calls it multi-label or there is one label only; the raw
 * value for regression.
 */
export async function classify(
  model: PretrainedModel,
  texts: string | readonly string[],
  options?: TaskOptions & { topK?: number; textPairs?: string | readonly string[] },
): Promise<Label[][]> {
  const [{ topK }, call] = taskOptions('classify', model, { topK: optional(topCount, Infinity) }, options);
  const { logits } = await model.predict('sequence-classification', texts, call);
  const [count, labels] = logits.shape as [number, number];
  const { problemType } = model.config;
  const apart = problemType === 'multi_label_classification' || labels === 1;
  return Array.from({ length: count }, (_, n) => {
    const row = logits.data.subarray(n * labels, (n + 1) * labels);
    const scores = problemType === 'regression' ? row : apart ? row.map(sigmoid) : softmax(row);
    return best(scores, Math.min(topK, labels)).map(({ index, score }) => ({ label: labelOf(model, index), score }));
  });
}

/** Documents by a cross-encoder's score for (query, document), best first. The score is the head's raw value; `activation: 'sigmoid'` puts it between 0 and 1. */
export async function rerank(
  model: PretrainedModel,
  query: string,
  documents: readonly string[],
  options?: TaskOptions & { topK?: number; activation?: 'identity' | 'sigmoid' },
): Promise<Hit[]> {
  const schema = {
    topK: optional(topCount, Infinity),
    activation: optional(oneOf(['identity', 'sigmoid']), 'identity' as const),
  };
  const [{ topK, activation }, call] = taskOptions('rerank', model, schema, options);
  const asked = text(query, 'rerank: query');
  const textPairs = strings(documents, 'rerank: documents');
  if (textPairs.length === 0) return [];
  const { logits } = await model.predict(
    'sequence-classification',
    textPairs.map(() => asked),
    { ...call, textPairs },
  );
  const labels = logits.shape[1]!;
  if (labels !== 1)
    throw new HeedError('UNSUPPORTED', `rerank: got a model with ${labels} labels; expected a cross-encoder with one`);
  const scores = activation === 'sigmoid' ? logits.data.map(sigmoid) : logits.data;
  return best(scores, Math.min(topK, textPairs.length));
}

export interface Entity {
  /** The tag as it is ('B-PER') without aggregation, else the group ('PER'). */
  label: string;
  score: number;
  /** As it stands in the text. */
  word: string;
  /** UTF-16 units of the text, [start, end). */
  start: number;
  end: number;
  /** Token of the text, counted from 0 (with special tokens); of a group, its first. */
  index: number;
}

const AGGREGATIONS = ['none', 'simple', 'first', 'average', 'max'] as const;
export type Aggregation = (typeof AGGREGATIONS)[number];

/**
 * Tags of each text's tokens, or spans of equal tags. 'simple' joins neighbouring tokens of one group; 'first', 'average' and 'max' first give every word one tag, that of its first
 * token, of its mean scores, or of its most certain token.
 */
export async function classifyTokens(
  model: PretrainedModel,
  input: string | readonly string[],
  options?: TaskOptions & { aggregation?: Aggregation; ignoreLabels?: readonly string[] },
): Promise<Entity[][]> {
  const schema = {
    aggregation: optional(oneOf(AGGREGATIONS), 'none' as const),
    ignoreLabels: optional(strings, ['O']),
  };
  const [{ aggregation, ignoreLabels }, call] = taskOptions('classifyTokens', model, schema, options);
  const list = listOfTexts(input);
  const { logits, tokens, offsets, parts } = await model.predict('token-classification', list, call);
  const [, width, labels] = logits.shape as [number, number, number];
  return list.map((text, n) => {
    const seen: Tagged[] = [];
    tokens[n]!.forEach((token, i) => {
      if (parts[n]![i] === null) return;
      const scores = softmax(logits.data.subarray((n * width + i) * labels, (n * width + i + 1) * labels));
      const [start, end] = offsets[n]![i]!;
      seen.push({ scores, start, end, index: i, continues: continuesWord(token, text, start, seen.at(-1)) });
    });
    const tagged = aggregation === 'none' || aggregation === 'simple' ? seen : wordsOf(seen, aggregation);
    const entities = tagged.map((tag) => {
      const [top] = best(tag.scores, 1);
      return {
        label: labelOf(model, top!.index),
        score: top!.score,
        word: text.slice(tag.start, tag.end),
        start: tag.start,
        end: tag.end,
        index: tag.index,
      };
    });
    return (aggregation === 'none' ? entities : groupsOf(entities, text)).filter(
      ({ label }) => !ignoreLabels.includes(label),
    );
  });
}

interface Tagged {
  scores: Float32Array;
  start: number;
  end: number;
  index: number;
  continues: boolean;
}

function continuesWord(token: string, text: string, start: number, previous: Tagged | undefined): boolean {
  if (!previous || previous.end !== start) return false;
  return (
    token.startsWith('##') ||
    (/[\p{L}\p{N}\p{M}]/u.test(text[start] ?? '') && /[\p{L}\p{N}\p{M}]/u.test(text[start - 1] ?? ''))
  );
}

function wordsOf(tokens: Tagged[], how: 'first' | 'average' | 'max'): Tagged[] {
  const words: Tagged[][] = [];
  for (const token of tokens) {
    if (token.continues && words.length > 0) words.at(-1)!.push(token);
    else words.push([token]);
  }
  return words.map((word) => {
    const [first] = word as [Tagged];
    let { scores } = first;
    if (how === 'average')
      scores = first.scores.map((_, label) => word.reduce((sum, token) => sum + token.scores[label]!, 0) / word.length);
    if (how === 'max') scores = word.reduce((a, b) => (Math.max(...b.scores) > Math.max(...a.scores) ? b : a)).scores;
    return { ...first, scores, end: word.at(-1)!.end };
  });
}

/** Runs of one group; a 'B-' starts a new one. */
function groupsOf(entities: Entity[], text: string): Entity[] {
  const groups: Entity[][] = [];
  let last = '';
  for (const entity of entities) {
    const [, begins, group] = /^(?:(B|I)-)?(.*)$/s.exec(entity.label) as unknown as [
      string,
      string | undefined,
      string,
    ];
    if (groups.length > 0 && group === last && begins !== 'B') groups.at(-1)!.push(entity);
    else groups.push([entity]);
    last = group;
  }
  return groups.map((group) => {
    const [first] = group as [Entity];
    const end = group.at(-1)!.end;
    const score = group.reduce((sum, { score }) => sum + score, 0) / group.length;
    return { ...first, label: first.label.replace(/^[BI]-/, ''), score, end, word: text.slice(first.start, end) };
  });
}

// Masks and answers ----------------------------------------------------------------------------------------------------

export interface Filling {
  score: number;
  /** The token's id and text. */
  token: number;
  word: string;
  /** The text with it in the mask's place. */
  sequence: string;
}

/** The likeliest words for each text's mask, best first. Every text has exactly one mask token. */
export async function fillMask(
  model: PretrainedModel,
  input: string | readonly string[],
  options?: TaskOptions & { topK?: number },
): Promise<Filling[][]> {
  const [{ topK }, call] = taskOptions('fillMask', model, { topK: optional(topCount, 5) }, options);
  const list = listOfTexts(input);
  const { logits, inputIds, masks } = await model.predict('fill-mask', list, call);
  const words = logits.shape[1]!;
  const fillings: Filling[][] = [];
  for (let n = 0; n < list.length; n++) {
    const rows = masks.flatMap(([text], row) => (text === n ? [row] : []));
    if (rows.length !== 1)
      throw new HeedError(
        'INVALID_ARGUMENT',
        `texts[${n}]: got ${rows.length} masks; expected one ${model.config.maskToken ?? 'mask token'}`,
      );
    const row = rows[0]!;
    const hits = best(softmax(logits.data.subarray(row * words, (row + 1) * words)), Math.min(topK, words));
    const made = hits.map(async ({ index, score }) => {
      const ids = inputIds[n]!.slice();
      ids[masks[row]![1]] = index;
      return { score, token: index, word: (await model.decode([index])).trim(), sequence: await model.decode(ids) };
    });
    fillings.push(await Promise.all(made));
  }
  return fillings;
}

export interface Answer {
  answer: string;
  score: number;
  /** UTF-16 units of the context, [start, end). */
  start: number;
  end: number;
}

/**
 * The spans of `context` that answer `question`, best first. The score is the product of the start's and the end's probability over the context; a context that is too long for the
 * model is read in windows that overlap, each with probabilities of its own.
 */
export async function answerQuestion(
  model: PretrainedModel,
  question: string,
  context: string,
  options?: TaskOptions & { topK?: number; maxAnswerLength?: number },
): Promise<Answer[]> {
  const schema = { topK: optional(topCount, 1), maxAnswerLength: optional(topCount, 15) };
  const [{ topK, maxAnswerLength }, call] = taskOptions('answerQuestion', model, schema, options);
  const whole = text(context, 'answerQuestion: context');
  const answers = new Map<string, Answer>();
  for (let from = 0; ; ) {
    const { logits, offsets, parts, truncated } = await model.predict('question-answering', [question], {
      ...call,
      textPairs: [whole.slice(from)],
    });
    const places = parts[0]!.flatMap((part, i) => (part === 1 ? [i] : []));
    const of = (column: number) => softmax(Float32Array.from(places, (i) => logits.data[2 * i + column]!));
    for (const { first, last, score } of bestSpans(of(0), of(1), maxAnswerLength, topK)) {
      const start = from + offsets[0]![places[first]!]![0];
      const end = from + offsets[0]![places[last]!]![1];
      const key = `${start} ${end}`;
      if (!((answers.get(key)?.score ?? -1) >= score))
        answers.set(key, { answer: whole.slice(start, end), score, start, end });
    }
    const overlap = Math.min(WINDOW_OVERLAP, places.length >> 1);
    const next = places[places.length - overlap];
    if (truncated[0] === 0 || places.length < 2 || next === undefined) break;
    from += Math.max(1, offsets[0]![next]![0]);
  }
  const found = [...answers.values()];
  if (found.length === 0) return [];
  return best(
    found.map(({ score }) => score),
    Math.min(topK, found.length),
  ).map(({ index }) => found[index]!);
}

/** Tokens that a window shares with the one before, as in Hugging Face's pipeline. */
const WINDOW_OVERLAP = 128;

function bestSpans(
  starts: Float32Array,
  ends: Float32Array,
  maxLength: number,
  count: number,
): { first: number; last: number; score: number }[] {
  const spans: { first: number; last: number; score: number }[] = [];
  for (let first = 0; first < starts.length; first++) {
    for (let last = first; last < Math.min(starts.length, first + maxLength); last++)
      spans.push({ first, last, score: starts[first]! * ends[last]! });
  }
  if (spans.length === 0) return [];
  return best(
    spans.map(({ score }) => score),
    Math.min(count, spans.length),
  ).map(({ index }) => spans[index]!);
}

// Attention ------------------------------------------------------------------------------------------------------------

/**
 * Attention rollout (Abnar, Zuidema 2020, arXiv:2005.00928): how much of each input reaches each position through all layers, the heads averaged and the residual counted as
 * half. attentions: per layer [N,H,L,L] -> [N,L,L]; rows sum to one where a token is.
 */
export function attentionRollout(attentions: readonly TensorInput[]): Tensor {
  const layers = listOf((value, name) => readTensor(name, value), 'an array of tensors')(attentions, 'attentions');
  const shape = layers[0]?.shape ?? [];
  if (shape.length !== 4 || shape[2] !== shape[3] || layers.some((layer) => String(layer.shape) !== String(shape)))
    throw new HeedError(
      'SHAPE_MISMATCH',
      'attentions: got none, or other shapes; expected [N,H,L,L] per layer, as encode gives them with outputAttentions',
    );
  const [n, h, l] = shape as [number, number, number];
  if (h === 0 && n * l > 0) throw new HeedError('SHAPE_MISMATCH', 'attentions: got no heads; expected [N,H,L,L]');
  let rolled: Float64Array | null = null;
  for (const { data } of layers) {
    const layer = new Float64Array(n * l * l);
    for (let text = 0; text < n; text++) {
      for (let i = 0; i < l; i++) {
        let sum = 0;
        for (let j = 0; j < l; j++) {
          let mean = 0;
          for (let head = 0; head < h; head++) mean += data[((text * h + head) * l + i) * l + j]! / h;
          sum += mean;
          layer[(text * l + i) * l + j] = mean / 2;
        }
        if (sum > 0) layer[(text * l + i) * l + i]! += 0.5; // rows of padding stay zero
      }
    }
    rolled = rolled ? multiplied(layer, rolled, n, l) : layer;
  }
  return new Tensor(Float32Array.from(rolled!), [n, l, l]);
}

function multiplied(a: Float64Array, b: Float64Array, n: number, l: number): Float64Array {
  const out = new Float64Array(a.length);
  for (let text = 0; text < n; text++) {
    const base = text * l * l;
    for (let i = 0; i < l; i++) {
      for (let k = 0; k < l; k++) {
        const weight = a[base + i * l + k]!;
        if (weight !== 0) for (let j = 0; j < l; j++) out[base + i * l + j]! += weight * b[base + k * l + j]!;
      }
    }
  }
  return out;
}

function listOfTexts(input: unknown): string[] {
  const given = texts(input, 'texts');
  return typeof given === 'string' ? [given] : given;
}

function labelOf(model: PretrainedModel, index: number): string {
  return model.config.labels[index] ?? `LABEL_${index}`;
}

function sigmoid(x: number): number {
  return 1 / (1 + Math.exp(-x));
}

function softmax(row: Float32Array): Float32Array {
  const most = row.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = row.map((x) => Math.exp(x - most));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((p) => p / sum);
}
