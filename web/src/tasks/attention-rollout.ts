/** Attention rollout. */
import { formatShape, invalid } from '../base/error.js';
import { listOf } from '../base/options.js';
import { readTensor, Tensor, type TensorInput } from '../base/tensor.js';

const EXPECTED = 'tensors [N,H,L,L] of one shape, one per layer, as encode returns them with outputAttentions';

/** The distinct shapes of the layers, for the message. */
const shapesOf = (layers: readonly { shape: readonly number[] }[]): string =>
  [...new Set(layers.map(({ shape }) => formatShape(shape)))].join(' and ') || 'an empty array';

/**
 * Attention rollout (Abnar, Zuidema 2020, arXiv:2005.00928): the contribution of each input token to each position
 * after all layers. The rollout is the product over the layers of (A + I) / 2, where A is the mean of the layer's heads
 * and I stands for the residual connection.
 *
 * `attentions`: one tensor [N,H,L,L] per layer, as `encode` returns them with `outputAttentions`. Returns [N,L,L]; rows
 * of tokens sum to one, rows of padding are zero.
 *
 * @example
 * const { attentions } = await model.encode('a fox', { outputAttentions: true });
 * attentionRollout(attentions).shape; // [1, 4, 4]
 */
export function attentionRollout(attentions: readonly TensorInput[]): Tensor {
  const layers = listOf((value, name) => readTensor(name, value), 'an array of tensors')(attentions, 'attentions');
  const shape = layers[0]?.shape ?? [];
  if (shape.length !== 4 || shape[2] !== shape[3] || layers.some((layer) => String(layer.shape) !== String(shape)))
    throw invalid('attentions', EXPECTED, shapesOf(layers), 'SHAPE_MISMATCH');
  const [n, h, l] = shape as [number, number, number];
  if (h === 0 && n * l > 0) throw invalid('attentions', 'at least one head', '0', 'SHAPE_MISMATCH');
  let rolled: Float64Array | null = null;
  for (const { data } of layers) {
    const layer = new Float64Array(n * l * l);
    for (let text = 0; text < n; text++) {
      for (let i = 0; i < l; i++) {
        let sum = 0;
        for (let j = 0; j < l; j++) {
          let mean = 0;
          for (let head = 0; head < h; head++) mean += data[((text * h + head) * l + i) * l + j]! / h;
          sum += mean;
          layer[(text * l + i) * l + j] = mean / 2;
        }
        if (sum > 0) layer[(text * l + i) * l + i]! += 0.5; // leaves padding rows zero
      }
    }
    rolled = rolled ? multiplied(layer, rolled, n, l) : layer;
  }
  return new Tensor(Float32Array.from(rolled!), [n, l, l]);
}

function multiplied(a: Float64Array, b: Float64Array, n: number, l: number): Float64Array {
  const out = new Float64Array(a.length);
  for (let text = 0; text < n; text++) {
    const base = text * l * l;
    for (let i = 0; i < l; i++) {
      for (let k = 0; k < l; k++) {
        const weight = a[base + i * l + k]!;
        if (weight !== 0) for (let j = 0; j < l; j++) out[base + i * l + j]! += weight * b[base + k * l + j]!;
      }
    }
  }
  return out;
}
