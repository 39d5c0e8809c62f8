import type { Runtime } from '../owned.js';
import { type AdamOptions, clipGradNorm, Optimizer, type OptimizerInput, type SGDOptions } from './optimizer.js';
import type { Parameter } from './parameters.js';
import { type Schedules, schedules } from './schedules.js';
import type { Tape } from './tape.js';
import { named } from './trainable.js';

type OptimizerClass<Options> = new (params: OptimizerInput<Options>, options?: Options) => Optimizer;

/** Optimizers, schedules and clipping. */
export interface Optim {
  /** Stochastic gradient descent, with momentum: `torch.optim.SGD`. */
  readonly SGD: OptimizerClass<SGDOptions>;
  /** `torch.optim.Adam` (Kingma, Ba 2014, arXiv:1412.6980). */
  readonly Adam: OptimizerClass<AdamOptions>;
  /** `torch.optim.AdamW` (Loshchilov, Hutter 2017, arXiv:1711.05101). */
  readonly AdamW: OptimizerClass<AdamOptions>;
  /**
   * Scales all gradients so that their norm, taken together, is at most `maxNorm`; returns the norm before: `torch.nn.utils.clip_grad_norm_`. If that is not finite, the
   * gradients stay as they are.
   *
   * @example
   * heed.losses.mse(layer.forward(x), target).backward();
   * const norm = heed.optim.clipGradNorm(layer.parameters(), 1); // before optimizer.step()
   */
  clipGradNorm(params: Iterable<Parameter>, maxNorm: number): number;
  /** Learning rates that change from step to step. */
  readonly schedules: Schedules;
}

/** The optimizers of one runtime. */
export function optimOf(runtime: Runtime, tape: Tape): Optim {
  const optimizer = (kind: 'SGD' | 'Adam' | 'AdamW') => {
    const Bound = class extends Optimizer {
      constructor(params: unknown, options?: object) {
        super(runtime, tape, kind, params, options);
      }
    };
    return named(kind, Bound);
  };
  return {
    SGD: optimizer('SGD'),
    Adam: optimizer('Adam'),
    AdamW: optimizer('AdamW'),
    clipGradNorm: (params, maxNorm) => clipGradNorm(tape, params, maxNorm),
    schedules,
  };
}
