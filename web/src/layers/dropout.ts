import { optional, rate, type Schema, seed } from '../base/options.js';
import { type DropoutScaling, scaling } from './functions.js';
import type { LayerOptions } from './layer.js';
import { TensorLayer } from './tensor-layer.js';

/** Options of `Dropout`. */
export interface DropoutOptions extends LayerOptions {
  /** Probability of dropping an entry, in [0, 1]; default 0.5. */
  p?: number;
  /** Default 'inverted'. */
  scaling?: DropoutScaling;
}

/**
 * z(x) = Z * x with new Bernoulli draws Z on each call in training, the identity in evaluation (Srivastava et al. 2014).
 * x of any shape -> the same shape. No parameters.
 *
 * @example
 * const dropout = new heed.Dropout({ p: 0.5, seed: 1 });
 * dropout.forward([1, 1, 1, 1]).toArray(); // [1, 1, 1, 1]
 * dropout.train().forward([1, 1, 1, 1]); // some are 0, the others 2
 */
export class Dropout extends TensorLayer {
  /** @internal */
  static readonly schema = {
    p: optional(rate, 0.5),
    scaling: optional(scaling, 'inverted' as const),
    seed,
  } satisfies Schema<DropoutOptions>;
}
