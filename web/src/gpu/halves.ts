/** Weights in fp16, with one factor per row. */

const float = new Float32Array(1);
const bits = new Uint32Array(float.buffer);

/** The bits of the fp16 number nearest to an fp32 number. Ties go to even; 65,520 and above become infinity. */
export function halfOf(value: number): number {
  float[0] = value;
  const sign = (bits[0]! >>> 16) & 0x8000;
  const size = bits[0]! & 0x7fffffff;
  if (size > 0x7f800000) return sign | 0x7e00; // NaN
  if (size >= 0x477ff000) return sign | 0x7c00;
  if (size < 0x38800000) {
    // Subnormal: adding 1/2 rounds to a multiple of 2^-24, the spacing of fp16's subnormal numbers.
    float[0] = Math.abs(value) + 0.5;
    return sign | (bits[0]! - 0x3f000000);
  }
  return sign | ((size + 0xfff + ((size >>> 13) & 1) - 0x38000000) >>> 13);
}

/**
 * Converts a matrix [N,K] to fp16, two numbers per 32-bit word, and returns for each row the power of two by which it
 * must be multiplied. The scaled maximum of a row lies in [2^14, 2^15), so nothing overflows, and only numbers below
 * 2^-28 of the maximum lose bits by becoming subnormal.
 */
export function halves(data: Float32Array, rows: number): { words: Uint32Array; scales: Float32Array } {
  const width = data.length / rows;
  const out = new Uint16Array(2 * Math.ceil(data.length / 2));
  const scales = new Float32Array(rows);
  for (let row = 0; row < rows; row++) {
    float[0] = 0;
    for (let at = row * width; at < (row + 1) * width; at++) {
      const size = Math.abs(data[at]!);
      if (size > float[0]!) float[0] = size;
    }
    const scale = 2 ** (Math.max(16, bits[0]! >>> 23) - 141);
    scales[row] = scale;
    for (let at = row * width; at < (row + 1) * width; at++) out[at] = halfOf(data[at]! / scale);
  }
  return { words: new Uint32Array(out.buffer), scales };
}
