/** Losses that compare the examples of a batch: batches that have nothing to compare get examples of other batches. */
import { describe, expect, test } from 'vitest';
import { batchesWithin, type Contrast, contrastBatches } from '../../../web/src/train/contrast.js';
import { draw } from '../layers/numbers.js';
import { heed } from './fit-support.js';

describe('metrics count each example once', () => {
  const model = () => new heed.Sequential([new heed.Linear({ inFeatures: 3, outFeatures: 2 })], { seed: 1 });
  const inputs = draw(5, 5, 3);
  const labels = [0, 1, 0, 1, 0];

  test('in evaluate and in fit', async () => {
    for (const batchSize of [2, 3]) {
      const seen: { rows: number; labels: number[]; inputs: number }[] = [];
      const counted = (output: { shape: readonly number[] }, given: number[], batch: { inputs: unknown }) => {
        const { shape } = batch.inputs as { shape: readonly number[] };
        seen.push({ rows: output.shape[0]!, labels: [...given], inputs: shape[0]! });
        return 1;
      };
      const options = { loss: 'supervisedContrastive', metrics: [counted], batchSize } as const;
      const one = model();
      await one.evaluate({ inputs, labels }, options as never);
      const optimizer = new heed.optim.SGD(one.parameters());
      await one.fit({ inputs, labels }, { ...options, optimizer, seed: 1, validation: { inputs, labels } } as never);
      expect(seen.map(({ rows }) => rows).reduce((a, b) => a + b)).toBe(3 * 5);
      for (const { rows, labels, inputs } of seen) expect([labels.length, inputs]).toEqual([rows, rows]);
      expect(seen.flatMap(({ labels }) => labels).filter((label) => label === 0)).toHaveLength(3 * 3);
    }
  });
});

/** The examples that a batch lacks, found by searching all of them, as the definition says. */
function missing(batch: readonly number[], order: readonly number[], { keys, needsPair = false }: Contrast): number[] {
  const [own, kinds] = [new Set(batch), new Set(batch.map((i) => keys[i]))];
  const added: number[] = [];
  if (needsPair && kinds.size === batch.length) {
    const match = order.find((i) => !own.has(i) && kinds.has(keys[i]));
    const second = order.findIndex((i, n) => order.slice(0, n).some((other) => keys[other] === keys[i]));
    const first = order.find((i) => keys[i] === keys[order[second]!]);
    added.push(...(match !== undefined ? [match] : second < 0 ? [] : [first!, order[second]!]));
  }
  for (const i of added) kinds.add(keys[i]);
  if (kinds.size > 1) return added;
  for (const i of added) own.add(i);
  const other = order.find((i) => !kinds.has(keys[i]));
  const any = needsPair && own.size < 3 ? order.find((i) => !own.has(i)) : undefined;
  return [...added, ...[other ?? any].filter((i) => i !== undefined)];
}

test('the added examples are the first ones that differ or match', () => {
  let state = 1;
  const random = (below: number) => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 1;
    return state % below;
  };
  for (let round = 0; round < 400; round++) {
    const count = 2 + random(20);
    const kinds = 1 + random(count);
    const contrast = { keys: Array.from({ length: count }, () => random(kinds)), needsPair: round % 2 === 0 };
    const order = Array.from({ length: count }, (_, i) => i).sort(() => random(3) - 1);
    const batchSize = 1 + random(5);
    const batches = contrastBatches(order, batchSize, contrast);
    expect(batches.flatMap(({ own }) => own)).toEqual(order);
    for (const { own, added } of batches) expect(added).toEqual(missing(own, order, contrast));
  }
});

test('looking for them takes linear time', () => {
  // Nearly all examples have the same key, so that each batch lacks another one, which is the last of all.
  const reads = (count: number) => {
    let read = 0;
    const keys = new Proxy(
      Array.from({ length: count }, (_, i) => Number(i === count - 1)),
      {
        get(target, name, receiver) {
          if (typeof name === 'string' && /^\d+$/.test(name)) read++;
          return Reflect.get(target, name, receiver);
        },
      },
    );
    const order = Array.from({ length: count }, (_, i) => i);
    batchesWithin(order, 4, { keys });
    return read;
  };
  expect(reads(4_000)).toBeLessThan(5 * reads(1_000));
});
