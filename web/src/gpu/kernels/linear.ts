/**
 * Y = phi(X W^T + b) + R, with X [M,K], W [N,K], b [N] and R [M,N]; b and R may be absent.
 * Gated: the rows of W alternate between the two halves, and Y [M,N/2] = phi(a) * c for each pair of adjacent columns
 * a and c.
 *
 * With scales s [N], W is in fp16 and its row n must be multiplied by s_n (halves.ts). Weights are widened to fp32; all
 * arithmetic is in fp32.
 *
 * A workgroup computes 32 x 64 entries and a thread 4 x 4 of them, from 16 columns of X and W at a time. Each entry is
 * summed in the order of k, for any M.
 */
import { activationOf } from './activations.js';

export interface LinearKernel {
  /** K */
  inputs: number;
  /** N */
  outputs: number;
  activation: string;
  bias: boolean;
  residual: boolean;
  gated: boolean;
  scales: boolean;
}

/** Rows and columns of Y (before gating) per workgroup. */
export const LINEAR_TILE = { rows: 32, columns: 64 };

/** Bindings: x, w, y, then b, r and s if present. Workgroups: tiles of columns, tiles of rows. */
export function linear({ inputs, outputs, activation, bias, residual, gated, scales }: LinearKernel): string {
  const entry = (r: number, c: number) => {
    const value = (at: number) => `acc${r}[${at}]${scales ? ` * s[n + ${at}u]` : ''}${bias ? ` + b[n + ${at}u]` : ''}`;
    const result = gated ? `phi(${value(c)}) * (${value(c + 1)})` : `phi(${value(c)})`;
    const at = gated ? `(m + ${r}u) * ${outputs / 2}u + n / 2u + ${c / 2}u` : `(m + ${r}u) * N + n + ${c}u`;
    return `if (n + ${c}u < N) { let at = ${at}; y[at] = ${result}${residual ? ' + r[at]' : ''}; }`;
  };
  const row = (r: number) =>
    `if (m + ${r}u < M) { ${(gated ? [0, 2] : [0, 1, 2, 3]).map((c) => entry(r, c)).join('\n    ')} }`;
  let binding = 3;
  const declare = (name: string) => `@group(0) @binding(${binding++}) var<storage, read> ${name}: array<f32>;`;
  const weight = scales
    ? 'let at = n * K + k; let two = unpack2x16float(w[at / 2u]); return select(two.x, two.y, at % 2u == 1u);'
    : 'return w[n * K + k];';
  return /* wgsl */ `
const K = ${inputs}u;
const N = ${outputs}u;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> w: array<${scales ? 'u32' : 'f32'}>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
${bias ? declare('b') : ''}
${residual ? declare('r') : ''}
${scales ? declare('s') : ''}
${activationOf(activation)}
var<workgroup> xs: array<vec4f, 128>; // [16 k][8 groups of rows]
var<workgroup> ws: array<vec4f, 256>; // [16 k][16 groups of columns]
fn x_at(m: u32, k: u32, M: u32) -> f32 { if (m < M && k < K) { return x[m * K + k]; } return 0.0; }
fn w_at(n: u32, k: u32) -> f32 { if (n < N && k < K) { ${weight} } return 0.0; }
fn xs_of(m: u32, k: u32, M: u32) -> vec4f {
  return vec4f(x_at(m, k, M), x_at(m + 1u, k, M), x_at(m + 2u, k, M), x_at(m + 3u, k, M));
}
fn ws_of(n: u32, k: u32) -> vec4f { return vec4f(w_at(n, k), w_at(n + 1u, k), w_at(n + 2u, k), w_at(n + 3u, k)); }

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) i: u32) {
  let M = arrayLength(&x) / K;
  let m0 = group.y * 32u;
  let n0 = group.x * 64u;
  let column = i % 16u;
  let part = i / 16u;
  var acc0 = vec4f(); var acc1 = vec4f(); var acc2 = vec4f(); var acc3 = vec4f();
  for (var k0 = 0u; k0 < K; k0 += 16u) {
    xs[column * 8u + part] = xs_of(m0 + part * 4u, k0 + column, M);
    ws[column * 16u + part] = ws_of(n0 + part * 4u, k0 + column);
    ws[column * 16u + part + 8u] = ws_of(n0 + part * 4u + 32u, k0 + column);
    workgroupBarrier();
    for (var k = 0u; k < 16u; k++) {
      let rows4 = xs[k * 8u + part];
      let by = ws[k * 16u + column];
      acc0 += rows4.x * by; acc1 += rows4.y * by; acc2 += rows4.z * by; acc3 += rows4.w * by;
    }
    workgroupBarrier();
  }
  let m = m0 + part * 4u;
  let n = n0 + column * 4u;
  ${[0, 1, 2, 3].map(row).join('\n  ')}
}`;
}
