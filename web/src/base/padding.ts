/**
 * Converts results of the WebAssembly module, whose rows are concatenated without padding, to padded tensors. Notation:
 * N texts, L rows of the longest text, S keys, E width, H heads, D width of a head.
 */

/** The rows of a text: `columns` has the column of each in padded tensors. */
export interface PaddedRow {
  readonly columns: readonly number[];
}

/** Copies concatenated rows [sum L_n, H * D] into a padded tensor [N, H, L, D]. Does not write to the padding. */
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

/**
 * Copies the scores or weights of each text, concatenated [H, L_n, S_n], into a padded tensor [N, H, L, S]. `keys`: the
 * rows of the keys.
 */
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

/** The rows of `count` texts of `length` tokens each, without padding. */
export function fullRows(count: number, length: number): PaddedRow[] {
  const columns = Array.from({ length }, (_, i) => i);
  return Array.from({ length: count }, () => ({ columns }));
}
