/**
 * Splits texts into tokens as `tokenizer.json` says. `@huggingface/tokenizers` applies the vocabulary; added here are each token's range in the original text, truncation with the
 * number of tokens cut, and texts that are not well-formed Unicode.
 */
import {
  BertPreTokenizer,
  Tokenizer as Library,
  type PreTokenizer,
  WhitespacePreTokenizer,
  WhitespaceSplitPreTokenizer,
} from '@huggingface/tokenizers';
import { HeedError, invalid, invalidFile } from '../error.js';
import { completed, STEP, type Steps } from '../event-loop.js';
import { type AddedToken, isSpace, Splitter } from './added-tokens.js';
import { type Aligned, aligned, aligning, lowerCasing, memoized, normalize, normalizing } from './alignment.js';
import type { Settings } from './config.js';

export interface Token {
  id: number;
  text: string;
  /** The range in UTF-16 units of the original text, [start, end); special tokens have [0, 0]. */
  start: number;
  end: number;
  /** 0: from the text, 1: from its pair, null: a special token of the template. */
  part: 0 | 1 | null;
}

/** Which tokens a text gets besides its own: those of the tokenizer's template; none but the unknown one, for words that the vocabulary lacks; or none. */
export type SpecialTokens = 'all' | 'unknown' | 'none';

export interface TokenizedText {
  tokens: Token[];
  typeIds: number[];
  /** The number of tokens that did not fit. */
  cut: number;
}

interface Json {
  pre_tokenizer?: unknown;
  post_processor?: unknown;
  added_tokens?: AddedToken[];
  model?: unknown;
}

export class TextTokenizer {
  readonly maxLength: number;
  readonly #file: string;
  readonly #lowerCase: boolean;
  readonly #specialTokens: SpecialTokens;
  readonly #cutsLeft: boolean;
  readonly #cleansUp: boolean;
  /** Left out of every text; -1: none. */
  readonly #skippedId: number = -1;
  /** model2vec cuts texts to this number of characters per token before it splits them: the median length of the vocabulary's tokens. Infinity: other models. */
  readonly #medianLength: number = Infinity;
  readonly #library: Library;
  /** Added tokens that are matched before and after normalization. */
  readonly #raw: Splitter;
  readonly #normalized: Splitter;
  readonly #alphabet: Alphabet;
  readonly #splitsOnSpace: boolean;
  /** The spaces that tokens' ranges exclude; 'inner': all except one at the very beginning. */
  readonly #trims: Trim;
  readonly #addedIds = new Map<string, number>();
  readonly #piecesOf: (word: string) => string[];

