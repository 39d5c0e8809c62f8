/**
 * The kernels with one workgroup per row, each compared with its formula in double precision, at sizes that are not
 * multiples of its threads.
 */
import { expect, test } from 'vitest';
import { attention, QUERIES } from '../../../web/src/gpu/kernels/attention.js';
import { type HeadsKernel, headGroups, heads } from '../../../web/src/gpu/kernels/heads.js';
import { type PoolingName, pool } from '../../../web/src/gpu/kernels/pool.js';
import { rowStride, type ScoresKernel } from '../../../web/src/gpu/kernels/scores.js';
import { weights } from '../../../web/src/gpu/kernels/weights.js';
import { windows } from '../../../web/src/gpu/kernels/windows.js';
import { expectNear, type Kernel, runKernel, values } from './kernel.js';
import { useGpuSite } from './site.js';

const site = useGpuSite();
const run = (kernel: Kernel) => runKernel(site, kernel);

const sum = (parts: number[]) => parts.reduce((a, b) => a + b, 0);
const zeros = (count: number) => new Array<number>(count).fill(0);
/** The first row of each text. */
const begins = (lengths: number[]) => lengths.map((_, n) => sum(lengths.slice(0, n)));
/** For each row, the result of `of` for its text. */
const perRow = <T>(lengths: number[], of: (begin: number, length: number, n: number) => T) =>
  lengths.flatMap((length, n) => Array.from({ length }, () => of(begins(lengths)[n]!, length, n)));

const kinds: (Omit<HeadsKernel, 'stride'> & { lengths: number[] })[] = [
  { lengths: [1, 3], heads: 3, keyHeads: 1, headDim: 6, norm: null, rotaryDim: 6 },
  { lengths: [17], heads: 2, keyHeads: 2, headDim: 10, norm: null, rotaryDim: 4 },
  {
    lengths: [63],
    heads: 2,
    keyHeads: 1,
    headDim: 5,
    norm: { eps: 1e-3, rms: true, bias: false, joint: false },
    rotaryDim: 0,
  },
  {
    lengths: [65, 1],
    heads: 3,
    keyHeads: 1,
    headDim: 130,
    norm: { eps: 1e-3, rms: true, bias: false, joint: false },
    rotaryDim: 66,
  },
  {
    lengths: [257],
    heads: 3,
    keyHeads: 3,
    headDim: 6,
    norm: { eps: 1e-3, rms: false, bias: true, joint: true },
    rotaryDim: 6,
  },
  {
    lengths: [2, 2],
    heads: 2,
    keyHeads: 2,
    headDim: 33,
    norm: { eps: 1e-3, rms: false, bias: true, joint: false },
    rotaryDim: 0,
  },
];

test.each(kinds)('norms and rotations of heads: $lengths rows, width $headDim, $rotaryDim rotated', async (kind) => {
  const { lengths, keyHeads, headDim, norm, rotaryDim } = kind;
  const stride = (kind.heads + 2 * keyHeads) * headDim;
  const x = values(sum(lengths) * stride);
  const span = norm?.joint ? kind.heads * headDim : headDim;
  const [w, b] = [values(2 * span), values(2 * span)];
  const half = rotaryDim / 2;
  const angles = values(Math.max(...lengths) * half).map((value) => 9 * value);
  const rows = perRow(lengths, (begin, length) => [begin, length, 0, 0]);

  const expected = [...x];
  rows.forEach(([begin], row) => {
    for (let part = 0; part < 2; part++) {
      const count = part === 0 ? kind.heads : keyHeads;
      const first = row * stride + part * kind.heads * headDim;
      for (let at = first; norm && at < first + count * headDim; at += span) {
        const of = x.slice(at, at + span);
        const mean = norm.rms ? 0 : sum(of) / span;
        const scale = 1 / Math.sqrt(sum(of.map((value) => (value - mean) ** 2)) / span + norm.eps);
        of.forEach((value, e) => {
          const parameter = part * span + e;
          expected[at + e] = (value - mean) * scale * w[parameter]! + (norm.bias ? b[parameter]! : 0);
        });
      }
      for (let at = first; at < first + count * headDim; at += headDim)
        for (let k = 0; k < half; k++) {
          const angle = angles[(row - begin!) * half + k]!;
          const [a, c] = [expected[at + k]!, expected[at + half + k]!];
          expected[at + k] = a * Math.cos(angle) - c * Math.sin(angle);
          expected[at + half + k] = a * Math.sin(angle) + c * Math.cos(angle);
        }
    }
  });

  const kernel = { ...kind, stride };
  const actual = await run({
    code: heads(kernel),
    inputs: [
      { data: x },
      ...(norm ? [{ data: w }] : []),
      ...(norm?.bias ? [{ data: b }] : []),
      ...(half > 0
        ? [{ data: rows.flat(), whole: true }, { data: angles.flatMap((angle) => [Math.cos(angle), Math.sin(angle)]) }]
        : []),
    ],
    output: 0,
    groups: [headGroups(kernel), rows.length],
  });
  expectNear(actual, expected);
});

