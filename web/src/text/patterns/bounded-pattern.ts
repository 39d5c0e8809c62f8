/**
 * Matches patterns that JavaScript's regular expressions may take exponential time for, such as (x+x+)+y. It searches in
 * the same order, so the matches are the same, but it never tries a part of the pattern at a place where it has failed
 * before, and it fails after a number of steps, as Oniguruma does.
 */
import { maxOf } from '../../base/lists.js';
import { unsupported } from '../tokenizer-settings.js';
import type { Tree } from './pattern-tree.js';

type Step =
  | { op: 'atom'; test(code: number): boolean }
  /** Goes on at `first` or else at `second`. Ids from `from` on are those of the repetitions before this one. */
  | { op: 'split'; id: number; from: number; first: number; second: number }
  | { op: 'jump'; to: number }
  /** `width`: the greatest length of a match before the place, in UTF-16 units; null to look ahead. */
  | { op: 'look'; part: Part; width: number | null; negated: boolean }
  | { op: 'atomic'; part: Part }
  | { op: 'end' };

/** A program, and what is known about where it matches: the end by the place, -1 for none. */
interface Part {
  steps: Step[];
  ends: Map<number, number>;
  /** Where its splits have failed. */
  failed: Set<number>;
}

type Split = Extract<Step, { op: 'split' }>;

/** Whether neither a split nor those before it have been tried at a place. Marks it. */
type IsNew = (split: Split, place: number) => boolean;

const MAX_STEPS = 10_000;
/** Upper bound of splits times places: their marks take a bit each, 128 MiB. */
const MAX_MARKS = 2 ** 30;
/** Patterns that do not look far ahead or back need at most one visit of each step at each place. */
const [LEAST_LIMIT, VISITS] = [1_000_000, 20];

export class BoundedPattern {
  readonly #source: string;
  readonly #whole: Part;
  readonly #parts: Part[] = [];
  #splits = 0;
  #text = '';
  #left = 0;

  /**
   * `source`: the pattern for messages.
   * @throws SyntaxError for patterns that cannot be run in steps
   */
  constructor(tree: Tree, source: string) {
    this.#source = source;
    this.#whole = this.#partOf(tree);
  }

