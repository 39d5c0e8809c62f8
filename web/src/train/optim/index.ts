import type { Runtime } from '../../base/owned.js';
import type { Parameter } from '../graph/parameters.js';
import type { Tape } from '../graph/tape.js';
import { named } from '../trainable/trainable.js';
import { clipGradNorm, type Kind, kinds, Optimizer, type Optimizers } from './optimizer.js';
import { type Schedules, schedules } from './schedules.js';

/** Optimizers, schedules and clipping. */
export interface Optim extends Optimizers {
  /**
   * Scales all gradients so that their total norm is at most `maxNorm`, and returns the norm before scaling, as
   * `torch.nn.utils.clip_grad_norm_`. If the norm is not finite, the gradients are not changed.
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
  const optimizers = Object.keys(kinds).map((kind) => {
    const Bound = class extends Optimizer {
      constructor(params: unknown, options?: object) {
        super(runtime, tape, kind as Kind, params, options);
      }
    };
    return [kind, named(kind, Bound)];
  });
  return {
    ...(Object.fromEntries(optimizers) as unknown as Optimizers),
    clipGradNorm: (params, maxNorm) => clipGradNorm(tape, params, maxNorm),
    schedules,
  };
}
