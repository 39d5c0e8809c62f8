/**
 * Attention weights A_ij = exp(S_ij - m_i) / sum_j exp(S_ij - m_i), with the scores S of scores.ts and their maximum
 * m_i in row i. Computed only when they are requested; attention.ts does not store them.
 */
import { reduce, THREADS } from './reduce.js';
import { FORBIDDEN, type ScoresKernel, scores } from './scores.js';

/**
 * Bindings: y, rows (the text's first row, its length, the offset of its matrices [H,L,L]), then those of scores().
 * Workgroups: rows, heads.
 */
function matrices(kernel: ScoresKernel, body: string): string {
  const { distances } = kernel;
  return /* wgsl */ `
@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@group(0) @binding(1) var<storage, read> rows: array<vec4u>;
${scores({ ...kernel, headMask: false }, 2)}
${reduce}
fn score_of(h: u32, begin: u32, i: u32, j: u32) -> f32 {
  let query = (begin + i) * STRIDE + h * D;
  let key = (begin + j) * STRIDE + KEYS + key_head(h) * D;
  ${distances !== null ? 'let p = position_at(h, i, j);' : ''}
  var score = 0.0;
  for (var d = 0u; d < D; d++) {
    score += x[query + d] * x[key + d]${distances !== null ? ' + x[query + d] * positions[p + d] + x[key + d] * positions[PQ + p + d]' : ''};
  }
  return biased(score, h, i, j);
}
@compute @workgroup_size(${THREADS})
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
  let text = rows[group.x];
  let h = group.y;
  let i = group.x - text.x;
  let out = text.z + (h * text.y + i) * text.y;
  ${body}
}`;
}

export const weights = (kernel: ScoresKernel): string =>
  matrices(
    kernel,
    /* wgsl */ `
  var part = ${FORBIDDEN};
  for (var j = thread; j < text.y; j += ${THREADS}u) {
    if (allowed(text.x, text.y, i, j)) {
      let score = score_of(h, text.x, i, j);
      y[out + j] = score;
      part = max(part, score);
    }
  }
  let greatest = max_of(thread, part);
  part = 0.0;
  for (var j = thread; j < text.y; j += ${THREADS}u) {
    var value = 0.0;
    if (allowed(text.x, text.y, i, j)) { value = exp(y[out + j] - greatest); }
    y[out + j] = value;
    part += value;
  }
  let sum = sum_of(thread, part);
  for (var j = thread; j < text.y; j += ${THREADS}u) { y[out + j] *= select(0.0, 1.0 / sum, sum > 0.0); }`,
  );

/** The scores of all pairs of query and key, including those that masks exclude. */
export const scoreMatrices = (kernel: ScoresKernel): string =>
  matrices(
    { ...kernel, keyMask: false },
    `for (var j = thread; j < text.y; j += ${THREADS}u) { y[out + j] = score_of(h, text.x, i, j); }`,
  );
