/**
 * Converts the input of `encode`, `embed` and `predict`, texts or token ids, to rows of tokens for the WebAssembly
 * module.
 */
import { describe, guarded, type HeedError, invalid } from '../base/error.js';
import type { Steps } from '../base/event-loop.js';
import { integer, lengthOf, listOf, type Reader, requireKnown, texts } from '../base/options.js';
import type { RawEncoderModelConfig } from '../base/wasm/core.js';
import type { TextTokenizer, Token } from '../text/tokenizer.js';

/**
 * Token ids from another tokenizer. `attentionMask`: 1 for tokens, 0 for padding. `tokenTypeIds`: default 0; ignored by
 * families without token types.
 */
export interface TokenIds {
  inputIds: readonly (readonly number[])[];
  attentionMask?: readonly (readonly number[])[] | undefined;
  tokenTypeIds?: readonly (readonly number[])[] | undefined;
}

export type ModelInput = string | readonly string[] | TokenIds;

export interface InputOptions {
  /** The second text of each pair. */
  textPairs?: string | readonly string[] | undefined;
  /** Whether to cut inputs that are too long; false: throw `TOO_LONG`. Default: true for texts, false for token ids. */
  truncation?: boolean | undefined;
  /**
   * The maximum number of tokens per text. Default: the smaller limit of tokenizer and model for texts, the model's
   * limit for token ids.
   */
  maxLength?: number | undefined;
}

/** The tokens of a text. Masked tokens are left out; `columns` has each token's column in the padded output. */
export interface Row {
  ids: number[];
  types: number[] | null;
  positions: number[] | null;
  /**
   * Per token 0, or -Infinity if no token attends to it. Either all rows of a call have a key mask, and equal lengths,
   * or none has.
   */
  keyMask?: number[] | undefined;
  columns: number[];
  /** The length of the text in a padded output. */
  length: number;
  tokens: string[];
  offsets: [number, number][];
  parts: (0 | 1 | null)[];
  /** For token ids with a mask: the ids, types and mask as given, with one entry per column, as `tokens` has. */
  given?: { ids: number[]; types: number[] | null; mask: number[] } | undefined;
  cut: number;
}

/** The parts of a model that determine its input. */
export interface InputContext {
  tokenizer: TextTokenizer | null;
  config: RawEncoderModelConfig;
  /** The default maximum number of tokens per text. */
  maxLength: number;
  padId: number;
}

/** The settings for the rows of a call. */
interface RowContext extends InputContext {
  limit: number;
  truncation: boolean;
  prompt: string;
}

/** The architecture's maximum number of tokens per text. */
export function positionLimit(config: RawEncoderModelConfig): number {
  return config.maxPositions - config.positionOffset;
}

export function isTexts(input: ModelInput): input is string | readonly string[] {
  return typeof input === 'string' || Array.isArray(input);
}

export function countTexts(input: ModelInput): number {
  if (typeof input === 'string') return 1;
  return isTexts(input) ? input.length : input.inputIds.length;
}

/** Reads token ids: an array or a typed array, whose entries may be BigInts. */
const idsOfText: Reader<number[]> = (value, name) => {
  if (!Array.isArray(value) && !ArrayBuffer.isView(value))
    throw invalid(name, 'an array of whole numbers', describe(value));
  const given = value as ArrayLike<unknown>;
  return Array.from({ length: lengthOf(given, name) }, (_, i) => {
    const id = given[i];
    return integer(typeof id === 'bigint' || typeof id === 'boolean' ? Number(id) : id, `${name}[${i}]`, 0);
  });
};
const idsOfTexts = listOf(idsOfText, 'an array of arrays of token ids, one per text');

/** Copies and checks the input, so that later changes by the caller have no effect. */
export function readInput(input: unknown): ModelInput {
  return guarded('texts', () => {
    if (isTexts(input as ModelInput)) return texts(input, 'texts');
    const { inputIds, attentionMask, tokenTypeIds } = (input ?? {}) as Partial<TokenIds>;
    const expected = 'a string, an array of strings, or { inputIds, attentionMask, tokenTypeIds }';
    if (inputIds === undefined) throw invalid('texts', expected, describe(input));
    requireKnown('texts', Object.keys(input as object), ['inputIds', 'attentionMask', 'tokenTypeIds']);
    const ids = idsOfTexts(inputIds, 'inputIds');
    const readRows = (name: string, given: unknown) => {
      if (given === undefined) return undefined;
      const rows = idsOfTexts(given, name);
      if (rows.length === ids.length) return rows;
      throw invalid(name, `${ids.length} rows, as inputIds`, `${rows.length}`, 'SHAPE_MISMATCH');
    };
    return {
      inputIds: ids,
      attentionMask: readRows('attentionMask', attentionMask),
      tokenTypeIds: readRows('tokenTypeIds', tokenTypeIds),
    };
  });
}

