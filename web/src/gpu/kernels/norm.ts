/**
 * LayerNorm: y = (x - mean(x)) / sqrt(var(x) + eps) * w + b + r; RMSNorm: y = x / sqrt(mean(x^2) + eps) * w + r. X, Y and R [M,E], w and b [E];
 * b and r may be absent.
 */
import { reduce, THREADS } from './reduce.js';

export interface NormKernel {
  width: number;
  eps: number;
  rms: boolean;
  bias: boolean;
  residual: boolean;
}

/** WGSL that declares `mean` and `scale` of the `count` values from `x[first]` on. The thread's index must be `i`. */
export const statistics = (count: number, eps: number, rms: boolean) => /* wgsl */ `
  var part = 0.0;
  ${rms ? '' : `for (var e = i; e < ${count}u; e += ${THREADS}u) { part += x[first + e]; }`}
  let mean = ${rms ? '0.0' : `sum_of(i, part) / ${count}.0`};
  part = 0.0;
  for (var e = i; e < ${count}u; e += ${THREADS}u) { let d = x[first + e] - mean; part += d * d; }
  let scale = 1.0 / sqrt(sum_of(i, part) / ${count}.0 + ${eps.toExponential()});
`;

/** Bindings: x, w, y, then b and r if present. One workgroup per row. */
export function norm({ width, eps, rms, bias, residual }: NormKernel): string {
  return /* wgsl */ `
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> w: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
${bias ? '@group(0) @binding(3) var<storage, read> b: array<f32>;' : ''}
${residual ? `@group(0) @binding(${bias ? 4 : 3}) var<storage, read> r: array<f32>;` : ''}
${reduce}
@compute @workgroup_size(${THREADS})
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) i: u32) {
  let first = group.x * ${width}u;
  ${statistics(width, eps, rms)}
  for (var e = i; e < ${width}u; e += ${THREADS}u) {
    y[first + e] = (x[first + e] - mean) * scale * w[e]${bias ? ' + b[e]' : ''}${residual ? ' + r[first + e]' : ''};
  }
}`;
}
