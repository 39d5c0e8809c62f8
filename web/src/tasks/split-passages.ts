/** Splits texts into passages and pools the vectors of passages. Imported on demand. */
import { describe, floatsOf, guarded, HeedError, invalid } from '../base/error.js';
import { makeYield } from '../base/event-loop.js';
import { count, listOfTexts, optional, plainOptions, readOptions, size, text } from '../base/options.js';
import type { SignalLike } from '../base/platform.js';
import { Tensor } from '../base/tensor.js';
import type { EmbedOptions, PretrainedModel } from '../models/model.js';
import { promptText, type Role, readRole, withPrompt } from '../models/prompts.js';
import { normalized } from '../models/quantized.js';
import { type Granularity, segmentsOf } from './text-segments.js';

/** A passage of a text, as `splitPassages` returns it. */
export interface Passage {
  /** `source.slice(start, end)`, which neither begins nor ends with white space. */
  text: string;
  /** The range [start, end) in the source, in UTF-16 units. */
  start: number;
  /** The end of the range, exclusive. */
  end: number;
  /** The number of tokens, without special tokens and the prompt's. */
  tokens: number;
}

/** Options of `splitPassages`. */
export interface PassageOptions {
  /**
   * The maximum number of tokens per passage, including special tokens and the prompt's. Default: the model's limit.
   */
  maxTokens?: number | undefined;
  /**
   * The maximum number of tokens that a passage repeats from the end of the previous one, in whole sentences. Default
   * 0.
   */
  overlap?: number | undefined;
  /** The language for finding sentences and words, as for Intl.Segmenter. Default: the host's. */
  locale?: string | undefined;
  /** A prompt that will be prepended to each passage; its tokens count. Default ''. */
  prompt?: string | undefined;
  /** The task of the passages, as in `embed`, for models whose tokenizer or limit depends on it. Default: none. */
  task?: string | undefined;
  /** An `AbortSignal` that stops the call, which then rejects with the reason of the signal. */
  signal?: SignalLike | undefined;
}

/** Options of `embedLong`. */
export interface EmbedLongOptions
  extends Omit<PassageOptions, 'signal'>,
    Omit<EmbedOptions, 'prompt' | 'textPairs' | 'truncation' | 'maxLength' | 'edit'> {
  /** The role of the texts, which selects the prompt as in `embedQuery` and `embedDocument`. Default 'document'. */
  role?: Role | undefined;
}

/** A model or a Tokenizer. */
export type PassageTokenizer = Pick<PretrainedModel, 'config' | 'tokenize'> | LocalTokenizer;

interface LocalTokenizer {
  readonly modelMaxLength: number;
  tokenize(texts: readonly string[]): { inputIds: number[][]; truncated: number[] };
}

const schema = {
  maxTokens: optional(size, undefined),
  overlap: optional(count, 0),
  locale: optional(text, undefined),
  prompt: optional(text, ''),
  task: optional(text, undefined),
};

/** Implements `splitPassages` of passages.ts. */
export async function splitPassages(
  tokenizer: PassageTokenizer,
  source: string,
  options?: PassageOptions,
): Promise<Passage[]> {
  const { signal, ...rest } = plainOptions('splitPassages', options);
  const read = readOptions('splitPassages', schema, rest);
  return split('splitPassages', tokenizer, text(source, 'source'), { ...read, signal });
}

/** A range [start, end) of the source, with its number of tokens. */
interface Unit {
  start: number;
  end: number;
  tokens: number;
}

type CountTokens = (texts: string[]) => Promise<number[]>;

interface SplitOptions {
  maxTokens: number | undefined;
  overlap: number;
  locale: string | undefined;
  prompt: string;
  task: string | undefined;
  signal: SignalLike | undefined;
}

