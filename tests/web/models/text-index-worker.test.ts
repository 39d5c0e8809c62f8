/** An index whose vectors are in the worker of its model: `worker: true`. */
import { inspect } from 'node:util';
import { Worker } from 'node:worker_threads';
import fc from 'fast-check';
import { HeedError, load, Tensor, type TextHit, type TextHits, type TextIndex } from 'heed';
import { load as loadTraining } from 'heed/train';
import { afterAll, describe, expect, expectTypeOf, test } from 'vitest';
import { tinyModel } from './tiny.js';

const heed = await load();
const model = await heed.fromPretrained(tinyModel(), { worker: true });
const local = await heed.fromPretrained(tinyModel());
afterAll(() => heed.dispose());

const WORDS = ['the', 'quick', 'brown', 'fox', 'x', 'y', 'a', 'dog'];
const texts = Array.from({ length: 150 }, (_, i) => `${WORDS[i % 8]} ${WORDS[(i >> 3) % 8]} ${i % 10}`);
const items = texts.map((text, i) => ({ id: `t${i}`, text, metadata: { page: i % 7 } }));
const script = new URL('./worker.js', import.meta.resolve('heed'));

/** A matrix of numbers that depend on a seed. */
function matrix(count: number, width: number, seed: number): Tensor {
  const value = (i: number) => Math.sin(1.7 * i + seed) + Math.cos(0.3 * i * (seed + 1));
  return new Tensor(
    Float32Array.from({ length: count * width }, (_, i) => value(i)),
    [count, width],
  );
}

const messageOf = async (call: () => unknown): Promise<string> => {
  try {
    await call();
    return 'no error';
  } catch (error) {
    expect(error).toBeInstanceOf(HeedError);
    return `${(error as HeedError).code}: ${(error as HeedError).message}`;
  }
};

