/**
 * Words of entities, and padding inside texts: folders that transformers made and ran (tests/fixtures/models/words.py).
 */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { classifyTokens, load } from 'heed';
import { describe, expect, test } from 'vitest';

const root = fileURLToPath(new URL('../../fixtures/models/words/', import.meta.url));
const heed = await load();
const expectedOf = (name: string) => JSON.parse(readFileSync(`${root}${name}/expected.json`, 'utf8'));
const named = (kind: string) => readdirSync(root).filter((name) => name.startsWith(kind));

describe.each(named('entities-'))('%s', (name) => {
  type Entities = [label: string, start: number, end: number, score: number][];
  const { texts, ...expected } = expectedOf(name) as { texts: string[] } & Record<string, Entities[]>;

  test.each(Object.keys(expected) as 'none'[])("aggregation %s gives transformers' entities", async (aggregation) => {
    using model = await heed.fromPretrained(root + name, { strict: true });
    const found = await classifyTokens(model, texts, { aggregation, ignoreLabels: [] });
    for (const [n, text] of texts.entries()) {
      const length = (end: number) => [...text.slice(0, end)].length; // transformers counts code points
      const got = found[n]!.map(({ label, start, end }) => [label, length(start), length(end)]);
      const wanted = expected[aggregation]![n]!;
      expect(got, text).toEqual(wanted.map(([label, start, end]) => [label, start, end]));
      wanted.forEach(([, , , score], i) => {
        expect(found[n]![i]!.score, text).toBeCloseTo(score, 4);
      });
    }
  });
});

describe.each(named('pads-'))('%s', (name) => {
  const { texts, ids, means } = expectedOf(name) as { texts: string[]; ids: number[][]; means: number[][] };

  test("gives transformers' hidden states", async () => {
    using model = await heed.fromPretrained(root + name, { strict: true });
    expect((await model.tokenize(texts)).inputIds).toEqual(ids);
    const vectors = await model.embed(texts, { pooling: 'mean', normalize: false });
    means.flat().forEach((value, i) => {
      expect(Math.abs(vectors.data[i]! - value), `entry ${i}`).toBeLessThanOrEqual(1e-5 + 1e-4 * Math.abs(value));
    });
  });
});
