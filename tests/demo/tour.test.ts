/** What the tour of “Compute” says, computed by the library. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { type Heed, load } from 'heed';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { computeSteps, type Matrix, type StepsInput, type StepsResult } from '../../demo/src/engine/hand';
import { randomMatrix } from '../../demo/src/engine/random';
import { steps } from '../../demo/src/pages/compute/tour-data';

let heed: Heed;
beforeAll(async () => {
  heed = await load();
});
afterAll(() => heed?.dispose());

type Settings = (typeof steps)[number]['settings'];

/** As the page's `input` does, for the settings that the tour uses. */
function compute(settings: Settings): StepsResult {
  const x = settings.x ?? [
    [1, 0, 0],
    [0, 1, 0],
    [1, 1, 0],
    [0, 0, 1],
  ];
  const { heads = 1, width = 2, seed = 6 } = settings;
  const weight = (given: Matrix | null | undefined, offset: number) =>
    given ?? randomMatrix(3, heads * width, seed + offset);
  const input: StepsInput = {
    queryNames: settings.words ?? ['red', 'round', 'apple', 'sky'],
    keyNames: settings.words ?? ['red', 'round', 'apple', 'sky'],
    x,
    y: null,
    queryWeight: weight(settings.queryWeight, 0),
    keyWeight: weight(settings.keyWeight, 1000),
    valueWeight: weight(settings.valueWeight, 2000),
    outputWeight: heads > 1 ? randomMatrix(heads * width, 3, seed + 3000) : null,
    heads,
    order: [0, 1, 2, 3],
    positions: { mode: settings.positions ?? 'none', dim: 4, base: 10000 },
    layerNorm: settings.layerNorm ?? false,
    scale: settings.scale ?? null,
    causal: settings.causal ?? false,
    realKeys: 4,
    window: null,
    painted: settings.painted ?? null,
    dropout: { p: 0, seed: 1 },
  };
  return computeSteps(heed, input);
}

const both = (index: number) => {
  const { settings, attempt } = steps[index]!;
  return [compute(settings), compute({ ...settings, ...attempt.settings })] as [StepsResult, StepsResult];
};
const largest = (row: number[]) => row.indexOf(Math.max(...row));
const apple = 2;

describe('the tour', () => {
  it('leads to chapters of the course', () => {
    const sources = new URL('../../demo/src/', import.meta.url);
    const others = readdirSync(sources, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.tsx'))
      .flatMap((name) => [...readFileSync(new URL(name, sources), 'utf8').matchAll(/<CourseChapter of="([^"]+)"/g)])
      .map(([, chapter]) => chapter!);
    expect(others.length).toBeGreaterThan(0);
    for (const chapter of [...steps.map((step) => step.chapter), ...others])
      expect(existsSync(new URL(`../../docs/course/${chapter}.md`, import.meta.url)), chapter).toBe(true);
  });

  it('projections: without them the scores are symmetric', () => {
    const [before, after] = both(0);
    const isSymmetric = ({ heads: [head] }: StepsResult) =>
      head!.scores.every((row, i) => row.every((score, j) => Math.abs(score - head!.scores[j]![i]!) < 1e-6));
    expect(isSymmetric(before)).toBe(true);
    const [row] = after.heads[0]!.scores;
    expect(Math.abs(row![apple]! - after.heads[0]!.scores[apple]![0]!)).toBeGreaterThan(0.1);
  });

  it('scale: without it almost all weight of each query is on one key', () => {
    const [before, after] = both(1);
    for (const row of before.heads[0]!.weights) expect(Math.max(...row)).toBeGreaterThan(0.9);
    const mean = after.heads[0]!.weights.reduce((sum, row) => sum + Math.max(...row) / 4, 0);
    expect(mean).toBeLessThan(0.8);
  });

  it('heads: “apple” attends to another word in the other head', () => {
    const [{ heads }] = both(2);
    expect(largest(heads[0]!.weights[apple]!)).not.toBe(largest(heads[1]!.weights[apple]!));
  });

  it('mask: no later word; the other weights grow in proportion', () => {
    const [before, after] = both(3);
    const { weights } = before.heads[0]!;
    expect(weights[0]).toEqual([1, 0, 0, 0]);
    weights.forEach((row, i) => expect(row.slice(i + 1).every((weight) => weight === 0)).toBe(true));
    const [row, next] = [weights[apple]!, after.heads[0]!.weights[apple]!];
    expect(next[0]).toBe(0);
    expect(next[1]! / next[2]!).toBeCloseTo(row[1]! / row[2]!, 4);
    expect(next.reduce((sum, weight) => sum + weight)).toBeCloseTo(1, 6);
  });

  it('positions: the same word has the same output without them, another one with them', () => {
    const [before, after] = both(4);
    expect(before.heads[0]!.output[0]).toEqual(before.heads[0]!.output[2]);
    const { weights } = before.heads[0]!;
    expect(weights[0]).toEqual(weights[2]);
    const [first, , third] = after.heads[0]!.weights;
    expect(Math.max(...first!.map((weight, key) => Math.abs(weight - third![key]!)))).toBeGreaterThan(0.05);
    const difference = after.heads[0]!.output[0]!.map((entry, j) => Math.abs(entry - after.heads[0]!.output[2]![j]!));
    expect(Math.max(...difference)).toBeGreaterThan(0.05);
  });

  it('layer norm: a long vector saturates its weights, and with layer norm its length changes nothing', () => {
    const [before, after] = both(5);
    const scores = before.heads[0]!.scores[apple]!.map((score) => Math.abs(score * before.scale));
    expect(Math.max(...scores)).toBeGreaterThan(100);
    for (const weight of before.heads[0]!.weights[apple]!) expect(Math.min(weight, 1 - weight)).toBeLessThan(0.005);
    const short = compute({ layerNorm: true });
    after.heads[0]!.output.forEach((row, i) =>
      row.forEach((entry, j) => expect(Math.abs(entry - short.heads[0]!.output[i]![j]!)).toBeLessThan(0.005)),
    );
  });
});
