/** Weights in the formats of compressed-tensors, which its own code has written (tests/fixtures/compressed-tensors). */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { load } from 'heed';
import { describe, expect, test } from 'vitest';
import { writeSafetensors } from '../../../web/src/io/safetensors.js';
import { bytesOf, expectClose, readSafetensors, type StoredTensor, storedTensors } from './fixtures.js';
import { openServer, serving } from './server.js';

const root = fileURLToPath(new URL('../../fixtures/compressed-tensors/', import.meta.url));
const ids = JSON.parse(readFileSync(join(root, 'input.json'), 'utf8')) as { inputIds: number[][] };
const expected = readSafetensors(join(root, 'expected.safetensors'));
const folders = readdirSync(root, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? entry.name : []));
type Files = Record<string, Uint8Array>;
/** Changes `quantization_config` and the weights of its first group. */
type Change = (quantization: ReturnType<typeof JSON.parse>, weights: ReturnType<typeof JSON.parse>) => void;

const filesOf = (name: string): Files => ({ ...bytesOf(join(root, name)) });
const configOf = (files: Files) => JSON.parse(new TextDecoder().decode(files['config.json']));
const encoded = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));

const tensorsOf = (files: Files) => storedTensors(files['model.safetensors']!);

describe.each(folders)('%s', (name) => {
  const files = filesOf(name);

  test("gives transformers' results", async () => {
    const heed = await load();
    using model = await heed.fromPretrained(files, { strict: true });
    expectClose((await model.encode(ids)).lastHiddenState, expected.get(name), name);
  });

  test('is as near in int8 as its weights in fp32', async () => {
    const heed = await load();
    using model = await heed.fromPretrained(files, { dtype: 'q8' });
    const { data } = (await model.encode(ids)).lastHiddenState;
    const other = expected.get(name)!.data;
    const dot = (a: ArrayLike<number>, b: ArrayLike<number>) => Array.from(a).reduce((sum, v, i) => sum + v * b[i]!, 0);
    expect(dot(data, other) / Math.sqrt(dot(data, data) * dot(other, other))).toBeGreaterThan(0.995);
  });
});

test('the parts of a weight may be in several files, in any order', async () => {
  const heed = await load();
  for (const name of ['packed3-group-asymmetric', 'int8-channel-asymmetric']) {
    const { 'model.safetensors': _, ...others } = filesOf(name);
    const tensors = tensorsOf(filesOf(name));
    const [first, second] = [tensors.filter((__, i) => i % 2 === 0), tensors.filter((__, i) => i % 2 === 1)];
    const shards = {
      'shards/a.safetensors': writeSafetensors(second.reverse()),
      'shards/b.safetensors': writeSafetensors(first),
    };
    const weight_map = Object.fromEntries([
      ...second.map((tensor) => [tensor.name, 'shards/a.safetensors']),
      ...first.map((tensor) => [tensor.name, 'shards/b.safetensors']),
    ]);
    using model = await heed.fromPretrained({
      ...others,
      ...shards,
      'model.safetensors.index.json': encoded({ metadata: {}, weight_map }),
    });
    expectClose((await model.encode(ids)).lastHiddenState, expected.get(name), name);
  }
});

test('quantize, prune and inspect read them', async () => {
  const heed = await load();
  const files = filesOf('packed8-channel');
  const { problem, parameterCount } = await heed.inspect(files);
  expect([problem, parameterCount > 0]).toEqual([null, true]);
  const { files: int8 } = await heed.quantize(files);
  using model = await heed.fromPretrained(int8);
  const { data } = (await model.encode(ids)).lastHiddenState;
  data.forEach((value, i) => {
    expect(Math.abs(value - expected.get('packed8-channel')!.data[i]!)).toBeLessThan(0.15);
  });
});

