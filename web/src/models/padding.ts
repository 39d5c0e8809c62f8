/** Results of the core, whose rows are concatenated without padding, as padded tensors. Notation: N texts, L the longest one's tokens, E width, H heads. */
import type { Row } from './input.js';

/** Copies concatenated rows [sum L_n, E] into a padded [N, L, E]; the rest of it stays as it is. */
export function padRows(rows: Float32Array, piece: Row[], width: number, dim: number, out: Float32Array): void {
  let at = 0;
  piece.forEach((row, n) => {
    for (const column of row.columns) {
      out.set(rows.subarray(at, at + dim), (n * width + column) * dim);
      at += dim;
    }
  });
}

/** Copies concatenated rows [sum L_n, H * D] into a padded [N, H, L, D]. */
export function padHeads(
  rows: Float32Array,
  piece: Row[],
  width: number,
  numHeads: number,
  dim: number,
  out: Float32Array,
): void {
  let at = 0;
  piece.forEach(({ columns }, n) => {
    for (const column of columns) {
      for (let h = 0; h < numHeads; h++) {
        out.set(rows.subarray(at, at + dim), ((n * numHeads + h) * width + column) * dim);
        at += dim;
      }
    }
  });
}

/** Copies the weights of each text, concatenated [H, L_n, L_n], into a padded [N, H, L, L]. */
export function padWeights(
  weights: Float32Array,
  piece: Row[],
  width: number,
  numHeads: number,
  out: Float32Array,
): void {
  let at = 0;
  piece.forEach(({ columns }, n) => {
    for (let h = 0; h < numHeads; h++) {
      for (const i of columns) {
        const row = ((n * numHeads + h) * width + i) * width;
        for (const j of columns) out[row + j] = weights[at++]!;
      }
    }
  });
}