const poolings: PoolingName[] = ['mean', 'cls', 'last', 'max', 'mean_sqrt_len', 'weighted_mean'];

test.each(poolings)('pooling: %s', async (mode) => {
  const lengths = [1, 3, 17, 63, 65, 257];
  for (const [width, skipped] of [
    [65, 0],
    [3, 2],
  ] as const) {
    const x = values(sum(lengths) * width);
    const expected = lengths.flatMap((length, n) =>
      Array.from({ length: width }, (_, e) => {
        const begin = begins(lengths)[n]!;
        const column = Array.from({ length }, (_, i) => x[(begin + i) * width + e]!);
        const kept = column.map((value, i) => [i, value] as const).slice(skipped);
        if (mode === 'cls') return column[0]!;
        if (kept.length === 0) return 0;
        const all = kept.map(([, value]) => value);
        if (mode === 'last') return all.at(-1)!;
        if (mode === 'max') return Math.max(...all);
        if (mode === 'mean') return sum(all) / all.length;
        if (mode === 'mean_sqrt_len') return sum(all) / Math.sqrt(all.length);
        return sum(kept.map(([i, value]) => (i + 1) * value)) / sum(kept.map(([i]) => i + 1));
      }),
    );
    const texts = lengths.flatMap((length, n) => [begins(lengths)[n]!, length, skipped, 0]);
    const actual = await run({
      code: pool(mode, width),
      inputs: [{ data: x }, { data: zeros(expected.length) }, { data: texts, whole: true }],
      output: 1,
      groups: [Math.ceil(width / 64), lengths.length],
    });
    expectNear(actual, expected);
  }
});

test.each([
  [5, 3],
  [30, 5],
])('windows: width %i, %i rows each', async (width, rows) => {
  const lengths = [1, 3, 17, 65, 2];
  const total = sum(lengths);
  const x = values(total * width);
  const about = perRow(lengths, (begin, length) => [begin, length, 0, 0]);
  const expected = about.flatMap(([begin, length], t) =>
    Array.from({ length: width * rows }, (_, at) => {
      const [e, row] = [Math.floor(at / rows), t + (at % rows) - (rows - 1) / 2];
      return row >= begin! && row < begin! + length! ? x[row * width + e]! : 0;
    }),
  );
  const actual = await run({
    code: windows(width, rows),
    inputs: [{ data: x }, { data: zeros(expected.length) }, { data: about.flat(), whole: true }],
    output: 1,
    groups: [total, 1],
  });
  expect(actual).toEqual(expected);
});

type Kind = Partial<ScoresKernel> & { lengths: number[]; headDim: number; heads: number; keyHeads: number };
const scoring: Kind[] = [
  { lengths: [1, 3, 17], headDim: 5, heads: 2, keyHeads: 1 },
  { lengths: [63, 65], headDim: 33, heads: 1, keyHeads: 1, window: 3 },
  { lengths: [65, 2], headDim: 6, heads: 2, keyHeads: 2, causal: true, window: 40 },
  { lengths: [20, 21], headDim: 6, heads: 1, keyHeads: 1, keyMask: true },
  { lengths: [3, 35], headDim: 6, heads: 3, keyHeads: 3, bias: 9, keyMask: true },
  { lengths: [17, 33], headDim: 35, heads: 2, keyHeads: 2, distances: 12 },
  { lengths: [257], headDim: 3, heads: 1, keyHeads: 1 },
  { lengths: [1025], headDim: 4, heads: 2, keyHeads: 2 },
];

/**
 * Attention weights of row i of a text for head h, by the formulas of scores.ts and weights.ts, and the kernels'
 * bindings after the rows.
 */
