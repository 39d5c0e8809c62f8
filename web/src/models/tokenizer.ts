/**
 * Texts to tokens by `tokenizer.json`. The vocabulary work is `@huggingface/tokenizers`'; added here is what it leaves out: where each token lies in the
 * original text, truncation that says how much it cut, and texts that are no well-formed Unicode.
 */
import {
  BertPreTokenizer,
  Tokenizer as Library,
  type PreTokenizer,
  WhitespaceSplitPreTokenizer,
} from '@huggingface/tokenizers';
import { HeedError } from '../error.js';
import { type Aligned, aligned, lowerCased, normalize, slice } from './alignment.js';
import { Settings } from './config.js';
import { reasonOf, requireVocabulary } from './vocabulary.js';

export interface Token {
  id: number;
  text: string;
  /** UTF-16 units of the original text, [start, end); special tokens have [0, 0]. */
  start: number;
  end: number;
  /** 0: the text, 1: its pair, null: a special token of the template. */
  part: 0 | 1 | null;
}

export interface TokenizedText {
  tokens: Token[];
  typeIds: number[];
  /** Tokens that did not fit. */
  cut: number;
}

interface Json {
  pre_tokenizer?: unknown;
  post_processor?: unknown;
  added_tokens?: AddedToken[];
  model?: unknown;
}

interface AddedToken {
  id: number;
  content: string;
  single_word: boolean;
  lstrip: boolean;
  rstrip: boolean;
  normalized: boolean;
}

/** Pieces of one word, as vocabulary entries. */
interface Word {
  /** The word in the model's alphabet, and per UTF-16 unit its place in the normalized text. */
  text: string;
  starts: number[];
  ends: number[];
}

const WORD_MEMO_SIZE = 50_000;
/** Longest alternation that is worth compiling; tokenizers with more added tokens than this do not occur. */
const MAX_ADDED = 10_000;

export class TextTokenizer {
  readonly maxLength: number;
  private readonly library: Library;
  private readonly added: { raw: Splitter; normalized: Splitter };
  private readonly alphabet: Alphabet;
  private readonly splitsOnSpace: boolean;
  /** Which spaces the ranges of tokens leave out; 'inner': all but one at the very beginning. */
  private readonly trims: Trim;
  private readonly addedIds = new Map<string, number>();
  private readonly wordMemo = new Map<string, string[]>();

  /** `lowerCase`: before anything else, as sentence-transformers' `do_lower_case`. */
  constructor(
    bytes: Uint8Array,
    private readonly file: string,
    settings: Settings | undefined,
    private readonly lowerCase = false,
  ) {
    const given = Settings.parse(bytes, file);
    requireVocabulary(given);
    const json = Object.fromEntries(given.entries());
    const config = Object.fromEntries(settings?.entries() ?? []);
    try {
      this.library = new Library(json, config);
      const { pre_tokenizer: pre, post_processor: post, added_tokens = [], model } = json as Json;
      this.added = this.splitters(added_tokens);
      // These stand for themselves alone; the library would find them within words, too.
      for (const { id, content } of added_tokens) {
        this.addedIds.set(content, id);
        const { vocab } = model as { vocab: Record<string, number> | [string, number][] };
        const isWord = Array.isArray(vocab) ? vocab[id]?.[0] === content : Object.hasOwn(vocab, content);
        if (!isWord) this.library.model!.tokens_to_ids.delete(content);
      }
      this.alphabet = alphabetOf(pre);
      this.splitsOnSpace = typesIn(pre).includes('WhitespaceSplit');
      useUnicodeSpace(this.library.pre_tokenizer);
      this.trims = this.alphabet === 'bytes' ? trimOf(post) : 'none';
      if (typeof this.library.model?.tokens_to_ids?.get !== 'function') throw new Error('no model');
    } catch (cause) {
      throw new HeedError(
        'INVALID_FILE',
        `${file}: got a tokenizer that cannot be built${reasonOf(cause)}; expected Hugging Face's tokenizer.json`,
        { cause },
      );
    }
    const limit = settings?.get('model_max_length');
    this.maxLength = typeof limit === 'number' && limit >= 1 && limit < 1e9 ? Math.floor(limit) : Infinity;
  }

  /** The vocabulary's entry for an id. */
  token(id: number): string {
    return this.library.id_to_token(id) ?? `[${id}]`;
  }

