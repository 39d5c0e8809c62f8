import { type Activation, activation } from '../base/activations.js';
import { flag, optional, type Read, type Schema, seed, size } from '../base/options.js';
import { linearFlops, type Pass } from './cost.js';
import type { LayerOptions } from './layer.js';
import { TensorLayer } from './tensor-layer.js';

/** Options of `Linear`. */
export interface LinearOptions extends LayerOptions {
  /** The width of the input. */
  inFeatures: number;
  /** The width of the output. */
  outFeatures: number;
  /** Whether to add the bias w_0. Default true. */
  bias?: boolean | undefined;
  /** The activation phi. Default 'identity'. */
  activation?: Activation | undefined;
}

/**
 * A linear layer with activation, z(x)_u = phi(w_0 + W x_u), with the same weights at every position u:
 * `torch.nn.Linear`, then phi. x [..., inFeatures] -> [..., outFeatures]. Parameters `weight` [out, in], `bias` [out].
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
