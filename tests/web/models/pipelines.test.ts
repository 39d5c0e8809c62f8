/**
 * The pipelines for encoders with the cases of transformers.js's own tests (packages/transformers/tests/pipelines), on other checkpoints. Expected values: PyTorch's, by
 * tests/fixtures/models/pipelines.py and images.py.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Pipeline, type PipelineTask, pipeline } from 'heed';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { bytesOf, expectClose, fixture, fixtures } from './fixtures.js';
import { tinyModel } from './tiny.js';

const golden = JSON.parse(readFileSync(join(fixtures, 'pipelines.json'), 'utf8'));

/** The folder of a checkpoint whose tokenizer has the generator's words. `config` changes its config.json. */
function withWords(config: object = {}): Record<string, Uint8Array | string> {
  const files = tinyModel('bert');
  const tokenizer = JSON.parse(files['tokenizer.json'] as string);
  tokenizer.model.vocab = Object.fromEntries(golden.words.map((word: string, id: number) => [word, id]));
  return { ...changed(files, config), 'tokenizer.json': JSON.stringify(tokenizer) };
}

function changed(files: Record<string, Uint8Array | string>, config: object) {
  const old = JSON.parse(new TextDecoder().decode(files['config.json'] as Uint8Array));
  return { ...files, 'config.json': JSON.stringify({ ...old, ...config }) };
}

/** A ModernBERT with byte-level tokens of one character, with or without a space before it. */
function withCharacters(): Record<string, Uint8Array | string> {
  const characters = golden.characters as string[];
  const special = (content: string, lstrip = false) => ({
    ...{ id: characters.indexOf(content), content, lstrip, rstrip: false },
    ...{ special: true, normalized: false, single_word: false },
  });
  const [cls, sep] = ['[CLS]', '[SEP]'].map((id) => ({ SpecialToken: { id, type_id: 0 } }));
  const template = Object.fromEntries(
    ['[CLS]', '[SEP]'].map((id) => [id, { id, ids: [characters.indexOf(id)], tokens: [id] }]),
  );
  const tokenizer = {
    added_tokens: [...characters.slice(0, 4).map((token) => special(token)), special('[MASK]', true)],
    normalizer: null,
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true },
    post_processor: {
      type: 'TemplateProcessing',
      single: [cls, { Sequence: { id: 'A', type_id: 0 } }, sep],
      pair: [],
      special_tokens: template,
    },
    decoder: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true },
    model: {
      type: 'BPE',
      vocab: Object.fromEntries(characters.map((token, id) => [token, id])),
      merges: characters.filter((token) => /^Ġ.$/.test(token)).map((token) => `Ġ ${token[1]}`),
    },
  };
  return { ...bytesOf(join(fixtures, 'modernbert')), 'tokenizer.json': JSON.stringify(tokenizer) };
}

/** A pipeline for the tests of a `describe`. */
function using<T extends PipelineTask>(task: T, folder: string | Record<string, Uint8Array | string>) {
  const made = {} as { pipe: Pipeline<T> };
  beforeAll(async () => {
    made.pipe = await pipeline(task, folder);
  });
  afterAll(() => made.pipe?.dispose());
  test(`is the pipeline of ${task}`, () => expect(made.pipe.task).toBe(task));
  return made;
}

/**
 * Compares objects and lists; numbers may differ by 1e-5 + 1e-4 |expected|, and keys that `expected` lacks may have any
 * value.
 */
function expectNested(got: unknown, expected: unknown, at = 'result'): void {
  if (typeof expected === 'number' && !Number.isInteger(expected)) {
    expect(Math.abs((got as number) - expected), at).toBeLessThanOrEqual(1e-5 + 1e-4 * Math.abs(expected));
  } else if (Array.isArray(expected)) {
    expect(got, at).toHaveLength(expected.length);
    for (const [i, each] of expected.entries()) expectNested((got as unknown[])[i], each, `${at}[${i}]`);
  } else if (typeof expected === 'object' && expected !== null) {
    for (const [key, each] of Object.entries(expected))
      expectNested((got as Record<string, unknown>)[key], each, `${at}.${key}`);
  } else expect(got, at).toEqual(expected);
}

const mean = (nested: unknown): number => {
  const all = (nested as number[]).flat(Infinity as 1) as number[];
  return all.reduce((sum, value) => sum + value, 0) / all.length;
};

