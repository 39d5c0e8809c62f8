/** Learning rates that change from step to step, by the formulas of transformers' `get_*_schedule_with_warmup` and of Vaswani et al. 2017. */
import { describe, invalid } from '../../base/error.js';
import { count, type Reader, readOptions, type Schema, size } from '../../base/options.js';
import { Optimizer } from './optimizer.js';

/** Options of schedules that end. */
export interface ScheduleOptions {
  /** The number of steps in which the rate rises linearly from 0. */
  warmup: number;
  /** The total number of steps. */
  steps: number;
}

/** Options of `schedules.constant`. */
export interface ConstantScheduleOptions {
  /** The number of steps in which the rate rises linearly from 0. */
  warmup: number;
}

/** Options of `schedules.noam`. */
export interface NoamOptions {
  /** E, the width of the model. */
  embedDim: number;
  /** The number of steps in which the rate rises. */
  warmup: number;
}

const schema = { warmup: count, steps: size } satisfies Schema<ScheduleOptions>;
const constantSchema = { warmup: count } satisfies Schema<ConstantScheduleOptions>;
const noamSchema = { embedDim: size, warmup: size } satisfies Schema<NoamOptions>;

/** The progress of `step`: 0 at the end of the warmup, 1 at `steps`. */
const progress = (step: number, { warmup, steps }: ScheduleOptions) => (step - warmup) / Math.max(1, steps - warmup);

const rising = (step: number, warmup: number) => step / Math.max(1, warmup);

/** The factor on the learning rates per step, from 0. */
const factors = {
  linear: (options: ScheduleOptions) => (step: number) =>
    step < options.warmup
      ? rising(step, options.warmup)
      : Math.max(0, (options.steps - step) / Math.max(1, options.steps - options.warmup)),
  cosine: (options: ScheduleOptions) => (step: number) =>
    step < options.warmup
      ? rising(step, options.warmup)
      : Math.max(0, 0.5 * (1 + Math.cos(Math.PI * progress(step, options)))),
  constant:
    ({ warmup }: ConstantScheduleOptions) =>
    (step: number) =>
      Math.min(1, step < warmup ? rising(step, warmup) : 1),
  noam:
    ({ embedDim, warmup }: NoamOptions) =>
    (step: number) =>
      embedDim ** -0.5 * Math.min((step + 1) ** -0.5, (step + 1) * warmup ** -1.5),
};

export type ScheduleKind = keyof typeof factors;

/**
 * Sets the learning rate of each of an optimizer's groups to its rate when the schedule was made, times a factor that
 * depends on the step.
 *
 * @example
 * const optimizer = new heed.optim.SGD(model.parameters(), { lr: 0.1 });
 * const schedule = heed.optim.schedules.linear(optimizer, { warmup: 0, steps: 10 });
 * schedule.step(); // after each optimizer.step()
 * optimizer.paramGroups[0].lr; // 0.09
 */
export class Schedule {
  /** @internal For messages and consoles, as minification renames classes. */
  static readonly name: string = 'Schedule';

  /** @internal */
  readonly kind: ScheduleKind;
  /** @internal */
  readonly options: object;
  readonly #optimizer: Optimizer;
  readonly #factor: (count: number) => number;
  #rates: readonly number[];
  #count = 0;

  /** @internal */
  constructor(optimizer: Optimizer, kind: ScheduleKind, options: object) {
    if (!(optimizer instanceof Optimizer)) throw invalid('schedules: optimizer', 'an optimizer', describe(optimizer));
    this.kind = kind;
    this.options = options;
    this.#optimizer = optimizer;
    this.#rates = optimizer.paramGroups.map(({ lr }) => lr);
    this.#factor = factors[kind](options as never);
    this.#apply();
  }

  /** The number of calls of `step()`. */
  get count(): number {
    return this.#count;
  }

  /** Advances the schedule. Call it after each `optimizer.step()`. */
  step(): void {
    this.#count++;
    this.#apply();
  }

  /** @internal The rates to which the factor is applied. */
  get rates(): readonly number[] {
    return this.#rates;
  }

  /** @internal The optimizer whose rates it sets. */
  get optimizer(): Optimizer {
    return this.#optimizer;
  }

  /** @internal Continues from the position of another schedule. */
  restore(count: number, rates: readonly number[]): void {
    this.#count = count;
    this.#rates = rates;
    this.#apply();
  }

  #apply(): void {
    const factor = this.#factor(this.#count);
    for (const [i, group] of this.#optimizer.paramGroups.entries()) group.lr = this.#rates[i]! * factor;
  }
}

/** Makes schedules. With a warm-up, the factor of the first step is 0. */
export interface Schedules {
  /**
   * Makes a schedule whose factor rises to 1 in `warmup` steps, then falls linearly to 0 at `steps`.
   *
   * @example
   * const schedule = heed.optim.schedules.linear(optimizer, { warmup: 100, steps: 1000 });
   */
  linear(optimizer: Optimizer, options: ScheduleOptions): Schedule;
  /**
   * Makes a schedule whose factor rises to 1 in `warmup` steps, then falls to 0 at `steps` along half a cosine.
   *
   * @example
   * const schedule = heed.optim.schedules.cosine(optimizer, { warmup: 100, steps: 1000 });
   */
  cosine(optimizer: Optimizer, options: ScheduleOptions): Schedule;
  /**
   * Makes a schedule whose factor rises to 1 in `warmup` steps and then remains 1.
   *
   * @example
   * const schedule = heed.optim.schedules.constant(optimizer, { warmup: 100 });
   */
  constant(optimizer: Optimizer, options: ConstantScheduleOptions): Schedule;
  /**
   * Makes a schedule with the factor embedDim^-0.5 min(n^-0.5, n warmup^-1.5) in the n-th step, from 1 (Vaswani et al.
   * 2017, arXiv:1706.03762, section 5.3).
   *
   * @example
   * const schedule = heed.optim.schedules.noam(optimizer, { embedDim: 64, warmup: 100 });
   */
  noam(optimizer: Optimizer, options: NoamOptions): Schedule;
}

const schedule =
  (kind: ScheduleKind, schema: Record<string, Reader<unknown>>) => (optimizer: Optimizer, options: unknown) =>
    new Schedule(optimizer, kind, readOptions(`schedules.${kind}`, schema, options));

export const schedules: Schedules = {
  linear: schedule('linear', schema),
  cosine: schedule('cosine', schema),
  constant: schedule('constant', constantSchema),
  noam: schedule('noam', noamSchema),
};