  /** `json`: tokenizer.json; `settings`: tokenizer_config.json; `lowerCase`: whether to lower-case texts first, as sentence-transformers' `do_lower_case`. */
  constructor(json: Settings, settings: Settings | undefined, lowerCase = false, special: SpecialTokens = 'all') {
    requireVocabulary(json);
    this.#file = json.file;
    this.#lowerCase = lowerCase;
    this.#specialTokens = special;
    this.#cleansUp = settings?.flag('clean_up_tokenization_spaces', false) ?? false;
    this.#cutsLeft = special !== 'none' && cutsLeft(json, settings); // model2vec always cuts the end
    try {
      const config = Object.fromEntries(json.entries());
      const library = new Library(config, Object.fromEntries(settings?.entries() ?? []));
      this.#library = library;
      this.#piecesOf = memoized(50_000, (word) => library.model!([word]) as string[]);
      const { pre_tokenizer: pre, post_processor: post, added_tokens: added = [], model } = config as Json;
      const { normalizer } = library;
      const isRaw = (token: AddedToken) => !normalizer || !token.normalized;
      this.#raw = new Splitter(added.filter(isRaw));
      this.#normalized = new Splitter(
        added
          .filter((token) => !isRaw(token))
          .map((token) => ({
            ...token,
            content: normalize(normalizer!, aligned(token.content)).text,
            original: token.content,
          })),
      );
      // Added tokens stand for themselves only; the library would find them within words as well.
      for (const { id, content } of added) {
        this.#addedIds.set(content, id);
        const { vocab } = model as { vocab: Record<string, number> | [string, number][] };
        const isWord = Array.isArray(vocab) ? vocab[id]?.[0] === content : Object.hasOwn(vocab, content);
        if (!isWord) library.model!.tokens_to_ids.delete(content);
      }
      const types = typesIn(pre);
      this.#alphabet = types.includes('ByteLevel') ? 'bytes' : types.includes('Metaspace') ? 'metaspace' : 'plain';
      this.#splitsOnSpace = types.includes('WhitespaceSplit');
      useUnicodeSpace(library.pre_tokenizer);
      this.#trims = this.#alphabet === 'bytes' ? trimOf(post) : 'none';
      if (typeof library.model?.tokens_to_ids?.get !== 'function') throw new Error('no model');
      const { unk_token: unknown } = model as { unk_token?: unknown };
      if (special === 'none') {
        if (typeof unknown === 'string') this.#skippedId = this.idOf(unknown) ?? -1;
        this.#medianLength = medianLength(new Set([...library.model!.vocab, ...added.map(({ content }) => content)]));
      }
    } catch (cause) {
      throw this.#failure('cannot be built', cause);
    }
    const limit = settings?.get('model_max_length');
    this.maxLength = typeof limit === 'number' && limit >= 1 && limit < 1e9 ? Math.floor(limit) : Infinity;
  }

  #failure(what: string, cause: unknown): HeedError {
    if (cause instanceof HeedError) return cause;
    const { name, message } = cause as Error;
    // The engine's other errors say nothing about the file.
    const reason = name === 'Error' || name === 'SyntaxError' ? ` (${message})` : '';
    return invalid(
      this.#file,
      "a tokenizer.json of Hugging Face's format",
      `one that ${what}${reason}`,
      'INVALID_FILE',
      { cause },
    );
  }

  /** The vocabulary's entry for an id. */
  token(id: number): string {
    return this.#library.id_to_token(id) ?? `[${id}]`;
  }

  idOf(token: string): number | undefined {
    return this.#addedIds.get(token) ?? this.#library.token_to_id(token);
  }

  /** One past the largest id. */
  get vocabSize(): number {
    return this.#library.model!.vocab.length;
  }

  /** Spaces are cleaned up as `cleansUp` or else tokenizer_config.json says; the default of transformers, false, is not the library's. */
  decode(ids: number[], skipsSpecial = true, cleansUp = this.#cleansUp): string {
    if (ids.length === 0) return '';
    const options = { skip_special_tokens: skipsSpecial, clean_up_tokenization_spaces: cleansUp };
    return this.#using(() => this.#library.decode(ids, options));
  }

  /** Tokens that exceed `limit`, special ones included, are cut from the end, or from the beginning if the folder says so; of a pair, from the longer text first. */
  tokenize(text: string, pair: string | undefined, limit: number, withSpecial = true): TokenizedText {
    return completed(this.tokenizing(text, pair, limit, withSpecial));
  }

  /** The same in steps, for texts that may be long. */
  *tokenizing(text: string, pair: string | undefined, limit: number, withSpecial = true): Steps<TokenizedText> {
    try {
      return yield* this.#tokenized(text, pair, limit, withSpecial);
    } catch (cause) {
      throw this.#failure('fails on a text', cause);
    }
  }

  /** The number of special tokens of a text, or of a pair. */
  specialCount(isPair: boolean): number {
    return this.#using(() => this.#template([], isPair ? [] : null).tokens.length);
  }

  /** A text's tokens with those of the template; the given objects are passed on. */
  withSpecialTokens(tokens: Token[]): Token[] {
    return this.#using(() => this.#template(tokens, null).tokens);
  }

  /** Runs `body` on a text, which may reveal defects of the file. */
  #using<T>(body: () => T): T {
    try {
      return body();
    } catch (cause) {
      throw this.#failure('fails on a text', cause);
    }
  }

  *#tokenized(text: string, pair: string | undefined, limit: number, withSpecial: boolean): Steps<TokenizedText> {
    const whole = yield* this.#split(text, 0);
    const most = limit * this.#medianLength;
    const start = text.length > most ? [...text].slice(0, most).join('') : text;
    const first = start === text ? whole : yield* this.#split(start, 0);
    const second = pair === undefined ? null : yield* this.#split(pair, 1);
    const room = Math.max(0, limit - (withSpecial ? this.specialCount(second !== null) : 0));
    const [n, m] = truncatedLengths(first.length, second?.length ?? 0, room);
    const cut = whole.length - n + (second ? second.length - m : 0);
    return { ...this.#template(this.#kept(first, n), second && this.#kept(second, m), withSpecial), cut };
  }

  #kept(tokens: Token[], count: number): Token[] {
    return this.#cutsLeft ? tokens.slice(tokens.length - count) : tokens.slice(0, count);
  }

  #template(first: Token[], second: Token[] | null, withSpecial = true): { tokens: Token[]; typeIds: number[] } {
    const processor = withSpecial && this.#specialTokens === 'all' ? this.#library.post_processor : null;
    // It only concatenates its lists, so that tokens can be passed with their ranges.
    const made = processor
      ? (processor.post_process(first as unknown as string[], second as unknown as string[], true) as {
          tokens: (Token | string)[];
          token_type_ids?: number[];
        })
      : { tokens: [...first, ...(second ?? [])] };
    const tokens = made.tokens.map((token) => (token instanceof Object ? token : this.#special(token)));
    return { tokens, typeIds: made.token_type_ids ?? new Array<number>(tokens.length).fill(0) };
  }

  #special(text: string): Token {
    const id = this.idOf(text);
    if (id === undefined) throw invalidFile(this.#file, 'special tokens of the vocabulary', `'${text}'`);
    return { id, text, start: 0, end: 0, part: null };
  }

  *#split(text: string, part: 0 | 1): Steps<Token[]> {
    // A lone surrogate is not a character; UTF-8 encoders replace it by U+FFFD.
    const whole = yield* aligning(text.replace(/\p{Surrogate}/gu, '\uFFFD'));
    const source = this.#lowerCase ? yield* lowerCasing(whole) : whole;
    const tokens: Token[] = [];
    for (const [index, section] of this.#raw.split(source).entries()) {
      if (section.added) tokens.push(this.#addedToken(section.added, section.text, part));
      else yield* this.#splitSection(section.text, index, part, tokens);
    }
    return this.#skippedId < 0 ? tokens : tokens.filter(({ id }) => id !== this.#skippedId);
  }

  *#splitSection(section: Aligned, index: number, part: 0 | 1, tokens: Token[]): Steps<void> {
    const { normalizer } = this.#library;
    const normalized = normalizer ? yield* normalizing(normalizer, section) : section;
    for (const piece of this.#normalized.split(normalized)) {
      if (piece.added) {
        tokens.push(this.#addedToken(piece.added, piece.text, part));
        continue;
      }
      if (piece.text.text === '') continue;
      let units = 0;
      for (const word of words(piece.text, this.#library.pre_tokenizer, index, this.#alphabet, this.#splitsOnSpace)) {
        this.#splitWord(word, part, tokens);
        units += word.text.length;
        if (units < STEP) continue;
        yield null;
        units = 0;
      }
    }
  }

  #splitWord(word: Aligned, part: 0 | 1, tokens: Token[]): void {
    const model = this.#library.model!;
    const pieces = this.#piecesOf(word.text);
    const prefix = (model.config as { continuing_subword_prefix?: string }).continuing_subword_prefix ?? '';
    let at = 0;
    pieces.forEach((text, i) => {
      const surface = i > 0 && prefix !== '' && text.startsWith(prefix) ? text.slice(prefix.length) : text;
      // A piece that is not in the word stands for unknown characters, up to where the next piece is found.
      let to = at + surface.length;
      if (!word.text.startsWith(surface, at)) {
        const next = pieces[i + 1];
        const found = next === undefined ? -1 : word.text.indexOf(next, at + 1);
        to = found < 0 ? word.text.length : found;
      }
      const id = model.tokens_to_ids.get(text) ?? model.unk_token_id;
      if (id === undefined)
        throw new HeedError(
          'INVALID_FILE',
          `tokenizer.json: token '${text}' is not in the vocabulary and there is no unknown token`,
        );
      const [start, end] = this.#range(word, at, to);
      tokens.push({ id, text, start, end, part });
      at = to;
    });
  }

  #addedToken(token: AddedToken, { text, starts, ends }: Aligned, part: 0 | 1): Token {
    let from = 0;
    let to = text.length;
    if (this.#trims !== 'none') {
      while (from < to && isSpace(text[from])) from++;
      while (to > from && isSpace(text[to - 1])) to--;
    }
    const start = starts[from] ?? 0;
    return { id: token.id, text: token.original ?? token.content, start, end: from < to ? ends[to - 1]! : start, part };
  }

  #range(word: Aligned, from: number, to: number): [number, number] {
    if (this.#trims !== 'none') {
      const first = from;
      const keepsFirst = this.#trims === 'inner' && word.starts[from] === 0;
      while (from < to && word.text[from] === BYTE_SPACE) from++;
      if (keepsFirst && from > first) from--;
      while (to > from && word.text[to - 1] === BYTE_SPACE) to--;
    }
    if (from < to) return [word.starts[from]!, word.ends[to - 1]!];
    const at = word.starts[from] ?? word.ends.at(-1) ?? 0;
    return [at, at];
  }
}

