import type { RawTensorLayer } from '../core.js';
import { calling } from '../error.js';
import { toTensor } from '../functions.js';
import { readTensor, type Tensor, type TensorInput } from '../tensor.js';
import { Layer } from './layer.js';

/** A layer from one tensor to one tensor. Letters: E width, any leading axes. */
export abstract class TensorLayer extends Layer<RawTensorLayer> {
  /** @internal */
  protected apply(name: string, x: TensorInput): Tensor {
    const { raw } = this;
    const input = readTensor(`${name}: x`, x);
    return calling(name, () => toTensor(raw.forward(input)));
  }
}
