/** `TextIndex.of(model, texts, { into })`: an index is built in batches, is searched and saved meanwhile, and goes on later. */
import { load, type PretrainedModel } from 'heed';
import { describe, expect, test } from 'vitest';
import { tinyModel } from './tiny.js';

const heed = await load();
const model = await heed.fromPretrained(tinyModel());
const WORDS = ['the', 'quick', 'brown', 'fox', 'x', 'y', 'a', 'dog'];
const texts = Array.from(
  { length: 300 },
  (_, i) => `${WORDS[i % 8]} ${WORDS[(i >> 3) % 8]} ${WORDS[(i >> 6) % 8]} ${i % 10}`,
);
const items = texts.map((text, i) => ({ id: `t${i}`, text, metadata: { i } }));
const empty = () => heed.TextIndex.of<{ i: number }>([], [], { embedder: model });

/** Counts the texts that are embedded as documents. */
function counted(): { embed: (texts: readonly string[]) => Promise<never>; count: () => number } {
  let count = 0;
  return {
    embed: async (given) => {
      count += given.length;
      return (await model.embedDocument([...given])) as never;
    },
    count: () => count,
  };
}

describe('into', () => {
  test('the index equals one that is built at once', async () => {
    const whole = await heed.TextIndex.of(model, items);
    const index = empty();
    const seen: number[] = [];
    const same = await heed.TextIndex.of(model, items, { into: index, onProgress: ({ done }) => seen.push(done) });
    expect(same).toBe(index);
    expect(seen).toEqual([64, 128, 192, 256, 300]);
    expect([...index.entries()]).toEqual([...whole.entries()]);
    expect(await index.search('a dog')).toEqual(await whole.search('a dog'));
  });

  test('between batches, searches find the texts so far, and save writes them', async () => {
    const index = empty();
    const sizes: number[] = [];
    const saved: Promise<Uint8Array>[] = [];
    const found: Promise<number>[] = [];
    await heed.TextIndex.of(model, items, {
      into: index,
      onProgress: () => {
        sizes.push(index.size);
        saved.push(index.save());
        found.push(index.search('the', { topK: 1000 }).then((hits) => hits.length));
      },
    });
    expect(sizes).toEqual([64, 128, 192, 256, 300]);
    const loaded = await Promise.all(saved.map(async (bytes) => (await heed.TextIndex.load(await bytes)).size));
    expect(loaded).toEqual(sizes);
    for (const [i, count] of (await Promise.all(found)).entries()) expect(count).toBeGreaterThanOrEqual(sizes[i]!);
  });

  test('a call that was stopped goes on with the saved index, and embeds only the rest', async () => {
    const { embed, count } = counted();
    const index = heed.TextIndex.of<{ i: number }>([], [], { embedder: embed });
    const stop = new AbortController();
    const onProgress = ({ done }: { done: number }) => done >= 128 && stop.abort();
    const stopped = heed.TextIndex.of(embed, items, { into: index, onProgress, signal: stop.signal });
    await expect(stopped).rejects.toThrow('abort');
    expect(index.size).toBe(128);
    const again = await heed.TextIndex.load<{ i: number }>(await index.save(), { embedder: embed });
    const before = count();
    await heed.TextIndex.of(embed, items, { into: again });
    expect(count() - before).toBe(300 - 128);
    expect(again.texts).toEqual(texts);
  });

  test('changed texts are replaced, and metadata is updated without embedding', async () => {
    const { embed, count } = counted();
    const index = heed.TextIndex.of<{ i: number }>([], [], { embedder: embed });
    await heed.TextIndex.of(embed, items.slice(0, 10), { into: index });
    const before = count();
    const changed = items
      .slice(0, 12)
      .map(({ id, text }, i) => ({ id, text: i === 3 ? 'fox' : text, metadata: { i: -i } }));
    await heed.TextIndex.of(embed, changed, { into: index });
    expect(count() - before).toBe(3);
    expect(index.size).toBe(12);
    expect(index.get('t3')).toMatchObject({ text: 'fox', metadata: { i: -3 } });
    expect(index.get('t5')).toMatchObject({ text: texts[5], metadata: { i: -5 } });
  });

  test('strings have their positions as ids', async () => {
    const index = heed.TextIndex.of([], [], { embedder: model });
    await heed.TextIndex.of(model, ['fox', 'dog'], { into: index });
    await heed.TextIndex.of(model, ['fox', 'a dog', 'x'], { into: index });
    expect([0, 1, 2].map((id) => index.get(id)?.text)).toEqual(['fox', 'a dog', 'x']);
    expect(index.size).toBe(3);
    await heed.TextIndex.of(model, [], { into: index });
  });

  test('a model in a pool', async () => {
    const pool = await heed.fromPretrained(tinyModel(), { workers: 2 });
    const index = heed.TextIndex.of([], [], { embedder: pool });
    const seen: number[] = [];
    await heed.TextIndex.of(pool, texts, { into: index, onProgress: ({ done }) => seen.push(done) });
    expect(seen).toEqual([128, 256, 300]);
    expect(index.texts).toEqual(texts);
    pool.dispose();
  });

  test('what does not fit is rejected', async () => {
    const index = await heed.TextIndex.of(model, ['fox']);
    const fill = (from: PretrainedModel, given: readonly unknown[], options: object) =>
      heed.TextIndex.of(from, given as string[], options);
    await expect(fill(model, ['x'], { into: index, storage: 'binary' })).rejects.toThrow('TextIndex.of.storage');
    await expect(fill(model, ['x'], { into: {} })).rejects.toThrow('TextIndex.of.into');
    await expect(fill(model, ['x'], { into: null })).rejects.toThrow('TextIndex.of.into');
    const twice = [
      { id: 'a', text: 'x' },
      { id: 'a', text: 'y' },
    ];
    await expect(fill(model, twice, { into: index })).rejects.toThrow('ids[1]');
    const wrong = async () => new Float32Array(24).fill(1) as never;
    await expect(heed.TextIndex.of(wrong, ['x'], { into: index })).rejects.toMatchObject({ name: 'HeedError' });
    expect(index.texts).toEqual(['fox']);
  });
});
