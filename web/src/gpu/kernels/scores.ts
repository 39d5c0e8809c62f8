/**
 * S_ij = scale q_i . k_j + P_ij for the keys j that query i may attend to: |i - j| <= window; j <= i if causal; not
 * masked.
 * P_ij is 0, or B[h, j - i] (ALiBi, MPNet's buckets), or scale (q_i . PK_r + k_j . PQ_r), where r is the row of the
 * distance i - j (DeBERTa).
 */
export interface ScoresKernel {
  heads: number;
  keyHeads: number;
  headDim: number;
  scale: number;
  /** Maximum |i - j|; -1 for no window. */
  window: number;
  causal: boolean;
  keyMask: boolean;
  headMask: boolean;
  /** Maximum distance in the bias table, whose value larger distances share; null without a bias. */
  bias: number | null;
  /** Maximum distance in the embeddings of distances, whose row larger distances share; null without them. */
  distances: number | null;
}

/** Used instead of minus infinity, which WGSL implementations may replace with any value. */
export const FORBIDDEN = '-3.0e38';

/** Width of a row [Q | K | V]. */
export const rowStride = ({ heads, keyHeads, headDim }: ScoresKernel): number => (heads + 2 * keyHeads) * headDim;

/**
 * WGSL declarations and functions of the scores. Bindings from `binding` on: x, then those that apply of the key mask,
 * the heads' factors, the bias, the rows [PK | PQ] and the row for each distance.
 */
export function scores(kernel: ScoresKernel, binding: number): string {
  const { heads, keyHeads, headDim, window, causal, keyMask, headMask, bias, distances } = kernel;
  const declare = (isThere: unknown, name: string, type: string) =>
    isThere ? `@group(0) @binding(${binding++}) var<storage, read> ${name}: array<${type}>;\n` : '';
  return /* wgsl */ `
${declare(true, 'x', 'f32')}${declare(keyMask, 'key_mask', 'f32')}${declare(headMask, 'factors', 'f32')}
${declare(bias !== null, 'bias', 'f32')}${declare(distances !== null, 'positions', 'f32')}${declare(distances !== null, 'distance_rows', 'u32')}
const D = ${headDim}u;
const STRIDE = ${rowStride(kernel)}u;
const KEYS = ${heads * headDim}u;
const VALUES = ${(heads + keyHeads) * headDim}u;
const FORBIDDEN = ${FORBIDDEN};
fn key_head(h: u32) -> u32 { return h / ${heads / keyHeads}u; }
/// Whether query i may attend to key j of a text of that length, whose first row is that of begin.
fn allowed(begin: u32, length: u32, i: u32, j: u32) -> bool {
  if (i >= length || j >= length) { return false; }
  ${causal ? 'if (j > i) { return false; }' : ''}
  ${window >= 0 ? `if (max(i, j) - min(i, j) > ${window}u) { return false; }` : ''}
  ${keyMask ? 'if (key_mask[begin + j] < 0.0) { return false; }' : ''}
  return true;
}
fn biased(score: f32, h: u32, i: u32, j: u32) -> f32 {
  return score * ${kernel.scale.toExponential()}${
    bias === null ? '' : ` + bias[h * ${2 * bias + 1}u + u32(clamp(i32(j) - i32(i), ${-bias}, ${bias}) + ${bias})]`
  };
}
fn head_factor(h: u32) -> f32 { return ${headMask ? 'factors[h]' : '1.0'}; }
${
  distances !== null
    ? /* wgsl */ `/// Where PK_r of head h begins, for the distance between query i and key j; PQ_r is PQ further: rows [PK | PQ].
const PQ = KEYS;
fn position_at(h: u32, i: u32, j: u32) -> u32 {
  let distance = clamp(i32(i) - i32(j), ${-distances}, ${distances});
  return distance_rows[distance + ${distances}] * 2u * KEYS + h * D;
}`
    : ''
}`;
}
