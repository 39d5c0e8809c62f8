/** Weights in unusual order, and files with inconsistent tensors. */
import { load } from 'heed';
import { describe, expect, test } from 'vitest';
import { type Dtype, writeSafetensors } from '../../../web/src/io/safetensors.js';
import {
  bytesOf,
  expectClose,
  fixture,
  fixtures,
  readSafetensors,
  type StoredTensor,
  storedTensors,
} from './fixtures.js';
import { tinyModel } from './tiny.js';

const heed = await load();

type Stored = StoredTensor & { dtype: Dtype };

/** A folder's files with other tensors in one of them. */
function rewritten(
  folder: string,
  change: (tensors: Stored[]) => Stored[],
  file = 'model.safetensors',
): Record<string, Uint8Array> {
  const files = bytesOf(folder);
  return { ...files, [file]: writeSafetensors(change(storedTensors(files[file]!, file) as Stored[])) };
}

const isScale = ({ name }: Stored) => name.endsWith('_scale');
const query = 'bert.encoder.layer.0.attention.self.query.weight';
const rename = (tensors: Stored[], from: string, to: string) =>
  tensors.map((tensor) => (tensor.name === from ? { ...tensor, name: to } : tensor));

describe('int8 weights', () => {
  const { folder, expected, input } = fixture('bert-i8');

  test.each([
    ['before', (tensors: Stored[]) => [...tensors.filter(isScale), ...tensors.filter((t) => !isScale(t))]],
    ['after', (tensors: Stored[]) => [...tensors.filter((t) => !isScale(t)), ...tensors.filter(isScale)]],
  ])('may have their scales %s them', async (_, change) => {
    using model = await heed.fromPretrained(rewritten(folder, change));
    expectClose(await model.embed(input, { normalize: true }), expected.get('mean'), 'mean');
    expectClose((await model.predict('sequence-classification', input)).logits, expected.get('sequence'), 'logits');
  });

  /** Removes the last row's scale. */
  const shortened = (name: string) => (tensors: Stored[]) =>
    tensors.map((tensor) =>
      tensor.name === `${name}_scale`
        ? { ...tensor, shape: [tensor.shape[0]! - 1, 1], data: tensor.data.subarray(4) }
        : tensor,
    );

  test.each<[string, (tensors: Stored[]) => Stored[], string]>([
    [
      'lack their scales',
      (tensors) => tensors.filter(({ name }) => name !== `${query}_scale`),
      `model.safetensors: tensor '${query}': expected the scales of its rows in '${query}_scale', got I8 without them`,
    ],
    ['have too few scales', shortened(query), `tensor '${query}_scale': expected 24 scales, one per row, got 23`],
    [
      "have too few scales in a task's head",
      shortened('classifier.weight'),
      "tensor 'classifier.weight_scale': expected 3 scales, one per row, got 2",
    ],
  ])('that %s are refused', async (_, change, message) => {
    await expect(heed.fromPretrained(rewritten(folder, change))).rejects.toMatchObject({
      code: 'INVALID_FILE',
      message: expect.stringContaining(message),
    });
  });
});

test('two tensors for one parameter are refused', async () => {
  const word = 'bert.embeddings.LayerNorm.weight';
  const change = (tensors: Stored[]) => [
    ...tensors,
    { ...tensors.find(({ name }) => name === word)!, name: 'bert.embeddings.LayerNorm.gamma' }, // its old name
  ];
  await expect(heed.fromPretrained(rewritten(`${fixtures}bert`, change))).rejects.toMatchObject({
    code: 'INVALID_FILE',
    message: expect.stringContaining('expected one tensor for rows 0 to 24 of embeddings.norm.weight, got '),
  });
});

test("TensorFlow's old names are accepted", async () => {
  const { folder, expected, input } = fixture('bert');
  const change = (tensors: Stored[]) =>
    tensors.map((tensor) => ({
      ...tensor,
      name: tensor.name.replace('LayerNorm.weight', 'LayerNorm.gamma').replace('LayerNorm.bias', 'LayerNorm.beta'),
    }));
  using model = await heed.fromPretrained(rewritten(folder, change));
  expectClose(await model.embed(input, { normalize: true }), expected.get('mean'), 'mean');
});

test('weights in F64 are converted', async () => {
  const { folder, expected, input } = fixture('bert');
  const doubled = (tensors: Stored[]) =>
    tensors.map((tensor) => {
      if (tensor.dtype !== 'F32') return tensor;
      const { buffer } = Float64Array.from(new Float32Array(new Uint8Array(tensor.data).buffer));
      return { ...tensor, dtype: 'F64' as Dtype, data: new Uint8Array(buffer) };
    });
  for (const dtype of ['fp32', 'q8'] as const) {
    using model = await heed.fromPretrained(rewritten(folder, doubled), { dtype });
    using like = await heed.fromPretrained(folder, { dtype });
    expect((await model.embed(input)).data).toEqual((await like.embed(input)).data);
  }
  using model = await heed.fromPretrained(rewritten(folder, doubled));
  expectClose(await model.embed(input, { normalize: true }), expected.get('mean'), 'mean');
});

