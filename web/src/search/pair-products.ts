/**
 * Products of all pairs of rows of two matrices, in blocks, so that memory stays bounded and the event loop is not
 * blocked.
 */
import { makeYield } from '../base/event-loop.js';
import { callback, legal, optional, type Schema, signal } from '../base/options.js';
import type { SignalLike } from '../base/platform.js';
import { Tensor } from '../base/tensor.js';
import type { Functions } from '../layers/functions.js';

export interface ProductOptions {
  /**
   * The object that `load()` returned. Products are then computed in WebAssembly by all of its threads, which is
   * several times as fast. Default: in JavaScript; scores may differ in the last bit.
   */
  heed?: Pick<Functions, 'linear'> | undefined;
  /** Stops the call between two blocks of work; it then rejects with the signal's reason. */
  signal?: SignalLike | undefined;
  /** Called with the number of rows that have been compared with all others, and the number of all rows. */
  onProgress?: ((progress: { done: number; total: number }) => void) | undefined;
}

export const productSchema = {
  heed: optional(
    legal<Pick<Functions, 'linear'>>('what `load()` returned', ({ linear }) => typeof linear === 'function'),
    undefined,
  ),
  signal,
  onProgress: callback<NonNullable<ProductOptions['onProgress']>>,
} satisfies Schema<ProductOptions>;

/** `count` rows of `width` numbers. */
export interface Matrix {
  readonly data: Float32Array;
  readonly count: number;
  readonly width: number;
}

/** Products [count, rows] of the rows [first, first + count) of a with the rows [start, start + rows) of b. */
export interface Block {
  readonly first: number;
  readonly count: number;
  readonly start: number;
  readonly rows: number;
  readonly products: Float32Array;
}

/** Rows of b per block: 6 MB for width 384. */
const ROWS = 4096;
/** Multiplications per block, in WebAssembly and in JavaScript. Both take some 20 ms. */
const IN_CORE = 2 ** 29;
const IN_SCRIPT = 2 ** 24;
/** Rows of a per block, at most, so that the products take at most 16 MB. */
const MOST_QUERIES = 1024;

/**
 * Calls `visit` with the blocks of a b^T in row-major order. `upper`: b is a, and blocks below the diagonal are
 * skipped.
 */
export async function eachBlock(
  a: Matrix,
  b: Matrix,
  { heed, signal, onProgress }: ProductOptions,
  visit: (block: Block) => void,
  { upper = false } = {},
): Promise<void> {
  const { width } = a;
  const pause = makeYield(signal);
  const most = (heed ? IN_CORE : IN_SCRIPT) / (Math.min(ROWS, b.count) * width || 1);
  const step = Math.min(MOST_QUERIES, Math.max(1, Math.floor(most)));
  for (let first = 0; first < a.count; first += step) {
    const count = Math.min(step, a.count - first);
    const queries = rowsOf(a, first, count);
    for (let start = upper ? first : 0; start < b.count; start += ROWS) {
      await pause();
      const rows = Math.min(ROWS, b.count - start);
      const weight = rowsOf(b, start, rows);
      const products = heed ? heed.linear(queries, { weight }).data : multiply(queries.data, weight.data, width);
      visit({ first, count, start, rows, products });
    }
    onProgress?.({ done: first + count, total: a.count });
  }
}

/** Calls `visit` with each entry (i, j) of a b^T. For each i, j ascends. */
export function eachPair(
  a: Matrix,
  b: Matrix,
  options: ProductOptions,
  visit: (i: number, j: number, product: number) => void,
): Promise<void> {
  return eachBlock(a, b, options, ({ first, count, start, rows, products }) => {
    for (let n = 0; n < count; n++) for (let m = 0; m < rows; m++) visit(first + n, start + m, products[n * rows + m]!);
  });
}

/** Calls `visit` with each entry (i, j) of a a^T where i < j. For each i, j ascends. */
export function eachUnorderedPair(
  a: Matrix,
  options: ProductOptions,
  visit: (i: number, j: number, product: number) => void,
): Promise<void> {
  const visitBlock = ({ first, count, start, rows, products }: Block) => {
    for (let n = 0; n < count; n++)
      for (let m = Math.max(0, first + n + 1 - start); m < rows; m++)
        visit(first + n, start + m, products[n * rows + m]!);
  };
  return eachBlock(a, a, options, visitBlock, { upper: true });
}

export function rowsOf({ data, width }: Matrix, first: number, count: number): Tensor {
  return new Tensor(data.subarray(first * width, (first + count) * width), [count, width]);
}

/** Computes a b^T for four rows of b at a time, so that each entry of a is read once per four rows. */
function multiply(a: Float32Array, b: Float32Array, width: number): Float32Array {
  const [count, rows] = [a.length / width, b.length / width];
  const out = new Float32Array(count * rows);
  const even = rows - (rows % 4);
  for (let n = 0; n < count; n++) {
    const at = n * width;
    for (let m = 0; m < even; m += 4) {
      const [one, two, three] = [(m + 1) * width, (m + 2) * width, (m + 3) * width];
      let [p, q, r, s] = [0, 0, 0, 0];
      for (let k = 0, x = at, y = m * width; k < width; k++, x++, y++) {
        const value = a[x]!;
        p += value * b[y]!;
        q += value * b[one + k]!;
        r += value * b[two + k]!;
        s += value * b[three + k]!;
      }
      out.set([p, q, r, s], n * rows + m);
    }
    for (let m = even; m < rows; m++) {
      let sum = 0;
      for (let k = 0; k < width; k++) sum += a[at + k]! * b[m * width + k]!;
      out[n * rows + m] = sum;
    }
  }
  return out;
}
