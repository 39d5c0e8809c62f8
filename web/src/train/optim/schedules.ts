/**
 * Learning rates that change from step to step, by the formulas of transformers' `get_*_schedule_with_warmup`, of Vaswani
 * et al. 2017 and of `torch.optim.lr_scheduler`.
 */
import { describe, invalid } from '../../base/error.js';
import {
  count,
  legal,
  notNegative,
  oneOf,
  optional,
  type Reader,
  readOptions,
  type Schema,
  size,
} from '../../base/options.js';
import { Unproxied } from '../../base/unproxied.js';
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

/** Options of `schedules.reduceOnPlateau`. */
export interface ReduceOnPlateauOptions {
  /** Whether the metric should become small ('min') or large ('max'). Default 'min'. */
  mode?: 'min' | 'max' | undefined;
  /** The factor on the learning rate, in [0, 1). Default 0.1. */
  factor?: number | undefined;
  /** The number of steps without improvement that are tolerated; the next one reduces the rate. Default 10. */
  patience?: number | undefined;
  /** The least change that counts as an improvement. Default 1e-4. */
  threshold?: number | undefined;
  /** Whether the threshold is relative to the best metric ('rel') or absolute ('abs'). Default 'rel'. */
  thresholdMode?: 'rel' | 'abs' | undefined;
  /** The number of steps after a reduction in which steps without improvement are not counted. Default 0. */
  cooldown?: number | undefined;
  /** The least learning rate. Default 0. */
  minLr?: number | undefined;
}

const schema = { warmup: count, steps: size } satisfies Schema<ScheduleOptions>;
const constantSchema = { warmup: count } satisfies Schema<ConstantScheduleOptions>;
const noamSchema = { embedDim: size, warmup: size } satisfies Schema<NoamOptions>;

const plateauSchema = {
  mode: optional(oneOf(['min', 'max']), 'min' as const),
  factor: optional(
    legal<number>('a number in [0, 1)', (value) => typeof value === 'number' && value >= 0 && value < 1),
    0.1,
  ),
  patience: optional(count, 10),
  threshold: optional(notNegative, 1e-4),
  thresholdMode: optional(oneOf(['rel', 'abs']), 'rel' as const),
  cooldown: optional(count, 0),
  minLr: optional(notNegative, 0),
} satisfies Schema<ReduceOnPlateauOptions>;
type PlateauRead = Required<ReduceOnPlateauOptions>;

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

export type ScheduleKind = keyof typeof factors | 'custom' | 'reduceOnPlateau';

/** What a plateau schedule remembers of the metric: the best, the steps without improvement, the remaining cooldown. */
export interface Plateau {
  readonly best: number | null;
  readonly bad: number;
  readonly waiting: number;
}

/** The position of a schedule, in checkpoints. */
interface Position {
  readonly count: number;
  readonly rates: readonly number[];
  readonly plateau: Plateau | null;
}

/**
 * Sets the learning rate of each of an optimizer's groups to its rate when the schedule was made, times a factor that
 * depends on the step, or that `reduceOnPlateau` reduces.
 *
 * @example
 * const optimizer = new heed.optim.SGD(model.parameters(), { lr: 0.1 });
 * const schedule = heed.optim.schedules.linear(optimizer, { warmup: 0, steps: 10 });
 * schedule.step(); // after each optimizer.step()
 * optimizer.paramGroups[0].lr; // 0.09
 */
export class Schedule extends Unproxied {
  /** @internal For messages and consoles, as minification renames classes. */
  static override readonly name: string = 'Schedule';

  /** @internal */
  readonly kind: ScheduleKind;
  /** @internal */
  readonly options: object;
  readonly #optimizer: Optimizer;
  readonly #factor: ((count: number) => number) | null;
  #rates: readonly number[];
  #count = 0;
  #plateau: Plateau | null = null;

  /** @internal `factor`: the factor of each step; null for `reduceOnPlateau`. */
  constructor(optimizer: Optimizer, kind: ScheduleKind, options: object, factor: ((count: number) => number) | null) {
    super();
    if (!(optimizer instanceof Optimizer)) throw invalid('schedules: optimizer', 'an optimizer', describe(optimizer));
    this.kind = kind;
    this.options = options;
    this.#optimizer = optimizer;
    this.#rates = optimizer.paramGroups.map(({ lr }) => lr);
    this.#factor = factor;
    if (!factor) this.#plateau = { best: null, bad: 0, waiting: 0 };
    this.#apply();
  }

  /** The number of calls of `step()`. */
  get count(): number {
    return this.#count;
  }

