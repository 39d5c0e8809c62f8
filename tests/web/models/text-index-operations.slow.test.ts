/** Random sequences of operations on an index and on a simple reference implementation in double precision. */
import fc from 'fast-check';
import { type HeedError, load, Tensor, type TextHit, type TextIndex } from 'heed';
import { afterAll, expect, test } from 'vitest';

/** `npm run fuzz` sets a larger number. */
const RUNS = Number(process.env.HEED_FUZZ_RUNS ?? 150);

const heed = await load();
afterAll(() => heed.dispose());

type TextSearchOptions = NonNullable<Parameters<TextIndex['search']>[1]>;
type Id = number | string;
type Dtype = 'float32' | 'int8' | 'binary';
type Similarity = 'cosine' | 'dot';

const SCALES = [1, 1, 1, 1e-3, 1e-20, 1e-40, 1e12] as const;

/** A row with few distinct entries, so that duplicates, ties and zeros are frequent. */
function rowOf(kind: number, width: number): Float32Array {
  const scale = SCALES[kind % SCALES.length]!;
  const pattern = Math.floor(kind / SCALES.length);
  if (pattern === 0) return new Float32Array(width);
  return Float32Array.from({ length: width }, (_, i) => scale * (((i * 7 + pattern * (3 + i)) % 5) - 2));
}

/** A number that an id contains. */
const numberOf = (id: Id) => Number(`${id}`.replace(/\D/g, ''));
const norm = (v: ArrayLike<number>) => Math.sqrt(Array.from(v).reduce((sum, x) => sum + x * x, 0));
const product = (a: ArrayLike<number>, b: ArrayLike<number>) => Array.from(a).reduce((sum, x, i) => sum + x * b[i]!, 0);

/** A reference implementation of an index: the rows as they are stored, and a score for each. */
class Plain {
  rows: { id: Id; text: string; metadata: unknown; values: number[] }[] = [];
  nextId = 0;

  constructor(
    readonly storage: Dtype,
    readonly similarity: Similarity,
  ) {}

