/**
 * k-means (Lloyd 1982) with k-means++ seeding (Arthur and Vassilvitskii 2007), which tries several candidates per
 * center. Updates, tolerance and the treatment of empty clusters are those of scikit-learn's `KMeans`.
 */
import { invalid } from '../base/error.js';
import { indexOfMax } from '../base/lists.js';
import { legal, optional, readOptions, type Schema, seed, size } from '../base/options.js';
import { generator } from '../base/random.js';
import { Tensor, type TensorInput } from '../base/tensor.js';
import {
  eachBlock,
  type Matrix,
  type ProductOptions,
  productSchema,
  readFiniteRows,
  requireWidth,
} from '../search/index.js';

export interface KMeansOptions extends ProductOptions {
  /** K, the number of clusters; at most N. */
  numClusters: number;
  /** Seed of the random choice of the initial centroids. The same seed yields the same clusters. Default: random. */
  seed?: number | undefined;
  /** Initial centroids [K,D]. Default: chosen by k-means++. */
  init?: TensorInput | undefined;
  /** Maximum number of iterations. Default 300. */
  maxIterations?: number | undefined;
  /** Called after each iteration, with the number of iterations so far and `maxIterations`. */
  onProgress?: ((progress: { done: number; total: number }) => void) | undefined;
  /**
   * Iteration stops when the sum of the centroids' squared movements is at most `tolerance` times the vectors' mean
   * variance per entry. Default 1e-4.
   */
  tolerance?: number | undefined;
}

/** What `kMeans` returns. */
export interface Clusters {
  /** Cluster of each vector, from 0 to K - 1. */
  labels: number[];
  /** Means of the clusters, [K,D]. */
  centroids: Tensor;
  /** Sum of the squared distances of the vectors from their centroids. */
  inertia: number;
  /** Number of iterations. Each computes the centroids once. */
  iterations: number;
}

const schema = {
  ...productSchema,
  numClusters: size,
  seed,
  init: optional((value: unknown, name: string) => readFiniteRows(name, value), null),
  maxIterations: optional(size, 300),
  tolerance: optional(
    legal<number>('a number from 0', (value) => typeof value === 'number' && value >= 0),
    1e-4,
  ),
} satisfies Schema<KMeansOptions>;

/**
 * Divides vectors [N,D] into K clusters that minimize, locally, the sum of squared Euclidean distances from the
 * clusters' means. For vectors of unit norm (`normalize`), small distances mean large cosines.
 *
 * @example
 * const { labels } = await kMeans([[0, 1], [5, 5], [0, 2], [5, 6]], { numClusters: 2, seed: 1 });
 * labels[0] === labels[2] && labels[1] === labels[3]; // true
 * @throws HeedError INVALID_ARGUMENT for more clusters than vectors, NaN or infinities; SHAPE_MISMATCH if `init` is not
 *   [K,D]
 */
export async function kMeans(vectors: TensorInput, options: KMeansOptions): Promise<Clusters> {
  const read = readOptions('kMeans', schema, options);
  const { numClusters, maxIterations, tolerance, init, onProgress } = read;
  const given = readFiniteRows('vectors', vectors);
  const { count, width } = given;
  if (numClusters > count)
    throw invalid('kMeans.numClusters', `at most ${count}, the number of vectors`, `${numClusters}`);
  if (init) requireWidth('kMeans.init', init, width);
  if (init && init.count !== numClusters)
    throw invalid('kMeans.init', `${numClusters} rows`, `${init.count}`, 'SHAPE_MISMATCH');
  // Subtract the mean, because differences of fp32 numbers are most accurate near zero.
  const mean = meanOf(given);
  const rows = shifted(given, mean, -1);
  const search = { heed: read.heed, signal: read.signal };
  let centers = init ? shifted(init, mean, -1) : await seeded(rows, numClusters, read.seed, search);
  const stop = (tolerance * squaresOf(rows).reduce((sum, square) => sum + square, 0)) / (count * width);
  let labels: Int32Array = new Int32Array(count);
  let iterations = 0;
  let isSame = false;
  let moved = Number.POSITIVE_INFINITY;
  while (iterations < maxIterations && !isSame && !(moved <= stop)) {
    const nearest = await assign(rows, centers, search);
    isSame = iterations > 0 && nearest.every((label, n) => label === labels[n]);
    labels = nearest;
    const next = meansOf(rows, labels, centers);
    moved = next.data.reduce((sum, value, i) => sum + (value - centers.data[i]!) ** 2, 0);
    centers = next;
    iterations++;
    onProgress?.({ done: iterations, total: maxIterations });
  }
  if (!isSame) labels = await assign(rows, centers, search);
  const inertia = labels.reduce((sum, label, n) => sum + distance(rows, n, centers, label), 0);
  const centroids = new Tensor(shifted(centers, mean, 1).data, [numClusters, width]);
  return { labels: [...labels], centroids, inertia, iterations };
}

