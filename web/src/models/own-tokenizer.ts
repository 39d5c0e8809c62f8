/** A tokenizer without a model. Imported on demand. */
import { guarded, HeedError, invalid } from '../base/error.js';
import type { HubOptions } from '../base/hub-options.js';
import {
  flag,
  integer,
  listOf,
  optional,
  readOptions,
  type Schema,
  signal,
  size,
  text,
  texts,
} from '../base/options.js';
import { inspected, type SignalLike } from '../base/platform.js';
import { Unproxied } from '../base/unproxied.js';
import { readAll } from '../io/files.js';
import { Integrity } from '../io/integrity.js';
import { Settings } from '../io/settings.js';
import { type ModelSource, type RemoteOptions, withFolder } from '../io/source.js';
import { TextTokenizer } from '../text/tokenizer.js';
import { remoteSchema } from './call-options.js';
import { familyOf } from './families/family-of.js';
import { readSentenceConfig } from './families/sentence-transformers.js';
import { pairsOf, positionLimit, requireFit } from './input.js';
import type { TokenizeResult } from './model.js';
import { MODEL2VEC_LENGTH, STATIC } from './static-embedding.js';

export interface LoadTokenizerOptions extends RemoteOptions {
  signal?: SignalLike | undefined;
}

export interface TokenizerOptions {
  /** The second text of each pair. */
  textPairs?: string | readonly string[] | undefined;
  /** Whether to add the model's special tokens, such as [CLS] and [SEP]. Default true. */
  addSpecialTokens?: boolean | undefined;
  /**
   * Whether to cut texts that are longer than `maxLength`. false: throw `TOO_LONG`. Default: true if `maxLength` is
   * given; otherwise texts of any length are returned whole.
   */
  truncation?: boolean | undefined;
  /**
   * The maximum number of tokens per text, special ones included. Default: no limit, or `modelMaxLength` if
   * `truncation` is given.
   */
  maxLength?: number | undefined;
}

export interface DecodeOptions {
  /** Whether to leave out special tokens. Default true. */
  skipSpecialTokens?: boolean | undefined;
  /**
   * Whether to remove spaces before punctuation and within contractions. Default: as in tokenizer_config.json, else
   * false.
   */
  cleanUpTokenizationSpaces?: boolean | undefined;
}

const loadingSchema = { ...remoteSchema, signal } satisfies Schema<LoadTokenizerOptions>;
const tokenizerSchema = {
  textPairs: optional(texts, undefined),
  addSpecialTokens: optional(flag, true),
  truncation: optional(flag, undefined),
  maxLength: optional(size, undefined),
};
const decodeSchema = {
  skipSpecialTokens: optional(flag, true),
  cleanUpTokenizationSpaces: optional(flag, undefined),
};
const ids = listOf((value, name) => integer(value, name, 0), 'an array of token ids');
const strings = listOf(text, 'an array of tokens');

/**
 * Converts texts to token ids and back. All calls are synchronous, and there is nothing to dispose of.
 *
 * @example
 * const ids = tokenizer.encode('a fox');
 * tokenizer.decode(ids); // "a fox"
 */
export class Tokenizer extends Unproxied {
  /** @internal For messages and consoles, as minification renames classes. */
  static override readonly name: string = 'Tokenizer';

  /** The model's maximum number of tokens, special ones included; Infinity if it is not known. */
  readonly modelMaxLength: number;
  readonly #tokenizer: TextTokenizer;

  /** @internal */
  constructor(tokenizer: TextTokenizer, modelMaxLength: number) {
    super();
    this.#tokenizer = tokenizer;
    this.modelMaxLength = modelMaxLength;
  }

  /** @internal */
  [inspected](): string {
    return `Tokenizer (${this.vocabSize} tokens)`;
  }

  /** The largest token id plus one. */
  get vocabSize(): number {
    return this.#tokenizer.vocabSize;
  }

