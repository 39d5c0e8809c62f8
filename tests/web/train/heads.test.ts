/** Classifiers that are saved apart from the model whose vectors they classify. */
import { classify, load as loadPlain } from 'heed';
import { load } from 'heed/train';
import { beforeAll, describe, expect, it } from 'vitest';
import { writeSafetensors } from '../../../web/src/io/safetensors.js';
import { tinyModel } from '../models/tiny.js';

const heed = await load({ build: 'simd128' });
const plain = await loadPlain({ build: 'simd128' });

const examples = ['apple fruit', 'pear fruit', 'cat animal', 'dog animal'].map((line) => {
  const [text, label] = line.split(' ') as [string, string];
  return { text, label };
});
const texts = ['a ripe melon', 'a lion', 'the quick brown fox'];

async function trained(seed = 1) {
  const model = await heed.fromPretrained();
  await heed.trainClassifier(model, examples, { seed });
  const { 'head.safetensors': file, ...others } = await model.save({ head: true });
  return { model, file: file!, others };
}

describe('a head', () => {
  let file: Uint8Array<ArrayBuffer>;
  let expected: Awaited<ReturnType<typeof classify>>;
  beforeAll(async () => {
    const found = await trained();
    using model = found.model;
    file = found.file;
    expect(found.others).toEqual({});
    expected = await classify(model, texts);
  });

  it('has some kilobytes', () => {
    expect(file.length).toBeLessThan(8000);
  });

  it.each([{}, { worker: true }, { workers: 2 }])('gives the same labels in plain heed, %j', async (options) => {
    using model = await plain.fromPretrained(undefined, { ...options, dtype: 'fp32' }); // the training's
    const head = await model.loadHead(file);
    expect(head.config).toEqual({ labels: ['animal', 'fruit'], problemType: 'single_label_classification' });
    const got = await classify(head, texts);
    expect(got.map((labels) => labels.map(({ label }) => label))).toEqual(
      expected.map((labels) => labels.map(({ label }) => label)),
    );
    got.flat().forEach(({ score }, i) => {
      expect(score).toBeCloseTo(expected.flat()[i]!.score, 5);
    });
    expect(await classify(head, texts[0]!, { topK: 1 })).toEqual([[got[0]![0]]]);
    expect(await classify(head, [])).toEqual([]);
  });

  it('shares the model with others', async () => {
    using model = await plain.fromPretrained();
    const other = await trained(2);
    other.model.dispose();
    const [first, second] = [await model.loadHead(file), await model.loadHead(other.file)];
    const before = await classify(first, texts);
    await classify(second, texts);
    expect(await classify(first, texts)).toEqual(before);
    expect(model.config.labels).toEqual([]);
  });

  it('is taken by the same model in int8', async () => {
    using model = await plain.fromPretrained(undefined, { dtype: 'q8' });
    const [labels] = await classify(await model.loadHead(file), 'a ripe melon');
    expect(labels![0]!.label).toBe(expected[0]![0]!.label);
  });

  it('is refused by another model, and after the model is disposed of', async () => {
    using other = await plain.fromPretrained(tinyModel());
    await expect(other.loadHead(file)).rejects.toMatchObject({ code: 'INVALID_FILE' });
    const model = await plain.fromPretrained();
    const head = await model.loadHead(file);
    model.dispose();
    await expect(classify(head, 'a')).rejects.toMatchObject({ code: 'DISPOSED' });
    await expect(model.loadHead(file)).rejects.toMatchObject({ code: 'DISPOSED' });
  });

  it('of other files is refused', async () => {
    using model = await plain.fromPretrained();
    const width = model.dimensions;
    const floats = (...shape: number[]) => ({
      dtype: 'F32',
      shape,
      data: new Float32Array(shape.reduce((a, b) => a * b, 1)).fill(1),
    });
    const probe = { name: 'probe', ...floats(1, width) };
    const metadata = { heed_head: '1', labels: '["a","b"]', problem_type: 'regression' };
    const written = (change: Record<string, string>, tensors = [probe]) =>
      writeSafetensors(tensors, { ...metadata, ...change });
    const cases: [unknown, string][] = [
      [new Uint8Array(3), 'INVALID_FILE'],
      ['head', 'INVALID_ARGUMENT'],
      [written({ heed_head: '2' }), 'INVALID_FILE'],
      [written({ labels: '[1]' }), 'INVALID_FILE'],
      [written({ labels: '[' }), 'INVALID_FILE'],
      [written({ labels: '[]' }), 'INVALID_FILE'],
      [written({ problem_type: 'x' }), 'INVALID_FILE'],
      [written({}), 'INVALID_FILE'],
      [written({}, []), 'INVALID_FILE'],
      [file.slice(0, -4), 'INVALID_FILE'],
    ];
    for (const [given, code] of cases)
      await expect(model.loadHead(given as Uint8Array)).rejects.toMatchObject({ name: 'HeedError', code });
  });

  it('predicts nothing else, and is saved with no other option', async () => {
    const { model } = await trained();
    using disposed = model;
    const head = await disposed.loadHead(file);
    await expect(head.predict('fill-mask' as never, 'a')).rejects.toMatchObject({ code: 'UNSUPPORTED' });
    await expect(disposed.save({ head: true, dtype: 'q8' })).rejects.toThrow('save.head');
    await expect(disposed.save({ head: true, adapter: true })).rejects.toThrow('save.head');
    await expect(disposed.save({ adapter: true })).rejects.toThrow('save({ head: true })');
    using untrained = await heed.fromPretrained();
    await expect(untrained.save({ head: true })).rejects.toThrow('trained by trainClassifier');
  });
});
