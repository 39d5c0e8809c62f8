/** heed/util on vectors. Expected values: NumPy's and scikit-learn's, from tests/fixtures/util/generate.py. */
import { readFileSync } from 'node:fs';
import { HeedError, load } from 'heed';
import {
  type Clusters,
  communityDetection,
  deduplicate,
  type HardNegativesOptions,
  kMeans,
  mineHardNegatives,
  paraphraseMining,
} from 'heed/util';
import { describe, expect, it, test } from 'vitest';
import { generator } from '../../../web/src/base/random.js';

const golden = JSON.parse(readFileSync(new URL('../../fixtures/util/vectors.json', import.meta.url), 'utf8'));
const runtime = await load();

const expectNear = (got: number, expected: number) =>
  expect(Math.abs(got - expected)).toBeLessThanOrEqual(1e-5 + 1e-4 * Math.abs(expected));

function expectClusters(
  got: Clusters,
  expected: { labels: number[]; centroids: number[][]; inertia: number; iterations: number },
) {
  expect(got.labels).toEqual(expected.labels);
  expect(got.iterations).toBe(expected.iterations);
  expectNear(got.inertia, expected.inertia);
  expect(got.centroids.shape).toEqual([expected.centroids.length, expected.centroids[0]!.length]);
  expected.centroids.flat().forEach((value, i) => expectNear(got.centroids.data[i]!, value));
}

describe.each([
  ['in JavaScript', {}],
  ['in the core', { heed: runtime }],
])('%s', (_, where) => {
  const { vectors: points, given, seeded, empty } = golden.kMeans;

  it('k-means from given centroids', async () => {
    expectClusters(await kMeans(points, { numClusters: 6, init: given.init, ...where }), given);
  });

  it('k-means gives an empty cluster the vector that is farthest from its centroid', async () => {
    expectClusters(await kMeans(points, { numClusters: 4, init: empty.init, ...where }), empty);
  });

  it.each(seeded as { seed: number; numClusters: number }[])(
    'k-means++, seed $seed, K = $numClusters',
    async (expected) => {
      const { seed, numClusters } = expected;
      expectClusters(await kMeans(points, { numClusters, seed, ...where }), expected as never);
    },
  );

  it.each(golden.communities.cases as { threshold: number; minCommunitySize: number; communities: number[][] }[])(
    'communities, $threshold, $minCommunitySize',
    async ({ communities, ...options }) => {
      expect(await communityDetection(golden.communities.vectors, { ...options, ...where })).toEqual(communities);
    },
  );

  it.each(golden.paraphrases as { topK: number; maxPairs: number; pairs: [number, number, number][] }[])(
    'paraphrases, $topK, $maxPairs',
    async ({ pairs, ...options }) => {
      const found = await paraphraseMining(golden.communities.vectors, { ...options, ...where });
      expect(found.map(({ i, j }) => [i, j])).toEqual(pairs.map(([, i, j]) => [i, j]));
      found.forEach(({ score }, n) => expectNear(score, pairs[n]![0]));
    },
  );

  it.each(golden.duplicates as { threshold: number; kept: number[]; duplicates: [number, number, number][] }[])(
    'duplicates, $threshold',
    async ({ threshold, kept, duplicates }) => {
      const found = await deduplicate(golden.communities.vectors, { threshold, ...where });
      expect(found.kept).toEqual(kept);
      expect(found.duplicates.map(({ index, of }) => [index, of])).toEqual(
        duplicates.map(([index, of]) => [index, of]),
      );
      found.duplicates.forEach(({ score }, n) => expectNear(score, duplicates[n]![2]));
    },
  );

  const { anchors, positives, cases } = golden.hardNegatives;
  it.each(cases as (HardNegativesOptions & { negatives: [number, number][][] })[])(
    'hard negatives %#',
    async ({ negatives, ...options }) => {
      const call = { ...options, positives, ...where };
      const found = await mineHardNegatives(anchors, golden.communities.vectors, call);
      expect(found.map((hits) => hits.map(({ index }) => index))).toEqual(
        negatives.map((hits) => hits.map(([i]) => i)),
      );
      found.forEach((hits, n) => {
        hits.forEach(({ score }, i) => expectNear(score, negatives[n]![i]![1]));
      });
    },
  );

  it('compares rows of different blocks', async () => {
    const rows = Array.from({ length: 4600 }, (_, n) => [Math.sin(n * n), Math.cos(3 * n), Math.sin(7 * n), 0]);
    for (const [n, of] of [
      [4599, 0],
      [4500, 1100],
      [1030, 1029],
    ] as const)
      rows[n] = [0, 0, of + 1, 1e4];
    for (const of of [0, 1100, 1029]) rows[of] = [0, 0, of + 1, 1e4];
    const planted = [0, 1029, 1030, 1100, 4500, 4599];
    const pairs = await paraphraseMining(rows, { topK: 1, threshold: 0.9, maxPairs: 100, ...where });
    const crossing = pairs.filter(({ i }) => planted.includes(i));
    expect(crossing.map(({ i, j }) => [i, j]).sort(([a], [b]) => a! - b!)).toEqual([
      [0, 4599],
      [1029, 1030],
      [1100, 4500],
    ]);
    const [community] = await communityDetection(rows, { threshold: 0.9, minCommunitySize: 2, ...where });
    expect(community!.length).toBeGreaterThan(2);
    const { kept, duplicates } = await deduplicate(rows, { threshold: 0.9, ...where });
    expect(duplicates).toContainEqual({ index: 4599, of: 0, score: expect.closeTo(1, 5) });
    expect(kept.length + duplicates.length).toBe(4600);
    const [negatives] = await mineHardNegatives([rows[0]!], rows, { positives: [[0]], numNegatives: 1, ...where });
    expect(negatives![0]!.index).toBe(4599);
  });
});

