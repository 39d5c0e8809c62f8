/** An index recognizes its model by vectors, not by the name, the location or the type of the weights. */
import { load, type PretrainedModel, Tensor } from 'heed';
import { afterAll, describe, expect, test } from 'vitest';
import { tinyModel } from './tiny.js';

const heed = await load();
afterAll(() => heed.dispose());

type Files = Record<string, Uint8Array | string>;
const texts = ['the quick fox', 'a brown fox', 'x y z'];
const error = (code: string, message: string | RegExp) =>
  expect.objectContaining({ name: 'HeedError', code, message: expect.stringMatching(message) });
const other = error(
  'INVALID_FILE',
  /as the index was made with, got .*Open the index with the model that it was made with, or build it again/,
);
const asJson = (value: unknown) => JSON.stringify(value);
const opened = new Map<string, PretrainedModel>();
async function open(name: string, files: Files, options = {}): Promise<PretrainedModel> {
  const model = opened.get(name) ?? (await heed.fromPretrained(files, options));
  opened.set(name, model);
  return model;
}
/** A folder of sentence-transformers with prompts. */
const withPrompts = (prompts: Record<string, string>, name: string | null = null): Files => ({
  ...tinyModel(),
  'modules.json': asJson([
    { idx: 0, name: '0', path: '', type: 'sentence_transformers.models.Transformer' },
    { idx: 1, name: '1', path: '1_Pooling', type: 'sentence_transformers.models.Pooling' },
  ]),
  '1_Pooling/config.json': asJson({ word_embedding_dimension: 24, pooling_mode_mean_tokens: true }),
  'config_sentence_transformers.json': asJson({ prompts, default_prompt_name: name }),
});
const Index = heed.TextIndex;

