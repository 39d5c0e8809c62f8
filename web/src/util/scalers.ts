/** Scalers that keep their statistics, after scikit-learn's StandardScaler and MinMaxScaler. */
import { describe, invalid } from '../base/error.js';
import { requireKnown } from '../base/options.js';
import { read, Tensor, type TensorInput } from '../base/tensor.js';
import { Unproxied } from '../base/unproxied.js';

/** Values, and the number of columns: the extent of the last axis, or 1 for a series [T]. */
interface Columns {
  readonly data: Float32Array | Float64Array;
  readonly shape: number[];
  readonly width: number;
}

/** Numbers in arrays are not rounded to fp32: for dates and amounts of money, the difference from the mean is small. */
function readColumns(name: string, value: unknown): Columns {
  const { data, shape } = read<Float32Array | Float64Array>(
    name,
    value,
    'a { data: Float32Array, shape } tensor or nested arrays of numbers',
    'a Float32Array',
    { Store: Float64Array, entryOf: (entry) => (typeof entry === 'number' ? entry : null), entries: 'numbers' },
  );
  if (shape.length === 0) throw invalid(name, '[T] or [..., F]', 'a tensor without axes', 'SHAPE_MISMATCH');
  const width = shape.length > 1 ? shape.at(-1)! : 1;
  const wrong = data.findIndex((entry) => !Number.isFinite(entry));
  if (wrong < 0) return { data, shape, width };
  const place = `row ${Math.floor(wrong / width)}, column ${wrong % width}`;
  throw invalid(name, 'finite numbers', `${data[wrong]} in ${place}`);
}

/** A column is scaled to `(x - offset) / scale`. */
interface Scaling {
  readonly offset: number;
  readonly scale: number;
}

/** The statistics of the columns, by name: lists of one number per column. */
type Statistics<Name extends string> = Record<Name, number[]>;

/** What distinguishes a scaler. */
interface Kind<Name extends string> {
  /** The name of the class, for messages, as minification renames classes. */
  owner: string;
  names: readonly Name[];
  /** The statistics of one column, in the order of the names. */
  measure(column: Float64Array): readonly number[];
  scaling(statistics: readonly number[]): Scaling;
}

/** What the scalers share. */
abstract class Scaler<Name extends string> extends Unproxied {
  readonly #kind: Kind<Name>;
  #statistics: Statistics<Name> | null = null;

  /** @internal */
  constructor(kind: Kind<Name>, statistics: unknown) {
    super();
    this.#kind = kind;
    if (statistics !== undefined) this.#statistics = this.#read(statistics);
  }

  /** The statistics of the columns, one number each. @throws HeedError INVALID_ARGUMENT before `fit` */
  get statistics(): Statistics<Name> {
    if (this.#statistics) return structuredClone(this.#statistics);
    throw invalid(this.#kind.owner, 'a call of `fit` first', 'a scaler without statistics');
  }

  /**
   * Computes the statistics of each column, in double precision, and keeps them. Give the training data alone.
   * @param x [T], one column, or [...,F], with F columns
   * @throws HeedError INVALID_ARGUMENT for no rows, NaN or infinities
   */
  fit(x: TensorInput): this {
    const { owner, names, measure } = this.#kind;
    const { data, width } = readColumns(`${owner}.fit: x`, x);
    const rows = width > 0 ? data.length / width : 0;
    if (rows === 0) throw invalid(`${owner}.fit: x`, 'at least one row', 'none');
    const columns = Array.from({ length: width }, (_, f) =>
      measure(Float64Array.from({ length: rows }, (_, i) => data[i * width + f]!)),
    );
    this.#statistics = Object.fromEntries(
      names.map((name, n) => [name, columns.map((column) => column[n]!)]),
    ) as Statistics<Name>;
    return this;
  }

  /**
   * Returns the scaled values in a tensor of the same shape.
   * @param x [T], one column, or [...,F], with the columns of `fit`
   * @throws HeedError SHAPE_MISMATCH for another number of columns
   */
  transform(x: TensorInput): Tensor {
    return this.#apply('transform', x, (value, { offset, scale }) => (value - offset) / scale);
  }

  /** Returns the values that `transform` scales to `x`. @throws HeedError SHAPE_MISMATCH for another number of columns */
  inverseTransform(x: TensorInput): Tensor {
    return this.#apply('inverseTransform', x, (value, { offset, scale }) => value * scale + offset);
  }

  /** Returns the statistics, which the constructor takes, for `JSON.stringify`. */
  toJSON(): Statistics<Name> {
    return this.statistics;
  }

  #apply(call: string, x: unknown, formula: (value: number, scaling: Scaling) => number): Tensor {
    const { statistics } = this;
    const { owner, names, scaling } = this.#kind;
    const scalings = statistics[names[0]!].map((_, f) => scaling(names.map((name) => statistics[name][f]!)));
    const name = `${owner}.${call}: x`;
    const { data, shape, width } = readColumns(name, x);
    if (width !== scalings.length)
      throw invalid(name, `${scalings.length} columns, as in \`fit\``, `${width}`, 'SHAPE_MISMATCH');
    return new Tensor(
      Float32Array.from(data, (value, i) => formula(value, scalings[i % width]!)),
      shape,
    );
  }

