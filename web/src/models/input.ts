/** What a caller gives to `encode` and `embed`, texts or ids, as rows of tokens ready for the core. */
import type { RawEncoderModelConfig } from '../core.js';
import { describe, guarded, HeedError, invalid } from '../error.js';
import { integer, lengthOf, listOf, type Reader, requireKnown, texts } from '../options.js';
import type { TextTokenizer, Token } from './tokenizer.js';

/** Token ids as a tokenizer elsewhere made them. `attentionMask`: 1 where a token counts; `tokenTypeIds`: 0 where absent, of no effect in families that have none. */
export interface TokenIds {
  inputIds: readonly (readonly number[])[];
  attentionMask?: readonly (readonly number[])[];
  tokenTypeIds?: readonly (readonly number[])[];
}

export type ModelInput = string | readonly string[] | TokenIds;

export interface InputOptions {
  /** The second text of each pair. */
  textPairs?: string | readonly string[];
  /** Whether to cut what is too long, or to reject it with `TOO_LONG`. Default: true for texts, false for token ids. */
  truncation?: boolean;
  /** The most tokens per text. Default: the limit of the tokenizer and the model for texts, that of the model for token ids. */
  maxLength?: number;
  /** Set before every text. */
  prompt?: string;
}

/** One text's tokens. What is masked out has no row; `columns` says where in the padded output each row belongs. */
export interface Row {
  ids: number[];
  types: number[] | null;
  positions: number[] | null;
  columns: number[];
  /** Extent of the text in a padded output. */
  width: number;
  tokens: string[];
  offsets: [number, number][];
  parts: (0 | 1 | null)[];
  cut: number;
}

/** The model's view of input: its limits and its tokenizer. */
export interface InputContext {
  tokenizer: TextTokenizer | null;
  config: RawEncoderModelConfig;
  /** What texts are cut to where the caller does not say. */
  maxLength: number;
  padId: number;
}

/** The longest text that the architecture can take. */
export function positionLimit(config: RawEncoderModelConfig): number {
  return config.maxPositions - config.positionOffset;
}

export function countTexts(input: ModelInput): number {
  return typeof input === 'string' ? 1 : Array.isArray(input) ? input.length : (input as TokenIds).inputIds.length;
}

/** Token ids as arrays or as typed arrays, which may be BigInts. */
const idsOfText: Reader<number[]> = (value, name) => {
  if (!Array.isArray(value) && !ArrayBuffer.isView(value))
    throw invalid(name, describe(value), 'an array of whole numbers');
  const given = value as ArrayLike<unknown>;
  return Array.from({ length: lengthOf(given, name) }, (_, i) => {
    const id = given[i];
    return integer(typeof id === 'bigint' || typeof id === 'boolean' ? Number(id) : id, `${name}[${i}]`, 0);
  });
};
const idsOfTexts = listOf(idsOfText, 'an array of arrays of token ids, one a text');

/** A copy of what a caller gave: read once, so that what it does later, or its getters do, changes nothing. */
export function readInput(input: unknown): ModelInput {
  return guarded('texts', () => {
    if (typeof input === 'string' || Array.isArray(input)) return texts(input, 'texts');
    const { inputIds, attentionMask, tokenTypeIds } = (input ?? {}) as Partial<TokenIds>;
    if (inputIds === undefined)
      throw invalid(
        'texts',
        describe(input),
        'a string, an array of strings, or { inputIds, attentionMask, tokenTypeIds }',
      );
    requireKnown('texts', Object.keys(input as object), ['inputIds', 'attentionMask', 'tokenTypeIds']);
    const ids = idsOfTexts(inputIds, 'inputIds');
    const beside = (name: 'attentionMask' | 'tokenTypeIds', given: unknown) => {
      if (given === undefined) return {};
      const rows = idsOfTexts(given, name);
      if (rows.length === ids.length) return { [name]: rows };
      throw new HeedError('SHAPE_MISMATCH', `${name}: got ${rows.length} rows; expected ${ids.length}, as inputIds`);
    };
    return { inputIds: ids, ...beside('attentionMask', attentionMask), ...beside('tokenTypeIds', tokenTypeIds) };
  });
}

/** The second texts of the pairs whose first ones are `input`. */
export function pairsOf(input: ModelInput, { textPairs }: InputOptions): readonly string[] | undefined {
  const pairs = typeof textPairs === 'string' ? [textPairs] : textPairs;
  if (!pairs) return undefined;
  const count = countTexts(input);
  if (pairs.length === count) return pairs;
  throw invalid('textPairs', `${pairs.length} texts`, `${count}, one for each of texts`);
}

/** Rows of what `readInput` gave, in order, made one at a time, so that a long list is not tokenized before the first text runs. */
export function* rowsOf(input: ModelInput, options: InputOptions, context: InputContext): Generator<Row> {
  const pairs = pairsOf(input, options);
  if (typeof input === 'string' || Array.isArray(input)) {
    const limit = lengthLimit(options, context, context.maxLength);
    const list = typeof input === 'string' ? [input] : (input as readonly string[]);
    for (let n = 0; n < list.length; n++)
      yield textRow(list[n]!, pairs?.[n], n, limit, options.truncation ?? true, options.prompt ?? '', context);
    return;
  }
  // Ids are run as they are: the tokenizer's limit is for what it makes itself.
  const limit = lengthLimit(options, context, Infinity);
  const ids = input as TokenIds;
  const width = ids.inputIds.reduce((most, row) => Math.max(most, row.length), 0);
  for (let n = 0; n < ids.inputIds.length; n++)
    yield idsRow(n, ids, width, limit, options.truncation ?? false, context);
}