/** The median number of characters, rounded down. */
function medianLength(tokens: Iterable<string | undefined>): number {
  const lengths = Array.from(tokens, (token = '') => [...token].length).sort((a, b) => a - b);
  const middle = lengths.length >> 1;
  return lengths.length % 2 === 1 ? lengths[middle]! : Math.floor((lengths[middle - 1]! + lengths[middle]!) / 2);
}

/** Refuses a tokenizer without tokens and their ids; for Unigram, without a list of tokens and their scores. */
function requireVocabulary(json: Settings): void {
  const model = json.record('model');
  const vocab = model?.get('vocab');
  let count = 0;
  let legal = typeof vocab === 'object';
  // Without an array of the values, which takes twice as long for the objects that JSON.parse makes.
  for (const token in legal ? (vocab as Record<string, unknown>) : {}) {
    count++;
    legal &&= (vocab as Record<string, unknown>)[token] !== null;
  }
  if (!legal || count === 0) throw (model ?? json).wrong(model ? 'vocab' : 'model', 'tokens with their ids', vocab);
}

/** Whether texts are cut from the beginning: by tokenizer_config.json's `truncation_side`, else by tokenizer.json's truncation, as in transformers. */
function cutsLeft(json: Settings, settings: Settings | undefined): boolean {
  const direction = json.record('truncation')?.get('direction');
  const side = settings?.get('truncation_side') ?? String(direction ?? 'right').toLowerCase();
  if (side === 'left' || side === 'right') return side === 'left';
  throw (settings ?? json).wrong('truncation_side', "'left' or 'right'", side);
}

