/** Reads the arguments of metrics of numbers. */
import { describe, formatShape, guarded, invalid } from '../base/error.js';
import { lengthOf, optional, type Reader, readOptions, type Schema } from '../base/options.js';
import type { TensorLike } from '../base/tensor.js';

/** Numbers, one per example: an array, a typed array, or a tensor or nested array [N] or [N, 1]. */
export type Numbers =
  | readonly number[]
  | readonly (readonly number[])[]
  | Float32Array
  | Float64Array
  | Int32Array
  | TensorLike
  | { readonly data: Int32Array; readonly shape: readonly number[] };

/** Options of metrics of numbers. */
export interface MetricOptions {
  /** Weights of the examples, finite and >= 0, with a positive sum. Default: ones. */
  weights?: Numbers | undefined;
}

/** The arguments of a metric, all of the same length. */
export interface MetricData {
  readonly expected: readonly number[];
  readonly predicted: readonly number[];
  readonly weights: readonly number[];
  /** The sum of the weights. */
  readonly total: number;
}

/** The range in which numbers must lie. */
interface Range {
  readonly expected: string;
  readonly isLegal: (value: number) => boolean;
}

export const FINITE: Range = { expected: 'finite numbers', isLegal: () => true };
export const NOT_NEGATIVE: Range = { expected: 'finite numbers >= 0', isLegal: (value) => value >= 0 };
export const POSITIVE: Range = { expected: 'finite numbers > 0', isLegal: (value) => value > 0 };

function readNumbers(name: string, given: unknown, { expected, isLegal }: Range): number[] {
  return guarded(name, () => {
    const list = listOf(name, given);
    return Array.from({ length: lengthOf(list, name) }, (_, i) => {
      const entry: unknown = list[i];
      const value = Array.isArray(entry) && entry.length === 1 ? (entry[0] as unknown) : entry;
      const number = typeof value === 'boolean' ? Number(value) : value;
      if (typeof number === 'number' && Number.isFinite(number) && isLegal(number)) return number;
      throw invalid(name, expected, `${describe(value)} for example ${i}`);
    });
  });
}

function listOf(name: string, given: unknown): ArrayLike<unknown> {
  if (Array.isArray(given) || ArrayBuffer.isView(given)) return given as unknown as ArrayLike<unknown>;
  const { data, shape } = (given ?? {}) as Partial<TensorLike>;
  if (!ArrayBuffer.isView(data) || !Array.isArray(shape))
    throw invalid(name, 'an array or a tensor of numbers, one per example', describe(given));
  const isList = shape.length === 1 || (shape.length === 2 && shape[1] === 1);
  if (!isList) throw invalid(name, 'shape [N] or [N, 1]', formatShape(shape), 'SHAPE_MISMATCH');
  return data;
}

const weightsReader: Reader<number[]> = (value, name) => readNumbers(name, value, NOT_NEGATIVE);
const schema = { weights: optional(weightsReader, null) } satisfies Schema<MetricOptions>;

/**
 * Reads the arguments of the metric `call`.
 * @throws HeedError `SHAPE_MISMATCH` for lists of different lengths; `INVALID_ARGUMENT` for empty lists and for numbers
 * outside their range
 */
export function readMetric(
  call: string,
  given: readonly [expected: unknown, predicted: unknown, options: unknown],
  ranges: readonly [expected: Range, predicted: Range] = [FINITE, FINITE],
): MetricData {
  const expected = readNumbers(`${call}: expected`, given[0], ranges[0]);
  const predicted = readNumbers(`${call}: predicted`, given[1], ranges[1]);
  const weights = readOptions(call, schema, given[2]).weights ?? expected.map(() => 1);
  if (expected.length === 0) throw invalid(`${call}: expected`, 'at least one number', 'none');
  for (const [name, list] of Object.entries({ predicted, weights }))
    if (list.length !== expected.length)
      throw invalid(
        `${call}: ${name}`,
        `${expected.length} numbers, one for each of \`expected\``,
        `${list.length}`,
        'SHAPE_MISMATCH',
      );
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  if (total > 0) return { expected, predicted, weights, total };
  throw invalid(`${call}.weights`, 'weights with a positive sum', 'zeros');
}