describe('an index of a model', () => {
  test.each(['bert', 'electra', 'mpnet', 'nomic_bert', 'jina-bert-v2'])(
    '%s in other types is the same model',
    async (family) => {
      const files = tinyModel(family);
      const forms: [string, Files, object][] = [
        ['fp32', files, {}],
        ['q8', files, { dtype: 'q8' }],
        ['in a worker', files, { worker: true }],
        ['int8', (await heed.quantize(files)).files, {}],
        ['4 bits', (await heed.quantize(files, { matrices: 'int4' })).files, {}],
      ];
      const models = await Promise.all(
        forms.map(([name, source, options]) => open(`${family} ${name}`, source, options)),
      );
      for (const maker of models) {
        const index = await Index.of(maker, texts);
        const file = await index.save();
        const expected = await index.search('fox');
        for (const model of models) {
          const again = await Index.load(file, { embedder: model });
          expect((await again.search('fox')).map(({ text }) => text).sort()).toEqual(
            expected.map(({ text }) => text).sort(),
          );
          expect(await again.add(['a x'])).toEqual([3]);
          again.dispose();
        }
        index.dispose();
      }
    },
  );

  test('another model of the same width is rejected, and of another width', async () => {
    const model = await open('bert fp32', tinyModel());
    const file = await (await Index.of(model, texts)).save();
    for (const family of ['electra', 'distilbert', 'mpnet', 'bert-f16'])
      await expect(Index.load(file, { embedder: await open(`${family} fp32`, tinyModel(family)) })).rejects.toEqual(
        other,
      );
    const bundled = await heed.fromPretrained();
    await expect(Index.load(file, { embedder: bundled })).rejects.toEqual(
      error('INVALID_FILE', 'vectors of 24 entries.*384'),
    );
    bundled.dispose();
  });

  test('another pooling and other prompts are rejected', async () => {
    const made = withPrompts({ query: 'x ', document: 'y ' });
    const model = await open('prompts', made);
    const file = await (await Index.of(model, texts)).save();
    const same = await open('prompts again', { ...made });
    const again = await Index.load(file, { embedder: same });
    expect(await again.search('fox')).toHaveLength(3);
    const changed: [string, Files][] = [
      [
        'cls',
        { ...made, '1_Pooling/config.json': asJson({ word_embedding_dimension: 24, pooling_mode_cls_token: true }) },
      ],
      ['query', withPrompts({ query: 'z ', document: 'y ' })],
      ['document', withPrompts({ query: 'x ', document: 'a ' })],
      ['none', withPrompts({})],
      ['default', withPrompts({ other: 'the quick ' }, 'other')],
    ];
    for (const [name, files] of changed)
      await expect(Index.load(file, { embedder: await open(`prompts ${name}`, files) })).rejects.toEqual(other);
    const plain = await (await Index.of(await open('prompts none', withPrompts({})), texts)).save();
    await expect(Index.load(plain, { embedder: await open('prompts default', changed[4]![1]) })).rejects.toEqual(other);
  });

  test('a prompt that is given takes the place of that of the folder, and is kept', async () => {
    const files = withPrompts({ query: 'x ', document: 'y ' });
    const model = await open('prompts', files);
    const prompt = 'the quick ';
    const index = await Index.of(model, texts, { prompt });
    const vectors = await model.embedDocument(texts, { prompt });
    expect(index.toTensor()).toEqual(Index.of(texts, vectors).toTensor());
    // Queries have their own prompt.
    expect(await index.search('fox')).toEqual(Index.of(texts, vectors).search(await model.embedQuery('fox')));
    const again = await Index.load(await index.save(), { embedder: await open('prompts again', { ...files }) });
    for (const each of [index, again]) expect(await each.add([texts[1]!])).toEqual([3]);
    expect(again.toTensor()).toEqual(index.toTensor());
    expect(again.toTensor().slice(3, 4)).toEqual(again.toTensor().slice(1, 2));
    await again.remove([3]);
    // The vectors may have been made elsewhere, and the texts may be in another file.
    const given = Index.of(texts, vectors, { prompt });
    const folder = { 'index.safetensors': given.toSafetensors(), 'words.txt': texts.join('\n') };
    const loaded = await Index.load(folder, { embedder: model });
    await loaded.add([texts[1]!]);
    expect(loaded.toTensor().slice(3, 4)).toEqual(loaded.toTensor().slice(1, 2));
    // The prompt of the folder is as good as a given one, but another is not.
    const plain = await (await Index.of(model, texts, { prompt: 'y ' })).save();
    expect((await Index.load(plain, { embedder: model })).texts).toEqual(texts);
    const electra = await open('electra fp32', tinyModel('electra'));
    await expect(Index.load(await index.save(), { embedder: electra })).rejects.toEqual(other);
    const seen: string[] = [];
    const embed = async (lines: readonly string[]) => {
      seen.push(...lines);
      return model.embed(lines);
    };
    await (await Index.of(embed, ['a fox'], { prompt })).search('fox');
    expect(seen).toEqual([expect.stringMatching(/^the quick /), expect.not.stringMatching(/^the quick /), 'the quick a fox', 'fox']); // biome-ignore format: in the order of the calls
  });

  test('progress', async () => {
    const model = await open('bert fp32', tinyModel());
    const seen: { done: number; total: number }[] = [];
    const onProgress = (progress: { done: number; total: number }) => seen.push(progress);
    await Index.of(model, texts, { onProgress });
    expect(seen.at(-1)).toEqual({ done: 3, total: 3 });
    expect(seen.every(({ total }) => total === 3)).toBe(true);
    await Index.of((lines, { onProgress: report }) => model.embed(lines, { onProgress: report! }), texts, { onProgress }); // biome-ignore format: one call
    expect(seen.filter(({ done }) => done === 3).length).toBe(2);
    await expect(Index.of(model, texts, { onProgress: 7 as never })).rejects.toEqual(
      error('INVALID_ARGUMENT', 'TextIndex.of.onProgress: expected a function'),
    );
  });

  test('an index of the first entries of vectors', async () => {
    const model = await open('bert fp32', tinyModel());
    const narrow = await Index.of(model, texts, { dimensions: 16 });
    const again = await Index.load(await narrow.save(), { embedder: model });
    expect([again.dimensions, await again.search('fox')]).toEqual([16, await narrow.search('fox')]);
    await expect(
      Index.load(await narrow.save(), { embedder: await open('electra fp32', tinyModel('electra')) }),
    ).rejects.toEqual(other);
    // For vectors from an unknown model, `dimensions` must have been given.
    const vectors = await model.embedDocument(texts, { dimensions: 16 });
    const unknown = Index.of(texts, vectors, { embedder: model });
    const width = error(
      'SHAPE_MISMATCH',
      /embedder: expected vectors of 16 entries, as the index has, got 24.*`dimensions`/,
    );
    await expect(unknown.search('fox')).rejects.toEqual(width);
    await expect(unknown.add(['a'])).rejects.toEqual(width);
    const asked = Index.of(texts, vectors, { embedder: model, dimensions: 16 });
    expect(await asked.search('fox')).toEqual(await narrow.search('fox'));
    expect(() => Index.of(texts, vectors, { dimensions: 8 })).toThrow(error('SHAPE_MISMATCH', '8 entries per row'));
    // An index saved by heed 0.2.0.
    const old = await Index.of(texts, vectors).save();
    await expect(Index.load(old, { embedder: model })).rejects.toEqual(width);
    const told = await Index.load(old, { embedder: model, dimensions: 16 });
    expect(await told.search('fox')).toEqual(await narrow.search('fox'));
    // After saving again, the index recognizes its model.
    await expect(
      Index.load(await told.save(), { embedder: await open('electra fp32', tinyModel('electra')) }),
    ).rejects.toEqual(other);
    // Vectors are not truncated for an index of another model.
    expect(() => unknown.search(new Float32Array(24))).toThrow(
      error('SHAPE_MISMATCH', '16 entries, got 24. Embed it with the model of the index'),
    );
    expect(() => narrow.search(new Float32Array(24))).toThrow(error('SHAPE_MISMATCH', 'dimensions: 16'));
  });

  test('functions embed, too', async () => {
    const letters = (salt: number) => (lines: readonly string[]) =>
      new Tensor(
        Float32Array.from(
          lines.flatMap((line) =>
            Array.from({ length: 8 }, (_, i) =>
              Math.sin(salt * i + ([...line].reduce((sum, c) => sum * 31 + c.charCodeAt(0), i) % 1000)),
            ),
          ),
        ),
        [lines.length, 8],
      );
    const index = await Index.of(letters(1), texts);
    expect((await index.search(texts[1]!, { topK: 1 }))[0]!.text).toBe(texts[1]);
    const file = await index.save();
    const again = await Index.load(file, { embedder: async (lines) => letters(1)(lines) });
    expect(await again.search('fox')).toEqual(await index.search('fox'));
    await expect(Index.load(file, { embedder: letters(2) })).rejects.toEqual(other);
    await expect(Index.of(() => [[1, 2]], texts)).rejects.toEqual(error('SHAPE_MISMATCH', 'one vector per text'));
    await expect(Index.of(() => 7 as never, texts)).rejects.toEqual(error('INVALID_ARGUMENT', 'embedder'));
    await expect(Index.of((lines) => lines.map(() => [NaN]), texts)).rejects.toEqual(
      error('INVALID_ARGUMENT', 'finite'),
    );
    await expect(Index.load(file, { embedder: 7 as never })).rejects.toEqual(
      error('INVALID_ARGUMENT', 'a function that embeds texts'),
    );
  });

  test('an index of products rejects vectors of other lengths', async () => {
    const model = await open('bert fp32', tinyModel());
    const scaled = (by: number) => async (lines: readonly string[]) => {
      const { data, shape } = await model.embed(lines);
      return new Tensor(
        data.map((v) => by * v),
        shape,
      );
    };
    for (const [similarity, accepted] of [
      ['dot', false],
      ['cosine', true],
    ] as const) {
      const file = await (await Index.of(scaled(1), texts, { similarity })).save();
      const loaded = Index.load(file, { embedder: scaled(3) });
      if (accepted) await loaded;
      else await expect(loaded).rejects.toEqual(other);
    }
  });
});