/** The lengths to which two texts are cut to fit `room` tokens, as Hugging Face's 'longest_first': if both are cut, the longer keeps one more of an odd number. */
export function truncatedLengths(first: number, second: number, room: number): [number, number] {
  if (first + second <= room) return [first, second];
  const shorter = Math.min(first, second, Math.floor(room / 2));
  const longer = room - shorter;
  return first > second ? [longer, shorter] : [shorter, longer];
}

/** Unicode's white space; JavaScript's \s lacks U+0085 and includes U+FEFF. */
const UNICODE_ESCAPES: Record<string, string> = { '\\s': '\\p{White_Space}', '\\S': '\\P{White_Space}' };

/** Replaces JavaScript's white space by Unicode's in the library's pre-tokenizers. */
function useUnicodeSpace(pre: PreTokenizer | null): void {
  if (!pre) return;
  const { tokenizers, pattern } = pre as unknown as { tokenizers?: PreTokenizer[]; pattern?: unknown };
  for (const step of tokenizers ?? []) useUnicodeSpace(step);
  if (pattern instanceof RegExp && pattern.unicode) {
    const unicode = new RegExp(
      pattern.source.replace(/\\./gsu, (pair) => UNICODE_ESCAPES[pair] ?? pair),
      pattern.flags,
    );
    Object.assign(pre, { pattern: unicode });
    // It trims JavaScript's white space first.
    if (pre instanceof BertPreTokenizer) pre.pre_tokenize_text = (text) => text.match(unicode) ?? [];
  }
  if (pre instanceof WhitespaceSplitPreTokenizer)
    pre.pre_tokenize_text = (text) => text.match(/\P{White_Space}+/gu) ?? [];
}

/** How a pre-tokenizer's words represent the text: as it is, with a mark for spaces, or with a character per byte. */
type Alphabet = 'plain' | 'metaspace' | 'bytes';