  idOf(token: string): number | undefined {
    return this.addedIds.get(token) ?? this.library.token_to_id(token);
  }

  /** One past the largest id. */
  get vocabSize(): number {
    return this.library.model!.vocab.length;
  }

  decode(ids: number[]): string {
    return this.using(() =>
      ids.length === 0
        ? ''
        : this.library.decode(ids, { skip_special_tokens: true, clean_up_tokenization_spaces: true }),
    );
  }

  /** Cuts from the end (of the longer of the two first, for pairs) what exceeds `limit` tokens, special ones included. */
  tokenize(text: string, pair: string | undefined, limit: number): TokenizedText {
    return this.using(() => this.tokenized(text, pair, limit));
  }

  /** Some of what is wrong in a file shows only where a text meets it. */
  private using<T>(body: () => T): T {
    try {
      return body();
    } catch (cause) {
      if (cause instanceof HeedError) throw cause;
      throw new HeedError(
        'INVALID_FILE',
        `${this.file}: got a tokenizer that fails on a text${reasonOf(cause)}; expected Hugging Face's tokenizer.json`,
        { cause },
      );
    }
  }

  private tokenized(text: string, pair: string | undefined, limit: number): TokenizedText {
    const first = this.split(text, 0);
    const second = pair === undefined ? null : this.split(pair, 1);
    const room = Math.max(0, limit - this.template([], second && []).tokens.length);
    const [n, m] = truncatedLengths(first.length, second?.length ?? 0, room);
    const cut = first.length - n + (second ? second.length - m : 0);
    first.length = n;
    if (second) second.length = m;
    return { ...this.template(first, second), cut };
  }

  private template(first: Token[], second: Token[] | null): { tokens: Token[]; typeIds: number[] } {
    const processor = this.library.post_processor;
    // Only concatenates its lists, so that tokens travel through it with their places.
    const made = processor
      ? (processor.post_process(first as unknown as string[], second as unknown as string[], true) as {
          tokens: (Token | string)[];
          token_type_ids?: number[];
        })
      : { tokens: [...first, ...(second ?? [])] };
    const tokens = made.tokens.map((token) => (token instanceof Object ? token : this.special(token)));
    return { tokens, typeIds: made.token_type_ids ?? new Array<number>(tokens.length).fill(0) };
  }

  private special(text: string): Token {
    const id = this.idOf(text);
    if (id === undefined)
      throw new HeedError(
        'INVALID_FILE',
        `${this.file}: got the special token '${text}', which the vocabulary lacks; expected one that it has`,
      );
    return { id, text, start: 0, end: 0, part: null };
  }

  private split(text: string, part: 0 | 1): Token[] {
    // A lone surrogate is no character: everybody else's encoders see U+FFFD.
    const whole = aligned(text.replace(/\p{Surrogate}/gu, '\uFFFD'));
    const source = this.lowerCase ? lowerCased(whole) : whole;
    const tokens: Token[] = [];
    this.added.raw.split(source).forEach((section, index) => {
      if (section.added) tokens.push(this.addedToken(section.added, section.text, part));
      else this.splitSection(section.text, index, part, tokens);
    });
    return tokens;
  }

  private splitSection(section: Aligned, index: number, part: 0 | 1, tokens: Token[]): void {
    const normalized = this.library.normalizer ? normalize(this.library.normalizer, section) : section;
    for (const piece of this.added.normalized.split(normalized)) {
      if (piece.added) {
        tokens.push(this.addedToken(piece.added, piece.text, part));
        continue;
      }
      if (piece.text.text === '') continue;
      for (const word of words(piece.text, this.library.pre_tokenizer, index, this.alphabet, this.splitsOnSpace))
        this.splitWord(word, part, tokens);
    }
  }

  private splitWord(word: Word, part: 0 | 1, tokens: Token[]): void {
    let pieces = this.wordMemo.get(word.text);
    if (!pieces) {
      if (this.wordMemo.size >= WORD_MEMO_SIZE) this.wordMemo.clear();
      pieces = this.library.model!([word.text]) as string[];
      this.wordMemo.set(word.text, pieces);
    }
    const model = this.library.model!;
    const prefix = (model.config as { continuing_subword_prefix?: string }).continuing_subword_prefix ?? '';
    let at = 0;
    pieces.forEach((text, i) => {
      const surface = i > 0 && prefix !== '' && text.startsWith(prefix) ? text.slice(prefix.length) : text;
      // A piece that is not in the word stands for what is unknown: all up to where the next piece is found.
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
      const [start, end] = this.range(word, at, to);
      tokens.push({ id, text, start, end, part });
      at = to;
    });
  }

