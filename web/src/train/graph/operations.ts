/** Basic operations for composing models and losses, and custom functions in JavaScript. */
import { calling, describe, formatShape, guarded, HeedError, invalid } from '../../base/error.js';
import {
  callback,
  finite,
  integer,
  listOf,
  mask,
  optional,
  readOptions,
  type Schema,
  tensor,
} from '../../base/options.js';
import { matmul, matrixNumbers, operands, readAxis, transposed } from '../../base/products.js';
import {
  elementCount,
  isBoolean,
  type MaskInput,
  readTensor,
  Tensor,
  type TensorInput,
  type TensorLike,
} from '../../base/tensor.js';
import type { RawMask, RawTensor } from '../../base/wasm/core.js';
import { type Loss, toResult } from './loss.js';
import type { Recording } from './scope.js';
import type { Tape } from './tape.js';
import type { RawVariable, TrainCore } from './train-core.js';

/** Options of `concatenate`. */
export interface ConcatenateOptions {
  /** The axis along which tensors are joined; negative axes count from the end. Default -1, the last axis. */
  axis?: number;
}

/** Options of `slice`. */
export interface SliceOptions {
  /** The axis to slice; negative axes count from the end. Default 0, the first axis. */
  axis?: number;
  /** The first position; negative positions count from the end. Default 0. */
  start?: number;
  /** The position after the last one; negative positions count from the end. Default: the end of the axis. */
  end?: number;
}

/** Options of `mean`. */
export interface MeanOptions {
  /** A boolean mask of the tokens to include, [..., L]. Default: all tokens. The mean of no tokens is 0. */
  mask?: MaskInput;
}

/** A custom function in JavaScript, with its gradient. */
export interface CustomFunction<Inputs extends readonly Tensor[] = Tensor[]> {
  /** Computes the output from copies of the inputs. */
  forward(...inputs: Inputs): TensorInput;
  /**
   * Computes the gradients of sum(cotangent * output) with respect to the inputs: an array with one entry per input, in
   * the input's shape; null means zeros. A function of one input may return the tensor itself. Runs during a backward
   * pass, and must not train.
   */
  backward(
    cotangent: Tensor,
    context: { inputs: Inputs; output: Tensor },
  ): TensorLike | readonly (TensorInput | null)[];
}

const anyInteger = (value: unknown, name: string) => integer(value, name, -(2 ** 31));

const concatenateSchema = { axis: optional(anyInteger, -1) } satisfies Schema<ConcatenateOptions>;
const sliceSchema = {
  axis: optional(anyInteger, 0),
  start: optional(anyInteger, 0),
  end: optional(anyInteger, Infinity),
} satisfies Schema<SliceOptions>;
const booleanMask = (value: unknown, name: string): RawMask => {
  const read = mask(value, name);
  if (!isBoolean(read)) throw invalid(name, 'a boolean mask', 'an additive mask');
  return read;
};
const meanSchema = { mask: optional(booleanMask, null) } satisfies Schema<MeanOptions>;

/**
 * Differentiable operations. Inputs may be results of layers in training mode or plain tensors. A result without axes
 * is a `Loss`. Errors: `SHAPE_MISMATCH`, `INVALID_ARGUMENT`.
 */
