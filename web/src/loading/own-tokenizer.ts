/** A tokenizer without a model. Imported on demand. */
import { guarded, HeedError, invalid } from '../base/error.js';
import { flag, listOf, optional, readOptions, type Schema, signal, size, text, texts } from '../base/options.js';
import { inspected, type SignalLike } from '../base/platform.js';
import { Unproxied } from '../base/unproxied.js';
import { Integrity } from '../io/integrity.js';
import { Settings } from '../io/settings.js';
import { type ModelSource, type RemoteOptions, withFolder } from '../io/source.js';
import { decodeIds, decodeSchema, remoteSchema } from '../models/call-options.js';
import { readSentenceConfig } from '../models/families/sentence-transformers.js';
import { pairsOf, positionLimit, requireFit } from '../models/input.js';
import type { DecodeOptions, TokenizeResult } from '../models/model.js';
import { STATIC, specialTokensOf } from '../models/static-embedding.js';
import { ofFile, tokenizerOf } from '../text/class-settings.js';
import { TextTokenizer } from '../text/tokenizer.js';
import { familyOf } from './family-of.js';

/** Options of `loadTokenizer`. */
export interface LoadTokenizerOptions extends RemoteOptions {
  /** An `AbortSignal` that stops the call, which then rejects with the reason of the signal. */
  signal?: SignalLike | undefined;
}

/** Options of the methods of a tokenizer. */
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

const loadingSchema = { ...remoteSchema, signal } satisfies Schema<LoadTokenizerOptions>;
const tokenizerSchema = {
  textPairs: optional(texts, undefined),
  addSpecialTokens: optional(flag, true),
  truncation: optional(flag, undefined),
  maxLength: optional(size, undefined),
};
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
    const rows = list.map((each, n) => {
      const most = truncation ? limit : Infinity;
      const row = this.#tokenizer.tokenize(each, pairs?.[n], most, addSpecialTokens);
      const special = () => (addSpecialTokens ? this.#tokenizer.specialCount(pairs !== undefined) : 0);
      requireFit(`texts[${n}]`, row.tokens.length + row.cut, limit, truncation, special);
      return row;
    });
    return {
      inputIds: rows.map(({ tokens }) => tokens.map(({ id }) => id)),
      tokens: rows.map(({ tokens }) => tokens.map(({ text }) => text)),
      offsets: rows.map(({ tokens }) => tokens.map(({ start, end }) => [start, end])),
      parts: rows.map(({ tokens }) => tokens.map(({ part }) => part)),
      truncated: rows.map(({ cut }) => cut),
      tokenTypeIds: rows.map(({ typeIds }) => typeIds),
      attentionMask: rows.map(({ tokens }) => tokens.map(() => 1)),
    };
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
    return this.#tokenizer.decode(decodeIds(tokenIds, 'ids'), skipSpecialTokens, cleanUpTokenizationSpaces);
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
    return decodeIds(tokenIds, 'ids').map((id, n) => {
      if (id < this.vocabSize) return this.#tokenizer.token(id);
      throw invalid(`ids[${n}]`, `an id below ${this.vocabSize}, the size of the vocabulary`, `${id}`);
    });
  }
}

/** See api/on-demand.ts. */
export async function loadTokenizer(source: ModelSource, options?: LoadTokenizerOptions): Promise<Tokenizer> {
  const { integrity: expected, ...remote } = readOptions('loadTokenizer', loadingSchema, options);
  const integrity = new Integrity(expected);
  return withFolder(source, { ...remote, integrity }, async (folder, signal) => {
    const sentence = await readSentenceConfig(folder, signal);
    const read = (path: string) => Settings.in(folder, path, signal);
    const within = sentence.modelFolder;
    const atRoot = within === '' ? null : await read('tokenizer.json');
    const prefix = atRoot ? '' : within;
    const [json, settings, config] = await Promise.all([
      atRoot ?? folder.open(`${prefix}tokenizer.json`, { required: true, signal }).then(Settings.read),
      read(`${prefix}tokenizer_config.json`),
      read(`${prefix}config.json`),
    ]);
    const special = specialTokensOf(sentence, config?.get('model_type') === STATIC);
    const files = {
      settings: settings ?? undefined,
      config: config ?? undefined,
      read: (name: string) => read(prefix + name),
    };
    const made = special === 'all' ? await tokenizerOf(json, files) : ofFile(json);
    const tokenizer = await TextTokenizer.open(made.json, files.settings, sentence.texts, special, Infinity, made);
    const positions = config && special === 'all' ? await positionsOf(config) : Infinity;
    await folder.complete?.(signal);
    return new Tokenizer(tokenizer, Math.min(sentence.texts.maxLength ?? tokenizer.maxLength, positions));
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