  /**
   * Tokenizes texts, with the results of `PretrainedModel.tokenize`: ids, tokens, the range of each token in its text
   * in UTF-16 units, the text of a pair that it belongs to, token types, masks, and the number of tokens cut.
   *
   * @example
   * const { inputIds, tokens, offsets } = tokenizer.tokenize(['a fox', 'the quick fox']);
   * tokens[0]; // ["[CLS]", "a", "fox", "[SEP]"]
   * @throws HeedError TOO_LONG if `truncation` is false and a text is longer than `maxLength` or the model's limit
   */
  tokenize(given: string | readonly string[], options?: TokenizerOptions): TokenizeResult {
    const { textPairs, addSpecialTokens, ...read } = readOptions('tokenize', tokenizerSchema, options);
    const list = guarded('texts', () => [texts(given, 'texts')].flat());
    const pairs = pairsOf(list, textPairs === undefined ? {} : { textPairs });
    const { truncation = read.maxLength !== undefined } = read;
    const isLimited = read.truncation !== undefined || read.maxLength !== undefined;
    const limit = isLimited ? (read.maxLength ?? this.modelMaxLength) : Infinity;
    const result: TokenizeResult = {
      inputIds: [],
      tokens: [],
      offsets: [],
      parts: [],
      truncated: [],
      tokenTypeIds: [],
      attentionMask: [],
    };
    list.forEach((each, n) => {
      const most = truncation ? limit : Infinity;
      const { tokens, typeIds, cut } = this.#tokenizer.tokenize(each, pairs?.[n], most, addSpecialTokens);
      const special = () => (addSpecialTokens ? this.#tokenizer.specialCount(pairs !== undefined) : 0);
      requireFit(`texts[${n}]`, tokens.length + cut, limit, truncation, special);
      result.inputIds.push(tokens.map(({ id }) => id));
      result.tokens.push(tokens.map(({ text }) => text));
      result.offsets.push(tokens.map(({ start, end }) => [start, end]));
      result.parts.push(tokens.map(({ part }) => part));
      result.truncated.push(cut);
      result.tokenTypeIds.push(typeIds);
      result.attentionMask.push(tokens.map(() => 1));
    });
    return result;
  }

  /**
   * Returns the token ids of a text.
   *
   * @example
   * tokenizer.decode(tokenizer.encode('a fox')); // "a fox"
   */
  encode(given: string, options?: TokenizerOptions): number[] {
    return this.tokenize(text(given, 'text'), options).inputIds[0]!;
  }

  /**
   * Returns the number of tokens of a text, special ones included.
   *
   * @example
   * tokenizer.count('a fox'); // 4
   * tokenizer.count('a fox', { addSpecialTokens: false }); // 2
   */
  count(given: string, options?: Pick<TokenizerOptions, 'addSpecialTokens'>): number {
    return this.encode(given, options).length;
  }

  /**
   * Decodes token ids to a text.
   *
   * @example
   * const inputIds = tokenizer.encode('a fox');
   * tokenizer.decode(inputIds, { skipSpecialTokens: false }); // "[CLS] a fox [SEP]"
   */
  decode(tokenIds: readonly number[], options?: DecodeOptions): string {
    const { skipSpecialTokens, cleanUpTokenizationSpaces } = readOptions('decode', decodeSchema, options);
    return this.#tokenizer.decode(ids(tokenIds, 'ids'), skipSpecialTokens, cleanUpTokenizationSpaces);
  }

  /**
   * Returns the ids of tokens; null for tokens that are not in the vocabulary.
   *
   * @example
   * tokenizer.convertTokensToIds(['[CLS]', 'zzz']); // [2, null]
   */
  convertTokensToIds(tokens: readonly string[]): (number | null)[] {
    return strings(tokens, 'tokens').map((each) => this.#tokenizer.idOf(each) ?? null);
  }

  /**
   * Returns the tokens of ids.
   *
   * @example
   * tokenizer.convertIdsToTokens([2, 3]); // ["[CLS]", "[SEP]"]
   * @throws HeedError INVALID_ARGUMENT for an id that is not in the vocabulary
   */
  convertIdsToTokens(tokenIds: readonly number[]): string[] {
    return ids(tokenIds, 'ids').map((id, n) => {
      if (id < this.vocabSize) return this.#tokenizer.token(id);
      throw invalid(`ids[${n}]`, `an id below ${this.vocabSize}, the size of the vocabulary`, `${id}`);
    });
  }
}

/** Implements `loadTokenizer` of load-tokenizer.ts. */
export async function loadTokenizer(
  source: ModelSource,
  options: LoadTokenizerOptions | undefined,
  hub: HubOptions = {},
): Promise<Tokenizer> {
  const { integrity: expected, ...remote } = readOptions('loadTokenizer', loadingSchema, options);
  const integrity = new Integrity(expected);
  return withFolder(source, { ...remote, hub, integrity }, async (folder, signal) => {
    const sentence = await readSentenceConfig(folder, signal);
    const read = async (path: string, required = false) => {
      const file = await folder.open(path, { required, signal });
      return file ? Settings.parse(await readAll(file), file.name) : undefined;
    };
    const within = sentence.modelFolder;
    const atRoot = within === '' ? undefined : await read('tokenizer.json');
    const prefix = atRoot ? '' : within;
    const [json, settings, config] = await Promise.all([
      atRoot ?? read(`${prefix}tokenizer.json`, true),
      read(`${prefix}tokenizer_config.json`),
      read(`${prefix}config.json`),
    ]);
    const isModel2vec = config?.get('model_type') === STATIC;
    const special = isModel2vec ? 'none' : sentence.isStatic ? 'unknown' : 'all';
    const tokenizer = new TextTokenizer(json!, settings, sentence.lowerCase, special);
    const limits = [tokenizer.maxLength, sentence.maxLength, isModel2vec ? MODEL2VEC_LENGTH : Infinity];
    if (config && special === 'all') limits.push(await positionsOf(config));
    await folder.complete?.(signal);
    return new Tokenizer(tokenizer, Math.min(...limits));
  });
}

/** The model's maximum number of tokens; Infinity if heed does not know its family. */
async function positionsOf(config: Settings): Promise<number> {
  try {
    return positionLimit((await familyOf(config)).config);
  } catch (error) {
    if (error instanceof HeedError && error.code === 'UNSUPPORTED') return Infinity;
    throw error;
  }
}
