/** Results of the core, whose rows are concatenated without padding, as padded tensors. Notation: N texts, L the longest one's rows, S keys, E width, H heads, D width of a head. */

/** A text's rows: the column in padded tensors of each. */
export interface PaddedRow {
  readonly columns: readonly number[];
}

/** Copies concatenated rows [sum L_n, E] into a padded [N, L, E]; the rest of it stays as it is. */
export function padRows(
  rows: Float32Array,
  piece: readonly PaddedRow[],
  width: number,
  dim: number,
  out: Float32Array,
): void {
  padHeads(rows, piece, width, 1, dim, out);
}

/** Copies concatenated rows [sum L_n, H * D] into a padded [N, H, L, D]. */
export function padHeads(
  rows: Float32Array,
  piece: readonly PaddedRow[],
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

/** Copies the scores or weights of each text, concatenated [H, L_n, S_n], into a padded [N, H, L, S]. `keys`: the rows that are keys. */
export function padWeights(
  weights: Float32Array,
  piece: readonly PaddedRow[],
  width: number,
  numHeads: number,
  out: Float32Array,
  keys = piece,
  keyWidth = width,
): void {
  let at = 0;
  piece.forEach(({ columns }, n) => {
    for (let h = 0; h < numHeads; h++) {
      for (const i of columns) {
        const row = ((n * numHeads + h) * width + i) * keyWidth;
        for (const j of keys[n]!.columns) out[row + j] = weights[at++]!;
      }
    }
  });
}