function lengthLimit({ maxLength }: InputOptions, context: InputContext, fallback: number): number {
  const most = positionLimit(context.config);
  if (maxLength === undefined) return Math.min(fallback, most);
  if (!Number.isInteger(maxLength) || maxLength < 1 || maxLength > most) {
    throw new HeedError(
      'INVALID_ARGUMENT',
      `maxLength: got ${maxLength}; expected a whole number from 1 to ${most}, the model's limit`,
    );
  }
  return maxLength;
}

function tooLong(name: string, length: number, limit: number): HeedError {
  return new HeedError(
    'TOO_LONG',
    `${name}: got ${length} tokens; expected at most ${limit}. Shorten it, or let it be cut with truncation: true`,
  );
}

function textRow(
  text: string,
  pair: string | undefined,
  n: number,
  limit: number,
  truncation: boolean,
  prompt: string,
  { tokenizer, config }: InputContext,
): Row {
  if (!tokenizer)
    throw new HeedError(
      'UNSUPPORTED',
      `texts[${n}]: got a text; expected { inputIds }, as the model folder has no tokenizer.json`,
    );
  const { tokens, typeIds, cut } = tokenizer.tokenize(prompt + text, pair, limit);
  if (tokens.length + cut > limit && (!truncation || tokens.length > limit))
    throw tooLong(`texts[${n}]`, tokens.length + cut, limit);
  const ids = tokens.map((token) => token.id);
  return {
    ids,
    types: config.typeVocabSize > 1 && typeIds.some((type) => type !== 0) ? typeIds : null,
    positions: null,
    columns: ids.map((_, i) => i),
    width: ids.length,
    tokens: tokens.map((token) => token.text),
    offsets: tokens.map((token) => offsetOf(token, prompt.length)),
    parts: tokens.map((token) => token.part),
    cut,
  };
}

/** In the caller's text, without the prompt. */
function offsetOf(token: Token, prompt: number): [number, number] {
  return token.part === 0
    ? [Math.max(0, token.start - prompt), Math.max(0, token.end - prompt)]
    : [token.start, token.end];
}

function idsRow(
  n: number,
  input: TokenIds,
  width: number,
  limit: number,
  truncation: boolean,
  { config, padId, tokenizer }: InputContext,
): Row {
  const all = input.inputIds[n]!;
  const beside = (name: 'attentionMask' | 'tokenTypeIds') => {
    const row = input[name]?.[n];
    if (row && row.length !== all.length) {
      throw new HeedError(
        'SHAPE_MISMATCH',
        `${name}[${n}]: got ${row.length} entries; expected ${all.length}, as inputIds[${n}]`,
      );
    }
    return row ?? null;
  };
  const types = config.typeVocabSize > 0 ? beside('tokenTypeIds') : null;
  const mask = beside('attentionMask');
  const odd = mask?.find((m) => m !== 0 && m !== 1);
  if (odd !== undefined) throw new HeedError('INVALID_ARGUMENT', `attentionMask[${n}]: got ${odd}; expected 0 or 1`);

  const seen = all.map((_, i) => i).filter((i) => !mask || mask[i] === 1);
  // Padding before the text moves it to later positions, of which there may be too few for all of it.
  const places = positionsOf(all, seen, config, padId);
  const last = places?.findIndex((place) => place >= config.maxPositions) ?? -1;
  const columns = seen.slice(0, last < 0 ? limit : Math.min(last, limit));
  const cut = seen.length - columns.length;
  if (cut > 0 && !truncation) throw tooLong(`inputIds[${n}]`, last < 0 ? seen.length : all.length, limit);
  const isRun = columns.every((column, i) => column === columns[0]! + i);
  if (!isRun && config.positions !== 'absolute') {
    throw new HeedError(
      'UNSUPPORTED',
      `attentionMask[${n}]: got zeros between ones; expected one run of ones, as this model's attention depends on distances`,
    );
  }
  return {
    ids: columns.map((i) => all[i]!),
    types: types && columns.map((i) => types[i]!),
    positions: places?.slice(0, columns.length) ?? null,
    columns,
    width,
    tokens: all.map((id) => tokenizer?.token(id) ?? String(id)),
    offsets: all.map(() => [0, 0]),
    parts: all.map(() => null),
    cut,
  };
}

/** As the published models count: BERT by column; RoBERTa and MPNet by what is no padding, from padding_idx + 1. Null where that is 0, 1, 2, ... from the offset. */
function positionsOf(
  all: readonly number[],
  columns: number[],
  config: RawEncoderModelConfig,
  padId: number,
): number[] | null {
  if (config.positions === 'rotary') return null;
  let positions = columns;
  if (config.positionOffset > 0) {
    let seen = 0;
    const byId = all.map((id) => (id === padId ? config.positionOffset - 1 : config.positionOffset + seen++));
    positions = columns.map((i) => byId[i]!);
  }
  return positions.every((position, i) => position === config.positionOffset + i) ? null : positions;
}
