/**
 * Token vectors for late interaction (ColBERT: Khattab and Zaharia 2020, arXiv:2004.12832; ColBERTv2: Santhanam et al.
 * 2022, arXiv:2112.01488). Queries and documents are encoded as by sentence-transformers' MultiVectorEncoder, or as in
 * PyLate's models/colbert.py and Stanford's modeling/colbert.py.
 */
import { invalid, invalidFile } from '../../base/error.js';
import { texts as textsOption } from '../../base/options.js';
import { Tensor } from '../../base/tensor.js';
import type { Settings } from '../../io/settings.js';
import type { TextTokenizer } from '../../text/tokenizer.js';
import type { SentenceConfig } from '../families/sentence-config.js';
import { MASK, type OtherStep, type Step, TOKEN_POOLING } from '../families/steps.js';
import { type InputContext, rowsOf as inputRows, positionLimit, type Row, requireFit } from '../input.js';
import { STANFORD } from '../loaded-model.js';
import type { EmbedTokensOptions } from '../model.js';
import { promptText, type Role, withPrompt } from '../prompts.js';
import { normalized } from '../quantized.js';
import { runRows } from '../run.js';
import type { RunnableModel } from '../runnable-model.js';
import { STATIC } from '../static-embedding.js';
import { Chain, makeDense } from './task-heads.js';
import { pooledTokens, readTokenPooling, type TokenPooling, tasksIn } from './token-pooling.js';

/** How queries, or documents, are encoded. */
interface Encoding {
  /** The text before each text. */
  prompt: string;
  /** The token to insert after the first one; null: none. */
  prefix: string | null;
  /** The maximum number of tokens; longer texts are cut. */
  length: number;
  /** How texts are padded; null: not at all. */
  padding: Padding | null;
  /** Ids of tokens whose vectors are left out of the result. */
  skipped: Set<number>;
  /** If not null, ids of the tokens whose vectors are kept. */
  kept: Set<number> | null;
  /** Whether the vectors are scaled to unit norm after the folder's modules. */
  normalize: boolean;
  pooling: TokenPooling | null;
}

/** How short texts are padded. */
interface Padding {
  /** The least number of tokens of a text. */
  length: number;
  /** The token for padding; null: the mask token. */
  token: string | null;
  /** Whether tokens attend to the padding. */
  attends: boolean;
  /** Whether the padding has vectors. */
  isScored: boolean;
}

/** `scored`: the number of tokens that may have vectors. */
type TokenRow = Row & { scored: number };

/** Implements `PretrainedModel.embedTokens`, for the model of the texts' route. */
export async function embedTokens(
  model: RunnableModel,
  texts: string | readonly string[],
  options: EmbedTokensOptions = {},
): Promise<Tensor[]> {
  const [read, pieceOptions] = model.begin('embedTokens', options);
  const given = textsOption(texts, 'texts');
  if (model.config.family === STATIC)
    throw invalid('embedTokens', 'a model with an encoder', 'static embeddings', 'UNSUPPORTED');
  if (read.textPairs) throw invalid('embedTokens.textPairs', 'undefined', 'texts', 'UNSUPPORTED');
  const list = typeof given === 'string' ? [given] : given;
  const encoding = encodingOf(model, read.promptName, read.maxLength);
  // DeBERTa sets the embeddings of tokens that are not attended to zero.
  if (encoding.padding?.attends === false && model.config.family === 'deberta-v2') {
    const expected = 'a DeBERTa whose queries are not padded, or whose tokens attend to the padding';
    throw invalid('embedTokens', expected, 'padding that is not attended to', 'UNSUPPORTED');
  }
  const { steps } = model.raw;
  const layers = stanfordLayer(model);
  const stepOptions = { pooling: [], skipped: 0, unnormalized: false };
  const vectors: Tensor[] = [];
  const rows = rowsOf(model, list, encoding, read);
  await runRows(
    model.runContext,
    await model.withSites('embedTokens', read, rows, pieceOptions),
    list.length,
    read,
    pieceOptions,
    (piece) =>
      steps.hooks(piece, stepOptions, (values) => {
        const { data, shape } = layers.forward(steps.tokens(values));
        let at = 0;
        for (const row of piece as TokenRow[]) {
          vectors.push(vectorsOf(row, data, shape[1]!, at, encoding));
          at += row.ids.length;
        }
      }),
  );
  return vectors;
}

