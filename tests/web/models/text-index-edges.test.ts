/** An index at its edges: what callers cannot change, calls that wait for each other, many texts and queries, odd texts. */
import { type EmbedFunction, load, semanticSearch, TextIndex } from 'heed';
import { afterAll, afterEach, describe, expect, test, vi } from 'vitest';

const heed = await load();
afterAll(() => heed.dispose());
afterEach(() => vi.restoreAllMocks());

const error = (code: string, message: string) =>
  expect.objectContaining({ name: 'HeedError', code, message: expect.stringContaining(message) });
const Index = heed.TextIndex;

/** Vectors with 8 entries that differ from text to text. */
const vectorOf = (n: number) => Array.from({ length: 8 }, (_, k) => Math.cos((n + 1) * (k + 1) * 0.37));
const vectorsOf = (count: number, first = 0) => Array.from({ length: count }, (_, n) => vectorOf(first + n));
const names = (count: number) => Array.from({ length: count }, (_, n) => `text ${n}`);
/** Embeds 'text 7' as the vector of 7; other texts, such as that which identifies a model, as that of 0. */
const byNumber: EmbedFunction = (texts) => texts.map((text) => vectorOf(Number(text.split(' ')[1]) || 0));

/** Runs `call` with a clock in which time is always up, and returns how many turns the event loop had meanwhile. */
async function turnsOf(call: () => Promise<unknown>): Promise<number> {
  let now = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => (now += 1000));
  let turns = 0;
  let isRunning = true;
  const count = () => {
    turns++;
    if (isRunning) setImmediate(count);
  };
  setImmediate(count);
  await call();
  isRunning = false;
  vi.restoreAllMocks();
  return turns;
}