/** The centroid nearest to each row; ties go to the first. */
async function assign(rows: Matrix, centers: Matrix, options: ProductOptions): Promise<Int32Array> {
  const labels = new Int32Array(rows.count);
  const least = new Float64Array(rows.count).fill(Number.POSITIVE_INFINITY);
  const squares = squaresOf(centers);
  await eachBlock(rows, centers, options, (block) => {
    for (let n = 0; n < block.count; n++)
      for (let m = 0; m < block.rows; m++) {
        const score = squares[block.start + m]! - 2 * block.products[n * block.rows + m]!;
        if (score >= least[block.first + n]!) continue;
        least[block.first + n] = score;
        labels[block.first + n] = block.start + m;
      }
  });
  return labels;
}

/** The mean of each cluster's rows. An empty cluster takes the row that is farthest from its own centroid. */
function meansOf(rows: Matrix, labels: Int32Array, centers: Matrix): Matrix {
  const { width } = rows;
  const sums = new Float64Array(centers.data.length);
  const sizes = new Float64Array(centers.count);
  const add = (label: number, row: number, sign: number) => {
    sizes[label]! += sign;
    for (let k = 0; k < width; k++) sums[label * width + k]! += sign * rows.data[row * width + k]!;
  };
  labels.forEach((label, n) => add(label, n, 1));
  const empty = [...sizes.keys()].filter((label) => sizes[label] === 0);
  if (empty.length > 0) {
    const distances = Array.from(labels, (label, n) => distance(rows, n, centers, label));
    const farthest = distances.map((_, n) => n).sort((a, b) => distances[b]! - distances[a]! || a - b);
    empty.forEach((label, i) => {
      add(labels[farthest[i]!]!, farthest[i]!, -1);
      add(label, farthest[i]!, 1);
    });
  }
  const data = Float32Array.from(sums, (sum, i) => {
    const members = sizes[Math.floor(i / width)]!;
    return members === 0 ? centers.data[i]! : sum / members;
  });
  return { data, count: centers.count, width };
}

/**
 * k-means++: each further center is the best of 2 + log K rows, drawn with probability proportional to their squared
 * distance from the nearest center.
 */
async function seeded(rows: Matrix, numClusters: number, seed: number, options: ProductOptions): Promise<Matrix> {
  const { data, count, width } = rows;
  const bits = generator(seed, 0);
  const random = () => bits() / 2 ** 32;
  const trials = 2 + Math.floor(Math.log(numClusters));
  const centers = new Float32Array(numClusters * width);
  const row = (n: number) => data.subarray(n * width, (n + 1) * width);
  const squares = squaresOf(rows);
  let nearest: Float64Array = new Float64Array(count).fill(Number.POSITIVE_INFINITY);
  for (let chosen = 0; chosen < numClusters; chosen++) {
    const total = nearest.reduce((sum, value) => sum + value, 0);
    const draws =
      chosen === 0 ? [Math.floor(random() * count)] : Array.from({ length: trials }, () => random() * total);
    const candidates = chosen === 0 ? draws : draws.map((draw) => positionOf(nearest, draw));
    const few = { data: new Float32Array(candidates.length * width), count: candidates.length, width };
    candidates.forEach((n, i) => few.data.set(row(n), i * width));
    const closer = candidates.map(() => new Float64Array(count));
    await eachBlock(rows, few, options, (block) => {
      for (let n = 0; n < block.count; n++)
        for (let m = 0; m < block.rows; m++) {
          const at = block.first + n;
          const product = block.products[n * block.rows + m]!;
          const square = candidates[m] === at ? 0 : Math.max(0, squares[at]! - 2 * product + squares[candidates[m]!]!);
          closer[m]![at] = Math.min(nearest[at]!, square);
        }
    });
    const totals = closer.map((distances) => distances.reduce((sum, value) => sum + value, 0));
    const best = indexOfMax(totals.map((total) => -total));
    nearest = closer[best]!;
    centers.set(row(candidates[best]!), chosen * width);
  }
  return { data: centers, count: numClusters, width };
}

/** The first index at which the cumulative sum of `values` reaches `sum`. */
function positionOf(values: Float64Array, sum: number): number {
  let reached = 0;
  const at = values.findIndex((value) => {
    reached += value;
    return reached >= sum;
  });
  return at < 0 ? values.length - 1 : at;
}

function distance(a: Matrix, i: number, b: Matrix, j: number): number {
  let sum = 0;
  for (let k = 0; k < a.width; k++) sum += (a.data[i * a.width + k]! - b.data[j * a.width + k]!) ** 2;
  return sum;
}

function squaresOf({ data, count, width }: Matrix): Float64Array {
  const squares = new Float64Array(count);
  for (let i = 0; i < count * width; i++) squares[Math.floor(i / width)]! += data[i]! ** 2;
  return squares;
}

function meanOf({ data, count, width }: Matrix): Float64Array {
  const mean = new Float64Array(width);
  for (let i = 0; i < count * width; i++) mean[i % width]! += data[i]! / count;
  return mean;
}

function shifted({ data, count, width }: Matrix, by: Float64Array, sign: number): Matrix {
  return { data: data.map((value, i) => value + sign * by[i % width]!), count, width };
}
