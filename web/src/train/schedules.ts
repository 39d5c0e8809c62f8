/** Learning rates that change from step to step, by the formulas of transformers' `get_*_schedule_with_warmup` and of Vaswani et al. 2017. */
import { describe, invalid } from '../error.js';
import { count, readOptions, type Schema, size } from '../options.js';
import { Optimizer } from './optimizer.js';

/** Options of schedules that end. */
export interface ScheduleOptions {
  /** Steps in which the rate rises linearly from 0. */
  warmup: number;
  /** Steps in all. */
  steps: number;
}

/** Options of `schedules.constant`. */
export interface ConstantScheduleOptions {
  /** Steps in which the rate rises linearly from 0. */
  warmup: number;
}

/** Options of `schedules.noam`. */
export interface NoamOptions {
  /** E, the width of the model. */
  embedDim: number;
  /** Steps in which the rate rises. */
  warmup: number;
}

const schema = { warmup: count, steps: size } satisfies Schema<ScheduleOptions>;
const constantSchema = { warmup: count } satisfies Schema<ConstantScheduleOptions>;
const noamSchema = { embedDim: size, warmup: size } satisfies Schema<NoamOptions>;

/** Sets the learning rates of an optimizer's groups: their rates when the schedule was made, times a factor. */
export class Schedule {
  readonly #optimizer: Optimizer;
  readonly #rates: readonly number[];
  readonly #factor: (count: number) => number;
  #count = 0;

  /** @internal */
  constructor(optimizer: Optimizer, factor: (count: number) => number) {
    if (!(optimizer instanceof Optimizer)) throw invalid('schedules: optimizer', 'an optimizer', describe(optimizer));
    this.#optimizer = optimizer;
    this.#rates = optimizer.paramGroups.map(({ lr }) => lr);
    this.#factor = factor;
    this.#apply();
  }

  /** How often `step()` was called. */
  get count(): number {
    return this.#count;
  }

  /** Call it after each `optimizer.step()`. */
  step(): void {
    this.#count++;
    this.#apply();
  }

  #apply(): void {
    const factor = this.#factor(this.#count);
    for (const [i, group] of this.#optimizer.paramGroups.entries()) group.lr = this.#rates[i]! * factor;
  }
}

/** Makes schedules. The factor of the first step is 0 if there is a warmup. */
export interface Schedules {
  /** Rises to 1 in `warmup` steps, then falls linearly to 0 at `steps`. */
  linear(optimizer: Optimizer, options: ScheduleOptions): Schedule;
  /** Rises to 1 in `warmup` steps, then falls to 0 at `steps` by half a cosine. */
  cosine(optimizer: Optimizer, options: ScheduleOptions): Schedule;
  /** Rises to 1 in `warmup` steps and stays there. */
  constant(optimizer: Optimizer, options: ConstantScheduleOptions): Schedule;
  /** embedDim^-0.5 min(n^-0.5, n warmup^-1.5) for the n-th step, from 1 (Vaswani et al. 2017, arXiv:1706.03762, section 5.3). */
  noam(optimizer: Optimizer, options: NoamOptions): Schedule;
}

const rising = (step: number, warmup: number) => step / Math.max(1, warmup);

/** How far `step` is from the end of the warmup to `steps`. */
const progress = (step: number, { warmup, steps }: ScheduleOptions) => (step - warmup) / Math.max(1, steps - warmup);

export const schedules: Schedules = {
  linear(optimizer, options) {
    const read = readOptions('schedules.linear', schema, options);
    return new Schedule(optimizer, (step) =>
      step < read.warmup
        ? rising(step, read.warmup)
        : Math.max(0, (read.steps - step) / Math.max(1, read.steps - read.warmup)),
    );
  },
  cosine(optimizer, options) {
    const read = readOptions('schedules.cosine', schema, options);
    return new Schedule(optimizer, (step) =>
      step < read.warmup
        ? rising(step, read.warmup)
        : Math.max(0, 0.5 * (1 + Math.cos(Math.PI * progress(step, read)))),
    );
  },
  constant(optimizer, options) {
    const { warmup } = readOptions('schedules.constant', constantSchema, options);
    return new Schedule(optimizer, (step) => Math.min(1, step < warmup ? rising(step, warmup) : 1));
  },
  noam(optimizer, options) {
    const { embedDim, warmup } = readOptions('schedules.noam', noamSchema, options);
    return new Schedule(
      optimizer,
      (step) => embedDim ** -0.5 * Math.min((step + 1) ** -0.5, (step + 1) * warmup ** -1.5),
    );
  },
};
