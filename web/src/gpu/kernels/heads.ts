/**
 * Changes the queries and keys of rows [Q | K | V] in place: normalizes each head (or all heads of a row jointly), then
 * rotates pairs of a head's features (a, c) by the angle t of the row's position:
 * (a cos t - c sin t, a sin t + c cos t). Either step may be absent.
 */
import { statistics } from './norm.js';
import { reduce, THREADS } from './reduce.js';

export interface HeadsKernel {
  /** Number of query heads. */
  heads: number;
  /** Number of key and value heads. */
  keyHeads: number;
  headDim: number;
  /** Width of a row of [Q | K | V]. */
  stride: number;
  norm: { eps: number; rms: boolean; bias: boolean; joint: boolean } | null;
  /** Number of rotated features per head; 0 for no rotation. */
  rotaryDim: number;
}

/** Number of workgroups per row. */
export const headGroups = ({ heads, keyHeads, norm }: HeadsKernel): number => (norm?.joint ? 2 : heads + keyHeads);

/**
 * Bindings: x; with a norm, w (for the queries, then for the keys) and, if present, b; with a rotation, rows (whose
 * first component is the text's first row) and the interleaved cosines and sines. Workgroups: headGroups(), rows.
 */
export function heads(kernel: HeadsKernel): string {
  const { headDim, stride, norm, rotaryDim } = kernel;
  const span = norm?.joint ? kernel.heads * headDim : headDim;
  const ofQueries = norm?.joint ? 1 : kernel.heads;
  const half = rotaryDim / 2;
  let binding = 1;
  const declare = (name: string, type: string) =>
    `@group(0) @binding(${binding++}) var<storage, read> ${name}: array<${type}>;\n`;
  return /* wgsl */ `
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
${norm ? declare('w', 'f32') : ''}${norm?.bias ? declare('b', 'f32') : ''}
${half > 0 ? declare('rows', 'vec4u') + declare('turns', 'vec2f') : ''}
${norm ? reduce : ''}
@compute @workgroup_size(${THREADS})
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) i: u32) {
  let first = group.y * ${stride}u + group.x * ${span}u;
  ${norm ? `let part_of = select(0u, ${span}u, group.x >= ${ofQueries}u);` : ''}
  ${norm ? statistics(span, norm.eps, norm.rms) : ''}
  ${half > 0 ? `let turn = (group.y - rows[group.y].x) * ${half}u;` : ''}
  for (var e = i; e < ${span}u; e += ${THREADS}u) {
    let a = ${normed('e', norm)};
    ${
      half > 0
        ? /* wgsl */ `let d = e % ${headDim}u;
    if (d < ${half}u) {
      let f = e + ${half}u;
      let c = ${normed('f', norm)};
      let t = turns[turn + d];
      x[first + e] = a * t.x - c * t.y;
      x[first + f] = a * t.y + c * t.x;
    } else if (d >= ${rotaryDim}u) { x[first + e] = a; }`
        : 'x[first + e] = a;'
    }
  }
}`;
}

const normed = (at: string, norm: HeadsKernel['norm']) =>
  norm
    ? `(x[first + ${at}] - mean) * scale * w[part_of + ${at}]${norm.bias ? ` + b[part_of + ${at}]` : ''}`
    : `x[first + ${at}]`;