describe('what is refused', () => {
  const refused = async (files: Files, error: object) => {
    const heed = await load();
    await expect(heed.fromPretrained(files)).rejects.toMatchObject({ name: 'HeedError', ...error });
  };
  /** The folder with changed settings. */
  const changed = (name: string, change: Change): Files => {
    const config = configOf(filesOf(name));
    change(config.quantization_config, config.quantization_config.config_groups.group_0.weights);
    return { ...filesOf(name), 'config.json': encoded(config) };
  };

  test.each(
    // biome-ignore format: a list
    ['bitsandbytes', 'gptq', 'awq', 'quanto', 'hqq', 'fp8', 'fbgemm_fp8', 'torchao', 'eetq', 'aqlm', 'vptq', 'spqr', 'higgs', 'bitnet', 'mxfp4', 'auto-round', 'finegrained_fp8', 'quark'],
  )('quant_method: %s', async (method) => {
    const files = changed('int8-channel', (quantization) => {
      quantization.quant_method = method;
    });
    await refused(files, { code: 'UNSUPPORTED', message: expect.stringMatching(`quant_method.*got '${method}'`) });
  });

  test('bitsandbytes without quant_method', async () => {
    const config = { ...configOf(filesOf('int8-channel')), quantization_config: { load_in_8bit: true } };
    const files = { ...filesOf('int8-channel'), 'config.json': encoded(config) };
    await refused(files, { code: 'UNSUPPORTED', message: expect.stringContaining("got 'bitsandbytes'") });
  });

  test.each<[string, string, string, Change]>([
    [
      'another format',
      'UNSUPPORTED',
      'nvfp4-pack-quantized',
      (quantization) => {
        quantization.config_groups.group_0.format = 'nvfp4-pack-quantized';
      },
    ],
    [
      'sparse weights',
      'UNSUPPORTED',
      'sparse-24-bitmask',
      (quantization) => {
        quantization.sparsity_config = { format: 'sparse-24-bitmask' };
      },
    ],
    [
      'weights that are not compressed',
      'UNSUPPORTED',
      'frozen',
      (quantization) => {
        quantization.quantization_status = 'frozen';
      },
    ],
    [
      'floats of 4 bits',
      'UNSUPPORTED',
      'num_bits 4',
      (_, weights) => {
        weights.type = 'float';
        weights.num_bits = 4;
      },
    ],
    [
      'more bits',
      'INVALID_FILE',
      'num_bits',
      (_, weights) => {
        weights.num_bits = 16;
      },
    ],
    [
      'columns in another order',
      'UNSUPPORTED',
      'actorder',
      (_, weights) => {
        weights.actorder = 'group';
      },
    ],
    [
      'another strategy',
      'UNSUPPORTED',
      'tensor_group',
      (_, weights) => {
        weights.strategy = 'tensor_group';
      },
    ],
    [
      'groups without a size',
      'INVALID_FILE',
      'group_size',
      (_, weights) => {
        weights.strategy = 'group';
        weights.group_size = null;
      },
    ],
    [
      'blocks without a size',
      'INVALID_FILE',
      'block_structure',
      (_, weights) => {
        weights.strategy = 'block';
      },
    ],
    [
      'zero points that config.json denies',
      'INVALID_FILE',
      'symmetric',
      (_, weights) => {
        weights.symmetric = true;
      },
    ],
    [
      'scales of another strategy',
      'INVALID_FILE',
      'weight_scale',
      (_, weights) => {
        weights.strategy = 'tensor';
      },
    ],
    [
      'integers where floats are said to be',
      'INVALID_FILE',
      'I8',
      (_, weights) => {
        weights.type = 'float';
        weights.symmetric = true;
      },
    ],
    [
      'a scheme by name',
      'INVALID_FILE',
      'config_groups',
      (quantization) => {
        quantization.config_groups = { W8A8: ['Linear'] };
      },
    ],
  ])('%s', async (_, code, part, change) => {
    // biome-ignore format: a case per line
    await refused(changed('int8-channel-asymmetric', change), { code, message: expect.stringContaining(part) });
  });

  const QUERY = 'encoder.layer.0.attention.self.query.weight';
  const edited = (name: string, edit: (tensors: StoredTensor[]) => StoredTensor[]): Files => ({
    ...filesOf(name),
    'model.safetensors': writeSafetensors(edit(tensorsOf(filesOf(name)))),
  });

  test.each<[string, string, (tensor: StoredTensor) => StoredTensor | null]>([
    ['no scale', `${QUERY}_scale`, () => null],
    ['no zero point', `${QUERY}_zero_point`, () => null],
    ['no shape', `${QUERY}_shape`, () => null],
    ['an order of the columns', `${QUERY}_scale`, (tensor) => ({ ...tensor, name: `${QUERY}_g_idx` })],
    [
      'another shape',
      `${QUERY}_shape`,
      (tensor) => ({ ...tensor, data: new Uint8Array(BigInt64Array.from([16n, 24n]).buffer) }),
    ],
    [
      'a huge shape',
      `${QUERY}_shape`,
      (tensor) => ({ ...tensor, data: new Uint8Array(BigInt64Array.from([1n << 40n, 1n << 40n]).buffer) }),
    ],
    [
      'a negative shape',
      `${QUERY}_shape`,
      (tensor) => ({ ...tensor, data: new Uint8Array(BigInt64Array.from([-16n, 16n]).buffer) }),
    ],
    ['words of another type', `${QUERY}_packed`, (tensor) => ({ ...tensor, dtype: 'F32' })],
    [
      'too few zero points',
      `${QUERY}_zero_point`,
      (tensor) => ({ ...tensor, shape: [1, 2], data: tensor.data.slice(0, 8) }),
    ],
  ])('%s in the file', async (_, name, edit) => {
    // biome-ignore format: a case per line
    const files = edited('packed4-group-asymmetric', (tensors) =>
      tensors.flatMap((tensor) => (tensor.name === name ? (edit(tensor) ?? []) : tensor)),
    );
    await refused(files, { code: expect.stringMatching('INVALID_FILE|UNSUPPORTED') });
  });

  test('zero points beside int8 rows that config.json does not describe', async () => {
    const files = filesOf('int8-channel-asymmetric');
    const { quantization_config: _, ...config } = configOf(files);
    await refused(
      { ...files, 'config.json': encoded(config) },
      { code: 'INVALID_FILE', message: expect.stringContaining('symmetric: false') },
    );
  });

  test('8-bit floats without a scale', async () => {
    const files = edited('float8-tensor', (tensors) => tensors.filter(({ name }) => !name.endsWith('_scale')));
    await refused(files, { code: 'INVALID_FILE', message: expect.stringContaining('scales') });
    const { quantization_config: _, ...config } = configOf(files);
    await refused(
      { ...files, 'config.json': encoded(config) },
      { code: 'UNSUPPORTED', message: expect.stringContaining('F8_E4M3') },
    );
  });

  test("`embeddings: 'paged'`", async () => {
    const server = await openServer();
    server.answer = serving(filesOf('int8-embeddings'));
    const heed = await load();
    const loaded = heed.fromPretrained(`${server.base}model/`, { embeddings: 'paged' });
    await expect(loaded).rejects.toMatchObject({ code: 'UNSUPPORTED', message: expect.stringContaining("'whole'") });
    await server.close();
  });
});

test('settings of quantization_config that nothing reads are reported', async () => {
  const heed = await load();
  const files = filesOf('packed4-group');
  const config = configOf(files);
  config.quantization_config.new_key = 1;
  config.quantization_config.config_groups.group_0.weights.new_key = 1;
  using model = await heed.fromPretrained({ ...files, 'config.json': encoded(config) });
  expect(model.config.unread).toEqual([
    'config.json: quantization_config.config_groups.group_0.weights.new_key',
    'config.json: quantization_config.new_key',
  ]);
});
