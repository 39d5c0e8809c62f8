/** Parameters that belong to no layer. */
import { calling, describe, invalid } from '../../base/error.js';
import {
  listOf,
  oneOf,
  optional,
  positive,
  type Read,
  readOptions,
  type Schema,
  seed,
  size,
} from '../../base/options.js';
import type { Runtime } from '../../base/owned.js';
import { readTensor, Tensor, type TensorLike } from '../../base/tensor.js';
import type { RawLayer, RawTensor } from '../../base/wasm/core.js';
import { viewBytes } from '../../io/bytes.js';
import { Layer, type LayerOptions } from '../layer.js';

/** Options of `Parameter`. */
export interface FreeParameterOptions extends LayerOptions {
  /**
   * The initial values: zeros, ones, normally distributed with standard deviation 1, or uniform between -`uniform` and
   * `uniform`. Default 'normal'.
   */
  init?: 'zeros' | 'ones' | 'normal' | { uniform: number } | undefined;
}

const uniformSchema = { uniform: positive };
const named = oneOf(['zeros', 'ones', 'normal']);

const schema = {
  init: optional(
    (value, name): { name: string; bound: number } =>
      typeof value === 'object'
        ? { name: 'uniform', bound: readOptions(name, uniformSchema, value).uniform }
        : { name: named(value, name), bound: 0 },
    null,
  ),
  seed,
} satisfies Schema<FreeParameterOptions>;

/**
 * A parameter that belongs to no layer, like `torch.nn.Parameter`. As a property of a `Module`, it is listed, saved and
 * loaded under the name of that property. It is accepted wherever a tensor is. In heed/train, results that are computed
 * from it have a gradient, unless it is frozen or in evaluation mode; in heed it is a constant.
 *
 * @example
 * class Scale extends heed.Module {
 *   factor = new heed.Parameter([3], { init: 'ones' }); // or values: { data: Float32Array.of(1, 2, 3), shape: [3] }
 *   forward(x) {
 *     return heed.multiply(x, this.factor);
 *   }
 * }
 * const scale = new Scale();
 * scale.forward([[1, 2, 3]]).toArray(); // [[1, 2, 3]]
 * Object.keys(scale.stateDict()); // ["factor"]
 */
export class FreeParameter extends Layer<RawLayer<object, RawTensor>> implements TensorLike {
  /** The extents of the axes; [] for a single number. */
  readonly shape: readonly number[];

  /** @internal */
  constructor(runtime: Runtime, value: unknown, options: unknown) {
    const name = 'Parameter';
    const { init, seed }: Read<typeof schema> = readOptions(name, schema, options);
    const isShape = Array.isArray(value);
    if (!isShape && (typeof value !== 'object' || value === null))
      throw invalid(name, 'a shape, an array of integers, or values, { data: Float32Array, shape }', describe(value));
    const values = isShape ? null : readTensor(name, value);
    if (values && init !== null) throw invalid(`${name}.init`, 'undefined with values', `'${init.name}'`);
    const shape = listOf(size, 'an array of integers')(values?.shape ?? value, `${name}: shape`);
    const given = init ?? { name: values ? 'zeros' : 'normal', bound: 0 };
    super(runtime, name, { shape, init: given.name, bound: given.bound, seed });
    this.shape = shape;
    this.hasOwnDraws = values !== null || ((options as FreeParameterOptions)?.seed ?? null) !== null;
    if (values) calling(name, () => this.raw.writeParameter(0, 0, viewBytes(values.data), 'F32', null));
  }

  /** A copy of the value. */
  get value(): Tensor {
    return new Tensor(this.raw.readParameter(0), this.shape);
  }

  /** The numbers, which operations read: a copy, which has a gradient in training. */
  get data(): Float32Array {
    const { raw } = this;
    return calling(this.name, () => raw.forward({})).data;
  }

  /** @internal */
  override get separator(): string {
    return '';
  }
}

/** The class `Parameter` of one runtime. */
export function freeParameter(runtime: Runtime): new (value: unknown, options?: unknown) => FreeParameter {
  const Bound = class extends FreeParameter {
    constructor(value: unknown, options?: unknown) {
      super(runtime, value, options);
    }
  };
  return Object.defineProperty(Bound, 'name', { value: 'Parameter' });
}
