/**
 * y[t, e W + k] = x[t + k - (W - 1) / 2, e], or 0 where that row belongs to another text: gathers the rows under a
 * convolution of width W, so that it becomes a matrix product. x [M,E], y [M, E W].
 */
import { THREADS } from './reduce.js';

/** Bindings: x, y, rows (first row and length of the text). One workgroup per row. */
export const windows = (embedDim: number, width: number): string => /* wgsl */ `
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<storage, read> rows: array<vec4u>;
@compute @workgroup_size(${THREADS})
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) i: u32) {
  let t = group.x;
  let text = rows[t];
  for (var at = i; at < ${embedDim * width}u; at += ${THREADS}u) {
    let row = i32(t + at % ${width}u) - ${(width - 1) / 2};
    var value = 0.0;
    if (row >= i32(text.x) && row < i32(text.x + text.y)) { value = x[u32(row) * ${embedDim}u + at / ${width}u]; }
    y[t * ${embedDim * width}u + at] = value;
  }
}`;