  add(
    texts: string[],
    vectors: Float32Array[],
    ids: Id[] = texts.map((_, i) => this.nextId + i),
    metadata: unknown[] = [],
  ): Id[] {
    for (const [i, id] of ids.entries()) {
      this.rows.push({ id, text: texts[i]!, metadata: metadata[i], values: this.#stored(vectors[i]!) });
      if (typeof id === 'number') this.nextId = Math.max(this.nextId, id + 1);
    }
    return ids;
  }

  #stored(vector: Float32Array): number[] {
    if (this.storage === 'float32') return Array.from(vector);
    if (this.storage === 'binary') return Array.from(vector, (v) => (v > 0 ? 1 : -1));
    const largest = Math.max(...vector.map(Math.abs)) || 1;
    const scale = this.similarity === 'dot' ? Math.fround(largest / 127) : 1;
    return Array.from(vector, (v) => scale * Math.round((v / largest) * 127));
  }

  score(query: Float32Array, { values }: { values: number[] }): number {
    if (this.similarity === 'dot') return product(query, values);
    return product(query, values) / ((norm(query) || 1) * (norm(values) || 1));
  }
}

/**
 * Hits are correct if no hit that is better by more than rounding errors is missing, and their scores are those of
 * their texts.
 */
function check(plain: Plain, query: Float32Array, hits: TextHit[], options: TextSearchOptions) {
  const { topK = options.threshold === undefined ? 10 : Infinity, threshold = -Infinity, ids, filter } = options;
  const scores = plain.rows.map((row) => plain.score(query, row));
  const largest =
    plain.similarity === 'dot' ? norm(query) * Math.max(0, ...plain.rows.map(({ values }) => norm(values))) : 1;
  const error = 2e-6 * largest + 2 ** -148; // the smallest fp32 numbers are 2^-149 apart
  const allowed = (row: number) =>
    (ids === undefined || (Array.isArray(ids) ? ids : [...ids]).includes(plain.rows[row]!.id)) &&
    (filter === undefined || filter({ index: row, ...plain.rows[row]! }));
  const wanted = scores.map((score, row) => ({ score, row })).filter(({ row }) => allowed(row));
  const [surely, possibly] = [error, -error].map((by) => wanted.filter(({ score }) => score >= threshold + by).length);
  expect(hits.length).toBeGreaterThanOrEqual(Math.min(topK, surely!));
  expect(hits.length).toBeLessThanOrEqual(Math.min(topK, possibly!));
  const found = new Set<number>();
  for (const [i, { index, id, text, metadata, score }] of hits.entries()) {
    const { values: _, ...row } = plain.rows[index]!;
    expect({ id, text, metadata }).toEqual(row);
    expect(Math.abs(score - scores[index]!)).toBeLessThanOrEqual(error);
    expect(allowed(index) && !found.has(index)).toBe(true);
    found.add(index);
    const before = hits[i - 1];
    // Equal rows are in the order of the index.
    if (before)
      expect(
        before.score > score || (before.score === score && before.index < index) || before.score - score > -error,
      ).toBe(true);
    if (before && plain.rows[before.index]!.values.join() === plain.rows[index]!.values.join())
      expect(before.index).toBeLessThan(index);
  }
  const worst = hits.at(-1)?.score ?? -Infinity;
  if (hits.length === topK)
    for (const { score, row } of wanted) if (!found.has(row)) expect(score).toBeLessThanOrEqual(worst + error);
}

const kind = fc.nat(6 * SCALES.length - 1);
const operation = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('add' as const),
      kinds: fc.oneof(fc.array(kind, { maxLength: 12 }), fc.array(kind, { minLength: 60, maxLength: 90 })),
      gap: fc.nat(3),
      metadata: fc.constantFrom('none', 'some', 'null'),
      form: fc.constantFrom('lists', 'items', 'names'),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('remove' as const),
      share: fc.constantFrom(0, 0.1, 0.1, 0.3, 0.7, 1),
      salt: fc.nat(9),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('replace' as const),
      places: fc.uniqueArray(fc.nat(90), { minLength: 1, maxLength: 8 }),
      kind,
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('reload' as const) }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('search' as const),
      kind,
      topK: fc.constantFrom(undefined, 1, 3, 100, Infinity),
      threshold: fc.constantFrom(undefined, 'a score' as const, 0, -0.5, 0.9),
      filter: fc.constantFrom(undefined, 0, 2, 3),
      exact: fc.boolean(),
      isFiltered: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('refused' as const), kind }) },
);