function softmaxOf(kernel: ScoresKernel, lengths: number[]) {
  const { headDim, keyHeads, scale, window, causal, keyMask, bias, distances } = kernel;
  const stride = rowStride(kernel);
  const total = sum(lengths);
  const x = values(total * stride).map((value) => Math.fround(3 * value));
  // No key of the first text is visible; in the others, every other key is.
  const mask = Array.from({ length: total }, (_, t) => (t < lengths[0]! || t % 2 === 0 ? -1 : 0));
  const biases = values(kernel.heads * (2 * (bias ?? 0) + 1));
  const table = values(((distances ?? 0) + 5) * 2 * kernel.heads * headDim);
  const distanceRows = Array.from({ length: 2 * (distances ?? 0) + 1 }, (_, at) => (at * 7) % ((distances ?? 0) + 5));
  const dot = (a: number[], b: number[]) => sum(a.map((value, d) => value * b[d]!));
  const part = (row: number, head: number) =>
    x.slice(row * stride + head * headDim, row * stride + (head + 1) * headDim);
  const row = (begin: number, length: number, i: number, h: number) => {
    const keyHead = Math.floor((h * keyHeads) / kernel.heads);
    const q = part(begin + i, h);
    const all = Array.from({ length }, (_, j) => {
      if (causal && j > i) return 0;
      if (window >= 0 && Math.abs(i - j) > window) return 0;
      if (keyMask && mask[begin + j]! < 0) return 0;
      const k = part(begin + j, kernel.heads + keyHead);
      let score = dot(q, k);
      if (distances !== null) {
        const distance = Math.max(-distances, Math.min(distances, i - j));
        const at = distanceRows[distance + distances]! * 2 * kernel.heads * headDim + h * headDim;
        score += dot(q, table.slice(at, at + headDim));
        score += dot(k, table.slice(at + kernel.heads * headDim, at + (kernel.heads + 1) * headDim));
      }
      score *= scale;
      if (bias !== null) score += biases[h * (2 * bias + 1) + Math.max(-bias, Math.min(bias, j - i)) + bias]!;
      return Math.exp(score);
    });
    const sumOfAll = sum(all) || 1;
    return all.map((value) => value / sumOfAll);
  };
  const inputs = [
    { data: x },
    ...(keyMask ? [{ data: mask }] : []),
    ...(bias !== null ? [{ data: biases }] : []),
    ...(distances !== null ? [{ data: table }, { data: distanceRows, whole: true }] : []),
  ];
  const value = (begin: number, j: number, h: number) =>
    part(begin + j, kernel.heads + keyHeads + Math.floor((h * keyHeads) / kernel.heads));
  return { row, value, inputs };
}

test.each(scoring)('weights and what attention makes of them: %o', async ({ lengths, ...given }) => {
  const kernel: ScoresKernel = {
    scale: 1 / Math.sqrt(given.headDim),
    window: -1,
    causal: false,
    keyMask: false,
    headMask: false,
    bias: null,
    distances: null,
    ...given,
  };
  const { row, value, inputs } = softmaxOf(kernel, lengths);
  const matrices = lengths.map((length) => kernel.heads * length * length);
  const about = perRow(lengths, (begin, length, n) => [begin, length, sum(matrices.slice(0, n)), 0]);
  const isLong = lengths[0]! > 1000; // only the first rows of the first head, because whole matrices are large
  const rows = isLong ? 3 : about.length;
  const expected = isLong
    ? [0, 1, 2].flatMap((i) => row(0, lengths[0]!, i, 0))
    : lengths.flatMap((length, n) =>
        Array.from({ length: kernel.heads }, (_, h) =>
          Array.from({ length }, (_, i) => row(begins(lengths)[n]!, length, i, h)),
        ).flat(2),
      );
  const softmax = await run({
    code: weights(kernel),
    inputs: [{ data: new Array(expected.length).fill(7) }, { data: about.flat(), whole: true }, ...inputs],
    output: 0,
    groups: [rows, isLong ? 1 : kernel.heads],
  });
  expectNear(softmax, expected);

  if (kernel.bias === null && kernel.distances === null) return; // otherwise tested in kernels.browser.test.ts
  const tiles = lengths.flatMap((length, n) =>
    Array.from({ length: Math.ceil(length / QUERIES) }, (_, t) => [begins(lengths)[n]!, length, t * QUERIES, 0]),
  );
  const context = perRow(lengths, (begin, length) => ({ begin, length })).flatMap(({ begin, length }, t) =>
    Array.from({ length: kernel.heads }, (_, h) => {
      const of = row(begin, length, t - begin, h);
      return Array.from({ length: kernel.headDim }, (_, d) => sum(of.map((p, j) => p * value(begin, j, h)[d]!)));
    }).flat(),
  );
  const actual = await run({
    code: attention(kernel),
    inputs: [{ data: zeros(context.length) }, { data: tiles.flat(), whole: true }, ...inputs],
    output: 0,
    groups: [tiles.length, kernel.heads],
  });
  expectNear(actual, context);
});
