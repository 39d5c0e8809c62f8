/**
 * Splits texts into tokens as the Rust library `tokenizers` does with a tokenizer.json. In addition, this counts the
 * tokens that truncation cuts, and supports texts that are not well-formed Unicode.
 */
import { HeedError, importing, invalid } from '../base/error.js';
import { completed, STEP, type Steps } from '../base/event-loop.js';
import type { Settings } from '../io/settings.js';
import { type AddedToken, addedTokens, Splitter } from './added-tokens.js';
import { type Aligned, aligned, aligning, lowerCasing, memoized, slice } from './alignment.js';
import { bertComponents, hasBertComponents } from './bert-components.js';
import type {
  ComponentMakers,
  Encoding,
  Normalizer,
  PostProcessor,
  PreTokenizer,
  Special,
  Trim,
} from './component-makers.js';
import { type Decode, decodingWith } from './decoding.js';
import { allowsSegments, SEGMENT, segmentEnd, splitsOnSpace } from './segments.js';
import type { ClassTokenizer, Config } from './tokenizer-settings.js';
import { typeOf, type VocabularyModel } from './vocabulary.js';

export interface Token {
  id: number;
  text: string;
  /** The range [start, end) in the original text, in UTF-16 units; [0, 0] for special tokens. */
  start: number;
  end: number;
  /** The text that the token belongs to: 0 for the first, 1 for its pair, null for special tokens of the template. */
  part: 0 | 1 | null;
}

/**
 * The tokens besides a text's own: 'all' special tokens of the template, only the 'unknown' token for words that are
 * not in the vocabulary, or 'none'.
 */
export type SpecialTokens = 'all' | 'unknown' | 'none';

export interface TokenizedText {
  tokens: Token[];
  typeIds: number[];
  /** The number of tokens that were cut. */
  cut: number;
}

/** The tokens of a text that may be needed, and the number of all its tokens. */
interface Split {
  tokens: Token[];
  count: number;
}

/** The components that split a text. */
interface Components {
  normalizer: Normalizer | null;
  preTokenizer: PreTokenizer | null;
  /** Whether a long text can be pre-tokenized in parts. */
  canSplitParts: boolean;
  postProcessor: PostProcessor | null;
  /** Split at added tokens, before and after normalization. */
  raw: Splitter;
  normalized: Splitter;
  piecesOf: VocabularyModel['split'];
}

/** Settings of sentence-transformers that a tokenizer follows. */
interface OwnSettings {
  /** Whether texts are lower-cased first. */
  lowerCase?: boolean | undefined;
  /** Whether the second text of a pair has another type; null: the tokenizer's class decides. */
  returnTokenTypeIds?: boolean | null | undefined;
}

export class TextTokenizer {
  readonly maxLength: number;
  /** The prefix of tokens that continue a word; null if there is none. */
  readonly subwordPrefix: string | null;
  readonly #file: string;
  readonly #lowerCase: boolean;
  readonly #specialTokens: SpecialTokens;
  readonly #cutsLeft: boolean;
  readonly #allowsSegments: boolean;
  readonly #cleansUp: boolean;
  readonly #class: Partial<ClassTokenizer>;
  /** The id of a token that is left out of every text; -1: none. */
  readonly #skippedId: number = -1;
  /**
   * For model2vec, the median length of the vocabulary's tokens: it cuts texts to this number of characters per token
   * before splitting them. Otherwise Infinity.
   */
  readonly #medianLength: number = Infinity;
  readonly #components: Components;
  readonly #trims: Trim[];
  readonly #decode: Decode;
  /** Ids by token: of added tokens, and of the model's tokens. */
  readonly #added: ReadonlyMap<string, number>;
  readonly #ids: ReadonlyMap<string, number>;
  /** Tokens by id, once they are needed: vectors of texts take only the ids. */
  #tokens: string[] | null = null;
  readonly #special = new Set<number>();

  /**
   * `json`: tokenizer.json. `settings`: tokenizer_config.json. `tableRows`: the number of rows in the model's table.
   * `ofClass`: what the tokenizer's class determines besides tokenizer.json.
   */
  static async open(
    json: Settings,
    settings: Settings | undefined,
    texts: OwnSettings = {},
    special: SpecialTokens = 'all',
    tableRows = Infinity,
    ofClass: Partial<ClassTokenizer> = {},
  ): Promise<TextTokenizer> {
    const makers = hasBertComponents(json)
      ? bertComponents
      : (await importing('tokenizer-components', () => import('./components.js'))).components;
    return new TextTokenizer(makers, json, settings, texts, special, tableRows, ofClass);
  }

