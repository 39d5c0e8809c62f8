/** Sum or maximum over the threads of a workgroup, always in the same order. */

/** Threads per workgroup in kernels with one workgroup per row. */
export const THREADS = 64;

export const reduce = /* wgsl */ `
var<workgroup> parts: array<f32, ${THREADS}>;
fn sum_of(i: u32, value: f32) -> f32 {
  parts[i] = value;
  workgroupBarrier();
  for (var n = ${THREADS / 2}u; n > 0u; n >>= 1u) {
    if (i < n) { parts[i] += parts[i + n]; }
    workgroupBarrier();
  }
  let total = parts[0];
  workgroupBarrier();
  return total;
}
fn max_of(i: u32, value: f32) -> f32 {
  parts[i] = value;
  workgroupBarrier();
  for (var n = ${THREADS / 2}u; n > 0u; n >>= 1u) {
    if (i < n) { parts[i] = max(parts[i], parts[i + n]); }
    workgroupBarrier();
  }
  let greatest = parts[0];
  workgroupBarrier();
  return greatest;
}
`;
