/**
 * The gradients of operations (`layers/composition/make-operations.ts`). With dY the gradient of the result:
 *
 * - map: dX at the position p of each entry i of the result += dY_i f'(x_p)
 * - reduction: dX_i = dY_p f'(x_i), with p the position to which entry i contributes
 */
import { broadcastPositions } from '../../base/axes.js';
import { flipped, matmul, operands } from '../../base/products.js';
import { elementCount } from '../../base/tensor.js';
import type { RawFunctions, RawTensor } from '../../base/wasm/core.js';
import type { Computed, OperationName } from '../../layers/composition/make-operations.js';

/** The derivative by the first input, from the entries of the inputs and of the result. Absent: 1. */
type Derivative = (a: number, b: number, y: number) => number;

/** The derivatives of maps: by a (or x), and by b. */
const maps: { readonly [Name in OperationName]?: readonly (Derivative | null)[] | undefined } = {
  rearrange: [null],
  add: [null, null],
  subtract: [null, () => -1],
  multiply: [(_, b) => b, (a) => a],
  divide: [(_, b) => 1 / b, (a, b) => -a / (b * b)],
  exp: [(_a, _b, y) => y],
  log: [(x) => 1 / x],
  abs: [(x) => Math.sign(x)],
  sqrt: [(_a, _b, y) => 0.5 / y],
  relu: [(x) => (x <= 0 ? 0 : 1)],
  tanh: [(_a, _b, y) => 1 - y * y],
  sigmoid: [(_a, _b, y) => y * (1 - y)],
};

/** Operations whose gradients depend on shapes only, so that the values of their inputs need not be kept. */
const isLinear = (name: OperationName) => ['rearrange', 'add', 'subtract', 'sum', 'mean'].includes(name);

/**
 * Returns the function that computes the gradients of an operation's inputs. It keeps copies of the values that it
 * needs, because the caller may change them before the backward pass.
 */
export function gradientsOf(
  calls: Pick<RawFunctions, 'compute'>,
  { name, inputs: given, result, positions, factor }: Computed,
): (gradient: Float32Array) => RawTensor[] {
  const inputs = Object.values(given).map(({ data, shape }) => ({
    data: isLinear(name) ? new Float32Array(0) : data.slice(),
    shape,
  }));
  const shapes = inputs.map(({ shape }) => shape);
  if (name === 'matmul') return (gradient) => matmulGradients(calls, inputs[0]!, inputs[1]!, gradient);
  const derivatives = maps[name];
  if (derivatives) {
    const [a, b = a] = isLinear(name) ? [] : inputs.map(({ data }) => data);
    const [atA, atB] = positions;
    const y = isLinear(name) ? null : result.data;
    return (gradient) =>
      shapes.map((shape, input) => {
        const at = positions[input];
        const derivative = derivatives[input];
        if (!at && !derivative) return { data: gradient, shape };
        const sums = new Float64Array(elementCount(shape));
        for (let i = 0; i < gradient.length; i++) {
          const d = derivative ? derivative(a?.[atA ? atA[i]! : i] ?? 0, b?.[atB ? atB[i]! : i] ?? 0, y?.[i] ?? 0) : 1;
          const to = at ? at[i]! : i;
          sums[to] = sums[to]! + gradient[i]! * d;
        }
        return { data: new Float32Array(sums), shape };
      });
  }
  const factors = name === 'max' ? shareOfMaxima(inputs[0]!.data, result.data, positions[0]!) : factor;
  return (gradient) =>
    shapes.map((shape, input) => {
      const at = positions[input]!;
      const data = new Float32Array(at.length);
      for (let i = 0; i < data.length; i++) {
        const weight = factors ? factors(i) : 1;
        data[i] = weight === 0 ? 0 : gradient[at[i]!]! * weight; // 0 even if the gradient is infinite
      }
      return { data, shape };
    });
}

/** The share of each entry in the gradient of its maximum: equal shares of all that are equal to it, otherwise 0. */
function shareOfMaxima(x: Float32Array, maxima: Float32Array, positions: Int32Array): (index: number) => number {
  const ties = new Float64Array(maxima.length);
  const isMaximum = (i: number) => Number(x[i] === maxima[positions[i]!]);
  for (let i = 0; i < x.length; i++) ties[positions[i]!]! += isMaximum(i);
  return (i) => isMaximum(i) && 1 / ties[positions[i]!]!;
}

/** The gradients of a product: dY B^T and A^T dY, summed over the axes along which an operand was broadcast. */
function matmulGradients(
  calls: Pick<RawFunctions, 'compute'>,
  left: RawTensor,
  right: RawTensor,
  gradient: Float32Array,
): RawTensor[] {
  const { a, b, batch } = operands(left, right);
  const dy = { data: gradient, shape: [...batch, a.shape.at(-2)!, b.shape.at(-1)!] };
  const summed = (whole: RawTensor, { batch: own, data }: { batch: number[]; data: Float32Array }) => {
    const sum = new Float32Array(data.length);
    const size = elementCount(whole.shape.slice(-2));
    broadcastPositions(own, batch).forEach((number, i) => {
      for (let k = 0; k < size; k++) sum[number * size + k]! += whole.data[i * size + k]!;
    });
    return sum;
  };
  return [
    { data: summed(matmul(calls, dy, flipped(b)), a), shape: left.shape },
    { data: summed(matmul(calls, flipped(a), dy), b), shape: right.shape },
  ];
}
