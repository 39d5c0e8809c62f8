/**
 * Tasks on sequences of digits that a small transformer learns on the page “Learning”. Examples are drawn from a seed, so that a run can be repeated.
 *
 * Notation: N sequences, L tokens.
 */
import { shuffled, uniform } from '../random';

export const taskNames = ['reverse', 'copy', 'sort', 'repeated'] as const;
export type TaskName = (typeof taskNames)[number];

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
  draw(next: () => number): Example;
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
  draw(next) {
    const ids = drawDigits(10, next);
    return { ids, labels: arrange(ids) };
  },
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
    draw(next) {
      const read = drawDigits(copied, next);
      const all = [...read, ARROW, ...read];
      return {
        ids: all.slice(0, -1),
        labels: all.slice(1).map((id, i) => (i < copied ? noAnswer : id)),
      };
    },
  },
  /** Eight different digits, one of which occurs a second time. The answer stands at the question mark. */
  repeated: {
    length: distinct + 2,
    causal: false,
    draw(next) {
      const chosen = shuffled(digits, next).slice(0, distinct);
      const twice = chosen[0]!;
      const order = shuffled(distinct + 1, next);
      const ids = [QUESTION, ...order.map((from) => chosen[from] ?? twice)];
      return { ids, labels: ids.map((id) => (id === QUESTION ? twice : noAnswer)) };
    },
  },
};

/** Examples as a model takes them: (N, L) each. */
export interface Batch {
  ids: number[][];
  labels: number[][];
}

/** The batch of a step: it depends on the seed and the step only, so that a run that goes back to an earlier step repeats itself. */
export function drawBatch({ draw }: Task, size: number, seed: number, step: number): Batch {
  const next = uniform(Math.imul(seed + 1, 0x9e3779b1) ^ Math.imul(step + 1, 0x85ebca6b));
  const examples = Array.from({ length: size }, () => draw(next));
  return { ids: examples.map(({ ids }) => ids), labels: examples.map(({ labels }) => labels) };
}
