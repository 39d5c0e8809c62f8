/** Divides a series into windows, as examples for a forecast. */
import { formatShape, invalid } from '../base/error.js';
import { optional, readOptions, type Schema, size } from '../base/options.js';
import { MAX_SIZE, readTensor, Tensor, type TensorInput } from '../base/tensor.js';

/** Options of `windows`. */
export interface WindowsOptions {
  /** The number of successive values that an input consists of. */
  length: number;
  /** The number of values after them, which are the labels. Default 1. */
  horizon?: number | undefined;
  /** The distance between the beginnings of successive windows. Default 1. */
  step?: number | undefined;
}

const schema = { length: size, horizon: optional(size, 1), step: optional(size, 1) } satisfies Schema<WindowsOptions>;

/**
 * Returns windows of a series and the values that follow each, as `{ inputs, labels }` for `fit`. Window w has the values
 * `w * step` to `w * step + length - 1`; the next `horizon` values are its labels. Values at the end that fill no window
 * are left out.
 *
 * To test a forecast, divide the series by time first, and make the windows of each part: windows overlap, so a random
 * split of them would put values of the test into the training.
 *
 * @param series values [T], or [T,F] with F features each, in the order of time
 * @returns for [T]: `inputs` [W,length,1] and `labels` [W,horizon]; for [T,F]: `inputs` [W,length,F] and `labels`
 *   [W,horizon,F]
 * @example
 * const { inputs, labels } = windows([1, 2, 3, 4, 5], { length: 3 });
 * inputs.toArray(); // [[[1], [2], [3]], [[2], [3], [4]]]
 * labels.toArray(); // [[4], [5]]
 * @throws HeedError SHAPE_MISMATCH for other shapes; INVALID_ARGUMENT for a series of fewer than `length + horizon` values
 */
export function windows(series: TensorInput, options: WindowsOptions): { inputs: Tensor; labels: Tensor } {
  const { length, horizon, step } = readOptions('windows', schema, options);
  const { data, shape } = readTensor('windows: series', series);
  if (shape.length !== 1 && shape.length !== 2)
    throw invalid('windows: series', '[T] or [T, F]', `shape ${formatShape(shape)}`, 'SHAPE_MISMATCH');
  const [count, width = 1] = shape as [number, number?];
  if (count < length + horizon)
    throw invalid('windows: series', `at least ${length + horizon} values, \`length + horizon\``, `${count}`);
  const number = Math.floor((count - length - horizon) / step) + 1;
  if (number * Math.max(length, horizon) * width > MAX_SIZE)
    throw invalid('windows', `at most ${MAX_SIZE} numbers in the result; give a larger \`step\``, `${number} windows`);

  /** Copies `extent` values of each window, from position `offset` of the window on. */
  const cut = (offset: number, extent: number) => {
    const values = new Float32Array(number * extent * width);
    for (let w = 0; w < number; w++) {
      const first = (w * step + offset) * width;
      values.set(data.subarray(first, first + extent * width), w * extent * width);
    }
    return values;
  };
  return {
    inputs: new Tensor(cut(0, length), [number, length, width]),
    labels: new Tensor(cut(length, horizon), [number, horizon, ...shape.slice(1)]),
  };
}