/** The second texts of pairs, one per text of `input`. */
export function pairsOf(input: ModelInput, { textPairs }: InputOptions): readonly string[] | undefined {
  const pairs = typeof textPairs === 'string' ? [textPairs] : textPairs;
  if (!pairs) return undefined;
  const count = countTexts(input);
  if (pairs.length === count) return pairs;
  throw invalid('textPairs', `${count} texts, one for each of \`texts\``, `${pairs.length}`);
}

/**
 * The rows of an input, produced while texts are tokenized. null marks a point within a long text where the event loop
 * may run.
 */
export type RowSteps = Iterable<Row | null>;

/** Collects all rows without yielding. */
export const allRows = (rows: RowSteps): Row[] => [...rows].filter((row) => row !== null);

export interface RowOptions extends InputOptions {
  /** The prompt before every text. Default: none. */
  prompt?: string | undefined;
  /** Whether `maxLength` may exceed the model's limit, for rows that will not be run. Default false. */
  anyLength?: boolean | undefined;
}

/**
 * Generates the rows of an input that `readInput` returned, in order. Lazy, so that the first text can run before a
 * long list is tokenized.
 */
export function* rowsOf(
  input: ModelInput,
  { truncation, maxLength, prompt = '', anyLength = false, ...options }: RowOptions,
  context: InputContext,
): Generator<Row | null> {
  const pairs = pairsOf(input, options);
  const limitOf = (fallback: number) => lengthLimit(maxLength, context, fallback, anyLength);
  if (isTexts(input)) {
    const limit = limitOf(context.maxLength);
    const rowContext = { ...context, limit, truncation: truncation ?? true, prompt };
    for (const [n, text] of (typeof input === 'string' ? [input] : input).entries())
      yield yield* textRow(text, pairs?.[n], n, rowContext);
    return;
  }
  // The tokenizer's limit does not apply to token ids.
  const rowContext = {
    ...context,
    limit: limitOf(Infinity),
    truncation: truncation ?? false,
    prompt,
  };
  const width = longest(input.inputIds);
  for (let n = 0; n < input.inputIds.length; n++) yield idsRow(n, input, width, rowContext);
}

/** The maximum length. */
export function longest(rows: readonly { length: number }[]): number {
  return rows.reduce((max, { length }) => Math.max(max, length), 0);
}

function lengthLimit(
  maxLength: number | undefined,
  context: InputContext,
  fallback: number,
  anyLength: boolean,
): number {
  const max = positionLimit(context.config);
  if (maxLength === undefined) return Math.min(fallback, max);
  if (maxLength > max && !anyLength)
    throw invalid('maxLength', `a whole number from 1 to ${max}, the model's limit`, String(maxLength));
  return maxLength;
}

/**
 * Requires that a text of `length` tokens (before truncation) fits the limit or may be cut. `special`: the number of
 * its special tokens, which are never cut.
 */
export function requireFit(
  name: string,
  length: number,
  limit: number,
  truncation: boolean,
  special: () => number,
): void {
  if (length <= limit) return;
  const least = special();
  if (least > limit) throw invalid('maxLength', `at least ${least}, the number of special tokens`, `${limit}`);
  if (!truncation) throw tooLong(name, length, limit);
}

function tooLong(name: string, length: number, limit: number): HeedError {
  const hint = 'Shorten it, or let it be cut with truncation: true';
  return invalid(name, `at most ${limit} tokens`, `${length}`, 'TOO_LONG', { hint });
}

