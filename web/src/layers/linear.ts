import { flag, optional, type Read, type Schema, seed, size } from '../base/options.js';
import { linearFlops, type Pass } from './cost.js';
import { type Activation, activation } from './functions.js';
import type { LayerOptions } from './layer.js';
import { TensorLayer } from './tensor-layer.js';

/** Options of `Linear`. */
export interface LinearOptions extends LayerOptions {
  /** Width of the input. */
  inFeatures: number;
  /** Width of the output. */
  outFeatures: number;
  /** Adds w_0. Default true. */
  bias?: boolean;
  /** phi; default 'identity'. */
  activation?: Activation;
}

/**
 * The time-distributed layer z(x)_u = phi(w_0 + W x_u): the same weights at every position. `torch.nn.Linear`, then phi.
 * x [..., inFeatures] -> [..., outFeatures]. Parameters `weight` [out, in], `bias` [out].
 *
 * @example
 * const linear = new heed.Linear({ inFeatures: 8, outFeatures: 2, activation: 'relu' });
 * linear.forward(x).shape; // [3, 2], from x [3, 8]
 */
export class Linear extends TensorLayer {
  /** @internal */
  declare protected readonly options: Read<typeof Linear.schema>;

  /** @internal */
  static readonly schema = {
    inFeatures: size,
    outFeatures: size,
    bias: optional(flag, true),
    activation: optional(activation, 'identity' as const),
    seed,
  } satisfies Schema<LinearOptions>;

  /** @internal */
  protected override countFlops({ length }: Pass): number {
    return linearFlops(length, this.options.inFeatures, this.options.outFeatures);
  }
}
