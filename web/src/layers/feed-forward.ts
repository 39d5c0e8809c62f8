import { type Activation, activation } from '../functions.js';
import { flag, optional, rate, readOptions, type Schema, seed, size } from '../options.js';
import type { Runtime } from '../owned.js';
import type { Tensor, TensorInput } from '../tensor.js';
import type { LayerOptions } from './layer.js';
import { TensorLayer } from './tensor-layer.js';

export interface FeedForwardOptions extends LayerOptions {
  /** E */
  embedDim: number;
  /** F, the width between the two products */
  feedForwardDim: number;
  /** phi; default 'relu'. */
  activation?: Activation;
  /** Dropout after phi, in training; default 0. */
  dropout?: number;
  /** Default true. */
  bias?: boolean;
  /** phi(W_1a x) * (W_1b x) between the products (Shazeer 2020, arXiv:2002.05202): linear1 is [2 F, E], the activated half first. Default false. */
  gated?: boolean;
}

const schema = {
  embedDim: size,
  feedForwardDim: size,
  activation: optional(activation, 'relu' as const),
  dropout: optional(rate, 0),
  bias: optional(flag, true),
  gated: optional(flag, false),
  seed,
} satisfies Schema<FeedForwardOptions>;

/**
 * W_2 Dropout(phi(W_1 x + b_1)) + b_2 at every position (Vaswani et al. 2017, section 3.3).
 * Parameters `linear1.weight` [F, E], `linear1.bias` [F], `linear2.weight` [E, F], `linear2.bias` [E].
 */
export class FeedForward extends TensorLayer {
  /** @internal */
  constructor(runtime: Runtime, options: FeedForwardOptions) {
    const read = readOptions('FeedForward', schema, options);
    super('FeedForward', runtime, read.seed, () => new runtime.core.FeedForward(read));
  }

  /** x [..., E] -> [..., E] */
  forward(x: TensorInput): Tensor {
    return this.apply('FeedForward.forward', x);
  }
}