describe('feature-extraction', () => {
  const { texts, hidden, lengths, cls, normalized, binary, ubinary } = golden['feature-extraction'];
  const made = using('feature-extraction', withWords());
  const one = texts[0] as string;
  const cases = [
    ['', {}, hidden, 'float32'],
    [' with cls pooling', { pooling: 'cls' }, cls, 'float32'],
    [' with mean pooling and normalization', { pooling: 'mean', normalize: true }, normalized, 'float32'],
    [
      ' with mean pooling and binary quantization',
      { pooling: 'mean', quantize: true, precision: 'binary' },
      binary,
      'int8',
    ],
    [
      ' with cls pooling and ubinary quantization',
      { pooling: 'cls', quantize: true, precision: 'ubinary' },
      ubinary,
      'uint8',
    ],
  ] as const;

  test.each(cases)('one text%s', async (_, options, expected, type) => {
    const output = await made.pipe(one, options);
    const first = [expected[0].slice(0, options === cases[0][1] ? lengths[0] : undefined)];
    expect(output.type).toBe(type);
    expect(output.dims[0]).toBe(1);
    expectNested(output.tolist(), first);
    const average = mean(first);
    expect(output.mean().item()).toBeCloseTo(type === 'float32' ? average : Math.trunc(average), 5);
  });

  test.each(cases)('several texts%s', async (_, options, expected, type) => {
    const output = await made.pipe(texts, options);
    expect(output.type).toBe(type);
    expect(output.dims[0]).toBe(2);
    expectNested(output.tolist(), expected);
    const average = mean(expected);
    expect(output.mean().item()).toBeCloseTo(type === 'float32' ? average : Math.trunc(average), 5);
  });
});

describe.each([
  ['words', withWords],
  ['characters', withCharacters],
])('fill-mask with a tokenizer of %s', (name, folder) => {
  const made = using('fill-mask', folder());
  const cases = golden['fill-mask'][name] as { text: string; best: object[] }[];

  test('one text', async () => expectNested(await made.pipe(cases[0]!.text), cases[0]!.best));

  test('several texts', async () =>
    expectNested(
      await made.pipe(cases.map(({ text }) => text)),
      cases.map(({ best }) => best),
    ));

  test('top_k, one text', async () =>
    expectNested(await made.pipe(cases[0]!.text, { top_k: 2 }), cases[0]!.best.slice(0, 2)));

  test('top_k, several texts', async () =>
    expectNested(
      await made.pipe(
        cases.map(({ text }) => text),
        { top_k: 2 },
      ),
      cases.map(({ best }) => best.slice(0, 2)),
    ));
});

describe('question-answering', () => {
  const { question, context, answers } = golden['question-answering'];
  const made = using('question-answering', withWords());

  test('the best answer', async () => expectNested(await made.pipe(question, context), answers[0]));

  test('top_k', async () => expectNested(await made.pipe(question, context, { top_k: 3 }), answers));
});

describe('text-classification', () => {
  const { texts, softmax, sigmoid } = golden['text-classification'];
  const made = using('text-classification', withWords());

  test('one text', async () => expectNested(await made.pipe(texts[0]), softmax[0].slice(0, 1)));

  test('one text, top_k', async () => expectNested(await made.pipe(texts[0], { top_k: 2 }), softmax[0].slice(0, 2)));

  test('several texts', async () =>
    expectNested(
      await made.pipe(texts),
      softmax.map(([best]: object[]) => best),
    ));

  test('several texts, top_k', async () =>
    expectNested(
      await made.pipe(texts, { top_k: 2 }),
      softmax.map((labels: object[]) => labels.slice(0, 2)),
    ));

  test('multi_label_classification', async () => {
    using pipe = await pipeline('text-classification', withWords({ problem_type: 'multi_label_classification' }));
    expectNested(
      await pipe(texts, { top_k: 2 }),
      sigmoid.map((labels: object[]) => labels.slice(0, 2)),
    );
  });
});

describe('token-classification', () => {
  const { texts, default: tokens, schemes } = golden['token-classification'];
  const made = using('token-classification', withWords());
  const without = (label: string, list: { entity: string }[]) => list.filter(({ entity }) => entity !== label);
  const { entity } = tokens[0][0];

  test('one text', async () => expectNested(await made.pipe(texts[0]), tokens[0]));

  test('one text, ignore_labels', async () =>
    expectNested(await made.pipe(texts[0], { ignore_labels: [entity] }), without(entity, tokens[0])));

  test('several texts', async () => expectNested(await made.pipe(texts), tokens));

  test('several texts, ignore_labels', async () =>
    expectNested(
      await made.pipe(texts, { ignore_labels: [entity] }),
      tokens.map((list: { entity: string }[]) => without(entity, list)),
    ));

  test.each(schemes as { name: string; labels: string[]; groups: { entity_group: string }[][] }[])(
    "aggregation_strategy 'simple': $name",
    async ({ labels, groups }) => {
      using pipe = await pipeline('token-classification', withWords({ id2label: { ...labels } }));
      const simple = { aggregation_strategy: 'simple' } as const;
      expectNested(await pipe(texts, { ...simple, ignore_labels: [] }), groups);
      expectNested(
        await pipe(texts, simple),
        groups.map((list) => list.filter(({ entity_group }) => entity_group !== 'O')),
      );
    },
  );

  test('an unknown aggregation_strategy is refused', async () => {
    const call = made.pipe(texts, { aggregation_strategy: 'last' as 'first' });
    await expect(call).rejects.toThrow(
      /^token-classification\.aggregation_strategy: expected one of 'none', 'simple', 'first', 'average', 'max'/,
    );
  });
});

