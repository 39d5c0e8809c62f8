/** Each kernel compared with its formula in double precision, at sizes that are not multiples of its tiles. */
import { readFileSync } from 'node:fs';
import { test } from 'vitest';
import { PUBLISHED_NAMES } from '../../../web/src/base/activations.js';
import { halves } from '../../../web/src/gpu/halves.js';
import { attention, QUERIES } from '../../../web/src/gpu/kernels/attention.js';
import { LINEAR_TILE, linear } from '../../../web/src/gpu/kernels/linear.js';
import { norm } from '../../../web/src/gpu/kernels/norm.js';
import { widen } from '../../../web/src/io/safetensors.js';
import { expectNear, type Kernel, runKernel, values } from './kernel.js';
import { useGpuSite } from './site.js';

const site = useGpuSite();
const run = (kernel: Kernel) => runKernel(site, kernel);

test.each([
  [1, 3, 5],
  [3, 63, 65],
  [17, 30, 6],
  [63, 17, 130],
  [65, 33, 64],
  [257, 19, 10],
])('linear: %i rows, %i to %i columns', async (rows, inputs, outputs) => {
  const [x, w, b, r] = [values(rows * inputs), values(outputs * inputs), values(outputs), values(rows * outputs)];
  const product = (m: number, n: number) => {
    let sum = b[n]!;
    for (let k = 0; k < inputs; k++) sum += x[m * inputs + k]! * w[n * inputs + k]!;
    return sum;
  };
  const silu = (v: number) => v / (1 + Math.exp(-v));
  const groups = groupsOf(rows, outputs);
  const options = { inputs, outputs, activation: 'silu', bias: true, scales: false };
  const plain = await run({
    code: linear({ ...options, residual: true, gated: false }),
    inputs: [x, w, new Array(rows * outputs).fill(0), b, r].map((data) => ({ data })),
    output: 2,
    groups,
  });
  expectNear(
    plain,
    Array.from(r, (value, at) => silu(product(Math.floor(at / outputs), at % outputs)) + value),
  );
  if (outputs % 2 !== 0) return;
  const half = outputs / 2;
  const gated = await run({
    code: linear({ ...options, residual: false, gated: true }),
    inputs: [x, w, new Array(rows * half).fill(0), b].map((data) => ({ data })),
    output: 2,
    groups,
  });
  expectNear(
    gated,
    Array.from({ length: rows * half }, (_, at) => {
      const [m, n] = [Math.floor(at / half), 2 * (at % half)];
      return silu(product(m, n)) * product(m, n + 1);
    }),
  );
});

const ACTIVATIONS = new URL('../../fixtures/families/activations.json', import.meta.url);

test.each(Object.entries(PUBLISHED_NAMES).filter(([, names]) => names.length > 0))(
  'activation %s',
  async (activation, names) => {
    const { x, values: expected } = JSON.parse(readFileSync(ACTIVATIONS, 'utf8')) as {
      x: number[];
      values: Record<string, number[]>;
    };
    const options = { inputs: 1, outputs: 1, activation, bias: false, scales: false, residual: false, gated: false };
    const y = await run({
      code: linear(options),
      inputs: [x, [1], new Array(x.length).fill(0)].map((data) => ({ data })),
      output: 2,
      groups: groupsOf(x.length, 1),
    });
    expectNear(y, expected[names[0]!]!);
  },
);

const groupsOf = (rows: number, outputs: number): [number, number] => [
  Math.ceil(outputs / LINEAR_TILE.columns),
  Math.ceil(rows / LINEAR_TILE.rows),
];

test.each([
  [1, 3, 5],
  [17, 30, 6],
  [65, 33, 64],
])(
  'linear with weights in fp16, of rows of any magnitude: %i rows, %i to %i columns',
  async (rows, inputs, outputs) => {
    const magnitude = (n: number) => [1, 1e-7, 3e6][n % 3]!;
    const w = values(outputs * inputs).map((value, at) => value * magnitude(Math.floor(at / inputs)));
    const [x, b] = [values(rows * inputs), values(outputs).map((value, n) => value * magnitude(n))];
    const { words, scales } = halves(Float32Array.from(w), outputs);
    const rounded = widen(new Uint8Array(words.buffer), 'F16');
    const actual = await run({
      code: linear({
        inputs,
        outputs,
        activation: 'identity',
        bias: true,
        residual: false,
        gated: false,
        scales: true,
      }),
      inputs: [
        { data: x },
        { data: Array.from(words), whole: true },
        { data: new Array(rows * outputs).fill(0) },
        { data: b },
        { data: Array.from(scales) },
      ],
      output: 2,
      groups: groupsOf(rows, outputs),
    });
    const expected = actual.map((_, at) => {
      const [m, n] = [Math.floor(at / outputs), at % outputs];
      let sum = b[n]!;
      for (let k = 0; k < inputs; k++) sum += x[m * inputs + k]! * rounded[n * inputs + k]! * scales[n]!;
      return sum / magnitude(n);
    });
    expectNear(
      actual.map((value, at) => value / magnitude(at % outputs)),
      expected,
    );
  },
);