test('int8 vectors and bits are compared as their fp32 vectors', async () => {
  const int8 = { data: new Int8Array([127, 0, 0, 127, 100, 70]), shape: [3, 2] };
  expect(await paraphraseMining(int8, { maxPairs: 1 })).toEqual([
    { score: Math.fround(100 / Math.hypot(100, 70)), i: 0, j: 2 },
  ]);
  const bits = { data: new Uint8Array([0b11110000, 0b00001111, 0b11110001]), shape: [3, 1] };
  expect((await paraphraseMining(bits)).map(({ score, i, j }) => [score, i, j])).toEqual([
    [expect.closeTo(0.75, 6), 0, 2],
    [expect.closeTo(-0.75, 6), 1, 2],
    [expect.closeTo(-1, 6), 0, 1],
  ]);
});

test('equal vectors, in any number', async () => {
  const rows = Array.from({ length: 40 }, () => [1, 2, 3]);
  expect(await communityDetection(rows)).toEqual([rows.map((_, n) => n)]);
  expect((await deduplicate(rows)).kept).toEqual([0]);
  const { labels, inertia } = await kMeans(rows, { numClusters: 3, seed: 1 });
  expect(labels).toHaveLength(40);
  expect(inertia).toBeCloseTo(0, 10);
  expect((await paraphraseMining(rows, { topK: 1, maxPairs: 2 })).map(({ i, j }) => [i, j])).toEqual([
    [0, 1],
    [0, 2],
  ]);
});

test('rows of zeros are near nothing', async () => {
  expect(
    (
      await deduplicate([
        [0, 0],
        [0, 0],
        [1, 0],
      ])
    ).kept,
  ).toEqual([0, 1, 2]);
});

test('random negatives: of the candidates, in descending order, the same for a seed', async () => {
  const { anchors, positives } = golden.hardNegatives;
  const options = { positives, rangeMax: 30, numNegatives: 4, samplingStrategy: 'random' } as const;
  const mine = (seed: number) => mineHardNegatives(anchors, golden.communities.vectors, { ...options, seed });
  const [found, again, other] = [await mine(5), await mine(5), await mine(6)];
  expect(again).toEqual(found);
  expect(other).not.toEqual(found);
  const all = await mineHardNegatives(anchors, golden.communities.vectors, { positives, numNegatives: 30 });
  found.forEach((hits, n) => {
    expect(hits).toHaveLength(4);
    expect([...hits].sort((a, b) => b.score - a.score)).toEqual(hits);
    for (const hit of hits) expect(all[n]).toContainEqual(hit);
  });
});