export interface Operations {
  /**
   * Adds a and b elementwise. Shapes broadcast as in NumPy; numbers stand for tensors without axes.
   *
   * @example
   * heed.add([[1, 2], [3, 4]], [10, 20]).toArray(); // [[11, 22], [13, 24]]
   */
  add(a: Loss, b: Loss | number): Loss;
  add(a: TensorInput | number, b: TensorInput | number): Tensor;
  /**
   * Multiplies a and b elementwise. Shapes broadcast as in NumPy; numbers stand for tensors without axes.
   *
   * @example
   * heed.multiply([[1, 2], [3, 4]], 2).toArray(); // [[2, 4], [6, 8]]
   */
  multiply(a: Loss, b: Loss | number): Loss;
  multiply(a: TensorInput | number, b: TensorInput | number): Tensor;
  /**
   * Joins tensors along an axis. All other axes must have the same extents.
   *
   * @example
   * heed.concatenate([[[1], [2]], [[3], [4]]], { axis: -1 }).toArray(); // [[1, 3], [2, 4]]
   */
  concatenate(tensors: readonly TensorInput[], options?: ConcatenateOptions): Tensor;
  /**
   * Returns the entries [start, end) of an axis. `Tensor.slice` does the same along the first axis.
   *
   * @example
   * heed.slice([[1, 2, 3]], { axis: -1, start: 1 }).toArray(); // [[2, 3]]
   */
  slice(x: TensorInput, options?: SliceOptions): Tensor;
  /**
   * Returns the same entries in another shape.
   *
   * @example
   * heed.reshape([[1, 2], [3, 4]], [4]).toArray(); // [1, 2, 3, 4]
   */
  reshape(x: TensorInput, shape: readonly number[]): Tensor;
  /**
   * The matrix product, as `matmul` of heed, with gradients. The product of two vectors is a `Loss`.
   *
   * @example
   * heed.matmul([[1, 2], [3, 4]], [[1, 0], [1, 1]]).toArray(); // [[3, 2], [7, 4]]
   */
  matmul(a: TensorInput, b: TensorInput): Tensor;
  /**
   * Exchanges two axes, as `transpose` of heed, with a gradient.
   *
   * @example
   * heed.transpose([[1, 2, 3], [4, 5, 6]]).toArray(); // [[1, 4], [2, 5], [3, 6]]
   */
  transpose(x: TensorInput, axis0?: number, axis1?: number): Tensor;
  /**
   * The mean over the tokens: x [..., L, E] -> [..., E].
   *
   * @example
   * heed.mean([[1, 2], [3, 4]]).toArray(); // [2, 3]
   */
  mean(x: TensorInput, options?: MeanOptions): Tensor;
  /**
   * Makes a differentiable function of tensors from JavaScript functions that compute its output and its gradient.
   *
   * @example
   * const square = heed.custom({
   *   forward: (x) => ({ data: x.data.map((v) => v * v), shape: x.shape }),
   *   backward: (dy, { inputs: [x] }) => ({ data: dy.data.map((d, i) => 2 * d * x.data[i]), shape: x.shape }),
   * });
   * const y = square(layer.forward(x));
   */
  custom<Inputs extends readonly Tensor[]>(
    definition: CustomFunction<Inputs>,
  ): (...inputs: { [K in keyof Inputs]: TensorInput }) => Tensor;
}

/** Reads a tensor, or a number as a tensor without axes. */
function readOperand(name: string, value: unknown): RawTensor {
  return typeof value === 'number'
    ? { data: Float32Array.of(finite(value, name)), shape: [] }
    : readTensor(name, value);
}

const customSchema = {
  forward: callback<CustomFunction['forward']>,
  backward: callback<CustomFunction['backward']>,
} satisfies Schema<CustomFunction>;

