/** Tokens in addition to the vocabulary of the tokenizer's model. Texts are split at them. */
import { regexEscaped, WORD } from '../base/regex.js';
import { type Aligned, slice } from './alignment.js';
import { requireId } from './vocabulary.js';

/** Ids by token. */
interface Ids {
  readonly size: number;
  get(token: string): number | undefined;
}

export interface AddedToken {
  id: number;
  content: string;
  single_word: boolean;
  lstrip: boolean;
  rstrip: boolean;
  normalized: boolean;
  special: boolean;
}

/**
 * Reads the added tokens of tokenizer.json. As in the Rust library, added tokens that are in the vocabulary have its
 * ids, and the others are numbered after it. Tokens whose ids in the file are not below `tableRows` keep these ids, so
 * that they do not get another token's row in the model's table.
 */
export function addedTokens(list: unknown, ids: Ids, tableRows: number): AddedToken[] {
  const tokens = new Map<string, AddedToken>();
  let next = ids.size;
  for (const each of (list ?? []) as AddedToken[]) {
    if (each.content === '') continue;
    if (each.id !== undefined) requireId('added_tokens', each.content, each.id);
    const known = tokens.get(each.content)?.id ?? ids.get(each.content);
    const id = known ?? (each.id >= tableRows ? each.id : next++);
    tokens.set(each.content, { ...each, id, normalized: each.normalized ?? !each.special });
  }
  return [...tokens.values()];
}

/** Unicode white space. */
const isSpace = (unit: string | undefined) => unit !== undefined && /\p{White_Space}/u.test(unit);
const STARTS_WITH_WORD = new RegExp(`^[${WORD}]`, 'u');
const ENDS_WITH_WORD = new RegExp(`[${WORD}]$`, 'u');

/** Splits a text at added tokens: the first match, and the longest of those that begin there. */
export class Splitter {
  readonly #pattern: RegExp | null;
  readonly #byContent: Map<string, AddedToken>;
  readonly #keepsSpecial: boolean;

  /**
   * `contentOf` returns the form of a token in the text. `splitsSpecial`: whether special tokens are text like any
   * other, `split_special_tokens` in transformers.
   */
  constructor(tokens: AddedToken[], contentOf: (token: AddedToken) => string, splitsSpecial = false) {
    this.#keepsSpecial = !splitsSpecial;
    this.#byContent = new Map(tokens.map((token) => [contentOf(token), token]));
    this.#byContent.delete('');
    const longestFirst = [...this.#byContent.keys()].sort((a, b) => b.length - a.length);
    const escaped = longestFirst.map((content) => regexEscaped(content));
    this.#pattern = escaped.length > 0 ? new RegExp(escaped.join('|'), 'gu') : null;
  }

  split(source: Aligned): { text: Aligned; added?: AddedToken | undefined }[] {
    const { text } = source;
    if (text === '') return [];
    if (!this.#pattern) return [{ text: source }];
    const parts: { text: Aligned; added?: AddedToken | undefined }[] = [];
    let at = 0;
    for (const match of text.matchAll(this.#pattern)) {
      const added = this.#byContent.get(match[0])!;
      if (added.special && !this.#keepsSpecial) continue;
      let from = match.index;
      let to = from + match[0].length;
      const before = text.slice(Math.max(0, from - 2), from);
      if (added.single_word && (ENDS_WITH_WORD.test(before) || STARTS_WITH_WORD.test(text.slice(to, to + 2)))) continue;
      if (added.lstrip) while (from > at && isSpace(text[from - 1])) from--;
      if (added.rstrip) while (isSpace(text[to])) to++;
      if (from > at) parts.push({ text: slice(source, at, from) });
      parts.push({ text: slice(source, from, to), added });
      at = to;
    }
    if (at < text.length) parts.push({ text: slice(source, at, text.length) });
    return parts;
  }
}
