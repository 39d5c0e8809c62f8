import { optional, positive, rate, type Schema, seed, size } from '../base/options.js';
import type { LayerOptions } from './layer.js';
import { TensorLayer } from './tensor-layer.js';

/** Options of `LayerNorm`. */
export interface LayerNormOptions extends LayerOptions {
  /** E, the width of the last axis. */
  normalizedShape: number;
  /** Added to the variance. Default 1e-5. */
  eps?: number | undefined;
}

/**
 * Layer normalization over the last axis: gamma (x - mean) / sqrt(variance + eps) + beta, where the variance is divided
 * by E (Ba, Kiros, Hinton 2016, arXiv:1607.06450). `torch.nn.LayerNorm`. x [..., E] -> [..., E]. Parameters `weight`
 * [E], `bias` [E].
 *
 * @example
 * const norm = new heed.LayerNorm({ normalizedShape: 4 });
 * norm.forward([[1, 2, 3, 4]]).toArray(); // [[-1.3416, -0.4472, 0.4472, 1.3416]]
 */
export class LayerNorm extends TensorLayer {
  /** @internal */
  static readonly schema = {
    normalizedShape: size,
    eps: optional(positive, 1e-5),
    seed,
  } satisfies Schema<LayerNormOptions>;
}

/** Options of `BatchNorm`. */
export interface BatchNormOptions extends LayerOptions {
  /** E, the width of the last axis. */
  numFeatures: number;
  /** Added to the variance. Default 1e-5. */
  eps?: number | undefined;
  /** The share of a batch's statistics in the moving averages, in [0, 1]; Keras' momentum is 1 minus it. Default 0.1. */
  momentum?: number | undefined;
}

/**
 * Normalizes each feature by its moving averages over batches or, in the training mode of heed/train, by the statistics
 * of the batch (Ioffe, Szegedy 2015, arXiv:1502.03167): `torch.nn.BatchNorm1d` with features last. For comparison with
 * `LayerNorm`. x [..., E] -> [..., E]. Parameters `weight`, `bias` and buffers `running_mean`, `running_var`, all [E].
 *
 * @example
 * const norm = new heed.BatchNorm({ numFeatures: 2 });
 * norm.loadStateDict({ ...norm.stateDict(), running_mean: [1, 2], running_var: [4, 1] });
 * norm.forward([[3, 2]]).toArray(); // [[1, 0]]
 */
export class BatchNorm extends TensorLayer {
  /** @internal */
  static readonly relatesExamples = true;

  /** @internal */
  static readonly schema = {
    numFeatures: size,
    eps: optional(positive, 1e-5),
    momentum: optional(rate, 0.1),
    seed,
  } satisfies Schema<BatchNormOptions>;
}
