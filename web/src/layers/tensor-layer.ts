import type { Tensor, TensorInput } from '../base/tensor.js';
import type { RawTensorLayer } from '../base/wasm/core.js';
import { run, toTensor } from './functions.js';
import { Layer } from './layer.js';

/** A layer that maps one tensor to one tensor. */
export abstract class TensorLayer extends Layer<RawTensorLayer> {
  /**
   * Applies the layer to `x`. The class documents the shapes.
   *
   * @example
   * new heed.Linear({ inFeatures: 3, outFeatures: 2 }).forward([[1, 2, 3]]).shape; // [1, 2]
   * @throws HeedError `SHAPE_MISMATCH` if the shape of `x` does not match
   */
  forward(x: TensorInput): Tensor;
  forward(x: TensorInput, options?: object): Tensor {
    const { raw } = this;
    return run(`${this.name}.forward`, { x }, {}, options, ([input]) => toTensor(raw.forward({ x: input! })));
  }
}
