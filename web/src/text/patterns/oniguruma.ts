/**
 * Translates Oniguruma's regular expressions (https://github.com/kkos/oniguruma/blob/master/doc/RE), which
 * tokenizer.json uses, to JavaScript's. Options within a pattern, possessive quantifiers and set operations on classes,
 * which not all engines support, are expressed by other means.
 */
import { caseVariants, longFoldings } from '../case-folding.js';
import { ANY, CharacterClass, escapeOf, literal, WORD } from './oniguruma-classes.js';

/**
 * Returns the source of a JavaScript pattern with the flag `u`. @throws SyntaxError for constructs that cannot be
 * translated
 */
export function translated(source: string): string {
  return new Translator(source).pattern();
}

interface Term {
  js: string;
  /** The character that the term matches, if case is ignored. */
  folded?: string | undefined;
}

/** Outside classes, word characters also include three superscripts and three fractions. */
const OUTER_WORD = `${WORD}\\u00B2\\u00B3\\u00B9\\u00BC-\\u00BE`;
const BEFORE_WORD = `(?=[${OUTER_WORD}])`;
const AFTER_WORD = `(?<=[${OUTER_WORD}])`;
const NOT_BEFORE = `(?![${OUTER_WORD}])`;
const NOT_AFTER = `(?<![${OUTER_WORD}])`;

const ANCHORS: Record<string, string> = {
  A: `(?<!${ANY})`,
  z: `(?!${ANY})`,
  Z: `(?=\\n?(?!${ANY}))`,
  b: `(?:${AFTER_WORD}${NOT_BEFORE}|${NOT_AFTER}${BEFORE_WORD})`,
  B: `(?:${AFTER_WORD}${BEFORE_WORD}|${NOT_AFTER}${NOT_BEFORE})`,
};

class Translator {
  readonly #source: string;
  #at = 0;
  #groups = 0;
  /** The names of groups in the result, by number and by name. Empty if unnamed groups do not capture. */
  readonly #names = new Map<string, string>();
  #captures = 0;
  readonly #hasNames: boolean;

  constructor(source: string) {
    this.#source = source;
    this.#hasNames = /(?<!\\)\(\?<[^=!]/.test(source);
  }

  pattern(): string {
    const js = this.#alternatives('');
    if (this.#at < this.#source.length) throw new SyntaxError('unmatched )');
    return js;
  }

  #takes(text: string): boolean {
    const isNext = this.#source.startsWith(text, this.#at);
    if (isNext) this.#at += text.length;
    return isNext;
  }

  /** Matches a sticky pattern at the current position and advances past the match. */
  #match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at;
    const match = pattern.exec(this.#source);
    if (match) this.#at = pattern.lastIndex;
    return match;
  }