describe('the same results as without it', () => {
  test('of searches, changes and files', async () => {
    type Page = { page: number };
    const here = await heed.TextIndex.of<Page>(model, items);
    const there = await heed.TextIndex.of<Page>(model, items, { worker: true });
    const same = async (call: (index: TextIndex<Page, boolean>) => unknown) =>
      expect(await call(there)).toEqual(await call(here));
    const query = await model.embedQuery(['the fox']);
    const all = async () => {
      await same((index) => [index.size, index.texts, index.has('t3'), index.get('t4'), index.dimensions]);
      await same((index) => index.search('a brown dog', { topK: 7 }));
      await same((index) => index.search(query, { threshold: 0.2 }));
      await same((index) => index.search(query, { filter: ({ metadata }) => metadata?.page === 3 }));
      await same((index) => index.search(query, { ids: ['t1', 't2'], exact: true }));
      await same((index) => index.search('fox 4', { hybrid: true, filter: ({ id }) => id !== 't4' }));
      await same((index) => index.searchAll(['a', '', 'the dog']));
      await same((index) => index.searchAll(matrix(3, index.dimensions, 1), { topK: 4 }));
      await same(async (index) => [...(await index.entries())]);
      await same((index) => index.toTensor());
      await same((index) => index.toSafetensors());
      await same((index) => index.save());
    };
    await all();
    await same((index) => index.add(['a new text', { id: 'own', text: 'the fox again' }]));
    await same((index) => index.add([{ id: 't3', text: 'another', metadata: { page: 3 } }], { replace: true }));
    await same((index) => index.update('t5', { metadata: { page: 9 } }));
    await all();
    await same((index) => index.remove(({ metadata }) => metadata?.page === 0));
    await same((index) => index.remove(texts.slice(0, 40).flatMap((_, i) => (i % 7 ? [`t${i}`] : []))));
    await all();
    await same(async (index) => heed.quantizeIndex(index, { components: 8 }));
    const latest = async (index: TextIndex<Page, boolean>) => {
      const found: TextHit[][] = [];
      await index.searchLatest((hits) => found.push(hits))('the fox again');
      return found;
    };
    await same(latest);
    there.dispose();
  });

  test.each(['float32', 'int8', 'binary'] as const)('after random operations, %s', async (storage) => {
    const step = fc.oneof(
      fc.record({
        do: fc.constant('add' as const),
        count: fc.integer({ min: 1, max: 40 }),
        seed: fc.nat(99),
        replace: fc.boolean(),
      }),
      fc.record({ do: fc.constant('remove' as const), every: fc.integer({ min: 1, max: 5 }) }),
      fc.record({ do: fc.constant('reload' as const) }),
      fc.record({ do: fc.constant('fail' as const) }),
      fc.record({ do: fc.constant('search' as const), seed: fc.nat(99), topK: fc.constantFrom(1, 5, Infinity) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 10 }), async (steps) => {
        const width = 24;
        let here: TextIndex = heed.TextIndex.of([], undefined, { storage, embedder: model });
        let there = await heed.TextIndex.of(model, [], { storage, worker: true });
        for (const each of steps) {
          const calls = async <T>(call: (index: TextIndex<unknown, boolean>) => T | Promise<T>) =>
            expect(await call(there)).toEqual(await call(here));
          if (each.do === 'add') {
            const given = Array.from({ length: each.count }, (_, i) => ({
              id: `n${(i * (each.seed + 1)) % 97}`,
              text: `${i}`,
            }));
            const unique = [...new Map(given.map((item) => [item.id, item])).values()].filter(
              ({ id }) => each.replace || !here.has(id),
            );
            const vectors = matrix(unique.length, width, each.seed);
            await calls((index) => index.add(unique, { vectors, replace: each.replace }));
          } else if (each.do === 'remove') {
            await calls((index) => index.remove(({ index: n }) => n % each.every === 0));
          } else if (each.do === 'reload') {
            const file = await there.save();
            expect(file).toEqual(await here.save());
            there.dispose();
            here = await heed.TextIndex.load(file, { embedder: model });
            there = await heed.TextIndex.load(file, { embedder: model, worker: true });
          } else if (each.do === 'fail') {
            const bad = matrix(1, width, 1);
            bad.data[3] = NaN;
            const failed = [
              messageOf(() => there.add(['a'], { vectors: bad })),
              messageOf(() => here.add(['a'], { vectors: bad })),
            ];
            expect((await failed[0])!).toMatch(/finite/);
            expect(await failed[0]).toBe(await failed[1]);
          } else {
            await calls((index) => index.searchAll(matrix(2, width, each.seed), { topK: each.topK }));
          }
          expect([there.size, there.texts]).toEqual([here.size, here.texts]);
          expect([...(await there.entries())]).toEqual([...here.entries()]);
        }
        here.dispose();
        there.dispose();
      }),
      { numRuns: 25 },
    );
  });

  test('from a smaller file, whose vectors are projected', async () => {
    const index = await heed.TextIndex.of(model, items);
    const file = await heed.quantizeIndex(index, { components: 8 });
    const here = await heed.TextIndex.load(file, { embedder: model });
    const there = await heed.TextIndex.load(file, { embedder: model, worker: true });
    for (const each of ['the fox', 'a dog'])
      expect(await there.search(each, { topK: 20 })).toEqual(await here.search(each, { topK: 20 }));
    await Promise.all([here.add(['new']), there.add(['new'])]);
    expect([...(await there.entries())]).toEqual([...here.entries()]);
    expect(await there.save()).toEqual(await here.save());
  });

  test('in heed/train', async () => {
    const training = await loadTraining();
    const own = await training.fromPretrained(tinyModel(), { worker: true });
    const there = await training.TextIndex.of(own, texts, { worker: true });
    const here = await training.TextIndex.of(own, texts);
    expect(await there.search('a dog')).toEqual(await here.search('a dog'));
    training.dispose();
  });
});

