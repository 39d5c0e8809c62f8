/**
 * Measures the peak speed of this machine in the running engine: how fast it executes the instructions of matrix
 * products, without memory accesses, in a small WebAssembly module.
 */
import type { Build } from '../../index.js';

/** Operations per second. A multiplication and an addition count as two. */
export interface Peak {
  fp32: number;
  int8: number;
}

const V128 = 0x7b;
const I32 = 0x7f;
const simd = (code: number) => (code < 128 ? [0xfd, code] : [0xfd, (code & 127) | 128, code >> 7]);
const get = (local: number) => [0x20, local];
const set = (local: number) => [0x21, local];
const RELAXED_MADD = simd(0x105);
const RELAXED_DOT_ADD = simd(0x113);
const I32X4_ADD = simd(0xae);

/**
 * Number of independent sums: enough to hide the latency of an instruction, and few enough to fit into 16 registers
 * with the operands.
 */
const SUMS = 12;
const [COUNT, A, B, FIRST_SUM] = [0, 1, 2, 3];

/** An instruction sequence that updates a sum with products of A and B, and its number of operations. */
interface Step {
  code: (sum: number) => number[];
  operations: number;
}

const STEPS: Record<Build, Record<keyof Peak, Step>> = {
  'relaxed-simd': {
    fp32: { code: (sum) => [...get(A), ...get(B), ...get(sum), ...RELAXED_MADD], operations: 8 },
    int8: { code: (sum) => [...get(A), ...get(B), ...get(sum), ...RELAXED_DOT_ADD], operations: 32 },
  },
  // sum * A + B: the product A * B is constant and would be computed only once. f32x4.mul and add; i32x4.dot_i16x8_s
  // and add
  simd128: {
    fp32: { code: (sum) => [...get(sum), ...get(A), ...simd(0xe6), ...get(B), ...simd(0xe4)], operations: 8 },
    int8: { code: (sum) => [...get(sum), ...get(A), ...simd(0xba), ...get(B), ...I32X4_ADD], operations: 16 },
  },
};

/** A WebAssembly module with one function `run(count)`, which executes the step `count` times for each of SUMS sums. */
function moduleOf({ code }: Step, isFloat: boolean): Uint8Array<ArrayBuffer> {
  const sums = Array.from({ length: SUMS }, (_, i) => FIRST_SUM + i);
  const section = (id: number, content: number[]) => [id, ...length(content), ...content];
  const operand = (local: number) => [
    ...get(COUNT),
    ...simd(0x11), // i32x4.splat
    ...(isFloat ? simd(0xfa) : []), // f32x4.convert_i32x4_s: small integers would be denormal
    ...set(local),
  ];
  const loop = [
    ...[0x03, 0x40], // loop
    ...sums.flatMap((sum) => [...code(sum), ...set(sum)]),
    ...[...get(COUNT), 0x41, 1, 0x6b, 0x22, COUNT], // count -= 1
    ...[0x0d, 0, 0x0b], // br_if, end
  ];
  const total = sums.flatMap((sum, i) => [...get(sum), ...(i > 0 ? I32X4_ADD : [])]);
  const body = [1, SUMS + 2, V128, ...operand(A), ...operand(B), ...loop, ...total, ...simd(0x1b), 0, 0x0b];
  return Uint8Array.from([
    ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, [1, 0x60, 1, I32, 1, I32]),
    ...section(3, [1, 0]),
    ...section(7, [1, 3, ...Buffer.from('run'), 0, 0]),
    ...section(10, [1, ...length(body), ...body]),
  ]);
}

/** The length of a section, in LEB128. */
const length = ({ length: n }: number[]) => (n < 128 ? [n] : [(n & 127) | 128, n >> 7]);

/** Steps per call: few, so that some calls are not interrupted. */
const COUNT_PER_CALL = 20_000;
const MILLISECONDS = 100;

async function rateOf(step: Step, isFloat: boolean): Promise<number> {
  const { instance } = await WebAssembly.instantiate(moduleOf(step, isFloat));
  const run = instance.exports.run as (count: number) => number;
  let best = Infinity;
  const end = performance.now() + MILLISECONDS;
  while (performance.now() < end) {
    const start = performance.now();
    run(COUNT_PER_CALL);
    best = Math.min(best, performance.now() - start);
    await new Promise(setImmediate); // the engine switches to optimized code between calls
  }
  return (COUNT_PER_CALL * SUMS * step.operations * 1000) / best;
}

/** Measures the peak for a build; takes a fifth of a second. */
export async function measurePeak(build: Build): Promise<Peak> {
  const { fp32, int8 } = STEPS[build];
  return { fp32: await rateOf(fp32, true), int8: await rateOf(int8, false) };
}