  private addedToken(token: AddedToken, place: Aligned, part: 0 | 1): Token {
    const { text, starts, ends } = this.trims !== 'none' ? trimmed(place) : place;
    return {
      id: token.id,
      text: (token as { original?: string }).original ?? token.content,
      start: starts[0] ?? 0,
      end: text === '' ? (starts[0] ?? 0) : ends.at(-1)!,
      part,
    };
  }

  private range(word: Word, from: number, to: number): [number, number] {
    if (this.trims !== 'none') {
      const [first, keepsFirst] = [from, this.trims === 'inner' && word.starts[from] === 0];
      while (from < to && word.text[from] === BYTE_SPACE) from++;
      if (keepsFirst && from > first) from--;
      while (to > from && word.text[to - 1] === BYTE_SPACE) to--;
    }
    if (from >= to)
      return from < word.starts.length
        ? [word.starts[from]!, word.starts[from]!]
        : [word.ends.at(-1) ?? 0, word.ends.at(-1) ?? 0];
    return [word.starts[from]!, word.ends[to - 1]!];
  }

  private splitters(list: AddedToken[]): { raw: Splitter; normalized: Splitter } {
    const normalizer = this.library.normalizer;
    const isRaw = (t: AddedToken) => !normalizer || !t.normalized;
    return {
      raw: new Splitter(list.filter(isRaw)),
      normalized: new Splitter(
        list
          .filter((t) => !isRaw(t))
          .map((t) => ({ ...t, content: normalize(normalizer!, aligned(t.content)).text, original: t.content })),
      ),
    };
  }
}

/** What remains of two texts that have room for so many tokens, as Hugging Face's 'longest_first': where both are cut, the longer keeps one more of an odd number. */
export function truncatedLengths(first: number, second: number, room: number): [number, number] {
  if (first + second <= room) return [first, second];
  const shorter = Math.min(first, second, Math.floor(room / 2));
  const longer = room - shorter;
  return first > second ? [longer, shorter] : [shorter, longer];
}

function trimmed(place: Aligned): Aligned {
  let from = 0;
  let to = place.text.length;
  while (from < to && isSpace(place.text[from]!)) from++;
  while (to > from && isSpace(place.text[to - 1]!)) to--;
  return slice(place, from, to);
}

/** White space as Unicode has it; JavaScript's \s lacks U+0085 and takes U+FEFF for one. */
const UNICODE_ESCAPES: Record<string, string> = { '\\s': '\\p{White_Space}', '\\S': '\\P{White_Space}' };
const isSpace = (unit: string) => /\p{White_Space}/u.test(unit);

/** Gives the library's pre-tokenizers Unicode's white space in the place of JavaScript's. */
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
    // It trims first, by JavaScript's white space.
    if (pre instanceof BertPreTokenizer) pre.pre_tokenize_text = (text) => text.match(unicode) ?? [];
  }
  if (pre instanceof WhitespaceSplitPreTokenizer)
    pre.pre_tokenize_text = (text) => text.match(/\P{White_Space}+/gu) ?? [];
}

/** Cuts a text where one of the added tokens stands. */
class Splitter {
  private readonly pattern: RegExp | null;
  private readonly byContent: Map<string, AddedToken>;

