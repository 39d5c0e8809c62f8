/**
 * Y_i = f_h sum_j exp(S_ij - m_i) V_j / sum_j exp(S_ij - m_i) for each head h, with the scores S of scores.ts, their
 * maximum m_i in row i, and the head's factor f_h. Y_i = 0 for queries without visible keys. Maxima and sums are
 * updated online, tile by tile (Milakov and Gimelshein 2018, arXiv:1805.02867), so no matrix of scores is stored.
 *
 * A workgroup computes 16 queries of a text and visits the keys in tiles of 32. Thread (q, p) has query q, keys
 * p + 8 n, and columns p + 8 n of the output.
 */
import { FORBIDDEN, type ScoresKernel, scores } from './scores.js';

/** Queries per workgroup. */
export const QUERIES = 16;

/**
 * Bindings: y, tiles (the text's first row and length, the first query), then those of scores(), where x has rows
 * [Q | K | V]. Workgroups: tiles, heads.
 */
export function attention(kernel: ScoresKernel): string {
  const { headDim, heads, window, causal, distances } = kernel;
  const chunks = Array.from({ length: Math.ceil(headDim / 32) }, (_, c) => c);
  const position = (at: string) =>
    distances !== null
      ? ` + query * positions[p${at} + d0 + d] + key.${'xyzw'[Number(at)]} * positions[PQ + p${at} + d0 + d]`
      : '';
  return /* wgsl */ `
@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@group(0) @binding(1) var<storage, read> tiles: array<vec4u>;
${scores(kernel, 2)}
var<workgroup> qs: array<f32, 528>; // [16][33]
var<workgroup> ks: array<f32, 1056>; // [32][33]: keys, later values
var<workgroup> ps: array<f32, 528>; // [16][33]: scores, later their exponentials
@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
  let tile = tiles[group.x];
  let h = group.y;
  let q = thread / 8u;
  let p = thread % 8u;
  let begin = tile.x;
  let length = tile.y;
  let i = tile.z + q;
  let last = min(tile.z + 15u, length - 1u);
  var low = 0u;
  var high = length;
  ${window >= 0 ? `low = max(tile.z, ${window}u) - ${window}u; high = min(high, last + ${window + 1}u);` : ''}
  ${causal ? 'high = min(high, last + 1u);' : ''}
  let q_at = h * D;
  let k_at = KEYS + key_head(h) * D;
  let v_at = VALUES + key_head(h) * D;
  ${chunks.map((c) => `var acc${c} = vec4f();`).join(' ')}
  var greatest = ${FORBIDDEN};
  var sum = 0.0;
  for (var k0 = low; k0 < high; k0 += 32u) {
    let keys = vec4u(k0 + p, k0 + p + 8u, k0 + p + 16u, k0 + p + 24u);
    ${distances !== null ? [0, 1, 2, 3].map((n) => `let p${n} = position_at(h, i, keys[${n}]);`).join(' ') : ''}
    var score = vec4f();
    for (var d0 = 0u; d0 < D; d0 += 32u) {
      for (var e = thread; e < 512u; e += 128u) {
        let row = tile.z + e / 32u; let d = d0 + e % 32u;
        var value = 0.0;
        if (row < length && d < D) { value = x[(begin + row) * STRIDE + q_at + d]; }
        qs[e / 32u * 33u + e % 32u] = value;
      }
      for (var e = thread; e < 1024u; e += 128u) {
        let row = k0 + e / 32u; let d = d0 + e % 32u;
        var value = 0.0;
        if (row < length && d < D) { value = x[(begin + row) * STRIDE + k_at + d]; }
        ks[e / 32u * 33u + e % 32u] = value;
      }
      workgroupBarrier();
      let depth = min(32u, D - d0);
      for (var d = 0u; d < depth; d++) {
        let query = qs[q * 33u + d];
        let key = vec4f(ks[p * 33u + d], ks[(p + 8u) * 33u + d], ks[(p + 16u) * 33u + d], ks[(p + 24u) * 33u + d]);
        ${
          distances !== null
            ? `score += vec4f(${[0, 1, 2, 3].map((n) => `query * key[${n}]${position(String(n))}`).join(', ')});`
            : 'score += query * key;'
        }
      }
      workgroupBarrier();
    }
    var open = vec4<bool>();
    for (var n = 0u; n < 4u; n++) {
      open[n] = allowed(begin, length, i, keys[n]);
      score[n] = select(${FORBIDDEN}, biased(score[n], h, i, keys[n]), open[n]);
      ps[q * 33u + p + 8u * n] = score[n];
    }
    workgroupBarrier();
    var top = greatest;
    for (var n = 0u; n < 32u; n++) { top = max(top, ps[q * 33u + n]); }
    let fade = exp(greatest - top);
    greatest = top;
    workgroupBarrier();
    for (var n = 0u; n < 4u; n++) { ps[q * 33u + p + 8u * n] = select(0.0, exp(score[n] - top), open[n]); }
    workgroupBarrier();
    sum *= fade;
    for (var n = 0u; n < 32u; n++) { sum += ps[q * 33u + n]; }
    ${chunks
      .map(
        (c) => /* wgsl */ `
    for (var e = thread; e < 1024u; e += 128u) {
      let row = k0 + e / 32u; let d = ${32 * c}u + e % 32u;
      var value = 0.0;
      if (row < length && d < D) { value = x[(begin + row) * STRIDE + v_at + d]; }
      ks[e / 32u * 33u + e % 32u] = value;
    }
    workgroupBarrier();
    acc${c} *= fade;
    for (var n = 0u; n < 32u; n++) {
      acc${c} += ps[q * 33u + n] * vec4f(ks[n * 33u + p], ks[n * 33u + p + 8u], ks[n * 33u + p + 16u], ks[n * 33u + p + 24u]);
    }
    workgroupBarrier();`,
      )
      .join('')}
  }
  if (i >= length) { return; }
  let factor = head_factor(h) * select(0.0, 1.0 / sum, sum > 0.0);
  for (var n = 0u; n < 4u; n++) {
    var d = p + 8u * n;
    let out = (begin + i) * ${heads * headDim}u + h * D;
    ${chunks.map((c) => `if (d + ${32 * c}u < D) { y[out + d + ${32 * c}u] = factor * acc${c}[n]; }`).join('\n    ')}
  }
}`;
}