test('a model that was disposed of leaves an index that can be saved', async () => {
  const model = await heed.fromPretrained(tinyModel());
  const [known, made] = [
    await heed.TextIndex.of(model, texts),
    heed.TextIndex.of(texts, await model.embed(texts), { embedder: model }),
  ];
  model.dispose();
  const again = await heed.fromPretrained(tinyModel());
  for (const index of [known, made])
    expect((await (await heed.TextIndex.load(await index.save(), { embedder: again })).search('fox')).length).toBe(3);
  await expect(
    heed.TextIndex.load(await known.save(), { embedder: await open('electra fp32', tinyModel('electra')) }),
  ).rejects.toEqual(other);
  again.dispose();
});

test('an emptied index takes the vectors of any model', async () => {
  const file = await (await heed.TextIndex.of(await open('bert fp32', tinyModel()), texts)).save();
  const index = await heed.TextIndex.load(file);
  await index.remove([0, 1, 2]);
  const electra = await open('electra fp32', tinyModel('electra'));
  await index.add(texts, await electra.embedDocument(texts));
  expect(await (await heed.TextIndex.load(await index.save(), { embedder: electra })).search('fox')).toHaveLength(3);
});

test('the bundled dictionary is one of the bundled model', async () => {
  const folder = new URL('../../../web/model/dictionary/', import.meta.url);
  const bundled = await heed.fromPretrained();
  const index = await heed.TextIndex.load(folder, { embedder: bundled });
  expect((await index.search('the sister of a parent', { topK: 10 })).map(({ text }) => text)).toContain('aunt');
  expect(
    await (
      await heed.TextIndex.load(folder, { embedder: await heed.fromPretrained(undefined, { dtype: 'q8' }) })
    ).search('a fox'),
  ).toHaveLength(10);
  await expect(heed.TextIndex.load(folder, { embedder: await open('bert fp32', tinyModel()) })).rejects.toEqual(
    error('INVALID_FILE', '384 entries'),
  );
  bundled.dispose();
});