function* textRow(text: string, pair: string | undefined, n: number, context: RowContext): Steps<Row> {
  const { tokenizer, config, limit, truncation, prompt } = context;
  if (!tokenizer)
    throw invalid(`texts[${n}]`, '{ inputIds }, as the model folder has no tokenizer.json', 'a text', 'UNSUPPORTED');
  const steps = tokenizer.tokenizing(prompt + text, pair, truncation ? limit : Infinity);
  const { tokens, typeIds, cut } = yield* steps;
  const special = () => tokenizer.specialCount(pair !== undefined);
  requireFit(`texts[${n}]`, tokens.length + cut, limit, truncation, special);
  const ids = tokens.map((token) => token.id);
  return {
    ids,
    types: config.typeVocabSize > 1 && typeIds.some((type) => type !== 0) ? typeIds : null,
    positions: null,
    columns: ids.map((_, i) => i),
    length: ids.length,
    tokens: tokens.map((token) => token.text),
    offsets: tokens.map((token) => offsetOf(token, prompt.length)),
    parts: tokens.map((token) => token.part),
    cut,
  };
}

/** The range of a token in the caller's text, without the prompt. */
function offsetOf(token: Token, prompt: number): [number, number] {
  return token.part === 0
    ? [Math.max(0, token.start - prompt), Math.max(0, token.end - prompt)]
    : [token.start, token.end];
}

function idsRow(n: number, input: TokenIds, width: number, context: RowContext): Row {
  const { config, tokenizer, limit, truncation } = context;
  const all = input.inputIds[n]!;
  const rowOf = (name: 'attentionMask' | 'tokenTypeIds') => {
    const row = input[name]?.[n];
    if (!row || row.length === all.length) return row ?? null;
    throw invalid(`${name}[${n}]`, `${all.length} entries, as inputIds[${n}]`, `${row.length}`, 'SHAPE_MISMATCH');
  };
  const types = config.typeVocabSize > 0 ? rowOf('tokenTypeIds') : null;
  const mask = rowOf('attentionMask');
  const odd = mask?.find((m) => m !== 0 && m !== 1);
  if (odd !== undefined) throw invalid(`attentionMask[${n}]`, '0 or 1', String(odd));

  const seen = all.map((_, i) => i).filter((i) => !mask || mask[i] === 1);
  // Padding before the text shifts it to later positions, which may exceed the model's limit.
  const positions = positionsOf(all, seen, context);
  const last = positions?.findIndex((position) => position >= config.maxPositions) ?? -1;
  const columns = seen.slice(0, last < 0 ? limit : Math.min(last, limit));
  const cut = seen.length - columns.length;
  if (cut > 0 && !truncation) throw tooLong(`inputIds[${n}]`, last < 0 ? seen.length : all.length, limit);
  const isRun = columns.every((column, i) => column === columns[0]! + i);
  if (!isRun && config.positions !== 'absolute') {
    const expected = "one run of ones, as this model's attention depends on distances";
    throw invalid(`attentionMask[${n}]`, expected, 'zeros between ones', 'UNSUPPORTED');
  }
  // Tokens that are cut are left out of all lists. Masked ones keep their columns, as in the outputs.
  const kept = cut > 0 ? all.slice(0, (columns.at(-1) ?? -1) + 1) : all.slice();
  const masked = mask && { ids: kept, types: types?.slice(0, kept.length) ?? null, mask: mask.slice(0, kept.length) };
  return {
    ids: columns.map((i) => all[i]!),
    types: types && columns.map((i) => types[i]!),
    positions: positions?.slice(0, columns.length) ?? null,
    columns,
    length: width,
    tokens: kept.map((id) => tokenizer?.token(id) ?? String(id)),
    offsets: kept.map(() => [0, 0]),
    parts: kept.map(() => null),
    ...(masked && { given: masked }),
    cut,
  };
}

/**
 * Positions as in the published models. BERT: the column. RoBERTa and MPNet: padding_idx + 1 plus the number of
 * preceding tokens that are not padding. null: 0, 1, 2, ... plus the offset.
 */
function positionsOf(all: readonly number[], columns: number[], { config, padId }: InputContext): number[] | null {
  if (!(['absolute', 'relative'].includes(config.positions) || config.positionEmbeddings)) return null;
  let positions = columns;
  if (config.positionOffset > 0) {
    let seen = 0;
    const byId = all.map((id) => (id === padId ? config.positionOffset - 1 : config.positionOffset + seen++));
    positions = columns.map((i) => byId[i]!);
  }
  return positions.every((position, i) => position === config.positionOffset + i) ? null : positions;
}
