/**
 * y_n = sum_i w_i x_i / s over the L rows of text n that are not skipped. mean: w_i = 1, s = L; mean_sqrt_len: w_i = 1,
 * s = sqrt(L); weighted_mean: w_i = i + 1, s = sum of w_i. cls and last take one row (cls also if it is skipped), max
 * each column's maximum. y_n = 0 if L = 0. x [M,E], y [N,E].
 */
import { THREADS } from './reduce.js';

export type PoolingName = 'mean' | 'cls' | 'last' | 'max' | 'mean_sqrt_len' | 'weighted_mean';

const sum = (weight: string, divisor: string) => `
  for (var i = begin; i < end; i++) { value += ${weight} * x[i * E + e]; }
  value = value / ${divisor};`;
const count = 'f32(end - begin)';
const bodies: Record<PoolingName, string> = {
  mean: sum('1.0', count),
  mean_sqrt_len: sum('1.0', `sqrt(${count})`),
  weighted_mean: sum('f32(i - text.x + 1u)', `(f32(begin - text.x + 1u + end - text.x) * ${count} / 2.0)`),
  cls: 'value = x[text.x * E + e];',
  last: 'value = x[(end - 1u) * E + e];',
  max: 'value = x[begin * E + e]; for (var i = begin + 1u; i < end; i++) { value = max(value, x[i * E + e]); }',
};

/** Bindings: x, y, texts (first row, length, skipped rows). Workgroups: columns / 64, texts. */
export const pool = (pooling: PoolingName, embedDim: number): string => /* wgsl */ `
const E = ${embedDim}u;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<storage, read> texts: array<vec4u>;
@compute @workgroup_size(${THREADS})
fn main(@builtin(workgroup_id) group: vec3u, @builtin(global_invocation_id) thread: vec3u) {
  let e = thread.x;
  if (e >= E) { return; }
  let text = texts[group.y];
  let begin = text.x + ${pooling === 'cls' ? '0u' : 'min(text.z, text.y)'};
  let end = text.x + text.y;
  var value = 0.0;
  if (begin < end) { ${bodies[pooling]} }
  y[group.y * E + e] = value;
}`;
