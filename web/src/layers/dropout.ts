import { optional, rate, type Schema, seed } from '../base/options.js';
import { type DropoutScaling, scaling } from './functions.js';
import type { LayerOptions } from './layer.js';
import { TensorLayer } from './tensor-layer.js';

/** Options of `Dropout`. */
export interface DropoutOptions extends LayerOptions {
  /** The probability of dropping an entry, in [0, 1]. Default 0.5. */
  p?: number | undefined;
  /** How entries that are not dropped are scaled. Default 'inverted'. */
  scaling?: DropoutScaling | undefined;
}

/**
 * z(x) = Z * x, where Z is a new Bernoulli sample in every call in training mode, and the identity in evaluation mode
 * (Srivastava et al. 2014). x of any shape -> the same shape. No parameters.
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
