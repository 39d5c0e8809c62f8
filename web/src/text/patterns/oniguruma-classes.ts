/** Translates character classes of Oniguruma's regular expressions to JavaScript patterns that match one code point. */
import { casedCharacters, caseVariants, longFoldings } from '../case-folding.js';

/** Matches any code point. */
export const ANY = '[^]';

/** The meaning of an escape, a character or a set of characters, and its end. */
export type Escape = { end: number } & ({ point: string } | { set: string; negated: boolean });

/** A literal character in a pattern, inside or outside a class. */
export const literal = (point: string): string =>
  /^[\p{L}\p{N}]$/u.test(point) ? point : `\\u{${point.codePointAt(0)!.toString(16)}}`;

/** Word characters. */
export const WORD = '\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}';
const GRAPH = '\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}\\p{Cf}\\p{Co}';

/** Sets by their lower-case names. Other names are Unicode properties. */
const SETS: Record<string, string> = {
  alnum: '\\p{Alphabetic}\\p{Nd}',
  alpha: '\\p{Alphabetic}',
  ascii: '\\p{ASCII}',
  blank: '\\t\\p{Zs}',
  cntrl: '\\p{Cc}',
  digit: '\\p{Nd}',
  graph: GRAPH,
  lower: '\\p{Lowercase}',
  print: `${GRAPH}\\p{Zs}`,
  punct: '\\p{P}\\p{S}',
  space: '\\p{White_Space}',
  upper: '\\p{Uppercase}',
  word: WORD,
  xdigit: '0-9A-Fa-f',
};

const SHORTHANDS: Record<string, string> = { w: WORD, d: '\\p{Nd}', s: '\\p{White_Space}', h: '0-9A-Fa-f' };
const CONTROLS: Record<string, string> = { t: '\t', n: '\n', r: '\r', f: '\f', v: '\v', a: '\x07', e: '\x1B' };

/** Parses the escape that begins at `at`. @throws SyntaxError for an invalid escape */
export function escapeOf(source: string, at: number): Escape {
  const match = (pattern: RegExp) => {
    pattern.lastIndex = at;
    return pattern.exec(source);
  };
  const ofCode = (code: number, { 0: text }: RegExpExecArray): Escape => ({
    point: String.fromCodePoint(code),
    end: at + text.length,
  });
  const property = match(/\\(p|P)\{(\^?)([^}]*)\}/y);
  if (property)
    return {
      set: setOf(property[3]!),
      negated: (property[1] === 'P') !== (property[2] === '^'),
      end: at + property[0].length,
    };
  const hex = match(/\\x\{([\da-f]{1,8})\}|\\x([\da-f]{0,2})|\\u([\da-f]{4})/iy);
  if (hex) return ofCode(Number.parseInt(hex[1] ?? hex[2] ?? hex[3]!, 16) || 0, hex);
  const octal = match(/\\o\{([0-7]+)\}|\\([0-7]{1,3})/y);
  if (octal) return ofCode(Number.parseInt(octal[1] ?? octal[2]!, 8), octal);
  const control = match(/\\(?:c|C-)(.)/y);
  if (control) return ofCode(control[1]!.charCodeAt(0) & 0x1f, control);
  const point = source.codePointAt(at + 1);
  if (point === undefined) throw new SyntaxError('\\ at the end');
  const letter = String.fromCodePoint(point);
  const end = at + 1 + letter.length;
  const shorthand = SHORTHANDS[letter.toLowerCase()];
  if (shorthand) return { set: shorthand, negated: letter !== letter.toLowerCase(), end };
  return { point: CONTROLS[letter] ?? letter, end };
}

/** The content of a class for a named set or Unicode property. @throws SyntaxError for an unknown name */
function setOf(name: string): string {
  const key = name.toLowerCase().replace(/[ _-]/g, '');
  if (key === 'punct') return '\\p{P}'; // unlike [:punct:], which includes symbols
  if (SETS[key]) return SETS[key];
  const words = name.split(/[ _-]/);
  const titled = words.map((word) => word.slice(0, 1).toUpperCase() + word.slice(1).toLowerCase()).join('_');
  for (const each of [name, titled, name.toUpperCase()])
    for (const property of [each, `Script=${each}`]) {
      try {
        new RegExp(`\\p{${property}}`, 'u');
        return `\\p{${property}}`;
      } catch {
        // Try the next name.
      }
    }
  throw new SyntaxError(`no property ${name}`);
}

