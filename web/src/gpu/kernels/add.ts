/** y = x + r, elementwise. */
import { THREADS } from './reduce.js';

/** Bindings: x, r, y, rows of `width` values. One workgroup per row. */
export const add = (width: number): string => /* wgsl */ `
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> r: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(${THREADS})
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) i: u32) {
  let first = group.x * ${width}u;
  for (var e = i; e < ${width}u; e += ${THREADS}u) { y[first + e] = x[first + e] + r[first + e]; }
}`;
