/** Finds the tokens in a text that tokenizer.json lists in addition to the vocabulary of its model. */
import { type Aligned, slice } from './alignment.js';

export interface AddedToken {
  id: number;
  content: string;
  single_word: boolean;
  lstrip: boolean;
  rstrip: boolean;
  normalized: boolean;
  /** The content before normalization, if `content` is normalized. */
  original?: string;
}

/** Longest alternation that is worth compiling; tokenizers with more added tokens than this do not occur. */
const MAX_ADDED = 10_000;

/** Unicode's white space. */
export const isSpace = (unit: string | undefined) => unit !== undefined && /\p{White_Space}/u.test(unit);

/** Splits a text at added tokens. */
export class Splitter {
  readonly #pattern: RegExp | null;
  readonly #byContent: Map<string, AddedToken>;

  constructor(tokens: AddedToken[]) {
    const usable = tokens.filter((t) => t.content !== '').slice(0, MAX_ADDED);
    this.#byContent = new Map(usable.map((t) => [t.content, t]));
    const longestFirst = [...this.#byContent.keys()].sort((a, b) => b.length - a.length);
    const escaped = longestFirst.map((content) => content.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&'));
    this.#pattern = escaped.length > 0 ? new RegExp(escaped.join('|'), 'gu') : null;
  }

  split(source: Aligned): { text: Aligned; added?: AddedToken }[] {
    if (!this.#pattern || source.text === '') return [{ text: source }];
    const parts: { text: Aligned; added?: AddedToken }[] = [];
    let at = 0;
    for (const match of source.text.matchAll(this.#pattern)) {
      const token = this.#byContent.get(match[0])!;
      let from = match.index;
      let to = from + match[0].length;
      if (from < at || (token.single_word && (isWordUnit(source.text[from - 1]) || isWordUnit(source.text[to]))))
        continue;
      if (token.lstrip) while (from > at && isSpace(source.text[from - 1])) from--;
      if (token.rstrip) while (to < source.text.length && isSpace(source.text[to])) to++;
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