/** The vectors of a text, whose rows begin at `first`. */
function vectorsOf(
  { ids, scored }: TokenRow,
  data: Float32Array,
  width: number,
  first: number,
  { skipped, kept, normalize, pooling }: Encoding,
): Tensor {
  const isKept = (id: number) => !skipped.has(id) && (kept?.has(id) ?? true);
  const rows = ids.slice(0, scored).flatMap((id, i) => (isKept(id) ? [first + i] : []));
  const out = new Float32Array(rows.length * width);
  rows.forEach((row, i) => {
    const vector = data.subarray(row * width, (row + 1) * width);
    out.set(normalize ? normalized(vector) : vector, i * width);
  });
  const tensor = { data: out, shape: [rows.length, width] };
  const pooled = pooling ? pooledTokens(tensor, pooling) : tensor;
  return new Tensor(pooled.data, pooled.shape);
}

type Call = Pick<EmbedTokensOptions, 'truncation' | 'promptName'>;

function* rowsOf(model: RunnableModel, texts: string[], encoding: Encoding, call: Call): Generator<Row | null> {
  const { padding } = encoding;
  const own =
    encoding.prefix === null ? textRows(model, texts, encoding, call) : prefixedRows(model, texts, encoding, call);
  const id = padding && paddingId(model, padding);
  if (!padding || padding.attends) {
    for (const row of own) yield row && padded(row, padding, id, padding?.length ?? 0);
    return;
  }
  // With a key mask, all rows have the same length.
  const rows: Row[] = [];
  for (const row of own) {
    if (row) rows.push(row);
    else yield null;
  }
  const width = rows.reduce((most, { ids }) => Math.max(most, ids.length), padding.length);
  for (const row of rows) yield padded(row, padding, id, width);
}

/** Rows of texts with their prompt. */
function textRows(
  { context }: RunnableModel,
  texts: string[],
  { prompt, length }: Encoding,
  { truncation, promptName }: Call,
): Generator<Row | null> {
  requireTokenizer(context);
  return inputRows(texts, { prompt, truncation, maxLength: length, task: promptName }, context);
}

/** Rows of texts with a token after their first one. */
function* prefixedRows(
  { context }: RunnableModel,
  texts: string[],
  { prefix, length }: Encoding,
  { truncation = true }: Call,
): Generator<Row | null> {
  const tokenizer = requireTokenizer(context);
  const added = idOf(tokenizer, prefix!);
  for (const [n, text] of texts.entries()) {
    const { tokens, cut } = yield* tokenizer.tokenizing(text, undefined, length - 1);
    const ids = tokens.map(({ id }) => id);
    ids.splice(1, 0, added);
    requireFit(`texts[${n}]`, ids.length + cut, length, truncation, () => tokenizer.specialCount(false) + 1);
    const lists = { tokens: [], offsets: [], parts: [], columns: [] };
    yield { ids, types: null, positions: null, length: ids.length, ...lists, cut };
  }
}

/** A text's row, padded to its least length and, with tokens that have no vectors, to `width`. */
function padded(
  { ids: own, positions, cut }: Row,
  padding: Padding | null,
  id: number | null,
  width: number,
): TokenRow {
  const { length = 0, attends = true, isScored = false } = padding ?? {};
  const count = Math.max(0, width - own.length);
  const ids = [...own, ...new Array<number>(count).fill(id ?? 0)];
  const last = positions?.reduce((most, position) => Math.max(most, position), -1) ?? 0;
  return {
    ids,
    types: null,
    positions: positions && [...positions, ...Array.from({ length: count }, (_, i) => last + 1 + i)],
    ...(!attends && { keyMask: ids.map((_, i) => (i < own.length ? 0 : -Infinity)) }),
    columns: [],
    length: ids.length,
    tokens: [],
    offsets: [],
    parts: [],
    cut,
    scored: isScored ? Math.max(own.length, length) : own.length,
  };
}

