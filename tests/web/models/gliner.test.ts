/**
 * GLiNER: scores of spans, and the entities derived from them. Expected values: PyTorch's, from
 * tests/fixtures/models/gliner.py.
 */
import { readFileSync } from 'node:fs';
import { extractEntities, HeedError, load, type PretrainedModel } from 'heed';
import { describe, expect, test } from 'vitest';
import { bytesOf, expectClose, fixtures } from './fixtures.js';

interface Golden {
  labels: string[];
  cases: {
    text: string;
    words: [number, number][];
    /** null: -Infinity */
    logits: (number | null)[][][];
    /** [first word, last word, label, score] by options. */
    entities: Record<string, [number, number, number, number][]>;
  }[];
}

const heed = await load();
const goldenOf = (name: string): Golden => JSON.parse(readFileSync(`${fixtures}${name}/expected.json`, 'utf8'));
const names = ['gliner', 'gliner-bert', 'gliner-deep'];
const models = Object.fromEntries(
  await Promise.all(names.map(async (name) => [name, await heed.fromPretrained(`${fixtures}${name}`)] as const)),
);

/** The fixture's files with other settings; undefined removes one. */
function changed(settings: Record<string, unknown>, name = 'gliner'): Record<string, Uint8Array | string> {
  const { 'expected.json': _, ...files } = bytesOf(`${fixtures}${name}`);
  const config = JSON.parse(new TextDecoder().decode(files['gliner_config.json']!));
  return { ...files, 'gliner_config.json': JSON.stringify({ ...config, ...settings }) };
}

async function expectScores(model: PretrainedModel, { labels, cases }: Golden): Promise<void> {
  const scores = await model.scoreSpans(
    cases.map(({ text }) => text),
    labels,
  );
  cases.forEach(({ text, words, logits }, n) => {
    expect(scores[n]!.words, text).toEqual(words);
    const shape = [words.length, scores[n]!.logits.shape[1]!, labels.length];
    const expected = Float32Array.from(logits.flat(2), (value) => value ?? -Infinity);
    const actual = scores[n]!.logits.data;
    const infinite = (data: Float32Array) => Array.from(data, (value) => value === -Infinity);
    expect(infinite(actual)).toEqual(infinite(expected));
    const finite = (data: Float32Array) => ({ shape, data: data.map((value) => (value === -Infinity ? 0 : value)) });
    expectClose({ ...finite(actual), shape: scores[n]!.logits.shape }, finite(expected), text);
  });
}

describe.each(names)('%s', (name) => {
  const golden = goldenOf(name);
  const model = models[name]!;

  test('scores the spans as PyTorch does, long texts in windows', () => expectScores(model, golden));

  test.each(Object.keys(golden.cases[0]!.entities))('selects entities: %s', async (how) => {
    const [threshold, nesting, multi] = how.split(' ');
    const options = { threshold: Number(threshold), nested: nesting === 'nested', multiLabel: multi === 'multi' };
    const texts = golden.cases.map(({ text }) => text);
    const found = await extractEntities(model, texts, golden.labels, options);
    golden.cases.forEach(({ text, words, entities }, n) => {
      const expected = entities[how]!.map(([first, last, label]) => {
        const [start, end] = [words[first]![0], words[last]![1]];
        return { label: golden.labels[label]!, word: text.slice(start, end), start, end };
      });
      expect(
        found[n]!.map(({ score: _, ...entity }) => entity),
        text,
      ).toEqual(expected);
      entities[how]!.forEach(([, , , score], i) => {
        expect(found[n]![i]!.score).toBeCloseTo(score, 4);
      });
    });
  });
});

test('scores the same in a worker, in a pool and with other forms of weights', async () => {
  const golden = goldenOf('gliner');
  for (const options of [{ worker: true }, { workers: 2 }] as const) {
    const remote = await heed.fromPretrained(`${fixtures}gliner`, options);
    const cases = [...golden.cases, ...golden.cases]; // enough texts for a pool to divide
    await expectScores(remote, { ...golden, cases });
    remote.dispose();
  }
  const q8 = await heed.fromPretrained(`${fixtures}gliner`, { dtype: 'q8' });
  const [scores] = await q8.scoreSpans(golden.cases[0]!.text, golden.labels);
  expect(scores!.logits.shape).toEqual([5, 4, 4]);
  q8.dispose();
});

