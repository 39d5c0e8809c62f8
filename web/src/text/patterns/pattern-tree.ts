/** Parses the JavaScript patterns that oniguruma.ts writes, and finds those that can take JavaScript too long. */
import { maxOf } from '../../base/lists.js';

export type Tree =
  /** Matches one code point, as the pattern `js` does. */
  | { kind: 'atom'; js: string }
  | { kind: 'sequence'; items: Tree[] }
  | { kind: 'choice'; options: Tree[] }
  | { kind: 'repeat'; of: Tree; min: number; max: number; lazy: boolean }
  | { kind: 'look'; of: Tree; behind: boolean; negated: boolean }
  | { kind: 'group'; of: Tree; name: string }
  | { kind: 'reference'; name: string };

const OPENING = /\(\?(?::|(<?)([=!])|<(\w+)>)/y;
const REFERENCE = /\\k<(\w+)>/y;
const ATOM = /\\[pP]\{[^}]*\}|\\u(?:\{[^}]*\}|[\da-f]{4})|\\.|\[(?:\\.|[^\\\]])*\]|[^()|*+?{}[\]\\]/isuy;
const QUANTIFIER = /(?:([*+?])|\{(\d+)(,?)(\d*)\})(\??)/y;

/** @throws SyntaxError for other patterns */
export function treeOf(js: string): Tree {
  let at = 0;
  const match = (pattern: RegExp) => {
    pattern.lastIndex = at;
    const found = pattern.exec(js);
    if (found) at = pattern.lastIndex;
    return found;
  };
  const choice = (): Tree => {
    const options: Tree[] = [];
    for (;;) {
      const items: Tree[] = [];
      while (at < js.length && js[at] !== ')' && js[at] !== '|') items.push(repeated(term()));
      options.push(items.length === 1 ? items[0]! : { kind: 'sequence', items });
      if (js[at] !== '|') return options.length === 1 ? options[0]! : { kind: 'choice', options };
      at++;
    }
  };
  const term = (): Tree => {
    const opening = match(OPENING);
    if (opening) {
      const [, behind, sign, name] = opening;
      const of = choice();
      if (js[at++] !== ')') throw new SyntaxError('unterminated group');
      if (name !== undefined) return { kind: 'group', of, name };
      return sign ? { kind: 'look', of, behind: behind === '<', negated: sign === '!' } : of;
    }
    const reference = match(REFERENCE);
    if (reference) return { kind: 'reference', name: reference[1]! };
    const atom = match(ATOM);
    if (!atom) throw new SyntaxError(`unknown syntax at ${at}`);
    return { kind: 'atom', js: atom[0] };
  };
  const repeated = (of: Tree): Tree => {
    const found = match(QUANTIFIER);
    if (!found) return of;
    const [, simple, low = '0', comma, high = '', lazy] = found;
    const min = simple ? Number(simple === '+') : Number(low);
    const max = simple ? (simple === '?' ? 1 : Infinity) : comma ? (high === '' ? Infinity : Number(high)) : min;
    return repeated({ kind: 'repeat', of, min, max, lazy: lazy !== '' });
  };
  const tree = choice();
  if (at < js.length) throw new SyntaxError('unmatched )');
  return tree;
}

/** The number of choices on a path whose combinations JavaScript may try. */
const MAX_CHOICES = 8;

/**
 * Whether JavaScript matches the pattern without trying ever more combinations as texts grow. It may where a group that
 * can match a text in several ways is repeated, as in (x+x+)+y, and where several repetitions follow each other before a
 * part that can fail. A single repetition, and repetitions at the end of an alternative, are safe.
 */
export function isSafe(tree: Tree): boolean {
  const { repetitions, choices } = cost(tree, false);
  return repetitions <= 1 && choices <= MAX_CHOICES;
}

/** What may be tried on a path through the pattern. `fails`: whether a part that can fail follows. */
function cost(tree: Tree, fails: boolean): { repetitions: number; choices: number } {
  let [repetitions, choices] = [0, 0];
  const add = (other: { repetitions: number; choices: number }) => {
    repetitions += other.repetitions;
    choices += other.choices;
  };
  switch (tree.kind) {
    case 'sequence': {
      let next = fails;
      for (const item of [...tree.items].reverse()) {
        add(cost(item, next));
        next ||= canFail(item);
      }
      break;
    }
    case 'choice': {
      const costs = tree.options.map((option) => cost(option, fails));
      repetitions = maxOf(costs.map((each) => each.repetitions));
      choices = maxOf(costs.map((each) => each.choices)) + Number(fails);
      break;
    }
    case 'repeat':
      if (tree.max > 1 && !isFixed(tree.of)) return { repetitions: Infinity, choices: Infinity };
      add(cost(tree.of, fails));
      if (tree.max - tree.min > MAX_CHOICES) repetitions += Number(fails);
      else if (tree.max > tree.min) choices += Number(fails);
      break;
    case 'look':
      return cost(tree.of, true);
    case 'group':
      return cost(tree.of, fails);
  }
  return { repetitions, choices };
}

function canFail(tree: Tree): boolean {
  if (tree.kind === 'sequence') return tree.items.some(canFail);
  if (tree.kind === 'choice') return tree.options.every(canFail);
  if (tree.kind === 'group') return canFail(tree.of);
  return tree.kind !== 'repeat' || (tree.min > 0 && canFail(tree.of));
}

/** Whether a pattern matches in one way only: characters, which may be excluded by looking at them. */
function isFixed(tree: Tree): boolean {
  if (tree.kind === 'sequence')
    return tree.items.length > 0 && tree.items.every((item) => isFixed(item) || isCheck(item));
  if (tree.kind === 'repeat') return tree.min === tree.max && tree.min > 0 && isFixed(tree.of);
  return tree.kind === 'atom' || (tree.kind === 'group' && isFixed(tree.of));
}

/** Whether a pattern looks at one character. */
function isCheck(tree: Tree): boolean {
  const isOne = (of: Tree): boolean => of.kind === 'atom' || (of.kind === 'choice' && of.options.every(isOne));
  return tree.kind === 'look' && !tree.behind && (isOne(tree.of) || isOneChecked(tree.of));
}

const isOneChecked = ({ kind, ...tree }: Tree): boolean =>
  kind === 'sequence' &&
  (tree as { items: Tree[] }).items.every((item, i, { length }) =>
    i === length - 1 ? item.kind === 'atom' : isCheck(item),
  );