test.each(
  (['float32', 'int8', 'binary'] as const).flatMap((storage) =>
    (storage === 'binary' ? (['cosine'] as const) : (['cosine', 'dot'] as const)).map(
      (similarity) => [storage, similarity] as const,
    ),
  ),
)('%s, %s', async (storage, similarity) => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(8, 24, 40),
      fc.array(operation, { minLength: 1, maxLength: 14 }),
      async (width, operations) => {
        const plain = new Plain(storage, similarity);
        let named = 0;
        let index: TextIndex = heed.TextIndex.of([], undefined, { storage, similarity });
        const matrix = (kinds: number[]) =>
          new Tensor(Float32Array.from(kinds.flatMap((each) => [...rowOf(each, width)])), [kinds.length, width]);
        for (const step of operations) {
          if (step.do === 'add') {
            const texts = step.kinds.map((each, i) => `${each} ${i}`);
            const rows = step.kinds.map((each) => rowOf(each, width));
            const ids: Id[] | undefined =
              step.form === 'names'
                ? texts.map((_, i) => `name ${named + i}`)
                : step.gap > 0
                  ? texts.map((_, i) => plain.nextId + i * step.gap)
                  : undefined;
            named += texts.length;
            const metadata =
              step.metadata === 'none'
                ? undefined
                : texts.map((text) => (step.metadata === 'null' ? null : { of: [text] }));
            const vectors = matrix(step.kinds);
            const given =
              step.form === 'items'
                ? await index.add(
                    texts.map((text, i) => ({ id: ids?.[i], text, metadata: metadata?.[i] })),
                    { vectors },
                  )
                : await index.add(texts, { vectors, ids, metadata });
            expect(given).toEqual(plain.add(texts, rows, ids, metadata));
          } else if (step.do === 'remove') {
            const ids = plain.rows
              .map(({ id }) => id)
              .filter((id) => ((numberOf(id) * 7 + step.salt) % 10) / 10 < step.share);
            await index.remove(ids);
            plain.rows = plain.rows.filter(({ id }) => !ids.includes(id));
          } else if (step.do === 'replace') {
            const ids = step.places.flatMap((at) => plain.rows[at]?.id ?? []);
            const texts = ids.map((id) => `new ${id} \ud83e`);
            const kinds = ids.map((_, i) => (step.kind + i) % (6 * SCALES.length));
            await index.add(texts, { vectors: matrix(kinds), ids, replace: true });
            plain.rows = plain.rows.filter(({ id }) => !ids.includes(id));
            plain.add(
              texts,
              kinds.map((each) => rowOf(each, width)),
              ids,
            );
          } else if (step.do === 'reload') {
            const file = await index.save();
            index.dispose();
            index = await heed.TextIndex.load(file);
          } else if (step.do === 'refused') {
            const before = await index.save();
            const wide = [...rowOf(step.kind, width), 1, 1, 1, 1, 1, 1, 1, 1];
            const calls: (() => Promise<unknown>)[] = [
              () =>
                index.add(
                  ['a', 'b'],
                  [rowOf(1, width), rowOf(1, width).fill(NaN, 1, 2)].map((row) => [...row]),
                ),
              () => index.remove([plain.nextId]),
              () => index.add(['a'], matrix([step.kind, step.kind])),
            ];
            if (plain.rows.length > 0)
              calls.push(
                () => index.add(['a'], [wide]),
                async () => index.search([wide]),
              );
            for (const call of calls)
              expect(
                await call().then(
                  () => '',
                  (error: HeedError) => error.message,
                ),
              ).toMatch(/expected .*, got/);
            expect(Buffer.compare(await index.save(), before)).toBe(0);
          } else {
            const query = rowOf(step.kind, width);
            const scores = plain.rows.map((row) => plain.score(query, row));
            const { topK, exact } = step;
            const threshold = step.threshold === 'a score' ? Math.fround(scores[0] ?? 0) : step.threshold;
            const ids =
              step.filter === undefined
                ? undefined
                : plain.rows.map(({ id }) => id).filter((_, row) => row % (step.filter! + 1) === 0);
            const isOdd = ({ id }: { id: Id }) => numberOf(id) % 2 === 1;
            const filter = step.isFiltered ? isOdd : undefined;
            const options = {
              exact,
              ...(filter && { filter }),
              ...(topK && { topK }),
              ...(threshold !== undefined && { threshold }),
              ...(ids && { ids }),
            };
            const hits = index.search([Array.from(query)], options);
            check(plain, query, hits, options);
            const [again] = index.searchAll([Array.from(query), Array.from(query), Array.from(query)], options);
            expect(again).toEqual(hits);
            expect(index.search([Array.from(query)], { ...options, candidates: 1000 })).toEqual(hits);
          }
          expect([...index.texts]).toEqual(plain.rows.map(({ text }) => text));
          const entries = [...index.entries()];
          expect(entries.map(({ index: _, vector, ...text }) => text)).toEqual(
            plain.rows.map(({ values: _, metadata, ...row }) => (metadata === undefined ? row : { ...row, metadata })),
          );
          for (const { id, text } of plain.rows.slice(0, 3)) expect(index.get(id)).toMatchObject({ id, text });
          expect(index.dimensions).toBe(plain.rows.length === 0 ? 0 : width);
        }
        index.dispose();
      },
    ),
    { numRuns: RUNS },
  );
});
