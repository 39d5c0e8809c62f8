import { type DropoutScaling, scaling } from '../functions.js';
import { optional, rate, readOptions, type Schema, seed } from '../options.js';
import type { Runtime } from '../owned.js';
import type { Tensor, TensorInput } from '../tensor.js';
import type { LayerOptions } from './layer.js';
import { TensorLayer } from './tensor-layer.js';

export interface DropoutOptions extends LayerOptions {
  /** Probability of dropping an entry, in [0, 1]; default 0.5. */
  p?: number;
  /** Default 'inverted'. */
  scaling?: DropoutScaling;
}

const dropoutSchema = {
  p: optional(rate, 0.5),
  scaling: optional(scaling, 'inverted' as const),
  seed,
} satisfies Schema<DropoutOptions>;

/** z(x) = Z * x with fresh Bernoulli draws on each call in training, the identity in evaluation (Srivastava et al. 2014). No parameters. */
export class Dropout extends TensorLayer {
  /** @internal */
  constructor(runtime: Runtime, options?: DropoutOptions) {
    const read = readOptions('Dropout', dropoutSchema, options);
    super('Dropout', runtime, read.seed, () => new runtime.core.Dropout(read));
  }

  /** x of any shape -> the same shape */
  forward(x: TensorInput): Tensor {
    return this.apply('Dropout.forward', x);
  }
}
