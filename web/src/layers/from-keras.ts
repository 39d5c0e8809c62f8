/** `fromKeras`, whose code is loaded when it is used. */
import { importing } from '../base/error.js';
import { flag, optional, readOptions, type Schema } from '../base/options.js';
import type { TensorInput } from '../base/tensor.js';
import type { Composite } from './composition/composite.js';
import type { Layer } from './layer.js';

/** Weights of a Keras layer or model: the list of `get_weights()` as nested arrays or tensors, or the bytes of a .npz file. */
export type KerasWeights = readonly TensorInput[] | Uint8Array | ArrayBuffer;

/** Options of `fromKeras`. */
export interface FromKerasOptions {
  /** Whether Keras' normalization layers were made with `scale`, so that they have a gamma. Default true. */
  scale?: boolean | undefined;
  /** Whether Keras' normalization layers were made with `center`, so that they have a beta. Default true. */
  center?: boolean | undefined;
}

const schema = { scale: optional(flag, true), center: optional(flag, true) } satisfies Schema<FromKerasOptions>;

/**
 * Sets the parameters of a layer or model to the weights of its counterpart in Keras: `layer.get_weights()`, in Keras'
 * order, as nested arrays or tensors, or as the bytes of the .npz file that `numpy.savez(file, *layer.get_weights())`
 * writes. Options such as eps, widths and activations are the layer's own: Keras' norms have eps 1e-3. Returns the layer.
 *
 * A kernel that fits both ways, because it is square, is taken as Keras has it. In `EncoderLayer` and `DecoderLayer`, the
 * attentions, dense layers and norms are told apart by their shapes and come in any order; of each kind, the first one is
 * that which is used first.
 *
 * @example
 * const dense = new heed.Linear({ inFeatures: 2, outFeatures: 1 });
 * await fromKeras(dense, [[[0.5], [-1]], [3]]); // kernel [2, 1] and bias [1]
 * dense.forward([4, 1]).toArray(); // [4]
 * @throws HeedError `SHAPE_MISMATCH` or `INVALID_ARGUMENT` for other numbers, ranks or shapes of arrays, and for numbers
 * that are not finite, naming the array; `INVALID_FILE` or `UNSUPPORTED` for bytes that are not a .npz file. The layer is
 * then unchanged
 */
export async function fromKeras<Target extends Layer | Composite>(
  layer: Target,
  weights: KerasWeights,
  options?: FromKerasOptions,
): Promise<Target> {
  const read = readOptions('fromKeras', schema, options);
  const { setWeights } = await importing('keras', () => import('./keras.js'));
  await setWeights(layer, weights, read);
  return layer;
}