test.each([0, 1, 2, 3, 31, 32])('random negatives are left if %d are removed one by one', async (removed) => {
  // Rows that are less and less similar to the anchor, which is also its own positive.
  const corpus = Array.from({ length: 34 }, (_, n) => [Math.cos(n / 40), Math.sin(n / 40)]);
  const numNegatives = 33 - removed;
  const options = { positives: [0], rangeMax: 33, numNegatives, samplingStrategy: 'random' } as const;
  for (const seed of [1, 2, 3]) {
    const random = generator(seed, 0);
    const left = corpus.map((_, n) => n).slice(1);
    while (left.length > numNegatives) left.splice(Math.floor((random() / 2 ** 32) * left.length), 1);
    const [found] = await mineHardNegatives([corpus[0]!], corpus, { ...options, seed });
    expect(found!.map(({ index }) => index)).toEqual(left);
  }
});

test('calls report progress, and end when they are aborted', async () => {
  const rows = golden.communities.vectors as number[][];
  const calls = {
    kMeans: (options: object) => kMeans(rows, { numClusters: 3, seed: 1, ...options }),
    communityDetection: (options: object) => communityDetection(rows, options),
    paraphraseMining: (options: object) => paraphraseMining(rows, options),
    deduplicate: (options: object) => deduplicate(rows, options),
    mineHardNegatives: (options: object) => mineHardNegatives(rows, rows, options),
  };
  for (const [name, call] of Object.entries(calls)) {
    const seen: { done: number; total: number }[] = [];
    await call({ onProgress: (progress: { done: number; total: number }) => seen.push(progress) });
    expect(seen.length, name).toBeGreaterThan(0);
    if (name !== 'kMeans') expect(seen.at(-1), name).toEqual({ done: 120, total: 120 });
    const reason = new Error('enough');
    const stop = new AbortController();
    stop.abort(reason);
    await expect(call({ signal: stop.signal }), name).rejects.toBe(reason);
  }
  const stop = new AbortController();
  const call = kMeans(rows, { numClusters: 9, seed: 2, signal: stop.signal, onProgress: () => stop.abort('later') });
  await expect(call).rejects.toBe('later');
});

const rows = [
  [1, 0],
  [0, 1],
];
test.each([
  ['kMeans.numClusters', () => kMeans(rows, { numClusters: 3 })],
  ['kMeans.numClusters', () => kMeans(rows, {} as never)],
  ['kMeans.init', () => kMeans(rows, { numClusters: 1, init: rows })],
  ['kMeans.init', () => kMeans(rows, { numClusters: 2, init: [[1], [2]] })],
  ['kMeans.tolerance', () => kMeans(rows, { numClusters: 2, tolerance: -1 })],
  ['vectors', () => kMeans([[1, Number.NaN]], { numClusters: 1 })],
  ['vectors', () => kMeans([1, 2] as never, { numClusters: 1 })],
  ['vectors', () => communityDetection([[1, Number.POSITIVE_INFINITY]])],
  ['communityDetection.threshold', () => communityDetection(rows, { threshold: Number.NaN })],
  ['communityDetection.heed', () => communityDetection(rows, { heed: {} as never })],
  ['communityDetection', () => communityDetection(rows, { minSize: 3 } as never)],
  ['paraphraseMining.topK', () => paraphraseMining(rows, { topK: 0 })],
  ['vectors', () => deduplicate([[1, 2], [3]])],
  ['corpus', () => mineHardNegatives(rows, [[1, 2, 3]])],
  ['corpus', () => mineHardNegatives(rows, [[1, 2]])],
  ['mineHardNegatives.positives', () => mineHardNegatives(rows, rows, { positives: [0] })],
  ['mineHardNegatives.positives', () => mineHardNegatives(rows, rows, { positives: 3 as never })],
  ['mineHardNegatives.positives[1]', () => mineHardNegatives(rows, rows, { positives: [0, 2] })],
  ['mineHardNegatives.positives[0]', () => mineHardNegatives(rows, rows, { positives: [[], 1] })],
  ['mineHardNegatives.rangeMax', () => mineHardNegatives(rows, rows, { rangeMin: 4, rangeMax: 3 })],
])('refuses a wrong %s', async (argument, call) => {
  const error = await call().then(
    () => null,
    (reason) => reason,
  );
  expect(error).toBeInstanceOf(HeedError);
  expect(error.message).toMatch(new RegExp(`^${argument.replace(/[[\].]/g, '\\$&')}(\\[\\d+\\])*: expected .*, got `));
});
