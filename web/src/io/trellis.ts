/** Decodes rows of 2 to 4 bits per weight in JavaScript, as cpp/src/core/trellis.h does; see docs/quantization.md. */
import { type TrellisBits, trellisPlaneBytes } from './safetensors.js';

/** The level of each state. */
export const TRELLIS_LEVELS = Float32Array.from({ length: 8192 }, (_, state) => {
  const z = (Math.imul(2853375093, state) + 2917156712) >>> 0;
  return (z & 255) + ((z >>> 8) & 255) + ((z >>> 16) & 255) + (z >>> 24) - 510;
});

/**
 * Decodes rows [N, bits, bytes of a plane] to [N, width], without the factors of rows. Each row is one sequence.
 */
export function decodeTrellisRows(rows: Uint8Array, bits: TrellisBits, columnScales: Float32Array): Float32Array {
  const width = columnScales.length;
  const plane = trellisPlaneBytes(width);
  const out = new Float32Array((rows.length / (bits * plane)) * width);
  for (let begin = 0, at = 0; at < out.length; begin += bits * plane) {
    let state = 0;
    for (let c = 0; c < width; c++) {
      let number = 0;
      for (let b = bits - 1; b >= 0; b--)
        number = (number << 1) | ((rows[begin + b * plane + (c >> 3)]! >> (c & 7)) & 1);
      state = ((state << bits) | number) & 8191;
      out[at++] = columnScales[c]! * TRELLIS_LEVELS[state]!;
    }
  }
  return out;
}
