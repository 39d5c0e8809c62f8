// Checks the functions of the course's programming tasks: `node check.mjs start.mjs`. Compares each with heed's on examples.
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { load } from 'heed';
import { meanPoissonDeviance } from 'heed/evaluation';

const heed = await load();
let state = 1;
function uniform() {
  state = (state * 48271) % 2147483647;
  return state / 2147483647;
}
const matrix = (rows, columns) => Array.from({ length: rows }, () => row(columns));
const row = (length) => Array.from({ length }, () => Math.round(400 * uniform() - 200) / 100);
const array = (tensor) => tensor.toArray();
const project = (X, weight) => array(heed.linear(X, { weight }));
const headOf = (X, { WQ, WK, WV }) => array(heed.attention(project(X, WQ), project(X, WK), project(X, WV)).output);

/** The arguments of a task, several times, and what the function has to return for them. */
const tasks = {
  kernelRegression: [
    [
      [0.5, [0, 1, 3], [1, 2, 4], 1],
      [2, row(6), row(6), 0.7],
    ],
    (x, xs, ys, h) => {
      const weights = heed.softmax(xs.map((each) => -((x - each) ** 2) / (2 * h * h))).data;
      return ys.reduce((sum, y, s) => sum + weights[s] * y, 0);
    },
  ],
  softmax: [[[[1, 2, 3]], [[1000, 1001]], [row(7)]], (scores) => array(heed.softmax(scores))],
  attention: [
    [
      [matrix(3, 2), matrix(4, 2), matrix(4, 3)],
      [matrix(1, 5), matrix(2, 5), matrix(2, 1)],
    ],
    (Q, K, V) => {
      const { weights, output } = heed.attention(Q, K, V, { returnWeights: true });
      return { weights: array(weights), output: array(output) };
    },
  ],
  linear: [
    [[matrix(3, 2), [[1, 2], [3, 4]], [0, 1]], [matrix(2, 4), matrix(3, 4), row(3)]], // biome-ignore format: matrices
    (X, weight, bias) => array(heed.linear(X, { weight, bias })),
  ],
  selfAttention: [
    [
      [matrix(4, 3), matrix(2, 3), matrix(2, 3), matrix(5, 3)],
      [matrix(3, 2), matrix(2, 2), matrix(2, 2), matrix(2, 2)],
    ],
    (X, WQ, WK, WV) => headOf(X, { WQ, WK, WV }),
  ],
  multiHead: [
    [[matrix(3, 4), [0, 1].map(() => ({ WQ: matrix(2, 4), WK: matrix(2, 4), WV: matrix(3, 4) })), matrix(4, 6)]],
    (X, heads, WO) => {
      const outputs = heads.map((head) => headOf(X, head));
      return project(X.map((_, u) => outputs.flatMap((H) => H[u])), WO); // biome-ignore format: one row
    },
  ],
  causalWindow: [
    [
      [4, 1],
      [6, 2],
      [3, 9],
    ],
    (t, r) =>
      Array.from({ length: t }, (_, u) => Array.from({ length: t }, (_, s) => (s <= u && u - s <= r ? 0 : -Infinity))),
  ],
  layerNorm: [
    [
      [[1, 2, 3], [1, 1, 1], [0, 0, 0], 1e-5],
      [[5, 5, 5], [1, 2, 3], [7, 8, 9], 1e-3],
      [row(6), row(6), row(6), 1e-5],
    ],
    (x, weight, bias, eps) => array(heed.layerNorm([x], { weight, bias, eps }))[0],
  ],
  dropout: [
    [
      [[1, 2, 3, 4], [0, 1, 1, 0], 0.5],
      [row(3), [1, 0, 1], 0.1],
    ],
    (x, z, alpha) => x.map((value, i) => (z[i] * value) / (1 - alpha)),
  ],
  positionalEncoding: [
    [
      [4, 4],
      [10, 6],
    ],
    (t, q) => array(heed.positionalEncoding(t, q)),
  ],
  greedy: [
    [
      [(ids) => [0, 1, 3, 2].map((value) => (ids.length < 4 ? value : -value)), 1, 0, 9],
      [() => [0, 1, 2], 0, 1, 5],
      [() => [0, 5], 0, 1, 5],
    ],
    (scores, start, end, limit) => {
      const ids = [start];
      while (ids.length < limit) {
        const next = scores(ids);
        ids.push(next.indexOf(Math.max(...next)));
        if (ids.at(-1) === end) break;
      }
      return ids;
    },
  ],
  poissonDeviance: [
    [
      [
        [0, 1, 2],
        [0.1, 0.5, 1.5],
        [1, 0.5, 1],
      ],
      [
        [0, 0, 1],
        [0.2, 0.1, 0.3],
        [0.3, 1, 0.7],
      ],
    ],
    (claims, frequencies, weights) => meanPoissonDeviance(claims.map((n, i) => n / weights[i]), frequencies, { weights }), // biome-ignore format: one call
  ],
};

/** Whether two numbers, arrays or objects are equal up to rounding. */
function close(a, b) {
  if (typeof b === 'number') return typeof a === 'number' && (a === b || Math.abs(a - b) <= 1e-4 * (1 + Math.abs(b)));
  const keys = Object.keys(b);
  return (
    typeof a === 'object' &&
    a !== null &&
    Object.keys(a).length === keys.length &&
    keys.every((key) => close(a[key], b[key]))
  );
}
const show = (value) =>
  JSON.stringify(value, (_, entry) =>
    typeof entry === 'number'
      ? Number.isFinite(entry)
        ? Number(entry.toPrecision(5))
        : String(entry)
      : typeof entry === 'function'
        ? 'a function'
        : entry,
  );

const file = process.argv[2] ?? 'start.mjs';
const own = await import(pathToFileURL(resolve(file)).href);
let [passed, failed] = [0, 0];
for (const [name, [examples, expected]] of Object.entries(tasks)) {
  let result = 'passed';
  for (const example of examples) {
    const right = expected(...example);
    let got;
    try {
      got = own[name]?.(
        ...structuredClone(example.map((each) => (typeof each === 'function' ? null : each))).map(
          (each, i) => each ?? example[i],
        ),
      );
    } catch (error) {
      got = `${error.name}: ${error.message}`;
    }
    if (got === undefined) result = 'not begun';
    else if (!close(got, right))
      result = `failed\n  for      ${example.map(show).join(', ')}\n  expected ${show(right)}\n  got      ${show(got)}`;
    if (result !== 'passed') break;
  }
  if (result === 'passed') passed++;
  else if (result !== 'not begun') failed++;
  console.log(`${name}: ${result}`);
}
console.log(`${passed} of ${Object.keys(tasks).length} functions are right`);
process.exitCode = failed > 0 ? 1 : 0;