describe('calls at the same time', () => {
  test('searches find texts of one moment, each with its own vector', async () => {
    const there = await heed.TextIndex.of(model, [], { storage: 'float32', worker: true });
    const width = 96;
    const unit = (n: number) => Float32Array.from({ length: width }, (_, i) => (i === n % width ? 1 : 0));
    const rows = (list: number[]) =>
      new Tensor(Float32Array.from(list.flatMap((n) => [...unit(n)])), [list.length, width]);
    const numbers = Array.from({ length: width }, (_, n) => n);
    await there.add(
      numbers.map((n) => ({ id: n, text: `${n}` })),
      { vectors: rows(numbers) },
    );
    const pending: Promise<unknown>[] = [];
    const found: TextHit[][] = [];
    for (let n = 0; n < 80; n++) {
      const [search, query] = [n % width, unit(n)];
      // Every text is replaced or removed while searches wait, and rows are moved.
      pending.push(
        there.search(query, { topK: 1, threshold: 0.5 }).then((hits) => {
          found.push(hits);
          for (const hit of hits) expect(Number(hit.text.replace('new ', ''))).toBe(search);
        }),
      );
      query.fill(0); // is copied by the call
      pending.push(
        n % 3 === 0
          ? there.remove([n])
          : there.add([{ id: n, text: `new ${n}` }], { vectors: rows([n]), replace: true }),
      );
    }
    await Promise.all(pending);
    expect(found).toHaveLength(80);
    expect(found.filter((hits) => hits.length > 0).length).toBeGreaterThan(40);
  });

  test('an index is searched and saved while it is built, also by another model', async () => {
    const there = await heed.TextIndex.of<{ page: number }>(model, [], { worker: true });
    const found: Promise<number>[] = [];
    const saved: Promise<Uint8Array>[] = [];
    const same = await heed.TextIndex.of(local, items, {
      into: there,
      onProgress: () => {
        found.push(there.search('the', { topK: 1000 }).then(({ length }) => length));
        saved.push(there.save());
      },
    });
    expect(same).toBe(there);
    expect((await Promise.all(found)).at(-1)).toBe(150);
    for (const file of saved) expect((await heed.TextIndex.load(await file)).size).toBeGreaterThanOrEqual(64);
    const whole = await heed.TextIndex.of(model, items);
    expect([...(await there.entries())]).toEqual([...whole.entries()]);
  });

  test('a search does not wait for texts that are being embedded', async () => {
    const there = await heed.TextIndex.of(model, texts, { worker: true });
    const ended: string[] = [];
    const embedded = model.embed(Array(20_000).fill('the quick brown fox')).then(() => ended.push('embed'));
    const searched = there.search(matrix(1, 24, 1)).then(() => ended.push('search'));
    await Promise.all([embedded, searched]);
    expect(ended).toEqual(['search', 'embed']);
  });

  test('a call that is stopped leaves the index as it was', async () => {
    const there = await heed.TextIndex.of(model, texts, { worker: true });
    const before = await there.save();
    const many = 20_000;
    const stop = new AbortController();
    const added = there.add(Array(many).fill('a'), { vectors: matrix(many, 24, 1), signal: stop.signal });
    setTimeout(() => stop.abort(new Error('enough')), 1);
    await expect(added).rejects.toThrow('enough');
    const early = AbortSignal.abort(new Error('at once'));
    await expect(there.search(matrix(1, 24, 1), { signal: early })).rejects.toThrow('at once');
    const late = new AbortController();
    const searched = there.search(matrix(1, 24, 1), { signal: late.signal });
    late.abort(new Error('later'));
    await expect(searched).rejects.toThrow('later');
    expect(await there.save()).toEqual(before);
    expect(await there.search(matrix(1, 24, 1))).toHaveLength(10);
  });
});

