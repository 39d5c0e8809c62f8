import { type Activation, activation } from '../base/activations.js';
import { flag, optional, type Read, rate, type Schema, seed, size } from '../base/options.js';
import { feedForwardFlops, type Pass } from './cost.js';
import type { LayerOptions } from './layer.js';
import { TensorLayer } from './tensor-layer.js';

/** Options of `FeedForward`. */
export interface FeedForwardOptions extends LayerOptions {
  /** E, the width of input and output. */
  embedDim: number;
  /** F, the width between the two products. */
  feedForwardDim: number;
  /** The activation phi. Default 'relu'. */
  activation?: Activation | undefined;
  /** The probability of dropout after phi, in training. Default 0. */
  dropout?: number | undefined;
  /** Whether there are biases. Default true. */
  bias?: boolean | undefined;
  /**
   * Whether to compute phi(W_1a x) * (W_1b x) between the products (Shazeer 2020, arXiv:2002.05202). `linear1` is then
   * [2 F, E], with the activated half first. Default false.
   */
  gated?: boolean | undefined;
}

/**
 * W_2 Dropout(phi(W_1 x + b_1)) + b_2 at every position (Vaswani et al. 2017, section 3.3). x [..., E] -> [..., E].
 * Parameters `linear1.weight` [F, E], `linear1.bias` [F], `linear2.weight` [E, F], `linear2.bias` [E].
 *
 * @example
 * const feedForward = new heed.FeedForward({ embedDim: 8, feedForwardDim: 32, activation: 'gelu' });
 * feedForward.forward(x).shape; // [3, 8]
 */
export class FeedForward extends TensorLayer {
  /** @internal */
  declare protected readonly options: Read<typeof FeedForward.schema>;

  /** @internal */
  static readonly schema = {
    embedDim: size,
    feedForwardDim: size,
    activation: optional(activation, 'relu' as const),
    dropout: optional(rate, 0),
    bias: optional(flag, true),
    gated: optional(flag, false),
    seed,
  } satisfies Schema<FeedForwardOptions>;

  /** @internal */
  protected override countFlops({ length }: Pass): number {
    return feedForwardFlops(this.options, length);
  }
}