describe('zero-shot-classification', () => {
  const { texts, labels, single, multiple } = golden['zero-shot-classification'];
  const folder = withWords({ id2label: { 0: 'contradiction', 1: 'neutral', 2: 'entailment' } });
  const made = using('zero-shot-classification', folder);

  test('one text', async () => expectNested(await made.pipe(texts[0], labels), single[0]));

  test('several texts', async () => expectNested(await made.pipe(texts, labels), single));

  test('several texts, multi_label', async () =>
    expectNested(await made.pipe(texts, labels, { multi_label: true }), multiple));
});

/** The images of a fixture. */
const pictures = (name: string) =>
  JSON.parse(readFileSync(join(fixtures, name, 'input.json'), 'utf8')).images.map(
    ({ width, height, data }: { width: number; height: number; data: string }) => ({
      ...{ width, height },
      data: new Uint8ClampedArray(Buffer.from(data, 'base64')),
    }),
  );

describe('image-classification', () => {
  const made = using('image-classification', fixture('vit-labels').folder);
  const images = pictures('vit-labels');
  const logits = fixture('vit-labels').expected.get('image.logits')!;
  /** The softmax of PyTorch's logits. */
  const expected = images.map((_: object, n: number) => {
    const powers = [...logits.data.subarray(3 * n, 3 * n + 3)].map(Math.exp);
    const sum = powers.reduce((a, b) => a + b);
    const all = ['cat', 'dog', 'bicycle'].map((label, i) => ({ label, score: powers[i]! / sum }));
    return all.sort((a, b) => b.score - a.score);
  });
  const first = (labels: object[]) => labels.slice(0, 1);

  test('one image', async () => expectNested(await made.pipe(images[0]), expected[0]));

  test('one image, top_k', async () => expectNested(await made.pipe(images[0], { top_k: 1 }), first(expected[0])));

  test('several images', async () => expectNested(await made.pipe(images), expected));

  test('several images, top_k', async () => expectNested(await made.pipe(images, { top_k: 1 }), expected.map(first)));

  test('a model without a classifier is refused', async () => {
    using pipe = await pipeline('image-classification', fixture('vit').folder);
    await expect(pipe(images[0])).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining("expected a checkpoint that classifies images, got 'vit' without a classifier"),
    });
  });

  test('addresses are fetched', async () => {
    await expect(made.pipe('data:text/plain,x')).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining('images: expected decoded pixels'), // Node decodes no images
    });
    await expect(made.pipe(['http://127.0.0.1:1/a.png'])).rejects.toMatchObject({
      message: expect.stringContaining("images[0]: expected the address of an image, got 'http://127.0.0.1:1/a.png'"),
    });
  });
});

describe('image-feature-extraction', () => {
  describe('ViT', () => {
    const made = using('image-feature-extraction', fixture('vit').folder);
    const { expected } = fixture('vit');
    const images = pictures('vit');
    const asTensor = ({ data, dims }: { data: Float32Array; dims: number[] }) => ({ data, shape: dims });

    test('one image', async () => {
      const output = await made.pipe(images[0]);
      const all = expected.get('image.hidden_states.3')!;
      expect(output.dims).toEqual([1, 17, 24]);
      expectClose(asTensor(output), { data: all.data.slice(0, 17 * 24), shape: [1, 17, 24] });
    });

    test('several images', async () =>
      expectClose(asTensor(await made.pipe(images)), expected.get('image.hidden_states.3')));

    test('pool', async () =>
      expectClose(asTensor(await made.pipe(images, { pool: true })), expected.get('image.pooler')));
  });

  describe('CLIP', () => {
    const made = using('image-feature-extraction', fixture('clip').folder);
    const vectors = fixture('clip').expected.get('image.vectors')!;
    const images = pictures('clip');

    test('one image', async () => {
      const { data, dims } = await made.pipe(images[0]);
      expectClose({ data, shape: dims }, { data: vectors.data.slice(0, 10), shape: [1, 10] });
    });

    test('several images', async () => {
      const { data, dims } = await made.pipe(images);
      expectClose({ data, shape: dims }, vectors);
    });
  });
});