describe('errors', () => {
  test('a model without a worker is rejected', async () => {
    using pool = await heed.fromPretrained(tinyModel(), { workers: 2 });
    const of = (embedder: unknown) => messageOf(() => heed.TextIndex.of(embedder as never, ['a'], { worker: true }));
    const expected = 'expected a model that was loaded with `worker: true`, as its worker has the vectors, got';
    const hint = 'Load it by `fromPretrained(source, { worker: true })`';
    expect(await of(local)).toBe(
      `INVALID_ARGUMENT: TextIndex.of.worker: ${expected} a model without a worker. ${hint}`,
    );
    expect(await of(pool)).toBe(`INVALID_ARGUMENT: TextIndex.of.worker: ${expected} a pool of workers. ${hint}`);
    expect(await of(() => [[1, 0]])).toBe(`INVALID_ARGUMENT: TextIndex.of.worker: ${expected} a function. ${hint}`);
    const file = await heed.TextIndex.of(['a'], [[1, 0]]).save();
    expect(await messageOf(() => heed.TextIndex.load(file, { worker: true }))).toBe(
      `INVALID_ARGUMENT: TextIndex.load.worker: ${expected} no \`embedder\`. ${hint}`,
    );
    const there = await heed.TextIndex.of(model, ['a'], { worker: true });
    expect(await messageOf(() => heed.TextIndex.of(model, ['a'], { into: there, worker: true }))).toMatch(
      /TextIndex\.of\.worker: expected undefined, because the index `into` has its own, got true/,
    );
    expect(await messageOf(() => heed.TextIndex.of(['a'], [[1, 0]], { worker: true } as object))).toMatch(/worker/);
  });

  test('are those of an index without it, and all of them reject', async () => {
    const here = await heed.TextIndex.of(model, items);
    const there = await heed.TextIndex.of(model, items, { worker: true });
    const nan = new Float32Array(24).fill(NaN);
    const fails = () => {
      throw new HeedError('INVALID_ARGUMENT', 'from the filter');
    };
    const calls: ((index: TextIndex<{ page: number }, boolean>) => unknown)[] = [
      (index) => index.search(nan),
      (index) => index.search([[1, 2]]),
      (index) => index.search([[1], [2]]),
      (index) => index.search('a', { topK: -1 }),
      (index) => index.search(matrix(1, 24, 1), { topK: -1 }),
      (index) => index.search(matrix(1, 24, 1), { hybrid: true }),
      (index) => index.search(matrix(1, 24, 1), { filter: fails }),
      (index) => index.search('a', { filter: fails, hybrid: true }),
      (index) => index.searchAll(matrix(2, 7, 1)),
      (index) => index.add(['a'], { vectors: matrix(1, 7, 1) }),
      (index) => index.add(['a'], { vectors: new Tensor(nan, [1, 24]) }),
      (index) => index.add(['a'], { vectors: matrix(2, 24, 1) }),
      (index) => index.add(['a'], { vectors: { data: new Uint8Array(3), shape: [1, 3] } }),
      (index) => index.add([{ id: 't1', text: 'a' }]),
      (index) => index.remove(['none']),
      (index) => index.update('none', { metadata: { page: 1 } }),
    ];
    await there.search('a', { hybrid: true }); // whose words the file has, too
    const before = await there.save();
    for (const call of calls) {
      const result = call(there);
      expect(result).toBeInstanceOf(Promise);
      const message = await messageOf(() => result);
      expect(message).not.toBe('no error');
      expect(message).toBe(await messageOf(() => call(here)));
    }
    expect(await there.save()).toEqual(before);
  });

  test('files that are damaged leave nothing in the worker', async () => {
    const file = await heed.TextIndex.of(texts, matrix(150, 8, 2)).save();
    expect(await messageOf(() => heed.TextIndex.load(file, { embedder: model, worker: true }))).toMatch(
      /SHAPE_MISMATCH|INVALID_FILE/,
    );
    expect(await messageOf(() => heed.TextIndex.load(file.slice(0, -9), { embedder: model, worker: true }))).toMatch(
      /INVALID_FILE/,
    );
  });
});