  constructor(tokens: AddedToken[]) {
    const usable = tokens.filter((t) => t.content !== '').slice(0, MAX_ADDED);
    this.byContent = new Map(usable.map((t) => [t.content, t]));
    const longestFirst = [...this.byContent.keys()].sort((a, b) => b.length - a.length);
    this.pattern =
      longestFirst.length > 0
        ? new RegExp(longestFirst.map((c) => c.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')).join('|'), 'gu')
        : null;
  }

  split(source: Aligned): { text: Aligned; added?: AddedToken }[] {
    if (!this.pattern || source.text === '') return [{ text: source }];
    const parts: { text: Aligned; added?: AddedToken }[] = [];
    let at = 0;
    for (const match of source.text.matchAll(this.pattern)) {
      const token = this.byContent.get(match[0])!;
      let from = match.index;
      let to = from + match[0].length;
      if (from < at || (token.single_word && (isWordUnit(source.text[from - 1]) || isWordUnit(source.text[to]))))
        continue;
      if (token.lstrip) while (from > at && isSpace(source.text[from - 1]!)) from--;
      if (token.rstrip) while (to < source.text.length && isSpace(source.text[to]!)) to++;
      if (from > at) parts.push({ text: slice(source, at, from) });
      parts.push({ text: slice(source, from, to), added: token });
      at = to;
    }
    if (at < source.text.length) parts.push({ text: slice(source, at, source.text.length) });
    return parts;
  }
}

function isWordUnit(unit: string | undefined): boolean {
  return unit !== undefined && /[\p{L}\p{N}_]/u.test(unit);
}

/** How the words that a pre-tokenizer yields spell the text: as it is, with spaces as a mark, or byte by byte. */
type Alphabet = 'plain' | 'metaspace' | 'bytes';

function alphabetOf(config: unknown): Alphabet {
  const types = typesIn(config);
  return types.includes('ByteLevel') ? 'bytes' : types.includes('Metaspace') ? 'metaspace' : 'plain';
}

function typesIn(config: unknown): string[] {
  if (typeof config !== 'object' || config === null) return [];
  const { type, pretokenizers } = config as { type?: string; pretokenizers?: unknown[] };
  return [...(type ? [type] : []), ...(pretokenizers ?? []).flatMap(typesIn)];
}

type Trim = 'none' | 'all' | 'inner';

/** What Hugging Face's post-processors do to offsets; where they believe to have set a space before the text, the first one stays. */
function trimOf(config: unknown): Trim {
  if (typeof config !== 'object' || config === null) return 'none';
  const { type, trim_offsets, add_prefix_space, processors } = config as Record<string, unknown>;
  if (Array.isArray(processors)) return processors.map(trimOf).find((trim) => trim !== 'none') ?? 'none';
  if ((type !== 'ByteLevel' && type !== 'RobertaProcessing') || trim_offsets === false) return 'none';
  return add_prefix_space === false ? 'all' : 'inner';
}

/** The byte-level alphabet's letter for a space; the other white space is not trimmed. */
const BYTE_SPACE = '\u0120';

const utf8Length = (point: string) => (point <= '\u007F' ? 1 : point <= '\u07FF' ? 2 : point.length === 2 ? 4 : 3);

/** The pre-tokenizer's words, each unit traced to the normalized text. */
function* words(
  source: Aligned,
  pre: PreTokenizer | null,
  sectionIndex: number,
  alphabet: Alphabet,
  splitsOnSpace: boolean,
): Iterable<Word> {
  const found = pre ? pre.pre_tokenize(source.text, { section_index: sectionIndex }) : [source.text];
  const { text, starts, ends } = source;
  let at = 0;
  for (const word of found) {
    const out: Word = { text: word, starts: [], ends: [] };
    if (alphabet === 'plain') {
      const index = text.indexOf(word, at);
      at = index < 0 ? at : index;
      for (let u = 0; u < word.length; u++, at++) {
        out.starts.push(starts[at] ?? 0);
        out.ends.push(ends[at] ?? 0);
      }
    } else if (alphabet === 'bytes') {
      let left = word.length;
      // A space that the pre-tokenizer set before the text stands for its first character.
      if (at === 0 && word[0] === BYTE_SPACE && text[0] !== ' ') {
        out.starts.push(starts[0] ?? 0);
        out.ends.push(ends[0] ?? 0);
        left--;
      }
      while (left > 0 && at < text.length) {
        const point = String.fromCodePoint(text.codePointAt(at)!);
        for (let byte = 0; byte < utf8Length(point); byte++, left--) {
          out.starts.push(starts[at]!);
          out.ends.push(ends[at + point.length - 1]!);
        }
        at += point.length;
      }
    } else {
      let u = 0;
      if (splitsOnSpace) while (at < text.length && isSpace(text[at]!)) at++;
      // A mark that replaces no space was set before the word, and stands for its first character.
      if (word[0] === '\u2581' && text[at] !== '\u2581' && text[at] !== ' ') {
        out.starts.push(starts[at] ?? 0);
        out.ends.push(ends[at] ?? 0);
        u = 1;
      }
      for (; u < word.length; u++, at++) {
        out.starts.push(starts[at] ?? 0);
        out.ends.push(ends[at] ?? 0);
      }
    }
    yield out;
  }
}