function requireTokenizer({ tokenizer }: InputContext): TextTokenizer {
  if (tokenizer) return tokenizer;
  throw invalid('embedTokens', 'a model with tokenizer.json', 'a model without it', 'UNSUPPORTED');
}

function idOf(tokenizer: TextTokenizer, token: string): number {
  const id = tokenizer.idOf(token);
  if (id !== undefined) return id;
  throw invalidFile('tokenizer.json', `the token '${token}', which the ColBERT's settings name`, 'none');
}

function paddingId({ config, context }: RunnableModel, { token }: Padding): number {
  const name = token ?? config.maskToken;
  if (name !== null) return idOf(requireTokenizer(context), name);
  const expected = 'a tokenizer with a mask token to pad queries';
  throw invalid('embedTokens', expected, 'a tokenizer without one', 'UNSUPPORTED');
}

/** The encoding of queries or documents according to the folder's settings. `maxLength`: the caller's option. */
function encodingOf(model: RunnableModel, promptName: Role, maxLength: number | undefined): Encoding {
  const limit = positionLimit(model.context.config);
  if (maxLength !== undefined && maxLength > limit)
    throw invalid('embedTokens.maxLength', `a whole number from 1 to ${limit}, the model's limit`, String(maxLength));
  const isOwn = isMultiVector(model.sentence);
  return isOwn ? ownEncoding(model, promptName, maxLength) : olderEncoding(model, promptName, maxLength, limit);
}

/** Whether sentence-transformers' MultiVectorEncoder wrote the folder. */
const isMultiVector = ({ general, steps }: SentenceConfig) =>
  steps.some(isMask) || general?.get('model_type') === 'MultiVectorEncoder';

const isOther =
  (type: string) =>
  (step: Step): step is OtherStep =>
    step.kind === 'other' && step.type === type;
const isMask = isOther(MASK);

/** The encoding of a MultiVectorEncoder. */
function ownEncoding(model: RunnableModel, task: Role, maxLength: number | undefined): Encoding {
  const { sentence, context, config } = model;
  const { steps, texts } = sentence;
  const expansion = task === 'query' ? texts.expansion : null;
  const limit = positionLimit(context.config);
  if (expansion && expansion.length > limit)
    throw invalidFile('query_expansion.length', `at most ${limit}, the model's limit`, `${expansion.length}`);
  const own = texts.taskLengths[task] ?? context.maxLength;
  const least = expansion?.length ?? 0;
  const length = maxLength ?? (expansion?.strategy === 'fixed' ? least : Math.max(own, least));
  const masks = steps.filter(isMask);
  const skipped = masks.flatMap(({ settings }) =>
    tasksIn(settings, 'skiplist_tasks').includes(task) ? wordsIn(settings, []) : [],
  );
  const only = masks.map(({ settings }) => keptIds(settings));
  const pooling = poolingIn(steps);
  return {
    prompt: promptText(config.prompts, withPrompt(config.prompts, task, {})),
    prefix: null,
    length,
    padding: expansion && {
      length: Math.min(least, length),
      token: expansion.token,
      attends: expansion.attends,
      isScored: masks.length > 0 || expansion.attends,
    },
    skipped: idsOf(context, skipped),
    kept: task === 'query' ? null : (only.find((ids) => ids !== null) ?? null),
    normalize: false,
    pooling: pooling?.tasks.includes(task) ? pooling : null,
  };
}

/** The settings of HierarchicalTokenPooling; null if the folder has none. */
function poolingIn(steps: readonly Step[]): TokenPooling | null {
  const at = steps.findIndex(isOther(TOKEN_POOLING));
  if (at < 0) return null;
  const after = steps[at + 1];
  if (after)
    throw invalid('modules.json', `${TOKEN_POOLING} as the last module`, `'${after.path}' after it`, 'UNSUPPORTED');
  return readTokenPooling((steps[at] as OtherStep).settings);
}