test.each([
  [1, 1],
  [3, 63],
  [17, 65],
  [257, 130],
])('norms: %i rows of width %i', async (rows, width) => {
  const [x, w, b, r] = [values(rows * width), values(width), values(width), values(rows * width)];
  for (const rms of [false, true]) {
    const actual = await run({
      code: norm({ width, eps: 1e-3, rms, bias: !rms, residual: true }),
      inputs: [x, w, new Array(rows * width).fill(0), ...(rms ? [] : [b]), r].map((data) => ({ data })),
      output: 2,
      groups: [rows, 1],
    });
    const expected = x.map((value, at) => {
      const row = x.slice(at - (at % width), at - (at % width) + width);
      const mean = rms ? 0 : row.reduce((sum, v) => sum + v, 0) / width;
      const variance = row.reduce((sum, v) => sum + (v - mean) ** 2, 0) / width;
      const e = at % width;
      return ((value - mean) / Math.sqrt(variance + 1e-3)) * w[e]! + (rms ? 0 : b[e]!) + r[at]!;
    });
    expectNear(actual, expected);
  }
});

test.each([
  { lengths: [1, 3, 17], headDim: 5, heads: 2, keyHeads: 1, window: -1, causal: false, masked: false },
  { lengths: [63, 65], headDim: 33, heads: 2, keyHeads: 2, window: 3, causal: false, masked: false },
  { lengths: [65, 2], headDim: 64, heads: 2, keyHeads: 2, window: -1, causal: true, masked: false },
  { lengths: [20, 20], headDim: 6, heads: 1, keyHeads: 1, window: -1, causal: false, masked: true },
  { lengths: [1025], headDim: 4, heads: 1, keyHeads: 1, window: -1, causal: false, masked: false },
])('attention: $lengths rows, width $headDim, window $window', async (of) => {
  const { lengths, headDim, heads, keyHeads, window, causal, masked } = of;
  const scale = 1 / Math.sqrt(headDim);
  const stride = (heads + 2 * keyHeads) * headDim;
  const total = lengths.reduce((a, b) => a + b, 0);
  const x = values(total * stride).map((value) => Math.fround(3 * value));
  // No key of the first text is visible; in the others, every other key is.
  const mask = Array.from({ length: total }, (_, t) => (t < lengths[0]! || t % 2 === 0 ? -1 : 0));
  const tiles: number[] = [];
  const expected: number[] = [];
  let begin = 0;
  for (const length of lengths) {
    for (let i = 0; i < length; i += QUERIES) tiles.push(begin, length, i, 0);
    for (let i = 0; i < length; i++) {
      for (let h = 0; h < heads; h++) {
        const keyHead = Math.floor((h * keyHeads) / heads);
        const at = (row: number, first: number) => (begin + row) * stride + first;
        const weights: number[] = [];
        for (let j = 0; j < length; j++) {
          const isHidden =
            (window >= 0 && Math.abs(i - j) > window) || (causal && j > i) || (masked && mask[begin + j]! < 0);
          let score = 0;
          for (let d = 0; d < headDim; d++)
            score += x[at(i, h * headDim + d)]! * x[at(j, (heads + keyHead) * headDim + d)]!;
          weights.push(isHidden ? 0 : Math.exp(score * scale));
        }
        const sum = weights.reduce((a, b) => a + b, 0) || 1;
        for (let d = 0; d < headDim; d++) {
          const v = (j: number) => x[at(j, (heads + keyHeads + keyHead) * headDim + d)]!;
          expected.push(weights.reduce((all, weight, j) => all + (weight / sum) * v(j), 0));
        }
      }
    }
    begin += length;
  }
  const kernel = {
    heads,
    keyHeads,
    headDim,
    scale,
    window,
    causal,
    keyMask: masked,
    headMask: false,
    bias: null,
    distances: null,
  };
  const actual = await run({
    code: attention(kernel),
    inputs: [
      { data: new Array(expected.length).fill(7) },
      { data: tiles, whole: true },
      { data: x },
      ...(masked ? [{ data: mask }] : []),
    ],
    output: 0,
    groups: [tiles.length / 4, heads],
  });
  expectNear(actual, expected);
});
