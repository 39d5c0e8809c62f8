/**
 * Tasks on sequences of digits that a small transformer learns on “Watch it learn”. Examples are drawn from a seed, so that a run can be repeated.
 *
 * Notation: N sequences, L tokens.
 */
import { shuffled, uniform } from '../random';
import type { TaskName } from './constants';

export type { TaskName };

export interface Example {
  /** [L], what the model reads. */
  ids: number[];
  /** [L], the right answer at each position; `noAnswer` where none is asked for. */
  labels: number[];
}

export interface Task {
  /** L */
  length: number;
  /** Whether a position may only attend to itself and earlier ones, as in a decoder. */
  causal: boolean;
  /** Number of digits that make an example. */
  digits: number;
  /** What is wrong with these digits, or null. */
  complaint(digits: number[]): string | null;
  exampleOf(digits: number[]): Example;
  /** The digits of an example. */
  draw(next: () => number): number[];
}

/** Labels that do not count: the default of PyTorch's and heed's cross entropy. */
export const noAnswer = -100;

/** The ids 0 to 9 are digits. */
const digits = 10;
const [ARROW, QUESTION] = [10, 11];
export const symbols = 12;

/** The token as the page shows it. */
export const symbol = (id: number): string => (id === ARROW ? '→' : id === QUESTION ? '?' : String(id));

const digit = (next: () => number) => Math.floor(next() * digits);
const drawDigits = (length: number, next: () => number) => Array.from({ length }, () => digit(next));

/** The answer at each position is a digit of the sequence. */
const rearrangement = (arrange: (ids: number[]) => number[]): Task => ({
  length: 10,
  causal: false,
  digits: 10,
  complaint: () => null,
  exampleOf: (ids) => ({ ids, labels: arrange(ids) }),
  draw: (next) => drawDigits(10, next),
});

const copied = 8;
const distinct = 8;

export const tasks: Record<TaskName, Task> = {
  reverse: rearrangement((ids) => [...ids].reverse()),
  sort: rearrangement((ids) => [...ids].sort((a, b) => a - b)),
  /** A decoder reads eight digits and an arrow, then writes the digits again: each position predicts the next token. */
  copy: {
    length: 2 * copied,
    causal: true,
    digits: copied,
    complaint: () => null,
    exampleOf(read) {
      const all = [...read, ARROW, ...read];
      return {
        ids: all.slice(0, -1),
        labels: all.slice(1).map((id, i) => (i < copied ? noAnswer : id)),
      };
    },
    draw: (next) => drawDigits(copied, next),
  },
  /** Eight different digits, one of which occurs a second time. The answer stands at the question mark. */
  repeated: {
    length: distinct + 2,
    causal: false,
    digits: distinct + 1,
    complaint: (read) =>
      new Set(read).size === distinct ? null : 'One digit has to occur twice, and each of the others once.',
    exampleOf(read) {
      const twice = read.find((id, i) => read.indexOf(id) < i)!;
      const ids = [QUESTION, ...read];
      return { ids, labels: ids.map((id) => (id === QUESTION ? twice : noAnswer)) };
    },
    draw(next) {
      const chosen = shuffled(digits, next).slice(0, distinct);
      return shuffled(distinct + 1, next).map((from) => chosen[from] ?? chosen[0]!);
    },
  },
};

/** The digits in a text, if they make an example; otherwise what is missing, or null for a text without digits. */
export function readDigits(name: TaskName, text: string): number[] | string | null {
  const task = tasks[name];
  const read = [...text].filter((character) => /\d/.test(character)).map(Number);
  if (read.length === 0) return null;
  const missing = task.digits - read.length;
  if (missing > 0) return missing === 1 ? 'One more digit.' : `${missing} more digits.`;
  const own = read.slice(0, task.digits);
  return task.complaint(own) ?? own;
}

/** Examples as a model takes them: (N, L) each. */
export interface Batch {
  ids: number[][];
  labels: number[][];
}

/** The batch of a step: it depends on the seed and the step only, so that a run that goes back to an earlier step repeats itself. */
export function drawBatch({ draw, exampleOf }: Task, size: number, seed: number, step: number): Batch {
  const next = uniform(Math.imul(seed + 1, 0x9e3779b1) ^ Math.imul(step + 1, 0x85ebca6b));
  const examples = Array.from({ length: size }, () => exampleOf(draw(next)));
  return { ids: examples.map(({ ids }) => ids), labels: examples.map(({ labels }) => labels) };
}
