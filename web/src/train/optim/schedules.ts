/**
 * Learning rates that change from step to step, by the formulas of transformers' `get_*_schedule_with_warmup`, of Vaswani
 * et al. 2017 and of `torch.optim.lr_scheduler`.
 */
import { describe, invalid } from '../../base/error.js';
import { count, notNegative, oneOf, optional, readOptions, type Schema, size } from '../../base/options.js';
import { Unproxied } from '../../base/unproxied.js';
import { belowOne, Optimizer } from './optimizer.js';

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

/** How a schedule is made: its options, and its factor on the learning rates per step, from 0. */
interface ScheduleDefinition<Options> {
  readonly schema: Schema<Options>;
  readonly factor: ((step: number, options: Options) => number) | null;
}

/** Rises from 0 to 1 in `warmup` steps; afterwards, `then` is the factor. */
const warmedUp =
  <Options extends { warmup: number }>(then: (step: number, options: Options) => number) =>
  (step: number, options: Options) =>
    step < options.warmup ? step / options.warmup : then(step, options);

const ending = { warmup: count, steps: size };

const definitions = {
  linear: {
    schema: ending,
    factor: warmedUp((step, { warmup, steps }) => Math.max(0, (steps - step) / Math.max(1, steps - warmup))),
  } satisfies ScheduleDefinition<ScheduleOptions>,
  cosine: {
    schema: ending,
    factor: warmedUp((step, { warmup, steps }) =>
      Math.max(0, 0.5 * (1 + Math.cos(Math.PI * ((step - warmup) / Math.max(1, steps - warmup))))),
    ),
  } satisfies ScheduleDefinition<ScheduleOptions>,
  constant: {
    schema: { warmup: count },
    factor: warmedUp(() => 1),
  } satisfies ScheduleDefinition<ConstantScheduleOptions>,
  noam: {
    schema: { embedDim: size, warmup: size },
    factor: (step, { embedDim, warmup }) =>
      embedDim ** -0.5 * Math.min((step + 1) ** -0.5, (step + 1) * warmup ** -1.5),
  } satisfies ScheduleDefinition<NoamOptions>,
  reduceOnPlateau: {
    schema: {
      mode: optional(oneOf(['min', 'max']), 'min' as const),
      factor: optional(belowOne, 0.1),
      patience: optional(count, 10),
      threshold: optional(notNegative, 1e-4),
      thresholdMode: optional(oneOf(['rel', 'abs']), 'rel' as const),
      cooldown: optional(count, 0),
      minLr: optional(notNegative, 0),
    },
    factor: null,
  } satisfies ScheduleDefinition<ReduceOnPlateauOptions>,
};

export type ScheduleKind = keyof typeof definitions | 'custom';
type PlateauRead = Required<ReduceOnPlateauOptions>;

/** What a plateau schedule remembers of the metric: the best, the steps without improvement, the remaining cooldown. */
export interface Plateau {
  readonly best: number | null;
  readonly bad: number;
  readonly waiting: number;
}

/** The position of a schedule, in checkpoints. */
interface Position {
  /** The number of calls of `step()`. */
  readonly count: number;
  /** The rates to which the factor is applied. */
  readonly rates: number[];
  /** null for other schedules than `reduceOnPlateau`. */
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

  readonly #factor: ((count: number) => number) | null;
  #position: Position;

  /** @internal `options`: after reading. `factor`: the factor of each step; null for `reduceOnPlateau`. */
  constructor(
    /** @internal */
    readonly optimizer: Optimizer,
    /** @internal */
    readonly kind: ScheduleKind,
    /** @internal */
    readonly options: object,
    factor: ((count: number) => number) | null,
  ) {
    super();
    if (!(optimizer instanceof Optimizer)) throw invalid('schedules: optimizer', 'an optimizer', describe(optimizer));
    this.#factor = factor;
    const rates = optimizer.paramGroups.map(({ lr }) => lr);
    this.#position = { count: 0, rates, plateau: factor ? null : { best: null, bad: 0, waiting: 0 } };
    this.#apply();
  }

  /** The number of calls of `step()`. */
  get count(): number {
    return this.#position.count;
  }

  /**
   * Advances the schedule. Call it after each `optimizer.step()`; for `reduceOnPlateau`, once per epoch and with the metric.
   */
  step(metric?: number): void {
    let { plateau } = this.#position;
    if (plateau) {
      if (typeof metric !== 'number') throw invalid('reduceOnPlateau.step', 'the metric, a number', describe(metric));
      plateau = this.#followed(plateau, metric);
    }
    this.position = { ...this.#position, count: this.count + 1, plateau };
  }

  /** @internal Its position. A schedule of the same kind and options continues from it. */
  get position(): Position {
    return this.#position;
  }

  set position(position: Position) {
    this.#position = position;
    this.#apply();
  }

  #apply(): void {
    const factor = this.#factor?.(this.count);
    if (factor === undefined) return;
    for (const [i, group] of this.optimizer.paramGroups.entries()) group.lr = this.#position.rates[i]! * factor;
  }

  /** Counts as `torch.optim.lr_scheduler.ReduceLROnPlateau`. */
  #followed({ best, bad, waiting }: Plateau, metric: number): Plateau {
    const { factor, patience, cooldown, minLr } = this.options as PlateauRead;
    if (isBetter(metric, best, this.options as PlateauRead)) [best, bad] = [metric, 0];
    else bad++;
    if (waiting > 0) [waiting, bad] = [waiting - 1, 0];
    if (bad > patience) {
      for (const group of this.optimizer.paramGroups) {
        const lr = Math.max(group.lr * factor, minLr);
        if (group.lr - lr > LEAST_REDUCTION) group.lr = lr;
      }
      [waiting, bad] = [cooldown, 0];
    }
    return { best, bad, waiting };
  }
}

/** Smaller reductions are left out, as by PyTorch's default `eps`. */
const LEAST_REDUCTION = 1e-8;

function isBetter(metric: number, best: number | null, { mode, threshold, thresholdMode }: PlateauRead): boolean {
  const sign = mode === 'min' ? -1 : 1;
  if (best === null) return sign * metric > -Infinity;
  return sign * metric > sign * (thresholdMode === 'rel' ? best * (1 + sign * threshold) : best + sign * threshold);
}

/** Makes schedules. With a warm-up, the factor of the first step is 0, except in `noam`. */
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
  const factor = kind === 'custom' ? null : definitions[kind].factor;
  return new Schedule(optimizer, kind, options, factor && ((step) => factor(step, options as never)));
}

export const schedules: Schedules = {
  ...(Object.fromEntries(
    Object.entries(definitions).map(([kind, { schema }]) => [
      kind,
      (optimizer: Optimizer, options: unknown) =>
        makeSchedule(optimizer, kind as ScheduleKind, readOptions(`schedules.${kind}`, schema, options)),
    ]),
  ) as unknown as Schedules),
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