function typesIn(config: unknown): string[] {
  if (typeof config !== 'object' || config === null) return [];
  const { type, pretokenizers } = config as { type?: string; pretokenizers?: unknown[] };
  return [...(type ? [type] : []), ...(pretokenizers ?? []).flatMap(typesIn)];
}

type Trim = 'none' | 'all' | 'inner';

/** How Hugging Face's post-processors trim offsets; if they assume a space that was added before the text, the first space stays. */
function trimOf(config: unknown): Trim {
  if (typeof config !== 'object' || config === null) return 'none';
  const { type, trim_offsets, add_prefix_space, processors } = config as Record<string, unknown>;
  if (Array.isArray(processors)) return processors.map(trimOf).find((trim) => trim !== 'none') ?? 'none';
  if ((type !== 'ByteLevel' && type !== 'RobertaProcessing') || trim_offsets === false) return 'none';
  return add_prefix_space === false ? 'all' : 'inner';
}

/** The byte-level alphabet's character for a space; other white space is not trimmed. */
const BYTE_SPACE = '\u0120';
/** Metaspace's mark for a space. */
const SPACE_MARK = '\u2581';

const utf8Length = (point: string) => (point <= '\u007F' ? 1 : point <= '\u07FF' ? 2 : point.length === 2 ? 4 : 3);

/** Pre-tokenizers whose words end at white space, whatever follows it. */
const SPLIT_ON_SPACE = [BertPreTokenizer, WhitespacePreTokenizer, WhitespaceSplitPreTokenizer];

function splitsOnSpace(pre: PreTokenizer): boolean {
  const [first] = (pre as unknown as { tokenizers?: PreTokenizer[] }).tokenizers ?? [];
  return first ? splitsOnSpace(first) : SPLIT_ON_SPACE.some((type) => pre instanceof type);
}

/** A text's words. Of a long text, by parts where white space divides words anyway, so that not all are computed in one step. */
function* preTokenized(text: string, pre: PreTokenizer | null, sectionIndex: number): Iterable<string> {
  if (!pre) return yield text;
  for (let from = 0; from < text.length; ) {
    const isLong = text.length - from > STEP && splitsOnSpace(pre);
    const length = isLong ? text.slice(from + STEP).search(/\p{White_Space}/u) : -1;
    const to = length < 0 ? text.length : from + STEP + length;
    yield* pre.pre_tokenize(text.slice(from, to), { section_index: sectionIndex });
    from = to;
  }
}

/** The pre-tokenizer's words in the model's alphabet, with the range of the original text for each UTF-16 unit. */
function* words(
  source: Aligned,
  pre: PreTokenizer | null,
  sectionIndex: number,
  alphabet: Alphabet,
  splitsOnSpace: boolean,
): Iterable<Aligned> {
  const { text } = source;
  let at = 0;
  for (const word of preTokenized(text, pre, sectionIndex)) {
    const out: Aligned = { text: word, starts: [], ends: [] };
    const add = (first: number, last: number) => {
      out.starts.push(source.starts[first] ?? 0);
      out.ends.push(source.ends[last] ?? 0);
    };
    if (alphabet === 'plain') at = Math.max(at, text.indexOf(word, at));
    if (alphabet === 'bytes' && word[0] !== BYTE_SPACE) while (text[at] === ' ') at++; // spaces that are no part of words (CLIP)
    if (alphabet === 'metaspace' && splitsOnSpace) while (isSpace(text[at])) at++;
    // A space, or the mark for one, that the pre-tokenizer has put before the word stands for its first character.
    if (
      (alphabet === 'bytes' && at === 0 && word[0] === BYTE_SPACE && text[0] !== ' ') ||
      (alphabet === 'metaspace' && word[0] === SPACE_MARK && text[at] !== SPACE_MARK && text[at] !== ' ')
    )
      add(at, at);
    while (out.starts.length < word.length) {
      if (alphabet !== 'bytes') {
        add(at, at);
        at++;
        continue;
      }
      if (at >= text.length) break;
      const point = String.fromCodePoint(text.codePointAt(at)!);
      for (let byte = 0; byte < utf8Length(point); byte++) add(at, at + point.length - 1);
      at += point.length;
    }
    yield out;
  }
}