  /** Translates alternatives up to the end of the group. `options`: the active ones of i, m and x. */
  #alternatives(options: string): string {
    let js = '';
    let terms: Term[] = [];
    while (this.#at < this.#source.length && this.#source[this.#at] !== ')') {
      if (options.includes('x') && this.#match(/(?:\s|#.*)+/uy)) continue;
      if (this.#match(/\(\?#(?:\\.|[^)\\])*\)/suy)) continue;
      if (this.#takes('|')) {
        js += `${sequence(terms)}|`;
        terms = [];
        continue;
      }
      const option = this.#match(/\(\?([imx]*)(-[imx]*)?\)/y);
      if (option) {
        // The option applies up to the end of the group, including later alternatives.
        terms.push({ js: `(?:${this.#alternatives(changed(options, option))})` });
        break;
      }
      terms.push(this.#quantified(this.#term(options)));
    }
    return js + sequence(terms);
  }

  #quantified(term: Term): Term {
    for (;;) {
      const match = this.#match(/([?*+])([?+]?)|\{(\d*)(,?)(\d*)\}(\??)/y);
      if (!match) return term;
      const [text, simple, suffix, low, comma, high, lazy] = match;
      if (!simple && low === '' && high === '') {
        this.#at -= text.length;
        return term;
      }
      const atom = `(?:${term.js})`;
      if (suffix === '+') term = { js: this.#atomic(atom + simple) };
      else if (simple) term = { js: `(?:${atom}${text})` };
      else if (comma === '') term = { js: `(?:${atom}{${low}})${lazy}` };
      else if (high !== '' && Number(low) > Number(high)) term = { js: this.#atomic(`${atom}{${high},${low}}`) };
      else term = { js: `(?:${atom}{${low || 0},${high}}${lazy})` };
    }
  }

  /** An atomic group, emulated by a lookahead, which JavaScript never backtracks into. */
  #atomic(js: string): string {
    const name = this.#newName();
    return `(?:(?=(?<${name}>${js}))\\k<${name}>)`;
  }

  #newName(): string {
    return `g${this.#groups++}`;
  }

  #term(options: string): Term {
    const { [this.#at]: first } = this.#source;
    if (first === '(') return { js: this.#group(options) };
    if (first === '[') return { js: this.#class(options) };
    if (first === '\\') return this.#escape(options);
    const point = String.fromCodePoint(this.#source.codePointAt(this.#at)!);
    this.#at += point.length;
    if (point === '.') return { js: options.includes('m') ? ANY : '[^\\n]' };
    if (point === '^') return { js: `(?:(?<!${ANY})|(?<=\\n)(?=${ANY}))` };
    if (point === '$') return { js: '(?![^\\n])' };
    if (/[*+?]/.test(point)) throw new SyntaxError('nothing to repeat');
    return character(point, options);
  }

  #group(options: string): string {
    const [opening, inner] = this.#opening(options);
    const js = this.#alternatives(inner);
    if (!this.#takes(')')) throw new SyntaxError('unterminated group');
    return opening === '(?>' ? this.#atomic(js) : `${opening}${js})`;
  }

  /** Translates the beginning of a group. Returns it with the options that apply within the group. */
  #opening(options: string): [string, string] {
    const option = this.#match(/\(\?([imx]*)(-[imx]*)?:/y);
    if (option) return ['(?:', changed(options, option)];
    const plain = this.#match(/\(\?(?:<?[=!]|>)/y);
    if (plain) return [plain[0], options];
    const named = this.#match(/\(\?(?:<([^>\W\d]\w*)>|'(\w+)')/y);
    if (!named && this.#match(/\(\?|\(\*/y)) throw new SyntaxError('unsupported group');
    if (!named) this.#at++;
    if (!named && this.#hasNames) return ['(?:', options];
    const name = this.#newName();
    this.#names.set(`${++this.#captures}`, name);
    if (named) this.#names.set(named[1] ?? named[2]!, name);
    return [`(?<${name}>`, options];
  }

  #class(options: string): string {
    const parsed = new CharacterClass(this.#source, this.#at);
    this.#at = parsed.end;
    return parsed.atom(options.includes('i'));
  }

  #escape(options: string): Term {
    const anchor = this.#match(/\\([AzZbB])/y);
    if (anchor) return { js: ANCHORS[anchor[1]!]! };
    if (this.#takes('\\R')) return { js: this.#atomic('\\r\\n|[\\n-\\r\\u0085\\u2028\\u2029]') };
    if (this.#takes('\\N')) return { js: '[^\\n]' };
    if (this.#takes('\\O')) return { js: ANY };
    const reference = this.#match(/\\(?:k<(\w+)>|k'(\w+)'|([1-9]\d*))/y);
    if (reference) return { js: this.#reference(reference[1] ?? reference[2] ?? reference[3]!) };
    if (this.#match(/\\[GKXyYg]/y)) throw new SyntaxError('unsupported escape');
    const found = escapeOf(this.#source, this.#at);
    this.#at = found.end;
    if ('point' in found) return character(found.point, options);
    return { js: `[${found.negated ? '^' : ''}${found.set === WORD ? OUTER_WORD : found.set}]` };
  }

  #reference(to: string): string {
    const name = this.#names.get(to);
    if (!name) throw new SyntaxError(`no group ${to}`);
    return `\\k<${name}>`;
  }
}

/** Applies `(?i-m)` to the options. */
function changed(options: string, [, added = '', removed = '']: RegExpExecArray): string {
  return [...options, ...added].filter((option) => !removed.includes(option)).join('');
}

function character(point: string, options: string): Term {
  if (!options.includes('i')) return { js: literal(point) };
  const folded = [...longFoldings()].find(([, points]) => points.includes(point))?.[0];
  const one = oneOf(caseVariants(point));
  return folded
    ? {
        js: `(?:${oneOf(longFoldings().get(folded)!)}|${one}|${[...folded].map((each) => oneOf(caseVariants(each))).join('')})`,
      }
    : { js: one, folded: point.toLowerCase() };
}

const oneOf = (points: readonly string[]): string =>
  points.length === 1 ? literal(points[0]!) : `[${points.map(literal).join('')}]`;

/** Joins terms. Sequences to which a character folds, such as `ss`, also match that character. */
function sequence(terms: Term[]): string {
  let js = '';
  for (let at = 0; at < terms.length; ) {
    let count = 1;
    let made = terms[at]!.js;
    for (const length of terms[at]!.folded === undefined ? [] : [3, 2]) {
      const part = terms.slice(at, at + length);
      const points = longFoldings().get(part.map(({ folded = '\0' }) => folded).join(''));
      if (part.length < length || !points) continue;
      count = length;
      made = `(?:${part.map((term) => term.js).join('')}|${oneOf(points)})`;
      break;
    }
    js += made;
    at += count;
  }
  return js;
}