test('reports progress by text, and stops', async () => {
  const model = models.gliner!;
  const texts = goldenOf('gliner').cases.map(({ text }) => text);
  const done: number[] = [];
  await model.scoreSpans(texts, ['city'], { onProgress: (progress) => done.push(progress.done) });
  expect(done).toEqual([1, 2, 3, 4, 5]);
  const stop = new AbortController();
  const onProgress = () => stop.abort(new Error('enough'));
  const call = model.scoreSpans(texts, ['city'], { signal: stop.signal, onProgress });
  await expect(call).rejects.toThrow('enough');
  await expectScores(model, goldenOf('gliner'));
});

test('words have the ranges of the text, whatever characters it has', async () => {
  const text = 'Ada\u0301 lives\u200Bin  Lon-don_x.. \u{1F600}\u00A0fox';
  const [{ words } = { words: [] }] = await models.gliner!.scoreSpans(text, ['city']);
  const found = words.map(([start, end]) => text.slice(start, end));
  // Accents, which the normalizer removes, do not count as words; unknown words do.
  expect(found).toEqual(['Ada', 'lives', 'in', 'Lon-don_x', '.', '.', '\u{1F600}', 'fox']);
});

test('texts without words have no entities; labels are taken once', async () => {
  expect(await extractEntities(models.gliner!, ['', ' \n '], 'city')).toEqual([[], []]);
  const [twice] = await extractEntities(models.gliner!, 'the quick fox', ['city', 'city'], { threshold: 0 });
  const [once] = await extractEntities(models.gliner!, 'the quick fox', 'city', { threshold: 0 });
  expect(twice).toEqual(once);
  expect(await extractEntities(models.gliner!, [], 'city')).toEqual([]);
});

test.each<[string, string, unknown]>([
  [
    'labels that leave no room',
    'TOO_LONG',
    () =>
      extractEntities(
        models.gliner!,
        'a',
        Array(30)
          .fill(0)
          .map((_, i) => `${i}`),
      ),
  ],
  ['no labels', 'INVALID_ARGUMENT', () => extractEntities(models.gliner!, 'a', [])],
  ['a label that is no text', 'INVALID_ARGUMENT', () => extractEntities(models.gliner!, 'a', [1] as never)],
  ['a threshold above 1', 'INVALID_ARGUMENT', () => extractEntities(models.gliner!, 'a', 'b', { threshold: 2 })],
  ['NaN', 'INVALID_ARGUMENT', () => extractEntities(models.gliner!, 'a', 'b', { threshold: Number.NaN })],
  ['an unknown option', 'INVALID_ARGUMENT', () => extractEntities(models.gliner!, 'a', 'b', { flat: true } as never)],
  ['texts that are none', 'INVALID_ARGUMENT', () => extractEntities(models.gliner!, 3 as never, 'b')],
  ['another model', 'UNSUPPORTED', async () => extractEntities(await heed.fromPretrained(), 'a', 'b')],
])('refuses %s', async (_, code, call) => {
  const error = await (call as () => Promise<unknown>)().catch((error: unknown) => error);
  expect(error).toBeInstanceOf(HeedError);
  expect((error as HeedError).code).toBe(code);
});

test.each<[object, string]>([
  [{ span_mode: 'token_level' }, "gliner_config.json: span_mode: expected 'markerV0', got 'token_level'"],
  [{ span_mode: 'marker' }, "expected 'markerV0', got 'marker'"],
  [{ model_type: 'gliner_bi_encoder_span' }, "got 'gliner_bi_encoder_span'"],
  [{ model_type: 'gliner_uni_encoder_token' }, "got 'gliner_uni_encoder_token'"],
  [{ labels_encoder: 'bge' }, 'labels_encoder: expected a model with one encoder'],
  [{ labels_decoder: 'gpt2' }, 'labels_decoder'],
  [{ relations_layer: 'biaffine' }, 'relations_layer'],
  [{ post_fusion_schema: 'l2l' }, 'post_fusion_schema'],
  [{ fuse_layers: true }, 'fuse_layers: expected false'],
  [{ precomputed_prompts_mode: true }, 'precomputed_prompts_mode'],
  [{ subtoken_pooling: 'last' }, "subtoken_pooling: expected 'first'"],
  [{ words_splitter_type: 'spacy' }, "words_splitter_type: expected 'whitespace'"],
  [{ encoder_config: null }, 'safe_serialization=True'],
  [{ encoder_config: { model_type: 'lfm2' } }, 'gliner_config.json: encoder_config: model_type: expected'],
  [{ hidden_size: 22 }, "tensor 'token_rep_layer.projection.weight': expected shape [22,24]"],
  [{ num_rnn_layers: 2 }, "tensor 'rnn.lstm.bias_ih_l1': expected shape [40], as gliner_config.json says, got none"],
  [{ ent_token: '[E]' }, "the token '[E]', which gliner_config.json names"],
  [{ max_width: 0 }, 'max_width: expected a whole number from 1'],
])('refuses a folder with %j', async (settings, message) => {
  const error = await heed.fromPretrained(changed({ ...settings })).catch((error: unknown) => error);
  expect(error).toBeInstanceOf(HeedError);
  expect((error as Error).message).toContain(message);
});

