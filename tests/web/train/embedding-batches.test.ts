/** The batches of trainEmbedding: which texts are negatives of each other, and how labelled texts are drawn. */
import { expect, it } from 'vitest';
import { rowBatches } from '../../../web/src/train/fine-tuning/embedding-batches.js';
import { groupsOf } from '../../../web/src/train/fine-tuning/embedding-examples.js';

it('does not take equal texts for negatives of each other', () => {
  const rows = [
    ['a', 'b'],
    ['c', 'd'],
    ['a', 'e'],
    ['f', 'e'],
    ['g', 'h'],
  ];
  const groups = groupsOf(rows);
  expect(groups[0]).toBe(groups[2]);
  expect(groups[2]).toBe(groups[3]);
  expect(new Set(groups).size).toBe(3);
  const [first, second] = groupsOf([
    ['a', 'b'],
    ['b', 'c'],
  ]);
  expect(first).toBe(second);
});

it('takes the negative of a triplet for a negative of other triplets, unless it is one of their texts', () => {
  const groups = groupsOf([
    ['a', 'b', 'd'],
    ['c', 'd', 'x'],
    ['e', 'f', 'e'],
  ]);
  expect(groups).toHaveLength(6);
  const [ab, cd, ef, d, x, e] = groups;
  expect(d).toBe(cd);
  expect(new Set([ab, cd, ef]).size).toBe(3);
  expect([ab, cd, ef]).not.toContain(x);
  expect(e).not.toBe(ef); // the triplet's own
});

it('batches labelled texts so that labels occur several times, and evenly over the epoch', () => {
  const labels = [...Array(7).fill(0), ...Array(20).fill(1), ...Array(3).fill(2), 3];
  const texts = labels.map((_, i) => [String(i)]);
  const batches = (epoch: number) => [...rowBatches({ texts, labels }, 10, 1, epoch)];
  const all = batches(0);
  expect(all.map(({ inputs }) => (inputs as string[][]).length)).toEqual([10, 10, 6, 5]); // a last batch of one would have no other example to compare with
  const seen = all.flatMap(({ inputs }) => (inputs as string[][]).flat()).map(Number);
  expect([...seen].sort((a, b) => a - b)).toEqual(labels.map((_, i) => i));
  expect(all.flatMap((batch) => batch.labels)).toEqual(seen.map((i) => labels[i]));
  for (const { labels: own } of all.slice(0, 2)) {
    const count = (label: number) => (own as number[]).filter((each) => each === label).length;
    expect(count(1)).toBeGreaterThanOrEqual(6);
    expect(count(0)).toBeGreaterThanOrEqual(1);
  }
  expect(batches(0)).toEqual(all);
  expect(batches(1)).not.toEqual(all);
});

it('draws the texts of many labels in pairs', () => {
  const labels = Array.from({ length: 40 }, (_, i) => i % 20);
  const [first] = rowBatches({ texts: labels.map(() => ['x']), labels }, 8, 1, 0);
  expect(new Set(first!.labels as number[]).size).toBe(4);
});