describe('an index', () => {
  test('callers cannot change metadata or texts of the index', async () => {
    const index = Index.of(['a', 'b'], vectorsOf(2), { metadata: [{ price: 1, tags: ['x', { deep: 1 }] }, 2] });
    const before = await index.save();
    const filter = ({ metadata }: { metadata?: unknown }) => {
      Object.assign(metadata as object, { price: 3 });
      return true;
    };
    for (const hit of index.search(vectorOf(0), { filter: (text) => text.id === 1 || filter(text) })) {
      const metadata = hit.metadata as { price: number; tags: [string, { deep: number }] };
      if (hit.id === 1) continue;
      expect(metadata).toEqual({ price: 1, tags: ['x', { deep: 1 }] });
      metadata.price = 99;
      metadata.tags[1].deep = 99;
      metadata.tags.reverse();
    }
    const texts = index.texts as string[];
    expect(() => texts.push('c')).toThrow(TypeError);
    expect(() => Object.assign(texts, ['z'])).toThrow(TypeError);
    expect(index.search(vectorOf(0), { topK: 1 })[0]!.metadata).toEqual({ price: 1, tags: ['x', { deep: 1 }] });
    expect(Buffer.compare(await index.save(), before)).toBe(0);
    // A key that an assignment would not copy.
    const odd = Index.of(['a'], vectorsOf(1), { metadata: [JSON.parse('{"__proto__":{"x":1}}')] });
    expect(Object.keys(odd.search(vectorOf(0))[0]!.metadata as object)).toEqual(['__proto__']);
  });

  test('metadata of a text without any are absent, those of null are null, also after saving', async () => {
    const index = Index.of(['none'], vectorsOf(1));
    await index.add(['null', 'some'], vectorsOf(2, 1), { metadata: [null, { page: 1 }] });
    await index.add(['none'], vectorsOf(1, 3));
    const seen: unknown[] = [];
    const filter = (text: { metadata?: unknown }) => {
      seen.push('metadata' in text ? text.metadata : 'absent');
      return true;
    };
    for (const each of [index, await Index.load(await index.save())]) {
      each.search(vectorOf(0), { filter });
      expect(seen.splice(0)).toEqual(['absent', null, { page: 1 }, 'absent']);
    }
    await index.add(['replaced'], vectorsOf(1, 4), { ids: [2], replace: true });
    index.search(vectorOf(0), { filter });
    expect(seen).toEqual(['absent', null, 'absent', 'absent']);
  });

  test('metadata nested too deep to be copied are rejected', async () => {
    const nested = (depth: number): unknown => JSON.parse('['.repeat(depth) + ']'.repeat(depth));
    const index = Index.of(['a'], vectorsOf(1), { metadata: [nested(400)] });
    expect(index.search(vectorOf(0))[0]!.metadata).toEqual(nested(400));
    expect(() => Index.of(['a'], vectorsOf(1), { metadata: [nested(3000)] })).toThrow(
      error('INVALID_ARGUMENT', 'metadata[0]: expected a value of at most 500 levels'),
    );
  });

  test('texts with lone surrogates survive saving', async () => {
    const texts = ['\ud83e', '\udd8a cut', 'a \udd8a\ud83e b\ufffd\ud83e\udd8a', 'plain', '\ud83e\ud83e'];
    const index = Index.of(texts, vectorsOf(5), { metadata: ['\ud83e', 1, 2, 3, 4] });
    const loaded = await Index.load(await index.save());
    expect(loaded.texts).toEqual(texts);
    expect(loaded.search(vectorOf(0), { topK: 1 })[0]).toMatchObject({ text: texts[0], metadata: '\ud83e' });
    expect(Buffer.compare(await loaded.save(), await index.save())).toBe(0);
    // Between blocks of texts, halves of a pair stay with their texts.
    const many = names(1025);
    many[1023] = '\ud83e';
    many[1024] = '\udd8a';
    expect((await Index.load(await Index.of(many, vectorsOf(1025)).save())).texts).toEqual(many);
  });

  test('bits: a small index is compared in full', async () => {
    // Entries of very different sizes, so that the nearest text by signs is often not the best.
    const mixed = (n: number) =>
      Array.from({ length: 64 }, (_, k) => Math.tan(1.5 * Math.sin((n + 1) * (k + 1) * 12.9898)));
    const vectors = Array.from({ length: 63 }, (_, n) => mixed(n));
    const signs = vectors.map((row) => row.map((v) => (v > 0 ? 1 : -1)));
    const index = Index.of(names(63), vectors, { storage: 'binary' });
    for (let n = 100; n < 200; n++) {
      const query = mixed(n);
      const scores = signs.map((row) => row.reduce((sum, v, k) => sum + v * query[k]!, 0));
      const [hit] = index.search(query, { topK: 1 });
      expect(scores[hit!.index]).toBeCloseTo(Math.max(...scores), 5);
    }
    // More texts are selected by their signs, unless all are asked for.
    const large = Index.of(names(5000), vectorsOf(5000), { storage: 'binary' });
    const query = vectorOf(7);
    expect(large.search(query, { topK: 3, exact: true })).toEqual(large.search(query, { topK: 3, candidates: 5000 }));
  });

  test('an empty list of queries has no hits', async () => {
    const plain = Index.of(names(2), vectorsOf(2));
    expect(plain.searchAll([])).toEqual([]);
    const embedding = await Index.of(byNumber, names(2));
    await expect(embedding.searchAll([])).resolves.toEqual([]);
    expect(await plain.add([], [])).toEqual([]);
    expect(Index.of([], []).texts).toEqual([]);
    expect(semanticSearch([], vectorsOf(2))).toEqual([]);
  });

  test('a search for texts rejects and never throws', async () => {
    const index = Index.of(names(2), vectorsOf(2)) as TextIndex;
    const one = index.search('text 1');
    const all = index.searchAll(['text 1']);
    await expect(one).rejects.toEqual(error('INVALID_ARGUMENT', 'this index has no model'));
    await expect(all).rejects.toEqual(error('INVALID_ARGUMENT', 'this index has no model'));
    const embedding = await Index.of(byNumber, names(2));
    const odd = embedding.search('text 1', { topk: 1 } as never);
    await expect(odd).rejects.toEqual(error('INVALID_ARGUMENT', "unknown option 'topk'"));
  });

  test('options that a search cannot use are rejected', async () => {
    const index = await Index.of(byNumber, names(2));
    expect(() => index.search(vectorOf(0), { prompt: 'query: ' })).toThrow(error('INVALID_ARGUMENT', 'search.prompt'));
    expect(() => index.searchAll([vectorOf(0)], { prompt: '' })).toThrow(error('INVALID_ARGUMENT', 'search.prompt'));
    expect(() => index.search(vectorOf(0), { signal: AbortSignal.abort(new Error('too late')) })).toThrow('too late');
    const { signal } = new AbortController();
    expect(() => index.searchLatest(() => {}, { signal } as never)).toThrow(
      error('INVALID_ARGUMENT', "option 'signal'"),
    );
  });

  test('an aborted search rejects, although the function that embeds ignores the signal', async () => {
    let embedded = 0;
    const stop = new AbortController();
    const reason = new Error('no longer needed');
    const index = await Index.of(
      (texts, options) => {
        embedded++;
        if (texts[0] === 'text 1') stop.abort(reason);
        return byNumber(texts, options);
      },
      ['text 0'],
    );
    embedded = 0;
    await expect(index.search('text 0', { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect(embedded).toBe(0);
    await expect(index.search('text 1', { signal: stop.signal })).rejects.toBe(reason);
    await expect(index.add(['text 0'], undefined, { signal: stop.signal })).rejects.toBe(reason);
    // A promise that never settles does not keep the search waiting.
    const later = new AbortController();
    let isStuck = false;
    const waiting = await Index.of(
      (texts, options) => (isStuck ? new Promise(() => {}) : byNumber(texts, options)),
      ['text 0'],
    );
    isStuck = true;
    const pending = waiting.search('text 0', { signal: later.signal });
    later.abort(reason);
    await expect(pending).rejects.toBe(reason);
  });

  test('the constructor says how to make an index', async () => {
    for (const given of [[], [byNumber], [await heed.fromPretrained()]])
      expect(() => new (Index as unknown as new (...given: unknown[]) => unknown)(...given)).toThrow(
        error('INVALID_ARGUMENT', 'TextIndex: expected `TextIndex.of`'),
      );
  });

  test('the class that heed exports says which one has memory', async () => {
    const expected = error('UNSUPPORTED', 'TextIndex: expected `heed.TextIndex` of `const heed = await load()`');
    expect(() => TextIndex.of(names(1), vectorsOf(1))).toThrow(expected);
    await expect(TextIndex.of(byNumber, names(1))).rejects.toEqual(expected);
    await expect(TextIndex.load(await Index.of().save())).rejects.toEqual(expected);
    expect(Index.of()).toBeInstanceOf(TextIndex);
  });

  test('former names of options are rejected with the present ones', async () => {
    const former = { output: 'float32' } as never;
    const expected = error('INVALID_ARGUMENT', "TextIndex.of: expected 'storage', got 'output', its former name");
    expect(() => Index.of(names(1), vectorsOf(1), former)).toThrow(expected);
    await expect(Index.of(byNumber, names(1), former)).rejects.toEqual(expected);
    const multiplier = { rescoreMultiplier: 4 } as never;
    const message = "expected 'candidates', got 'rescoreMultiplier', its former name";
    const index = Index.of(names(1), vectorsOf(1));
    expect(() => index.search(vectorOf(0), multiplier)).toThrow(error('INVALID_ARGUMENT', message));
    expect(() => semanticSearch(vectorsOf(1), vectorsOf(1), multiplier)).toThrow(error('INVALID_ARGUMENT', message));
  });

  test('vectors may be a list of Float32Arrays', async () => {
    const rows = vectorsOf(3).map((row) => Float32Array.from(row));
    const index = Index.of(names(3), rows);
    expect(index.toTensor()).toEqual(Index.of(names(3), vectorsOf(3)).toTensor());
    await index.add(['more'], [rows[0]!]);
    expect(index.searchAll(rows, { topK: 1 }).map(([hit]) => hit!.id)).toEqual([0, 1, 2]);
    expect(() => Index.of(names(2), [rows[0]!, new Float32Array(7)])).toThrow(error('SHAPE_MISMATCH', 'vectors[1]'));
    expect(() => Index.of(names(2), [[1], rows[0]!] as never)).toThrow(error('SHAPE_MISMATCH', 'vectors[1]'));
  });

  test('calls read their arguments when they are called', async () => {
    const index = Index.of(names(3), vectorsOf(3));
    const [ids, removed, metadata] = [[7], [0], ['given']];
    const calls = [index.add(['a'], vectorsOf(1), { ids, metadata }), index.remove(removed)];
    ids[0] = 8;
    removed[0] = 1;
    metadata[0] = 'later';
    expect(await calls[0]).toEqual([7]);
    await calls[1];
    expect(
      index
        .search(vectorOf(1), { topK: 9 })
        .map(({ id }) => id)
        .sort(),
    ).toEqual([1, 2, 7]);
    expect(index.search(vectorOf(0), { ids: [7] })[0]!.metadata).toBe('given');
  });

  test('texts that are replaced many times leave few unused rows', async () => {
    const counts: number[] = [];
    const made = vi.spyOn(Index, 'newStore' as never) as unknown as ReturnType<typeof vi.fn>;
    const index = Index.of(names(4), vectorsOf(4));
    const store = made.mock.results[0]!.value as { readonly count: number };
    for (let n = 0; n < 500; n++) {
      await index.add([`new ${n}`], [vectorOf(n)], { ids: [n % 4], replace: true });
      counts.push(store.count);
    }
    expect(Math.max(...counts)).toBeLessThanOrEqual(5);
    expect(index.texts).toEqual([496, 497, 498, 499].map((n) => `new ${n}`));
    expect(index.search(vectorOf(498), { topK: 1 })).toMatchObject([{ id: 2, index: 2, text: 'new 498' }]);
  });

  test('texts are replaced even if their rows cannot be removed', async () => {
    const made = vi.spyOn(Index, 'newStore' as never) as unknown as ReturnType<typeof vi.fn>;
    const index = Index.of(names(2), vectorsOf(2));
    const keep = vi.spyOn(made.mock.results[0]!.value as { keep(kept: Uint32Array): void }, 'keep');
    keep.mockImplementation(() => {
      throw new Error('no memory');
    });
    expect(await index.add(['new 0'], [vectorOf(5)], { ids: [0], replace: true })).toEqual([0]);
    expect(keep).toHaveBeenCalledOnce();
    expect(index.texts).toEqual(['text 1', 'new 0']);
    keep.mockRestore();
    await index.add(['new 1'], [vectorOf(6)], { ids: [1], replace: true });
    expect(index.search(vectorOf(5), { topK: 1 })).toMatchObject([{ id: 0, index: 0, text: 'new 0' }]);
  });

  test('vectors are those at the time of the call, also if their buffers are reused', async () => {
    const index = Index.of(names(1), vectorsOf(1), { storage: 'float32' });
    const [data, codes, scales] = [Float32Array.from(vectorOf(1)), new Int8Array(8).fill(3), new Float32Array([2])];
    const added = index.add(['a'], { data, shape: [1, 8] });
    const more = index.add(['b'], { data: codes, shape: [1, 8], scales } as never);
    for (const buffer of [data, codes, scales]) buffer.fill(0);
    await Promise.all([added, more]);
    const [, first, second] = index.entries();
    const norm = Math.hypot(...vectorOf(1));
    vectorOf(1).forEach((value, i) => expect(first!.vector[i]).toBeCloseTo(value / norm, 6));
    for (const value of second!.vector) expect(value).toBeCloseTo(Math.sqrt(1 / 8), 6);
  });

  test('texts are looked up by their ids, and listed with their vectors', async () => {
    const index = Index.of(names(6), vectorsOf(6), { metadata: [0, 1, 2, 3, 4, { tags: ['x'] }] });
    await index.remove([1]);
    await index.add(['new'], [vectorOf(9)], { ids: [3], replace: true });
    expect([index.size, index.has(1), index.has(3), index.has(6), index.get(1)]).toEqual([
      5,
      false,
      true,
      false,
      undefined,
    ]);
    expect(index.get(3)).toEqual({ index: 4, id: 3, text: 'new' });
    (index.get(5)!.metadata as { tags: string[] }).tags.length = 0;
    expect(index.get(5)).toEqual({ index: 3, id: 5, text: 'text 5', metadata: { tags: ['x'] } });
    const vectors = index.toTensor();
    const entries = index.entries();
    await index.remove([0, 2, 4]);
    const listed = [...entries];
    expect(listed.map(({ vector: _, ...text }) => text)).toEqual([
      { index: 0, id: 0, text: 'text 0', metadata: 0 },
      { index: 1, id: 2, text: 'text 2', metadata: 2 },
      { index: 2, id: 4, text: 'text 4', metadata: 4 },
      { index: 3, id: 5, text: 'text 5', metadata: { tags: ['x'] } },
      { index: 4, id: 3, text: 'new' },
    ]);
    for (const [n, { vector }] of listed.entries()) expect([...vector]).toEqual([...vectors.slice(n, n + 1).data]);
    const bits = Index.of(names(2), vectorsOf(2), { storage: 'binary' });
    const [, second] = bits.entries();
    expect([...second!.vector]).toEqual([...bits.toTensor().slice(1).data]);
    expect([...Index.of().entries()]).toEqual([]);
    expect(() => index.get(1.5)).toThrow(error('INVALID_ARGUMENT', 'id: expected an integer'));
  });

  test('texts may have ids, also strings, and metadata of their own', async () => {
    const items = [{ id: 'doc-1', text: 'text 0', metadata: { page: 1 } }, 'text 1', { id: 7, text: 'text 2' }];
    const plain = Index.of(items, vectorsOf(3), { embedder: byNumber });
    const embedded = await Index.of(byNumber, items);
    const added = Index.of<{ page: number }>([], undefined, { embedder: byNumber });
    expect(await added.add(items)).toEqual(['doc-1', 8, 7]);
    for (const made of [plain, embedded, added])
      for (const index of [made, await Index.load(await made.save(), { embedder: byNumber })]) {
        const [first] = index.search(vectorOf(0), { topK: 1 });
        expect(first).toMatchObject({ index: 0, id: 'doc-1', text: 'text 0', metadata: { page: 1 } });
        expect(Array.from(index.entries(), ({ id }) => id)).toEqual(['doc-1', 8, 7]);
        expect([index.has('doc-1'), index.has('7'), index.has(7), index.get(8)]).toEqual([
          true,
          false,
          true,
          { index: 1, id: 8, text: 'text 1' },
        ]);
        expect(index.search(vectorOf(0), { ids: new Set(['doc-1', 8]), topK: 9 })).toHaveLength(2);
        await index.add([{ id: 'doc-1', text: 'text 5' }], { replace: true });
        await index.add([{ id: 'doc 2 \ud83e', text: 'text 6', metadata: { page: 2 } }], { vectors: vectorsOf(1, 6) });
        await index.update(7, { metadata: { page: 9 } });
        await index.remove([8]);
        const again = await Index.load(await index.save());
        expect(Array.from(again.entries(), ({ vector: _, ...text }) => text)).toEqual([
          { index: 0, id: 7, text: 'text 2', metadata: { page: 9 } },
          { index: 1, id: 'doc-1', text: 'text 5' },
          { index: 2, id: 'doc 2 \ud83e', text: 'text 6', metadata: { page: 2 } },
        ]);
        expect(await again.add(['next'], { vectors: vectorsOf(1) })).toEqual([9]);
      }
    for (const [given, options, message] of [
      [[{ id: 1.5, text: 'a' }], {}, 'texts[0].id: expected an integer from 0 to 2^53 - 1, or a string, got 1.5'],
      [[{ id: 'a' }], {}, 'texts[0].text: expected a string'],
      [[7], {}, 'texts[0]: expected a string or { id, text, metadata }, got 7'],
      [[{ text: 'a', meta: 1 }], {}, "unknown option 'meta'"],
      [['a', { id: 'b', text: 'b' }], { ids: [1, 2] }, 'ids: expected no list, as texts have their own ids'],
      [
        [
          { id: 'b', text: 'b' },
          { id: 'b', text: 'c' },
        ],
        {},
        "ids[1]: expected an id that is given only once, got 'b'",
      ],
    ] as const) {
      const adding = plain.add(given as never, { vectors: vectorsOf(given.length), ...options } as never);
      await expect(adding).rejects.toEqual(error('INVALID_ARGUMENT', message));
    }
    // Integers that are assigned are counted from 0, whatever the number of strings.
    const named = Index.of([{ id: 'a', text: 'text 0' }], vectorsOf(1));
    const reloaded = await Index.load(await named.save());
    expect(await reloaded.add(['text 1'], { vectors: vectorsOf(1) })).toEqual([0]);
    await expect(plain.remove(['doc-9'])).rejects.toEqual(error('NOT_FOUND', "ids of texts in the index, got 'doc-9'"));
    expect(plain.size).toBe(3);
  });

  test('files with damaged ids are rejected', async () => {
    const bytes = await Index.of([{ id: 'one', text: 'a' }, { id: 'two', text: 'b' }], vectorsOf(2)).save(); // biome-ignore format: one line
    const text = new TextDecoder('latin1').decode(bytes);
    for (const [from, to] of [
      ['"two"', '"one"'],
      ['"one"', '12345'],
      ['"one"', '1.234'],
      ['"one"', '"one '],
      ['"one"', '[123]'],
    ] as const) {
      // biome-ignore format: one line
      const damaged = bytes.slice();
      damaged.set(new TextEncoder().encode(to), text.indexOf(from));
      const loading = Index.load(damaged);
      if (to === '12345') expect((await loading).has(12345)).toBe(true);
      else await expect(loading).rejects.toEqual(error('INVALID_FILE', "tensor 'ids'"));
    }
  });

  test('metadata are replaced without the text', async () => {
    const index = Index.of(names(3), vectorsOf(3));
    const before = index.toTensor();
    const given = { page: 7 };
    const updating = index.update(1, { metadata: given });
    given.page = 8;
    await updating;
    await index.update(2, { metadata: null });
    for (const each of [index, await Index.load(await index.save())])
      expect([0, 1, 2].map((id) => each.get(id)!.metadata)).toEqual([undefined, { page: 7 }, null]);
    expect(index.toTensor()).toEqual(before);
    await expect(index.update(3, { metadata: 1 })).rejects.toEqual(error('NOT_FOUND', 'got 3'));
    await expect(index.update(0, {} as never)).rejects.toEqual(error('INVALID_ARGUMENT', 'update.metadata'));
    await expect(index.update(0, { metadata: 1, text: 'a' } as never)).rejects.toEqual(
      error('INVALID_ARGUMENT', "'text'"),
    );
  });

  test('a function chooses texts to remove', async () => {
    const index = Index.of(names(9), vectorsOf(9), { metadata: names(9).map((_, n) => ({ doc: n % 2 })) });
    await index.remove(({ metadata }) => (metadata as { doc: number }).doc === 1);
    expect(index.texts).toEqual([0, 2, 4, 6, 8].map((n) => `text ${n}`));
    const reason = new Error('in the filter');
    const failing = index.remove(({ id }) => {
      if (id === 4) throw reason;
      return true;
    });
    await expect(failing).rejects.toBe(reason);
    await index.remove(() => false);
    expect(index.size).toBe(5);
    await index.remove(() => true);
    expect([index.size, index.dimensions]).toEqual([0, 0]);
  });

  test('saving, loading and removing many texts let the event loop run', async () => {
    const count = 20_000;
    const index = Index.of(
      names(count),
      vectorsOf(1).flatMap((row) => Array(count).fill(row)),
      {
        metadata: Array(count).fill({ page: 1 }),
      },
    );
    let file = new Uint8Array();
    expect(await turnsOf(async () => (file = await index.save()))).toBeGreaterThanOrEqual(20);
    expect(await turnsOf(async () => Index.load(file))).toBeGreaterThanOrEqual(20);
    expect(await turnsOf(async () => index.remove(names(count).map((_, id) => id)))).toBeGreaterThanOrEqual(3);
    expect(index.texts).toEqual([]);
  });

  test('replacing and removing texts one by one moves few rows', async () => {
    const count = 4096;
    const index = Index.of(names(count), vectorsOf(count));
    const { prototype } = Index.newStore({ storage: null, similarity: 'cosine' }).constructor as {
      prototype: { keep(kept: Uint32Array): void };
    };
    const keep = vi.spyOn(prototype, 'keep');
    for (let n = 0; n < 500; n++) await index.add([`new ${n}`], [vectorOf(n)], { ids: [n], replace: true });
    for (let n = 500; n < 1000; n++) await index.remove([n]);
    expect(keep.mock.calls.length).toBeLessThanOrEqual(1);
    expect(index.texts).toEqual([...names(count).slice(1000), ...Array.from({ length: 500 }, (_, n) => `new ${n}`)]);
    const hits = index.search(vectorOf(3), { topK: 2, threshold: 0.999, ids: [3, 4, 700] });
    expect(hits).toMatchObject([{ id: 3, text: 'new 3', index: count - 1000 + 3 }]);
    // Unused rows are removed in the end, and never more than a quarter of all.
    for (let n = 1000; n < 3000; n++) await index.remove([n]);
    expect(keep.mock.calls.length).toBeGreaterThan(1);
    expect(keep.mock.calls.length).toBeLessThan(10);
    expect(index.texts).toHaveLength(count - 2500);
  });
});

test('many queries have their hits', () => {
  const count = 200_000;
  const queries = { data: new Float32Array(2 * count), shape: [count, 2] };
  for (let n = 0; n < count; n++) queries.data[2 * n + (n % 2)] = 1;
  const index = heed.TextIndex.of(['x', 'y'], [[1, 0], [0, 1]]); // biome-ignore format: one row per text
  const found = index.searchAll(queries, { topK: 1 });
  expect(found).toHaveLength(count);
  expect(found.every(([hit], n) => hit!.index === n % 2)).toBe(true);
});

test('setting a model waits for calls that are running', async () => {
  let release = () => {};
  let onReached = () => {};
  const reached = new Promise<void>((resolve) => {
    onReached = resolve;
  });
  const index = await heed.TextIndex.of(async (texts, options) => {
    if (texts[0] === 'text 1')
      await new Promise<void>((resolve) => {
        release = resolve;
        onReached();
      });
    return byNumber(texts, options);
  }, []);
  const order: string[] = [];
  const calls = [
    index.add(['text 1']).then(() => order.push('added')),
    index.setEmbedder('index', byNumber, null).then(() => order.push('set')),
  ];
  await Promise.race([reached, Promise.all(calls)]);
  for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
  release();
  await Promise.all(calls);
  expect(order).toEqual(['added', 'set']);
});