test('layers after the pooling in an unsupported dtype are refused', async () => {
  const wide = (tensors: Stored[]) =>
    tensors.map((tensor) => ({ ...tensor, dtype: 'U32' as Dtype, data: new Uint8Array(2 * tensor.data.length) }));
  await expect(
    heed.fromPretrained(rewritten(`${fixtures}sentence`, wide, '3_Dense/model.safetensors')),
  ).rejects.toMatchObject({
    code: 'UNSUPPORTED',
    message: expect.stringMatching(/3_Dense.*'linear\..*expected one of F64, F32, F16, BF16, I8, got dtype U32/),
  });
});

describe('a head', () => {
  const files = (change: (tensors: Stored[]) => Stored[]) => rewritten(`${fixtures}bert`, change);
  const flat = (name: string) => (tensors: Stored[]) =>
    tensors.map((tensor) => (tensor.name === name ? { ...tensor, shape: [tensor.data.length / 4] } : tensor));
  const square = (name: string) => (tensors: Stored[]) =>
    tensors.map((tensor) => (tensor.name === name ? { ...tensor, shape: [4, tensor.data.length / 16] } : tensor));

  test.each<['sequence-classification' | 'fill-mask', Record<string, Uint8Array>, string, string]>([
    [
      'sequence-classification',
      files((tensors) => rename(tensors, 'classifier.weight', 'other.weight')),
      'UNSUPPORTED',
      "expected a head for sequence-classification ('classifier.weight'), got none. Load a model that was trained for this task",
    ],
    [
      'sequence-classification',
      files(flat('classifier.weight')),
      'INVALID_FILE',
      "tensor 'classifier.weight': expected shape [out, in] with bias [out], got [72] with [3]",
    ],
    [
      'fill-mask',
      files(square('cls.predictions.transform.LayerNorm.weight')),
      'INVALID_FILE',
      "tensor 'cls.predictions.transform.LayerNorm.weight': expected shape [width] with bias [width], got [4, 6] with [24]",
    ],
  ])('%s with wrong tensors is refused when it is first used', async (head, source, code, message) => {
    const { expected, input } = fixture('bert');
    using model = await heed.fromPretrained(source);
    const refusal = { code, message: expect.stringContaining(message) };
    await expect(model.predict(head, input)).rejects.toMatchObject(refusal);
    // The layers that were made before it have been deleted.
    const before = heed.info.memoryBytes;
    for (let i = 0; i < 2000; i++) await model.predict(head, input).catch(() => {});
    expect(heed.info.memoryBytes).toBe(before);
    expectClose(await model.embed(input, { normalize: true }), expected.get('mean'), 'mean');
  });

  test.each([false, true])(
    'fill-mask uses a decoder beside the word table where the two are not tied, and is refused otherwise: %s',
    async (tied) => {
      const negated = (tensors: Stored[]) => {
        const words = tensors.find(({ name }) => name === 'bert.embeddings.word_embeddings.weight')!;
        const data = words.data.slice();
        for (let at = 3; at < data.length; at += 4) data[at]! ^= 0x80; // the signs
        return [...tensors, { ...words, name: 'cls.predictions.decoder.weight', data }];
      };
      const config = JSON.parse(new TextDecoder().decode(bytesOf(`${fixtures}bert`)['config.json']));
      using plain = await heed.fromPretrained(tinyModel());
      using model = await heed.fromPretrained({
        ...tinyModel(),
        'model.safetensors': files(negated)['model.safetensors']!,
        'config.json': JSON.stringify({ ...config, tie_word_embeddings: tied }),
      });
      const bias = readSafetensors(`${fixtures}bert/model.safetensors`).get('cls.predictions.bias')!.data;
      const expected = (await plain.predict('fill-mask', 'a [MASK]')).logits;
      if (tied) {
        const message = expect.stringContaining('expected tie_word_embeddings: false in config.json');
        await expect(model.predict('fill-mask', 'a [MASK]')).rejects.toMatchObject({ code: 'UNSUPPORTED', message });
        return;
      }
      const { logits } = await model.predict('fill-mask', 'a [MASK]');
      const data = expected.data.map((logit, word) => 2 * bias[word]! - logit);
      expectClose(logits, { data, shape: [1, 80] });
    },
  );

  test('is refused in a family that has none', async () => {
    using model = await heed.fromPretrained(`${fixtures}gemma3_text`);
    await expect(model.predict('question-answering', { inputIds: [[5]] })).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringMatching(
        /expected one of the families (.*, )?bert, .* for question-answering, got 'gemma3_text'/,
      ),
    });
  });
});