  private constructor(
    makers: ComponentMakers,
    json: Settings,
    settings: Settings | undefined,
    texts: OwnSettings,
    special: SpecialTokens,
    tableRows: number,
    ofClass: Partial<ClassTokenizer>,
  ) {
    this.#class = { ...ofClass, hasTypes: texts.returnTokenTypeIds ?? ofClass.hasTypes };
    this.#file = json.file;
    this.#lowerCase = texts.lowerCase ?? false;
    this.#specialTokens = special;
    this.#cleansUp = settings?.flag('clean_up_tokenization_spaces', false) ?? false;
    this.#cutsLeft = special !== 'none' && cutsLeft(json, settings); // model2vec always cuts at the end
    try {
      const build = <T>(key: string, of: (config: Config) => T): T | null => {
        const config = json.get(key);
        return config === undefined ? null : of(config as Config);
      };
      const config = json.get('model') as Config;
      const model = makers.modelOf(config);
      if (model.ids.size === 0) requireVocabulary(json);
      const prefix =
        config.continuing_subword_prefix ?? ((config.type ?? typeOf(config)) === 'WordPiece' ? '##' : null);
      this.subwordPrefix = prefix === '' ? null : (prefix as string | null);
      const added = addedTokens(json.get('added_tokens'), model.ids, tableRows);
      const normalizer = build('normalizer', makers.normalizerOf);
      const contentOf = ({ content }: AddedToken) =>
        normalizer ? completed(normalizer(aligned(content))).text : content;
      const splitter = (normalized: boolean, of: typeof contentOf) =>
        new Splitter(
          added.filter((token) => Boolean(token.normalized) === normalized),
          of,
          ofClass.splitsSpecial,
        );
      this.#components = {
        normalizer,
        preTokenizer: build('pre_tokenizer', makers.preTokenizerOf),
        canSplitParts: build('pre_tokenizer', splitsOnSpace) ?? false,
        postProcessor: build('post_processor', makers.postProcessorOf),
        raw: splitter(false, ({ content }) => content),
        normalized: splitter(true, contentOf),
        piecesOf: memoized(50_000, (word) => model.split(word)),
      };
      this.#trims = build('post_processor', makers.trimsOf) ?? [];
      this.#allowsSegments = allowsSegments(json);
      this.#ids = model.ids;
      this.#added = new Map(added.map(({ content, id }) => [content, id]));
      for (const token of added) if (token.special) this.#special.add(token.id);
      this.#decode = decodingWith(build('decoder', makers.decoderOf), config.end_of_word_suffix);
      const { unk_token: unknown } = config;
      if (special === 'none') {
        if (typeof unknown === 'string') this.#skippedId = this.idOf(unknown) ?? -1;
        this.#medianLength = medianLength(new Set([...this.#ids.keys(), ...this.#added.keys()]));
      }
    } catch (cause) {
      requireVocabulary(json); // if the vocabulary is wrong, this is the error to report
      throw this.#failure('cannot be built', cause);
    }
    const limit = settings?.get('model_max_length') ?? settings?.get('max_len');
    this.maxLength = typeof limit === 'number' && limit >= 1 && limit < 1e9 ? Math.floor(limit) : Infinity;
  }

  #failure(what: string, cause: unknown): HeedError {
    if (cause instanceof HeedError) return cause;
    const { name, message } = cause as Error;
    // Errors of other types come from the engine and do not explain what is wrong with the file.
    const reason = name === 'Error' || name === 'SyntaxError' ? ` (${message})` : '';
    const got = `a tokenizer that ${what}${reason}`;
    return invalid(this.#file, "a tokenizer.json of Hugging Face's format", got, 'INVALID_FILE', { cause });
  }

  /** The token with an id. */
  token(id: number): string {
    return this.#byId[id] ?? `[${id}]`;
  }

  /** Tokens by id. */
  get #byId(): string[] {
    if (this.#tokens) return this.#tokens;
    this.#tokens = [];
    for (const tokens of [this.#ids, this.#added]) for (const [token, id] of tokens) this.#tokens[id] = token;
    return this.#tokens;
  }

  idOf(token: string): number | undefined {
    return this.#added.get(token) ?? this.#ids.get(token);
  }

  /** The largest id plus one. */
  get vocabSize(): number {
    return this.#byId.length;
  }

  /** The largest id of a token other than added tokens, plus one. */
  get ownSize(): number {
    const added = new Set(this.#added.values());
    let size = 0;
    for (const id of this.#ids.values()) if (id >= size && !added.has(id)) size = id + 1;
    return size;
  }

  /** Decodes ids to a text. `cleansUp` defaults to the setting in tokenizer_config.json. */
  decode(ids: number[], skipsSpecial = true, cleansUp = this.#cleansUp): string {
    const kept = skipsSpecial ? ids.filter((id) => !this.#special.has(id)) : ids;
    if (kept.length === 0) return '';
    const tokens = kept.map((id) => this.token(id));
    return this.#using(() => this.#decode(tokens, !skipsSpecial, cleansUp));
  }

  /**
   * Tokenizes a text or a pair. Tokens beyond `limit`, special ones included, are cut from the end, or from the
   * beginning if the folder says so; for a pair, from the longer text first.
   */
  tokenize(text: string, pair: string | undefined, limit: number, withSpecial = true): TokenizedText {
    return completed(this.tokenizing(text, pair, limit, withSpecial));
  }

  /** Implements `tokenize` in steps, for long texts. */
  *tokenizing(text: string, pair: string | undefined, limit: number, withSpecial = true): Steps<TokenizedText> {
    try {
      return yield* this.#tokenized(text, pair, limit, withSpecial);
    } catch (cause) {
      throw this.#failure('fails on a text', cause);
    }
  }

  /** Whether an id is that of a special token. */
  isSpecial(id: number): boolean {
    return this.#special.has(id);
  }

  /** The number of special tokens of a text or a pair. */
  specialCount(isPair: boolean): number {
    return this.#using(() => this.#template([], isPair ? [] : null).tokens.length);
  }

  /** Adds the template's tokens to a text's tokens. The given objects are passed on. */
  withSpecialTokens(tokens: Token[]): Token[] {
    return this.#using(() => this.#template(tokens, null).tokens);
  }

  /** Runs `body` on a text, and turns errors that defects of the file cause into a HeedError. */
  #using<T>(body: () => T): T {
    try {
      return body();
    } catch (cause) {
      throw this.#failure('fails on a text', cause);
    }
  }

  *#tokenized(text: string, pair: string | undefined, limit: number, withSpecial: boolean): Steps<TokenizedText> {
    const { refused } = this.#class;
    if (refused !== undefined) throw new HeedError('UNSUPPORTED', refused);
    const whole = yield* this.#split(text, 0, limit);
    const most = limit * this.#medianLength;
    const start = text.length > most ? [...text.slice(0, 2 * most)].slice(0, most).join('') : text;
    const first = start === text ? whole : yield* this.#split(start, 0, limit);
    const second = pair === undefined ? null : yield* this.#split(pair, 1, limit);
    const room = Math.max(0, limit - (withSpecial ? this.specialCount(second !== null) : 0));
    const [n, m] = truncatedLengths(first.count, second?.count ?? 0, room);
    const cut = whole.count - n + (second ? second.count - m : 0);
    const [kept, keptOfPair] = [this.#kept(first.tokens, n), second && this.#kept(second.tokens, m)];
    return { ...this.#template(kept, keptOfPair, withSpecial), cut };
  }

  #kept(tokens: Token[], count: number): Token[] {
    return this.#cutsLeft ? tokens.slice(tokens.length - count) : tokens.slice(0, count);
  }

  #template(first: Token[], second: Token[] | null, withSpecial = true): { tokens: Token[]; typeIds: number[] } {
    const encodings = [first, ...(second ? [second] : [])].map(
      (tokens, type): Encoding<Token> => ({ tokens, types: tokens.map(() => type) }),
    );
    const adds = withSpecial && this.#specialTokens === 'all';
    const made = this.#components.postProcessor?.(encodings, adds) ?? encodings;
    return {
      tokens: made.flatMap(({ tokens }) => tokens.map((token) => ('part' in token ? token : special(token)))),
      typeIds: made.flatMap(({ types }) => (this.#class.hasTypes === false ? types.map(() => 0) : types)),
    };
  }

  /** Returns at most `most` tokens, from the end that is not cut, and the number of all tokens. */
  *#split(text: string, part: 0 | 1, most: number): Steps<Split> {
    const split: Split = { tokens: [], count: 0 };
    const countOf = memoized(
      50_000,
      (segment) => completed(this.#splitSegment(segment, 0, segment.length, part)).length,
    );
    let from = 0;
    let counted = 0;
    do {
      // After the last token that is needed, words are only counted. Most of them occur many times, so counts are
      // memoized.
      const isCounted = split.tokens.length >= most && !this.#cutsLeft && from > 0;
      const to = this.#allowsSegments ? segmentEnd(text, from, isCounted ? 1 : SEGMENT) : text.length;
      if (isCounted) {
        split.count += countOf(text.slice(from, to));
        if (++counted % STEP === 0) yield null;
      } else {
        const found = yield* this.#splitSegment(text, from, to, part);
        split.count += found.length;
        for (const token of found) if (this.#cutsLeft || split.tokens.length < most) split.tokens.push(token);
        if (split.tokens.length > most) split.tokens.splice(0, split.tokens.length - most);
      }
      from = to;
    } while (from < text.length);
    return split;
  }

  /** The tokens of the UTF-16 units [from, to) of a text. */
  *#splitSegment(text: string, from: number, to: number, part: 0 | 1): Steps<Token[]> {
    // A lone surrogate is not a character. UTF-8 encoders replace it by U+FFFD.
    const whole = yield* aligning(text.slice(from, to).replace(/\p{Surrogate}/gu, '\uFFFD'), from);
    const source = this.#lowerCase ? yield* lowerCasing(whole) : whole;
    const { normalizer, raw, normalized } = this.#components;
    const tokens: Token[] = [];
    for (const section of raw.split(source)) {
      if (section.added) {
        tokens.push(addedToken(section.added, section.text, part));
        continue;
      }
      for (const piece of normalized.split(normalizer ? yield* normalizer(section.text) : section.text)) {
        if (piece.added) tokens.push(addedToken(piece.added, piece.text, part));
        else yield* this.#splitPiece(piece.text, part, tokens);
      }
    }
    for (const trim of this.#trims) trim(tokens, text, from === 0);
    return this.#skippedId < 0 ? tokens : tokens.filter(({ id }) => id !== this.#skippedId);
  }

  *#splitPiece(piece: Aligned, part: 0 | 1, tokens: Token[]): Steps<void> {
    let units = 0;
    for (const words of this.#words(piece))
      for (const word of words) {
        this.#splitWord(word, part, tokens);
        units += word.text.length;
        if (units < STEP) continue;
        yield null;
        units = 0;
      }
  }

  /**
   * The words of a piece. A long piece is split in parts at white space, where the pre-tokenizer splits in any case, so
   * that a single step does not compute all words.
   */
  *#words(piece: Aligned): Iterable<Aligned[]> {
    const { preTokenizer, canSplitParts } = this.#components;
    if (!preTokenizer) return yield [piece];
    const { text } = piece;
    for (let from = 0; from < text.length; ) {
      const isLong = canSplitParts && text.length - from > STEP;
      const length = isLong ? text.slice(from + STEP).search(/\p{White_Space}/u) : -1;
      const to = length < 0 ? text.length : from + STEP + length;
      yield preTokenizer(slice(piece, from, to));
      from = to;
    }
  }

  #splitWord(word: Aligned, part: 0 | 1, tokens: Token[]): void {
    if (word.text === '') return;
    for (const { id, text, start, end } of this.#components.piecesOf(word.text))
      tokens.push({ id, text, start: word.starts[start] ?? word.ends.at(-1)!, end: word.ends[end - 1]!, part });
  }
}

const special = ({ id, text }: Special): Token => ({ id, text, start: 0, end: 0, part: null });

const addedToken = ({ id }: AddedToken, { text, starts, ends }: Aligned, part: 0 | 1): Token => ({
  id,
  text,
  start: starts[0]!,
  end: ends.at(-1)!,
  part,
});

/** The median number of characters per token, rounded down. */
function medianLength(tokens: Iterable<string | undefined>): number {
  const lengths = Array.from(tokens, (token = '') => [...token].length).sort((a, b) => a - b);
  const middle = lengths.length >> 1;
  return lengths.length % 2 === 1 ? lengths[middle]! : Math.floor((lengths[middle - 1]! + lengths[middle]!) / 2);
}

/** Rejects a tokenizer without tokens and their ids or, for Unigram, without a list of tokens and scores. */
function requireVocabulary(json: Settings): void {
  const model = json.record('model');
  const vocab = model?.get('vocab');
  let count = 0;
  let legal = typeof vocab === 'object';
  // A loop, because an array of the values takes twice as long for objects that JSON.parse makes.
  for (const token in legal ? (vocab as Record<string, unknown>) : {}) {
    count++;
    legal &&= (vocab as Record<string, unknown>)[token] !== null;
  }
  if (!legal || count === 0) throw (model ?? json).wrong(model ? 'vocab' : 'model', 'tokens with their ids', vocab);
}

/**
 * Whether texts are cut from the beginning: as in tokenizer_config.json's `truncation_side`, else tokenizer.json's
 * truncation, as in transformers.
 */
function cutsLeft(json: Settings, settings: Settings | undefined): boolean {
  const direction = json.record('truncation')?.get('direction');
  const side = settings?.get('truncation_side') ?? String(direction ?? 'right').toLowerCase();
  if (side === 'left' || side === 'right') return side === 'left';
  throw (settings ?? json).wrong('truncation_side', "'left' or 'right'", side);
}

/**
 * The lengths to which two texts are cut to fit `room` tokens, as with Hugging Face's 'longest_first'. If both are cut
 * and `room` is odd, the longer text keeps one more token.
 */
export function truncatedLengths(first: number, second: number, room: number): [number, number] {
  if (first + second <= room) return [first, second];
  const shorter = Math.min(first, second, Math.floor(room / 2));
  const longer = room - shorter;
  return first > second ? [longer, shorter] : [shorter, longer];
}