test('a pruned model is the same model', async () => {
  const files = tinyModel();
  const { files: pruned } = await heed.prune(files, { keep: texts });
  const file = await (await heed.TextIndex.of(await open('bert fp32', files), texts)).save();
  const again = await heed.TextIndex.load(file, { embedder: await heed.fromPretrained(pruned) });
  expect(await again.search('the quick fox')).toHaveLength(3);
});

describe('signals', () => {
  const reason = new Error('stopped');

  test('load', async () => {
    const file = await (await heed.TextIndex.of(await open('bert fp32', tinyModel()), texts)).save();
    await expect(heed.TextIndex.load(file, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    const stop = new AbortController();
    const pending = heed.TextIndex.load('https://example.test/index.safetensors', {
      signal: stop.signal,
      fetch: ((_: unknown, { signal }: { signal: AbortSignal }) =>
        new Promise((__, reject) => {
          signal.addEventListener('abort', () => reject(signal.reason));
          queueMicrotask(() => stop.abort(reason));
        })) as never,
    });
    await expect(pending).rejects.toBe(reason);
  });

  test('of and add stop between blocks of rows, and other work goes on meanwhile', async () => {
    const vectors = new Tensor(new Float32Array(40_000 * 64).fill(1), [40_000, 64]);
    const lines = Array.from({ length: 40_000 }, (_, i) => `${i}`);
    const index = Index.of(['first'], vectors.slice(0, 1));
    const stop = new AbortController();
    setImmediate(() => stop.abort(reason));
    await expect(index.add(lines, vectors, { signal: stop.signal })).rejects.toBe(reason);
    expect(index.texts).toEqual(['first']);
    const during = new AbortController();
    const embedder = (asked: readonly string[]) => {
      if (asked.length > 1) setImmediate(() => during.abort(reason));
      return vectors.slice(0, asked.length);
    };
    await expect(Index.of(embedder, lines, { signal: during.signal })).rejects.toBe(reason);
    // Calls take effect in their order.
    const [, ids] = await Promise.all([index.add(lines, vectors), index.add(['last'], vectors.slice(0, 1))]);
    expect(ids).toEqual([40_001]);
    index.dispose();
  });
});

test('damaged probes', async () => {
  const file = await (await heed.TextIndex.of(await open('bert fp32', tinyModel()), texts)).save();
  const text = new TextDecoder('latin1').decode(file);
  const changed = (from: string, to: string) => {
    const bytes = file.slice();
    bytes.set(new TextEncoder().encode(to), text.indexOf(from));
    return heed.TextIndex.load(bytes);
  };
  await expect(changed('"probe_bits":"16"', '"probe_bits":"17"')).rejects.toEqual(error('INVALID_FILE', 'probe_bits'));
  await expect(changed('"probe":{"dtype":"F32"', '"probe":{"dtype":"I32"')).rejects.toEqual(
    error('INVALID_FILE', "tensor 'probe'"),
  );
});