/** The operations of one runtime. */
export function operationsOf(tape: Tape): Operations {
  const { core } = tape;

  function recorded(name: string, record: (call: Recording) => RawVariable): Tensor {
    return computed(name, (call) => call.output(record(call)));
  }

  function computed(name: string, compute: (call: Recording) => RawTensor): Tensor {
    return calling(name, () => tape.record(null, (call) => toResult(tape, compute(call))));
  }

  /** An elementwise operation on two tensors. */
  const binary = (name: 'add' | 'multiply', record: 'recordAdd' | 'recordMultiply') => (a: unknown, b: unknown) => {
    const [left, right] = [readOperand(`${name}: a`, a), readOperand(`${name}: b`, b)];
    return recorded(name, (call) => core[record](call.graph, call.input('a', left), call.input('b', right)));
  };

  return {
    add: binary('add', 'recordAdd') as Operations['add'],
    multiply: binary('multiply', 'recordMultiply') as Operations['multiply'],
    concatenate(tensors, options) {
      const name = 'concatenate';
      const parts = listOf(tensor, 'an array of tensors')(tensors, `${name}: tensors`);
      if (parts.length === 0) throw invalid(`${name}: tensors`, 'at least one tensor', 'none');
      const { axis } = readOptions(name, concatenateSchema, options);
      return recorded(name, (call) => {
        const variables = parts.map((part, i) => call.input(`tensors[${i}]`, part));
        return core.recordConcatenate(call.graph, variables, axis);
      });
    },
    slice(x, options) {
      const read = readTensor('slice: x', x);
      const { axis, start, end } = readOptions('slice', sliceSchema, options);
      const extent = read.shape.at(axis) ?? 0;
      const limited = (position: number) => Math.min(Math.max(position < 0 ? position + extent : position, 0), extent);
      const first = limited(start);
      const count = Math.max(limited(end) - first, 0);
      return recorded('slice', (call) => core.recordSlice(call.graph, call.input('x', read), axis, first, count));
    },
    reshape(x, shape) {
      const read = readTensor('reshape: x', x);
      const extents = listOf((value, name) => integer(value, name, 0), 'an array of extents')(shape, 'reshape: shape');
      return recorded('reshape', (call) => core.recordReshape(call.graph, call.input('x', read), extents));
    },
    matmul(a, b) {
      const [left, right] = [readTensor('matmul: a', a), readTensor('matmul: b', b)];
      return computed('matmul', (call) => {
        const gradients = (gradient: Float32Array) => matmulGradients(core, left, right, gradient);
        return call.external(matmul(core, left, right), [call.input('a', left), call.input('b', right)], gradients);
      });
    },
    transpose(x, axis0 = -2, axis1 = -1) {
      const read = readTensor('transpose: x', x);
      const [i, j] = [readAxis(axis0, 'transpose: axis0', read), readAxis(axis1, 'transpose: axis1', read)];
      const result = transposed(read, i, j);
      return computed('transpose', (call) => {
        const gradient = (data: Float32Array) => [transposed({ data, shape: result.shape }, i, j)];
        return call.external(result, [call.input('x', read)], gradient);
      });
    },
    mean(x, options) {
      const read = readTensor('mean: x', x);
      const { mask: kept } = readOptions('mean', meanSchema, options);
      return recorded('mean', (call) => core.recordMean(call.graph, call.input('x', read), kept));
    },
    custom(definition) {
      const { forward, backward } = readOptions('custom', customSchema, definition);
      if (!forward || !backward) throw invalid('custom', 'functions `forward` and `backward`', describe(definition));
      return (...given) => {
        const inputs = given.map((one, i) => readTensor(`custom: inputs[${i}]`, one));
        const constants = inputs.map(({ data, shape }) => new Tensor(data.slice(), shape));
        const output = readTensor('custom: the result of forward', forward(...constants));
        const context = { inputs: constants, output: new Tensor(output.data.slice(), output.shape) };
        return computed('custom', (call) => {
          const variables = inputs.map((one, i) => call.input(`inputs[${i}]`, one));
          const external = (gradient: Float32Array) =>
            readGradients(backward(new Tensor(gradient, output.shape), context), inputs);
          return call.external(output, variables, external);
        });
      };
    },
  };
}

/** The gradients of a product: dY B^T and A^T dY, summed over the axes along which an operand was broadcast. */
function matmulGradients(core: TrainCore, left: RawTensor, right: RawTensor, gradient: Float32Array): RawTensor[] {
  const { a, b, batch } = operands(left, right);
  const dy = { data: gradient, shape: [...batch, a.shape.at(-2)!, b.shape.at(-1)!] };
  const flipped = (x: RawTensor) => transposed(x, x.shape.length - 2, x.shape.length - 1);
  const summed = (whole: RawTensor, { batch: own, data }: { batch: number[]; data: Float32Array }) => {
    const sum = new Float32Array(data.length);
    const size = elementCount(whole.shape.slice(-2));
    matrixNumbers(batch, own).forEach((number, i) => {
      for (let k = 0; k < size; k++) sum[number * size + k]! += whole.data[i * size + k]!;
    });
    return sum;
  };
  return [
    { data: summed(matmul(core, dy, flipped(b)), a), shape: left.shape },
    { data: summed(matmul(core, flipped(a), dy), b), shape: right.shape },
  ];
}

/** Reads what a custom function's `backward` returned. */
function readGradients(given: unknown, inputs: readonly RawTensor[]): (RawTensor | null)[] {
  const name = 'custom: the result of backward';
  return guarded(name, () => {
    const list: unknown[] = Array.isArray(given) ? given : [given];
    if (list.length !== inputs.length) throw invalid(name, `${inputs.length} gradients`, `${list.length}`);
    return list.map((gradient, i) => {
      if (gradient === null || gradient === undefined) return null;
      const read = readTensor(`${name}[${i}]`, gradient);
      const { shape } = inputs[i]!;
      if (formatShape(read.shape) === formatShape(shape)) return read;
      throw new HeedError(
        'SHAPE_MISMATCH',
        `${name}[${i}]: expected the shape of the input, ${formatShape(shape)}, got ${formatShape(read.shape)}`,
      );
    });
  });
}