describe('the end', () => {
  const calls: ((index: TextIndex<unknown, true>) => unknown)[] = [
    (index) => index.search(matrix(1, 24, 1)),
    (index) => index.add(['b'], { vectors: matrix(1, 24, 1) }),
    (index) => index.remove([0]),
    (index) => index.save(),
    (index) => index.entries(),
    (index) => index.toTensor(),
  ];

  test('dispose() frees the memory in the worker; other indexes there stay', async () => {
    const worker = new Worker(script);
    const own = await heed.fromPretrained(tinyModel(), { worker });
    const posted: unknown[][] = [];
    const post = worker.postMessage.bind(worker);
    worker.postMessage = (message: { args?: unknown[] }, ...rest: never[]) => {
      posted.push(message.args ?? []);
      post(message, ...rest);
    };
    const [one, other] = [
      await heed.TextIndex.of(own, ['a'], { worker: true }),
      await heed.TextIndex.of(own, ['a'], { worker: true }),
    ];
    one.dispose();
    one.dispose();
    expect(posted.filter(([, method]) => method === 'dispose')).toHaveLength(1);
    for (const call of calls)
      expect(await messageOf(() => call(one))).toBe('DISPOSED: TextIndex: used after dispose()');
    expect([one.size, one.get(0)?.text]).toEqual([1, 'a']);
    expect(await other.search('a')).toHaveLength(1);
    own.dispose();
    for (const call of calls)
      expect(await messageOf(() => call(other))).toBe(
        'DISPOSED: TextIndex: used after dispose() of the model whose worker had its vectors',
      );
  });

  test('an index that is forgotten is freed in the worker', async () => {
    const worker = new Worker(script);
    const own = await heed.fromPretrained(tinyModel(), { worker });
    const disposed = new Promise<void>((resolve) => {
      const post = worker.postMessage.bind(worker);
      worker.postMessage = (message: { args?: unknown[] }, ...rest: never[]) => {
        if (message.args?.[1] === 'dispose') resolve();
        post(message, ...rest);
      };
    });
    await (async () => {
      const index = await heed.TextIndex.of(own, ['a'], { worker: true });
      expect(await index.search('a')).toHaveLength(1);
    })();
    const collecting = setInterval(() => globalThis.gc!(), 10);
    await disposed;
    clearInterval(collecting);
    own.dispose();
  });

  test('a worker that dies rejects pending calls, and later ones say so', async () => {
    const worker = new Worker(script);
    const own = await heed.fromPretrained(tinyModel(), { worker });
    const index = await heed.TextIndex.of(own, ['a'], { worker: true });
    const file = await index.save();
    const lost =
      'WORKER_FAILED: TextIndex: the worker that had its vectors has ended. Load the model and the index again';
    const pending = [index.search(matrix(1, 24, 1)), index.search(matrix(1, 24, 2)), index.save()];
    const messages = Promise.all(pending.map((call) => messageOf(() => call)));
    void worker.terminate();
    expect(await messages).toEqual([lost, lost, lost]);
    for (const call of calls) expect(await messageOf(() => call(index))).toBe(lost);
    expect(await messageOf(() => index.search('a'))).toMatch(/^WORKER_FAILED/);
    expect([index.size, index.texts, index.has(0)]).toEqual([1, ['a'], true]);
    const again = await heed.TextIndex.load(file, { embedder: model, worker: true });
    expect(await again.search('a')).toHaveLength(1);
  });
});

test('types say what returns promises', async () => {
  const there = await heed.TextIndex.of(model, items, { worker: true });
  const here = await heed.TextIndex.of(model, items);
  type Page = { page: number };
  expectTypeOf(there).toEqualTypeOf<TextIndex<Page, true>>();
  expectTypeOf(here).toEqualTypeOf<TextIndex<Page>>();
  const vector = new Float32Array(24).fill(1);
  expectTypeOf(there.search(vector)).toEqualTypeOf<Promise<TextHit<Page>[]>>();
  expectTypeOf(here.search(vector)).toEqualTypeOf<TextHit<Page>[]>();
  expectTypeOf(there.search('a')).toEqualTypeOf<Promise<TextHits<Page>>>();
  expectTypeOf(await there.entries()).toEqualTypeOf(here.entries());
  const either: TextIndex<Page, boolean>[] = [here, there];
  for (const index of either) expect((await index.search(vector))[0]!.metadata?.page).toBeTypeOf('number');
  const loaded = await heed.TextIndex.load<Page>(await there.save(), { embedder: model, worker: true });
  expectTypeOf(loaded).toEqualTypeOf<TextIndex<Page, true>>();
  expectTypeOf(await heed.TextIndex.of(local, items, { into: there })).toEqualTypeOf<TextIndex<Page, true>>();
  expect(inspect(loaded)).toBe('TextIndex: 150 texts, 24 dimensions, int8, in a worker');
});