async function split(
  owner: string,
  tokenizer: PassageTokenizer,
  source: string,
  { maxTokens: given, overlap, locale, prompt, task, signal }: SplitOptions,
): Promise<Passage[]> {
  const [tokenize, limit] = readTokenizer(owner, tokenizer, task, signal);
  const maxTokens = given ?? limit;
  if (maxTokens > limit) throw invalid(`${owner}.maxTokens`, `at most ${limit}, the model's limit`, `${maxTokens}`);
  const lengthsOf = async (texts: string[]) => {
    const { inputIds, truncated } = await tokenize(texts);
    return inputIds.map(({ length }, n) => length + truncated[n]!);
  };
  const [special, promptLength] = (await lengthsOf(['', prompt])) as [number, number];
  const countTokens: CountTokens = async (texts) =>
    texts.length === 0 ? [] : (await lengthsOf(texts)).map((length) => length - special);
  const yieldToEventLoop = makeYield(signal);
  const room = maxTokens - promptLength;
  if (room < 1) {
    const expected = `at least ${promptLength + 1}, one more than the special tokens and those of the prompt`;
    throw invalid(`${owner}.maxTokens`, expected, `${maxTokens}`);
  }
  if (overlap >= room)
    throw invalid(`${owner}.overlap`, `less than ${room}, the tokens of text per passage`, `${overlap}`);
  // The token counts of parts need not add up to that of the whole, because some tokenizers join characters across
  // spaces. If passages turn out too long, split again with a smaller limit.
  for (let reserve = 0; ; ) {
    const most = room - reserve;
    const whole = { start: 0, end: source.length, tokens: Infinity };
    const units: Unit[] = [];
    await addUnits(units, whole, { owner, source, most, locale, countTokens, yieldToEventLoop });
    const passages = passagesOf(source, units, most, Math.min(overlap, most - 1));
    const counts = await countTokens(passages.map(({ text }) => text));
    const wholes = prompt === '' ? counts : await countTokens(passages.map(({ text }) => prompt + text));
    const excess = wholes.reduce((most, tokens) => Math.max(most, tokens + special - maxTokens), 0);
    if (excess === 0) return passages.map((passage, n) => ({ ...passage, tokens: counts[n]! }));
    reserve += excess;
  }
}

/** Returns a tokenizing function and the model's maximum number of tokens. */
function readTokenizer(
  owner: string,
  tokenizer: PassageTokenizer,
  task: string | undefined,
  signal: SignalLike | undefined,
): [tokenize: (texts: string[]) => Promise<{ inputIds: number[][]; truncated: number[] }>, limit: number] {
  return guarded(`${owner}: model`, () => {
    if (typeof tokenizer?.tokenize === 'function') {
      if ('modelMaxLength' in tokenizer)
        return [
          async (texts) => {
            signal?.throwIfAborted();
            return tokenizer.tokenize(texts);
          },
          tokenizer.modelMaxLength,
        ];
      return [(texts) => tokenizer.tokenize(texts, { task, signal }), tokenizer.config.maxLength];
    }
    throw invalid(`${owner}: model`, 'a model or a tokenizer', describe(tokenizer));
  });
}

const FINER: Record<Granularity, Granularity | null> = {
  sentence: 'word',
  word: 'grapheme',
  grapheme: 'point',
  point: null,
};

/** The inputs of splitting one text. */
interface Division {
  owner: string;
  source: string;
  most: number;
  locale: string | undefined;
  countTokens: CountTokens;
  yieldToEventLoop: () => Promise<void>;
}

/**
 * Adds the sentences of a range. Splits sentences of more than `most` tokens into words, and such words into
 * characters.
 */
async function addUnits(
  units: Unit[],
  range: Unit,
  division: Division,
  granularity: Granularity = 'sentence',
): Promise<void> {
  const { owner, source, most, countTokens } = division;
  const ranges = await rangesOf(range, division, granularity);
  const counts = await countTokens(ranges.map(([start, end]) => source.slice(start, end).trim()));
  for (const [n, [start, end]] of ranges.entries()) {
    const unit = { start, end, tokens: counts[n]! };
    const finer = FINER[granularity];
    if (unit.tokens <= most) units.push(unit);
    else if (finer) await addUnits(units, unit, division, finer);
    else {
      const character = `'${source.slice(start, end)}', which has ${unit.tokens} tokens`;
      throw new HeedError('INVALID_ARGUMENT', `${owner}.maxTokens: too small for ${character}`);
    }
  }
}

/** The number of segments to find before yielding to the event loop. */
const SEGMENTS_PER_STEP = 512;

/** Splits a range into segments that cover it. */
async function rangesOf(
  { start: first, end: last }: Unit,
  { owner, source, locale, yieldToEventLoop }: Division,
  granularity: Granularity,
): Promise<[start: number, end: number][]> {
  const ranges: [start: number, end: number][] = [];
  for (const [start, end] of segmentsOf(owner, source.slice(first, last), granularity, locale)) {
    ranges.push([first + start, first + end]);
    if (ranges.length % SEGMENTS_PER_STEP === 0) await yieldToEventLoop();
  }
  return ranges;
}

