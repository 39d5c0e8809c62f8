/**
 * Positions of patches: position tables interpolated to a grid other than the checkpoint's, as in DINOv2 (bicubic,
 * `align_corners=False`, with registers also `antialias=True`; see torch.nn.functional.interpolate), and the angles of
 * DINOv3's rotary positions.
 */
import { FILTERS, filterWeights } from './resize.js';

/** The source rows from which one output row is interpolated, and their weights. */
interface Neighbours {
  rows: number[];
  weights: number[];
}

/** The weights of four neighbors at the fraction t in [0, 1): Keys's kernel with a = -0.75. */
function cubic(t: number): number[] {
  const a = -0.75;
  const near = (x: number) => ((a + 2) * x - (a + 3)) * x * x + 1;
  const far = (x: number) => ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return [far(t + 1), near(t), near(1 - t), far(2 - t)];
}

/** Four source rows for each of `to` output rows, clamped to [0, from). */
function neighbours(from: number, to: number): Neighbours[] {
  return Array.from({ length: to }, (_, i) => {
    const at = ((i + 0.5) * from) / to - 0.5;
    const floor = Math.floor(at);
    return {
      rows: [-1, 0, 1, 2].map((offset) => Math.min(Math.max(floor + offset, 0), from - 1)),
      weights: cubic(at - floor),
    };
  });
}

/** The source rows and weights with antialiasing: PyTorch's filter, which is Pillow's. */
function antialiased(from: number, to: number): Neighbours[] {
  return filterWeights(from, to, FILTERS[3]!).map(({ first, weights }) => ({
    rows: weights.map((_, i) => first + i),
    weights,
  }));
}

/**
 * Interpolates a table [first + side * side, width] to [first + rows * columns, width]. The `first` rows are copied.
 */
export function interpolated(
  table: Float32Array,
  first: number,
  side: number,
  rows: number,
  columns: number,
  width: number,
  antialias: boolean,
): Float32Array {
  const out = new Float32Array((first + rows * columns) * width);
  out.set(table.subarray(0, first * width));
  const along = antialias ? antialiased : neighbours;
  const [ys, xs] = [along(side, rows), along(side, columns)];
  let at = first * width;
  for (const y of ys)
    for (const x of xs) {
      for (let e = 0; e < width; e++) {
        let sum = 0;
        for (let i = 0; i < y.rows.length; i++) {
          let line = 0;
          for (let j = 0; j < x.rows.length; j++)
            line += x.weights[j]! * table[(first + y.rows[i]! * side + x.rows[j]!) * width + e]!;
          sum += y.weights[i]! * line;
        }
        out[at + e] = sum;
      }
      at += width;
    }
  return out;
}

/**
 * Angles of two-dimensional rotary positions, [rows * columns, pairs]. The first half of a head's pairs uses the
 * vertical position of a patch's center, the second half the horizontal one; both are in [-1, 1]. Pair k of a half has
 * the angle 2 pi position / base^(2 k / pairs).
 */
export function patchAngles(rows: number, columns: number, pairs: number, base: number): Float32Array {
  const out = new Float32Array(rows * columns * pairs);
  const half = pairs / 2;
  const center = (i: number, count: number) => (2 * (i + 0.5)) / count - 1;
  for (let row = 0, at = 0; row < rows; row++)
    for (let column = 0; column < columns; column++)
      for (const position of [center(row, rows), center(column, columns)])
        for (let k = 0; k < half; k++) out[at++] = (2 * Math.PI * position) / base ** (k / half);
  return out;
}