  /** The matches of the pattern, as `text.matchAll` finds them. @throws HeedError UNSUPPORTED after too many steps */
  *matches(text: string): Iterable<{ 0: string; index: number }> {
    this.#text = text;
    this.#left = LEAST_LIMIT;
    for (const { steps, ends, failed } of this.#parts) {
      this.#left += VISITS * steps.length * text.length;
      ends.clear();
      failed.clear();
    }
    const width = text.length + 1;
    const most = Math.floor(MAX_MARKS / this.#splits) - 1;
    if (text.length > most)
      throw unsupported('pattern', `a text of at most ${most} UTF-16 units for it`, `${text.length}`);
    const failed = new Uint32Array((this.#splits * width + 31) >> 5);
    const isNew: IsNew = ({ id, from }, place) => {
      for (let each = from; each <= id; each++) {
        const bit = each * width + place;
        if (failed[bit >> 5]! & (1 << (bit & 31))) return false;
      }
      const bit = id * width + place;
      failed[bit >> 5]! |= 1 << (bit & 31);
      return true;
    };
    for (let at = 0; at <= text.length; ) {
      const end = this.#run(this.#whole.steps, at, isNew);
      const next = at + (text.codePointAt(at)! > 0xffff ? 2 : 1);
      if (end < 0) at = next;
      else {
        yield { 0: text.slice(at, end), index: at };
        // All marks beyond the match are of failures, those at its end may be of the match itself.
        for (let bit = end; bit < this.#splits * width; bit += width) failed[bit >> 5]! &= ~(1 << (bit & 31));
        at = end > at ? end : next;
      }
    }
  }

  /** The end of the match that begins at `from`; -1 if there is none. `to`: the end that it must have. */
  #run(steps: Step[], from: number, isNew: IsNew, to = -1): number {
    const text = this.#text;
    const stack = [0, from];
    search: while (stack.length > 0) {
      let at = stack.pop()!;
      let pc = stack.pop()!;
      for (;;) {
        if (--this.#left < 0)
          throw unsupported('pattern', 'a regular expression whose matches can be found in time', this.#source);
        const step = steps[pc]!;
        if (step.op === 'atom') {
          const code = text.codePointAt(at);
          if (code === undefined || !step.test(code)) continue search;
          at += code > 0xffff ? 2 : 1;
          pc++;
        } else if (step.op === 'split') {
          this.#left -= step.id - step.from;
          if (!isNew(step, at)) continue search;
          stack.push(step.second, at);
          pc = step.first;
        } else if (step.op === 'jump') pc = step.to;
        else if (step.op === 'look') {
          const { part, width } = step;
          const isFound = width === null ? this.#endOf(part, at) >= 0 : this.#endsAt(part, at, width);
          if (isFound === step.negated) continue search;
          pc++;
        } else if (step.op === 'atomic') {
          at = this.#endOf(step.part, at);
          if (at < 0) continue search;
          pc++;
        } else if (to >= 0 && at !== to) continue search;
        else return at;
      }
    }
    return -1;
  }

  #endOf(part: Part, from: number): number {
    let end = part.ends.get(from);
    if (end === undefined) {
      end = this.#run(part.steps, from, marksIn(part.failed));
      if (end >= 0) part.failed.clear(); // some marks are of the match itself
      part.ends.set(from, end);
    }
    return end;
  }

  #endsAt({ steps }: Part, to: number, width: number): boolean {
    for (let from = to; from >= Math.max(0, to - width); from--)
      if (!/[\uDC00-\uDFFF]/.test(this.#text[from] ?? '') && this.#run(steps, from, marksIn(new Set()), to) >= 0)
        return true;
    return false;
  }

  #partOf(tree: Tree): Part {
    const steps: Step[] = [];
    this.#compile(tree, steps);
    steps.push({ op: 'end' });
    const part = { steps, ends: new Map<number, number>(), failed: new Set<number>() };
    this.#parts.push(part);
    return part;
  }

  #compile(tree: Tree, steps: Step[]): void {
    if (steps.length > MAX_STEPS) throw new SyntaxError('too long');
    switch (tree.kind) {
      case 'atom':
        steps.push({ op: 'atom', test: testOf(tree.js) });
        break;
      case 'sequence':
        for (let i = 0; i < tree.items.length; i++) {
          const [item, next] = [tree.items[i]!, tree.items[i + 1]];
          // An atomic group, as oniguruma.ts writes it.
          const group =
            item.kind === 'look' && !item.behind && !item.negated && item.of.kind === 'group' ? item.of : null;
          if (group && next?.kind === 'reference' && next.name === group.name) {
            steps.push({ op: 'atomic', part: this.#partOf(group.of) });
            i++;
          } else this.#compile(item, steps);
        }
        break;
      case 'choice': {
        const jumps: { op: 'jump'; to: number }[] = [];
        tree.options.forEach((option, i) => {
          const isLast = i === tree.options.length - 1;
          const split: Split = { op: 'split', id: 0, from: 0, first: steps.length + 1, second: 0 };
          if (!isLast) {
            split.id = split.from = this.#splits++;
            steps.push(split);
          }
          this.#compile(option, steps);
          if (isLast) return;
          const jump = { op: 'jump' as const, to: 0 };
          jumps.push(jump);
          steps.push(jump);
          split.second = steps.length;
        });
        for (const jump of jumps) jump.to = steps.length;
        break;
      }
      case 'repeat':
        this.#repeat(tree, steps);
        break;
      case 'look':
        steps.push({
          op: 'look',
          part: this.#partOf(tree.of),
          width: tree.behind ? widthOf(tree.of) : null,
          negated: tree.negated,
        });
        break;
      case 'group':
        this.#compile(tree.of, steps);
        break;
      default:
        throw new SyntaxError('a reference to a group, and repetitions that can take exponential time');
    }
  }

  #repeat({ of, min, max, lazy }: Extract<Tree, { kind: 'repeat' }>, steps: Step[]): void {
    for (let i = 0; i < min; i++) this.#compile(of, steps);
    // An optional repetition that matches nothing fails, as in JavaScript: the splits of the repetitions before have been
    // tried at the same place. If one of them has failed there before, so would this one, which has fewer left.
    const splits: Split[] = [];
    const optional = () => {
      const split: Split = { op: 'split', id: 0, from: 0, first: steps.length + 1, second: 0 };
      steps.push(split);
      splits.push(split);
      this.#compile(of, steps);
    };
    if (max === Infinity) {
      const to = steps.length;
      optional();
      steps.push({ op: 'jump', to });
    } else for (let i = min; i < max; i++) optional();
    for (const split of splits) {
      split.id = this.#splits++;
      split.from = splits[0]!.id;
      split.second = steps.length;
      if (lazy) [split.first, split.second] = [split.second, split.first];
    }
  }
}

/** Marks of the searches of a part. */
function marksIn(failed: Set<number>): IsNew {
  return ({ id, from }, place) => {
    for (let each = from; each <= id; each++) if (failed.has(place * 8 * MAX_STEPS + each)) return false;
    failed.add(place * 8 * MAX_STEPS + id);
    return true;
  };
}

/** The greatest length of a match in UTF-16 units. */
function widthOf(tree: Tree): number {
  switch (tree.kind) {
    case 'atom':
      return 2;
    case 'sequence':
      return tree.items.reduce((sum, item) => sum + widthOf(item), 0);
    case 'choice':
      return maxOf(tree.options.map(widthOf));
    case 'repeat':
      return widthOf(tree.of) === 0 ? 0 : widthOf(tree.of) * tree.max;
    case 'group':
      return widthOf(tree.of);
    case 'look':
      return 0;
    default:
      return Infinity;
  }
}

/** Whether a pattern of one code point matches; memoized, because texts repeat characters. */
function testOf(js: string): (code: number) => boolean {
  const pattern = new RegExp(`^${js}$`, 'u');
  const known = new Map<number, boolean>();
  return (code) => {
    let matches = known.get(code);
    if (matches === undefined) {
      matches = pattern.test(String.fromCodePoint(code));
      known.set(code, matches);
    }
    return matches;
  };
}
