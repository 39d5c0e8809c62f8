/** Quantization of weights to int8 for files, row by row, with the same result as that of the core (cpp/src/gemm/weights/int8.cpp), bit for bit. */

const { fround, abs, max, min } = Math;

/** The greatest sum of eight weights of one sign whose products with 127 fit into 16 bits, less what rounding may add. */
const NARROW = Math.floor(32767 / 127) - 4;

/** To the nearest integer, halves to the even one. */
function nearest(x: number): number {
  return abs(x % 1) === 0.5 ? 2 * Math.round(x / 2) : Math.round(x);
}

/** The scale of a row. `fullRange`: of a table whose rows are looked up, not multiplied. */
function scaleOf(row: Float32Array, fullRange: boolean): number {
  let [largest, eight] = [0, 0];
  for (let k = 0; k < row.length; k += 16) {
    // Those of 16 columns that are added up in 16 bits: pairs of every fourth.
    for (const pair of [0, 2]) {
      const sums = [0, 0].map((_, lane) => {
        let [above, below] = [0, 0];
        for (let i = 0; i < 16; i += 4) {
          const value = row[k + i + pair + lane] ?? 0;
          largest = max(largest, abs(value));
          above = fround(above + max(value, 0));
          below = fround(below + min(value, 0));
        }
        return [above, below] as const;
      });
      const total = (sign: 0 | 1) => fround(sums[0]![sign] + sums[1]![sign]);
      eight = max(eight, total(0), -total(1));
    }
  }
  const full = fround(largest / 127);
  const narrow = fround(eight / NARROW);
  return fullRange || narrow > fround(2.5 * full) ? full : max(full, narrow);
}

/** Rows [count, width] as integers, and a scale for each. A row that is not finite gets the scale NaN. */
export function quantize(
  data: Float32Array,
  count: number,
  fullRange: boolean,
): { integers: Int8Array; scales: Float32Array } {
  const width = data.length / count;
  const integers = new Int8Array(data.length);
  const scales = new Float32Array(count);
  for (let r = 0; r < count; r++) {
    const row = data.subarray(r * width, (r + 1) * width);
    const scale = row.every(Number.isFinite) ? scaleOf(row, fullRange) : NaN;
    scales[r] = scale;
    if (!(scale > 0)) continue;
    const inverse = fround(1 / scale);
    for (let i = 0; i < width; i++) integers[r * width + i] = max(-128, min(127, nearest(fround(row[i]! * inverse))));
  }
  return { integers, scales };
}
