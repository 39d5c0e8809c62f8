import { optional, positive, readOptions, type Schema, seed, size } from '../options.js';
import type { Runtime } from '../owned.js';
import type { Tensor, TensorInput } from '../tensor.js';
import type { LayerOptions } from './layer.js';
import { TensorLayer } from './tensor-layer.js';

export interface LayerNormOptions extends LayerOptions {
  /** E, the width of the last axis. */
  normalizedShape: number;
  /** Default 1e-5. */
  eps?: number;
}

const layerNormSchema = {
  normalizedShape: size,
  eps: optional(positive, 1e-5),
  seed,
} satisfies Schema<LayerNormOptions>;

/**
 * gamma (x - mean) / sqrt(variance + eps) + delta over the last axis, variance with 1/E (Ba, Kiros, Hinton 2016, arXiv:1607.06450). `torch.nn.LayerNorm`.
 * Parameters `weight` [E], `bias` [E].
 */
export class LayerNorm extends TensorLayer {
  /** @internal */
  constructor(runtime: Runtime, options: LayerNormOptions) {
    const read = readOptions('LayerNorm', layerNormSchema, options);
    super('LayerNorm', runtime, read.seed, () => new runtime.core.LayerNorm(read));
  }

  /** x [..., E] -> [..., E] */
  forward(x: TensorInput): Tensor {
    return this.apply('LayerNorm.forward', x);
  }
}

export interface BatchNormOptions extends LayerOptions {
  /** E */
  numFeatures: number;
  /** Default 1e-5. */
  eps?: number;
}

const batchNormSchema = { numFeatures: size, eps: optional(positive, 1e-5), seed } satisfies Schema<BatchNormOptions>;

/**
 * Each feature normalized by its moving averages over the batch (Ioffe, Szegedy 2015, arXiv:1502.03167): `torch.nn.BatchNorm1d` in inference, features last.
 * Beside `LayerNorm` for contrast. Parameters `weight`, `bias` and buffers `running_mean`, `running_var`, all [E].
 */
export class BatchNorm extends TensorLayer {
  /** @internal */
  constructor(runtime: Runtime, options: BatchNormOptions) {
    const read = readOptions('BatchNorm', batchNormSchema, options);
    super('BatchNorm', runtime, read.seed, () => new runtime.core.BatchNorm(read));
  }

  /** x [..., E] -> [..., E] */
  forward(x: TensorInput): Tensor {
    return this.apply('BatchNorm.forward', x);
  }
}
