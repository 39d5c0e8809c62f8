/**
 * Converts the input of `encode`, `embed` and `predict`, texts or token ids, to rows of tokens for the WebAssembly
 * module.
 */
import { describe, guarded, type HeedError, invalid } from '../base/error.js';
import type { Steps } from '../base/event-loop.js';
import { integer, lengthOf, listOf, type Reader, requireKnown, texts } from '../base/options.js';
import type { RawEncoderModelConfig } from '../base/wasm/core.js';
import type { ChatInput, ChatTemplate } from '../text/chat-template.js';
import type { TextTokenizer, Token } from '../text/tokenizer.js';
import type { TextSettings } from './families/sentence-config.js';

/**
 * Token ids from another tokenizer. `attentionMask`: 1 for tokens, 0 for padding. `tokenTypeIds`: default 0; ignored by
 * families without token types.
 */
export interface TokenIds {
  /** The ids of the tokens, one row per text. */
  inputIds: readonly (readonly number[])[];
  /** 1 for tokens, 0 for padding. Default: no padding. */
  attentionMask?: readonly (readonly number[])[] | undefined;
  /** The segment of each token. Default: 0. */
  tokenTypeIds?: readonly (readonly number[])[] | undefined;
}

/** A text, several texts, or their token ids. */
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
  /** Those of token ids with a mask; null: they follow from `ids`. */
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
  /** See Family. */
  replacedTokens: ReadonlyMap<number, number> | undefined;
  /** The folder's settings for texts. */
  texts: Pick<TextSettings, 'taskLengths' | 'truncation' | 'padding' | 'addSpecialTokens' | 'template'>;
}

/** The settings for the rows of a call. */
interface RowContext extends InputContext {
  limit: number;
  truncation: boolean;
  prompt: string;
  task: string | undefined;
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
  /** The task of the texts, for folders that limit their length by task. Default: none. */
  task?: string | undefined;
  /** Whether `maxLength` may exceed the model's limit, for rows that will not be run. Default false. */
  anyLength?: boolean | undefined;
}

/**
 * Generates the rows of an input that `readInput` returned, in order. Lazy, so that the first text can run before a
 * long list is tokenized.
 */
export function* rowsOf(
  input: ModelInput,
  { truncation, maxLength, prompt = '', task, anyLength = false, ...options }: RowOptions,
  context: InputContext,
): Generator<Row | null> {
  const pairs = pairsOf(input, options);
  if (isTexts(input)) {
    const limit = limitOfTexts({ truncation, maxLength, task, anyLength }, context);
    const rowContext = { ...context, limit, truncation: truncation ?? Boolean(context.texts.truncation), prompt, task };
    for (const [n, text] of (typeof input === 'string' ? [input] : input).entries())
      yield yield* textRow(text, pairs?.[n], n, rowContext);
    return;
  }
  // The tokenizer's limit does not apply to token ids.
  const rowContext = {
    ...context,
    limit: lengthLimit(maxLength, context, Infinity, anyLength),
    truncation: truncation ?? false,
    prompt,
    task,
  };
  const width = longest(input.inputIds);
  for (let n = 0; n < input.inputIds.length; n++) yield idsRow(n, input, width, rowContext);
}

/** The maximum number of tokens of each text. */
export function limitOfTexts(
  { truncation, maxLength, task, anyLength = false }: Omit<RowOptions, 'prompt' | 'textPairs'>,
  context: InputContext,
): number {
  const { texts } = context;
  const own = (task !== undefined && texts.taskLengths[task]) || context.maxLength;
  // The folder's limit applies only if the call or the folder cuts texts.
  const cuts = truncation || texts.truncation;
  return lengthLimit(maxLength, context, cuts ? own : Infinity, anyLength);
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
  const { tokenizer, config, limit, truncation, prompt, texts } = context;
  const { addSpecialTokens } = texts;
  if (!tokenizer)
    throw invalid(`texts[${n}]`, '{ inputIds }, as the model folder has no tokenizer.json', 'a text', 'UNSUPPORTED');
  if (pair !== undefined && texts.truncation === 'only_first') {
    const expected = "none, as the folder cuts only first texts (truncation: 'only_first')";
    throw invalid('textPairs', expected, 'a text', 'UNSUPPORTED');
  }
  const { template } = texts;
  if (template && !(template.onlyPairs && pair === undefined))
    return yield* chatRow({ text, pair, prompt, task: context.task }, template, tokenizer, n, context);
  const steps = tokenizer.tokenizing(prompt + text, pair, truncation ? limit : Infinity, addSpecialTokens);
  const { tokens, typeIds, cut } = yield* steps;
  const special = () => (addSpecialTokens ? tokenizer.specialCount(pair !== undefined) : 0);
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

/** The row of a text that the model reads as a message. Its tokens have no ranges in the text. */
function* chatRow(
  input: ChatInput,
  template: ChatTemplate,
  tokenizer: TextTokenizer,
  n: number,
  { limit, truncation }: RowContext,
): Steps<Row> {
  const most = truncation ? limit : Infinity;
  const { tokens, cut } = yield* tokenizer.tokenizing(template.render(input), undefined, most, false);
  requireFit(`texts[${n}]`, tokens.length + cut, limit, truncation, () => 0);
  const ids = tokens.map(({ id }) => id);
  if (truncation && template.restoresEnd && ids.length >= limit) {
    const idsOf = (text: string) => tokenizer.tokenize(text, undefined, Infinity, false).tokens.map(({ id }) => id);
    const end = template.endOf(input, idsOf);
    const count = Math.min(end.length, ids.length);
    for (let i = 1; i <= count; i++) ids[ids.length - i] = end[end.length - i]!;
  }
  return {
    ids,
    types: null,
    positions: null,
    columns: ids.map((_, i) => i),
    length: ids.length,
    tokens: ids.map((id) => tokenizer.token(id)),
    offsets: ids.map(() => [0, 0]),
    parts: ids.map(() => null),
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
  if (config.rotaryValues && columns.length > 0 && columns[0] !== 0)
    throw invalid(
      `attentionMask[${n}]`,
      'no padding before the text, as this model rotates values by position',
      'zeros',
      'UNSUPPORTED',
    );
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
 * preceding tokens that are not padding; padding, also within a text, has position padding_idx. null: 0, 1, 2, ... plus the offset.
 */
export function positionsOf(
  all: readonly number[],
  columns: number[],
  { config }: Pick<InputContext, 'config'>,
): number[] | null {
  if (!(config.positions === 'absolute' || config.positionEmbeddings)) return null;
  let positions = columns;
  if (config.positionOffset > 0) {
    let seen = 0;
    const byId = all.map((id) => (id === config.positionOffset - 1 ? id : config.positionOffset + seen++));
    positions = columns.map((i) => byId[i]!);
  }
  return positions.every((position, i) => position === config.positionOffset + i) ? null : positions;
}