test('a folder of older versions of the package loads: model_type gliner, an encoder without model_type', async () => {
  const { encoder_config: encoder } = JSON.parse(readFileSync(`${fixtures}gliner/gliner_config.json`, 'utf8'));
  const { model_type: _, ...rest } = encoder;
  const settings = { model_type: 'gliner', embed_ent_token: undefined, encoder_config: rest };
  const older = await heed.fromPretrained(changed(settings));
  await expectScores(older, goldenOf('gliner'));
  older.dispose();
  const { 'tokenizer.json': _tokenizer, ...without } = changed({});
  await expect(heed.fromPretrained(without)).rejects.toThrow('expected a GLiNER folder with tokenizer.json');
  const { 'model.safetensors': _weights, ...pickled } = changed({});
  const bin = heed.fromPretrained({ ...pickled, 'pytorch_model.bin': new Uint8Array(3) });
  await expect(bin).rejects.toThrow('safe_serialization=True');
});

test('a disposed model frees its layers and says so', async () => {
  const model = await heed.fromPretrained(`${fixtures}gliner-deep`);
  const before = heed.info.memoryBytes;
  const call = model.scoreSpans(goldenOf('gliner').cases[4]!.text, ['city']);
  model.dispose();
  await expect(call).rejects.toThrow('used after dispose()');
  for (let i = 0; i < 20; i++) (await heed.fromPretrained(`${fixtures}gliner-deep`)).dispose();
  expect(heed.info.memoryBytes).toBe(before);
});

test('quantize rounds the matrices, and inspect reads the folder', async () => {
  const files = changed({}, 'gliner-deep');
  const { files: quantized, report } = await heed.quantize(files, { texts: ['the quick fox'] });
  expect(report.int8).toContain('span_rep_layer.span_rep_layer.out_project.0.weight');
  expect(report.int8.some((name) => name.startsWith('token_rep_layer.bert_layer.model.encoder.'))).toBe(true);
  expect(report.bytesAfter).toBeLessThan(0.6 * report.bytesBefore);
  expect(report.loss!.fp32.mean).toBeGreaterThan(0.999);
  const { labels, cases } = goldenOf('gliner-deep');
  const [whole, rounded] = await Promise.all(
    [files, quantized].map(async (source) => {
      const model = await heed.fromPretrained(source);
      const [scores] = await model.scoreSpans(cases[1]!.text, labels);
      model.dispose();
      return scores!.logits.data.filter(Number.isFinite);
    }),
  );
  const centered = (values: Float32Array) => {
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    return values.map((value) => value - mean);
  };
  const [x, y] = [centered(whole!), centered(rounded!)];
  const product = (a: Float32Array, b: Float32Array) => a.reduce((sum, value, i) => sum + value * b[i]!, 0);
  const correlation = product(x, y) / Math.sqrt(product(x, x) * product(y, y));
  expect(correlation).toBeGreaterThan(0.99);
  expect(correlation).toBeLessThan(1);
  const inspection = await heed.inspect(files);
  expect(inspection).toMatchObject({ problem: null, family: 'bert', numLayers: 3, unusedTensors: [] });
  expect(inspection.download.q8).toBe(report.bytesAfter);
  await expect(heed.prune(files, { keep: ['the fox'] })).rejects.toThrow('a GLiNER folder');
});