/** Ids of the words that are tokens. */
const idsOf = ({ tokenizer }: InputContext, words: readonly string[]) =>
  new Set(words.map((word) => tokenizer?.idOf(word) ?? -1));

function keptIds(settings: Settings): Set<number> | null {
  const key = 'keep_only_token_ids';
  const ids = settings.get(key) ?? [];
  if (!Array.isArray(ids) || ids.some((id) => !Number.isInteger(id))) throw settings.wrong(key, 'a list of ids', ids);
  return ids.length > 0 ? new Set(ids as number[]) : null;
}

function wordsIn(settings: Settings, fallback: string[]): string[] {
  const key = 'skiplist_words';
  const words = settings.get(key) ?? fallback;
  if (Array.isArray(words) && words.every((word) => typeof word === 'string')) return words;
  throw settings.wrong(key, 'a list of words', words);
}

/** The encoding of PyLate's and Stanford's folders, and of those without settings. */
function olderEncoding(model: RunnableModel, role: Role, maxLength: number | undefined, limit: number): Encoding {
  const isQuery = role === 'query';
  const { prefix, expands, attends, words, ...own } = settingsOf(model, isQuery);
  const length = maxLength ?? Math.min(own.length, limit);
  return {
    prompt: '',
    prefix: prefix || null,
    length,
    padding: isQuery && expands ? { length, token: null, attends, isScored: true } : null,
    skipped: idsOf(model.context, isQuery ? [] : words),
    kept: null,
    normalize: true,
    pooling: null,
  };
}

function settingsOf({ sentence, headContext, context }: RunnableModel, isQuery: boolean) {
  const own = colbertSettings(sentence.general, headContext.settings, isQuery);
  return own ?? { prefix: '', length: context.maxLength, expands: false, attends: true, words: [] };
}

/** The settings of a ColBERT, which are read when a model is first used as one; null for other models. */
export function colbertSettings(settings: Settings | null, config: Settings, isQuery: boolean) {
  if (isStanford(config)) return stanfordSettings(settings!, isQuery);
  const isPyLate = settings?.get(settings.keyOf(['query_length', 'query_prefix'])) !== undefined;
  return isPyLate ? pyLateSettings(settings!, isQuery) : null;
}

const isStanford = (config: Settings) => String(config.get('architectures')) === STANFORD;

/** Python's string.punctuation. */
const PUNCTUATION = [...'!"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}~'];

/** Settings in config_sentence_transformers.json, with PyLate's defaults. */
function pyLateSettings(settings: Settings, isQuery: boolean) {
  return {
    prefix: isQuery ? settings.text('query_prefix', '[Q] ') : settings.text('document_prefix', '[D] '),
    length: isQuery ? settings.count('query_length', 32, 1) : settings.count('document_length', 180, 1),
    expands: settings.flag('do_query_expansion', true),
    attends: settings.flag('attend_to_expansion_tokens', false),
    words: wordsIn(settings, PUNCTUATION),
  };
}

/** Settings in artifact.metadata, with the defaults of Stanford's ColBERTConfig. */
function stanfordSettings(settings: Settings, isQuery: boolean) {
  return {
    prefix: isQuery ? settings.text('query_token_id', '[unused0]') : settings.text('doc_token_id', '[unused1]'),
    length: isQuery ? settings.count('query_maxlen', 32, 1) : settings.count('doc_maxlen', 220, 1),
    expands: true,
    attends: settings.flag('attend_to_mask_tokens', false),
    words: settings.flag('mask_punctuation', true) ? PUNCTUATION : [],
  };
}

/** Stanford's `linear.weight`, which is applied to each token's hidden state. */
function stanfordLayer(model: RunnableModel): Chain {
  const { raw, headContext } = model;
  const weight = headContext.tensors.get('linear.weight');
  if (!isStanford(model.headContext.settings) || !weight) return Chain.of([]);
  const layer = { name: 'linear', weight, bias: undefined };
  const head = raw.heads.get('tokens') ?? { chain: Chain.of([() => makeDense(headContext.calls, layer, 'identity')]) };
  raw.heads.set('tokens', head);
  return head.chain;
}
