import { type Activation, activation } from '../functions.js';
import { flag, optional, readOptions, type Schema, seed, size } from '../options.js';
import type { Runtime } from '../owned.js';
import type { Tensor, TensorInput } from '../tensor.js';
import type { LayerOptions } from './layer.js';
import { TensorLayer } from './tensor-layer.js';

export interface LinearOptions extends LayerOptions {
  inFeatures: number;
  outFeatures: number;
  /** Default true. */
  bias?: boolean;
  /** phi; default 'identity'. */
  activation?: Activation;
}

const linearSchema = {
  inFeatures: size,
  outFeatures: size,
  bias: optional(flag, true),
  activation: optional(activation, 'identity' as const),
  seed,
} satisfies Schema<LinearOptions>;

/**
 * The time-distributed layer z(x)_u = phi(w_0 + W x_u): the same weights at every position. `torch.nn.Linear`, then phi.
 * Parameters `weight` [out, in], `bias` [out].
 */
export class Linear extends TensorLayer {
  /** @internal */
  constructor(runtime: Runtime, options: LinearOptions) {
    const read = readOptions('Linear', linearSchema, options);
    super('Linear', runtime, read.seed, () => new runtime.core.Linear(read));
  }

  /** x [..., inFeatures] -> [..., outFeatures] */
  forward(x: TensorInput): Tensor {
    return this.apply('Linear.forward', x);
  }
}