/** Joins successive units to passages, each as long as `most` tokens allow. */
function passagesOf(source: string, units: readonly Unit[], most: number, overlap: number): Passage[] {
  const passages: Passage[] = [];
  let first = 0;
  while (first < units.length) {
    let end = first;
    for (let tokens = 0; end < units.length && tokens + units[end]!.tokens <= most; end++) tokens += units[end]!.tokens;
    const passage = trimmed(source, units[first]!.start, units[end - 1]!.end);
    if (passage) passages.push(passage);
    if (end === units.length) break;
    // The next passage must have at least one unit beyond the repeated ones.
    let next = end;
    let repeated = 0;
    while (
      next - 1 > first &&
      repeated + units[next - 1]!.tokens <= overlap &&
      repeated + units[next - 1]!.tokens + units[end]!.tokens <= most
    )
      repeated += units[--next]!.tokens;
    first = next;
  }
  return passages;
}

function trimmed(source: string, start: number, end: number): Passage | null {
  const whole = source.slice(start, end);
  const text = whole.trim();
  const from = start + (whole.length - whole.trimStart().length);
  return text === '' ? null : { text, start: from, end: from + text.length, tokens: 0 };
}

/** Implements `embedLong` of passages.ts. */
export async function embedLong(
  model: PretrainedModel,
  texts: string | readonly string[],
  options?: EmbedLongOptions,
): Promise<Tensor & { readonly passages: Passage[][] }> {
  const owner = 'embedLong';
  const { maxTokens, overlap, locale, prompt, role: given, task: ownTask, ...embed } = plainOptions(owner, options);
  const role = optional(readRole, 'document' as const)(given, `${owner}.role`);
  const { task = role, ...read } = readOptions(owner, schema, { maxTokens, overlap, locale, prompt, task: ownTask });
  const list = listOfTexts(texts);
  const [, limit] = readTokenizer(owner, model, task, embed.signal);
  const named = withPrompt(model.config.prompts, role, { prompt, promptName: embed.promptName });
  const before = promptText(model.config.prompts, named);
  const normalize = embed.normalize ?? model.config.normalize;
  let most = read.maxTokens ?? limit;
  for (;;) {
    const passages: Passage[][] = [];
    for (const each of list)
      passages.push(
        await split(owner, model, each, { ...read, maxTokens: most, prompt: before, task, signal: embed.signal }),
      );
    // A text of only white space has no passages; embed it as it is.
    const all = passages.flatMap((own, n) => (own.length > 0 ? own.map(({ text }) => text) : [list[n]!]));
    const call = { task, ...embed, ...(named.promptName === undefined ? {} : { promptName: named.promptName }) };
    const vectors = await model.embed(all, { ...call, ...(prompt !== undefined && { prompt }) });
    // The folder may prepend a default prompt, which the split did not account for. Split again with a smaller limit.
    const cut = vectors.truncated.reduce((most, each, n) => (all[n]!.trim() === '' ? most : Math.max(most, each)), 0);
    if (cut > 0) {
      most -= cut;
      continue;
    }
    const width = vectors.shape[1]!;
    const data = floatsOf(owner, [list.length, width]);
    let at = 0;
    passages.forEach((own, n) => {
      const mean = meanOf(vectors, at, own);
      data.set(normalize && own.length > 1 ? normalized(mean) : mean, n * width);
      at += Math.max(1, own.length);
    });
    return Object.assign(new Tensor(data, [list.length, width]), { passages });
  }
}

/** The mean of a text's passage vectors, weighted by their numbers of tokens. `first`: the row of its first passage. */
function meanOf({ data, shape }: Tensor, first: number, passages: readonly Passage[]): Float32Array {
  const width = shape[1]!;
  if (passages.length < 2) return data.slice(first * width, (first + 1) * width);
  const total = passages.reduce((sum, { tokens }) => sum + tokens, 0) || 1;
  const mean = new Float64Array(width);
  passages.forEach(({ tokens }, n) => {
    const weight = tokens / total;
    for (let i = 0; i < width; i++) mean[i]! += weight * data[(first + n) * width + i]!;
  });
  return Float32Array.from(mean);
}