/** A class [...], which may contain other classes and intersections (&&). */
export class CharacterClass {
  /** The end of the class in the source. */
  readonly end: number;
  readonly #source: string;
  #at: number;
  readonly #negated: boolean;
  /** Matches the characters of the class, ignoring its negation. */
  readonly #positive: string;

  constructor(source: string, start: number) {
    this.#source = source;
    this.#at = start + 1;
    this.#negated = this.#takes('^');
    const operands = [this.#operand(true)];
    while (this.#takes('&&')) operands.push(this.#operand(false));
    if (!this.#takes(']')) throw new SyntaxError('unterminated class');
    this.end = this.#at;
    const [first, ...others] = operands;
    this.#positive = others.length === 0 ? first! : `(?:${others.map((each) => `(?=${each})`).join('')}${first})`;
  }

  /** The pattern. `ignoresCase`: whether it also matches characters that differ only in case. */
  atom(ignoresCase = false): string {
    const positive = ignoresCase ? closed(this.#positive) : this.#positive;
    if (this.#negated) return `(?:(?!${positive})${ANY})`;
    return ignoresCase ? withLongFoldings(positive) : positive;
  }

  #takes(text: string): boolean {
    const isNext = this.#source.startsWith(text, this.#at);
    if (isNext) this.#at += text.length;
    return isNext;
  }

  /** Parses an operand up to `]` or `&&`. A `]` at the very beginning is a literal. */
  #operand(isFirst: boolean): string {
    let content = '';
    const others: string[] = [];
    const begin = this.#at;
    const add = (set: string, negated: boolean) => {
      if (negated) others.push(`[^${set}]`);
      else content += set;
    };
    while (this.#at < this.#source.length) {
      const isLiteral = isFirst && this.#at === begin && this.#source.indexOf(']', begin + 1) > 0;
      if ((this.#source[this.#at] === ']' && !isLiteral) || this.#source.startsWith('&&', this.#at)) break;
      const posix = /^\[:(\^?)(\w+):\]/.exec(this.#source.slice(this.#at));
      const set = posix && SETS[posix[2]!.toLowerCase()];
      if (set) {
        add(set, posix[1] === '^');
        this.#at += posix[0].length;
      } else if (this.#source[this.#at] === '[') {
        const nested = new CharacterClass(this.#source, this.#at);
        this.#at = nested.end;
        others.push(nested.atom());
      } else {
        const found = this.#character();
        if ('point' in found) content += literal(found.point) + this.#rangeEnd(found.point);
        else add(found.set, found.negated);
      }
    }
    const all = content === '' ? others : [`[${content}]`, ...others];
    if (all.length === 0) throw new SyntaxError('empty class');
    return all.length === 1 ? all[0]! : `(?:${all.join('|')})`;
  }

  /** Parses a character or an escape within a class. */
  #character(): Escape {
    if (this.#takes('\\b')) return { point: '\b', end: this.#at };
    if (this.#source[this.#at] === '\\') {
      const found = escapeOf(this.#source, this.#at);
      this.#at = found.end;
      return found;
    }
    const point = String.fromCodePoint(this.#source.codePointAt(this.#at)!);
    this.#at += point.length;
    return { point, end: this.#at };
  }

  /** Parses the rest of a range that begins with `from`; '' if there is none. */
  #rangeEnd(from: string): string {
    if (!/^-(?!\]|\[|&&)/.test(this.#source.slice(this.#at))) return '';
    const before = this.#at++;
    const to = this.#at < this.#source.length ? this.#character() : null;
    if (to && 'point' in to) {
      if (from.codePointAt(0)! > to.point.codePointAt(0)!) throw new SyntaxError('empty range');
      return `-${literal(to.point)}`;
    }
    this.#at = before;
    return '';
  }
}

/** Extends a pattern for one character to characters that differ only in case. */
function closed(atom: string): string {
  const matches = new RegExp(`^${atom}$`, 'u');
  const found = [...casedCharacters()].filter((point) => matches.test(point));
  const added = new Set(found.flatMap(caseVariants).filter((point) => !matches.test(point)));
  return added.size === 0 ? atom : `(?:${atom}|[${[...added].map(literal).join('')}])`;
}

/** Extends a pattern for one character to the sequences to which such a character folds. */
function withLongFoldings(atom: string): string {
  const matches = new RegExp(`^${atom}$`, 'u');
  const found = [...longFoldings()].filter(([, points]) => points.some((point) => matches.test(point)));
  const sequences = found.map(([folded]) =>
    Array.from(folded, (each) => `[${caseVariants(each).map(literal).join('')}]`).join(''),
  );
  return sequences.length === 0 ? atom : `(?:${[atom, ...sequences].join('|')})`;
}