  /**
   * Advances the schedule. Call it after each `optimizer.step()`; for `reduceOnPlateau`, once per epoch and with the metric.
   */
  step(metric?: number): void {
    if (this.#plateau) {
      if (typeof metric !== 'number') throw invalid('reduceOnPlateau.step', 'the metric, a number', describe(metric));
      this.#follow(this.#plateau, metric);
    }
    this.#count++;
    this.#apply();
  }

  /** @internal The rates to which the factor is applied. */
  get rates(): readonly number[] {
    return this.#rates;
  }

  /** @internal The state of a plateau schedule; null for other schedules. */
  get plateau(): Plateau | null {
    return this.#plateau;
  }

  /** @internal The optimizer whose rates it sets. */
  get optimizer(): Optimizer {
    return this.#optimizer;
  }

  /** @internal Continues from the position of another schedule. */
  restore({ count, rates, plateau }: Position): void {
    this.#count = count;
    this.#rates = rates;
    this.#plateau = plateau;
    this.#apply();
  }

  #apply(): void {
    const factor = this.#factor?.(this.#count);
    if (factor === undefined) return;
    for (const [i, group] of this.#optimizer.paramGroups.entries()) group.lr = this.#rates[i]! * factor;
  }

  /** Counts as `torch.optim.lr_scheduler.ReduceLROnPlateau`. */
  #follow({ best, bad, waiting }: Plateau, metric: number): void {
    const { factor, patience, cooldown, minLr } = this.options as PlateauRead;
    if (isBetter(metric, best, this.options as PlateauRead)) [best, bad] = [metric, 0];
    else bad++;
    if (waiting > 0) [waiting, bad] = [waiting - 1, 0];
    if (bad > patience) {
      for (const group of this.#optimizer.paramGroups) {
        const lr = Math.max(group.lr * factor, minLr);
        if (group.lr - lr > LEAST_REDUCTION) group.lr = lr;
      }
      [waiting, bad] = [cooldown, 0];
    }
    this.#plateau = { best, bad, waiting };
  }
}

/** Smaller reductions are left out, as by PyTorch's default `eps`. */
const LEAST_REDUCTION = 1e-8;

function isBetter(metric: number, best: number | null, { mode, threshold, thresholdMode }: PlateauRead): boolean {
  const sign = mode === 'min' ? -1 : 1;
  if (best === null) return sign * metric > -Infinity;
  return sign * metric > sign * (thresholdMode === 'rel' ? best * (1 + sign * threshold) : best + sign * threshold);
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
  /**
   * Makes a schedule with your own factor for each step, from 0: `torch.optim.lr_scheduler.LambdaLR`.
   *
   * @example
   * const schedule = heed.optim.schedules.custom(optimizer, (step) => 0.95 ** step);
   */
  custom(optimizer: Optimizer, factor: (step: number) => number): Schedule;
  /**
   * Makes a schedule that reduces the learning rates when a metric has stopped improving:
   * `torch.optim.lr_scheduler.ReduceLROnPlateau`. Call `step(metric)` once per epoch; `fit` passes it the validation loss,
   * or without validation the training loss.
   *
   * @example
   * const schedule = heed.optim.schedules.reduceOnPlateau(optimizer, { factor: 0.5, patience: 2 });
   * schedule.step(0.7); // the loss of an epoch
   */
  reduceOnPlateau(optimizer: Optimizer, options?: ReduceOnPlateauOptions): Schedule;
}

/** Makes a schedule from options that have been read. */
export function makeSchedule(optimizer: Optimizer, kind: ScheduleKind, options: object): Schedule {
  const factor = kind in factors ? factors[kind as keyof typeof factors](options as never) : null;
  return new Schedule(optimizer, kind, options, factor);
}

const schedule =
  (kind: ScheduleKind, schema: Record<string, Reader<unknown>>) => (optimizer: Optimizer, options: unknown) =>
    makeSchedule(optimizer, kind, readOptions(`schedules.${kind}`, schema, options));

export const schedules: Schedules = {
  linear: schedule('linear', schema),
  cosine: schedule('cosine', schema),
  constant: schedule('constant', constantSchema),
  noam: schedule('noam', noamSchema),
  reduceOnPlateau: schedule('reduceOnPlateau', plateauSchema),
  custom(optimizer, factor) {
    const name = 'schedules.custom: factor';
    if (typeof factor !== 'function') throw invalid(name, 'a function', describe(factor));
    const read = (step: number) => {
      const given: unknown = factor(step);
      if (typeof given === 'number' && given >= 0 && given < Infinity) return given;
      throw invalid(name, 'a function that returns a finite number >= 0', `${describe(given)} for step ${step}`);
    };
    return new Schedule(optimizer, 'custom', {}, read);
  },
};