  #read(given: unknown): Statistics<Name> {
    const { owner, names } = this.#kind;
    const expected = `statistics { ${names.join(', ')} }, as toJSON returns them`;
    if (typeof given !== 'object' || given === null) throw invalid(owner, expected, describe(given));
    requireKnown(owner, Object.keys(given), names);
    const lists = names.map((name) => (given as Record<string, unknown>)[name]);
    const isList = (list: unknown): list is number[] => Array.isArray(list) && list.every(Number.isFinite);
    const wrong = lists.findIndex((list) => !isList(list) || list.length !== (lists[0] as number[]).length);
    if (wrong >= 0) throw invalid(`${owner}.${names[wrong]}`, 'finite numbers, one per column', describe(lists[wrong]));
    return structuredClone(Object.fromEntries(names.map((name, n) => [name, lists[n]]))) as Statistics<Name>;
  }
}

const STANDARD: Kind<'mean' | 'scale'> = {
  owner: 'StandardScaler',
  names: ['mean', 'scale'],
  measure: (column) => {
    const count = column.length;
    const mean = column.reduce((sum, value) => sum + value, 0) / count;
    const variance = column.reduce((sum, value) => sum + (value - mean) ** 2, 0) / count;
    // The bound on the rounding error of a constant column's variance is scikit-learn's (_is_constant_feature).
    const isConstant = variance <= count * Number.EPSILON * variance + (count * mean * Number.EPSILON) ** 2;
    return [mean, isConstant ? 1 : Math.sqrt(variance)];
  },
  scaling: ([mean, scale]) => ({ offset: mean!, scale: scale! || 1 }),
};

const MIN_MAX: Kind<'min' | 'max'> = {
  owner: 'MinMaxScaler',
  names: ['min', 'max'],
  measure: (column) => [column.reduce((a, b) => Math.min(a, b)), column.reduce((a, b) => Math.max(a, b))],
  scaling: ([min, max]) => ({ offset: min!, scale: max! - min! || 1 }),
};

/**
 * Scales each column to mean 0 and standard deviation 1 (of the population, as in scikit-learn). Constant columns become
 * 0; a `scale` of 0 means 1.
 *
 * @example
 * const scaler = new StandardScaler().fit([[1, 10], [3, 10]]);
 * scaler.transform([[5, 10]]).toArray(); // [[3, 0]]
 * scaler.inverseTransform([[3, 0]]).toArray(); // [[5, 10]]
 * const again = new StandardScaler(scaler.toJSON()); // or what JSON.parse returns
 * again.statistics; // { mean: [2, 10], scale: [1, 1] }
 */
export class StandardScaler extends Scaler<'mean' | 'scale'> {
  /** @internal For messages and consoles, as minification renames classes. */
  static override readonly name: string = 'StandardScaler';

  /** @param statistics what `toJSON` of another scaler returned; without it, `fit` computes the statistics */
  constructor(statistics?: { mean: readonly number[]; scale: readonly number[] }) {
    super(STANDARD, statistics);
  }
}

/**
 * Scales each column to the range 0 to 1. Constant columns become 0; values outside the range of `fit` become values
 * outside 0 to 1.
 *
 * @example
 * const scaler = new MinMaxScaler().fit([10, 20, 30]);
 * scaler.transform([15, 40]).toArray(); // [0.25, 1.5]
 * scaler.inverseTransform([0.25]).toArray(); // [15]
 * scaler.toJSON(); // { min: [10], max: [30] }
 */
export class MinMaxScaler extends Scaler<'min' | 'max'> {
  /** @internal For messages and consoles, as minification renames classes. */
  static override readonly name: string = 'MinMaxScaler';

  /** @param statistics what `toJSON` of another scaler returned; without it, `fit` computes the statistics */
  constructor(statistics?: { min: readonly number[]; max: readonly number[] }) {
    super(MIN_MAX, statistics);
  }
}
