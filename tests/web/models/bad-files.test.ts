import fc from 'fast-check';
import { HeedError, load } from 'heed';
import { describe, expect, test } from 'vitest';
import { parseHeader } from '../../../web/src/io/safetensors.js';
import { bytesOf, expectClose, fixture, fixtures } from './fixtures.js';
import { runsAsItIs, tinyModel } from './tiny.js';

const heed = await load();
const files = bytesOf(`${fixtures}bert`);

/** A safetensors file with this header, followed by `dataBytes` bytes. */
function safetensors(header: unknown, dataBytes: number): Uint8Array {
  const json = new TextEncoder().encode(typeof header === 'string' ? header : JSON.stringify(header));
  const out = new Uint8Array(8 + json.length + dataBytes);
  new DataView(out.buffer).setBigUint64(0, BigInt(json.length), true);
  out.set(json, 8);
  return out;
}

/** The fixture's weights with a changed header; data as they are. */
function edited(
  change: (header: Record<string, { dtype: string; shape: number[]; data_offsets: number[] }>) => void,
): Uint8Array {
  const weights = files['model.safetensors']!;
  const length = Number(new DataView(weights.buffer, weights.byteOffset).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(weights.subarray(8, 8 + length)));
  change(header);
  const data = weights.subarray(8 + length);
  const out = safetensors(header, data.length);
  out.set(data, out.length - data.length);
  return out;
}

const word = 'bert.embeddings.word_embeddings.weight';
const config = JSON.parse(new TextDecoder().decode(files['config.json'])) as Record<string, unknown>;

async function failure(source: Record<string, Uint8Array | string>): Promise<HeedError> {
  try {
    (await heed.fromPretrained(source)).dispose();
  } catch (error) {
    expect(error).toBeInstanceOf(HeedError);
    return error as HeedError;
  }
  throw new Error('it loaded');
}

async function expectStillWorks(): Promise<void> {
  const { folder, expected, input } = fixture('bert');
  using model = await heed.fromPretrained(folder);
  expectClose(await model.embed(input, { normalize: true }), expected.get('mean'));
}

describe('safetensors', () => {
  const weights = files['model.safetensors']!;
  const cases: [string, Uint8Array, string, RegExp][] = [
    ['nothing', new Uint8Array(), 'INVALID_FILE', /expected (at least )?8 .*, got (0|the end)/],
    ['four bytes', weights.subarray(0, 4), 'INVALID_FILE', /expected (at least 8 .*, got 4|4 more .*, got the end)/],
    ['a header cut off', weights.subarray(0, 200), 'INVALID_FILE', /truncated/],
    ['data cut off', weights.subarray(0, weights.length - 100), 'INVALID_FILE', /truncated/],
    ['bytes too many', Uint8Array.from([...weights, 1, 2, 3]), 'INVALID_FILE', /too long/],
    ['a header of 2^60 bytes', Uint8Array.from([0, 0, 0, 0, 0, 0, 0, 16, 123]), 'INVALID_FILE', /header of/],
    [
      'a page',
      new TextEncoder().encode(`<!doctype html><html>${'x'.repeat(500)}</html>`),
      'INVALID_FILE',
      /an HTML page/,
    ],
    ['no JSON', safetensors('{"a":', 0), 'INVALID_FILE', /expected JSON, got 5 bytes/],
    ['a list', safetensors('[]', 0), 'INVALID_FILE', /expected a header of tensors by name, got an empty array/],
    [
      'overlapping tensors',
      edited((h) => (h['bert.embeddings.LayerNorm.weight']!.data_offsets = [0, 96])),
      'INVALID_FILE',
      /overlap/,
    ],
    ['a lying shape', edited((h) => (h[word]!.shape = [80, 25])), 'INVALID_FILE', /expected 8000/],
    ['a negative shape', edited((h) => (h[word]!.shape = [-80, -24])), 'INVALID_FILE', /whole numbers/],
    [
      'a shape that overflows',
      edited((h) => (h[word]!.shape = [2 ** 40, 2 ** 40])),
      'INVALID_FILE',
      /expected \d.* bytes for F32 .*, got 7680/,
    ],
    [
      'offsets beyond the end',
      edited((h) => (h[word]!.data_offsets = [1e12, 1e12 + 7680])),
      'INVALID_FILE',
      /overlap|gap/,
    ],
    ['an unknown dtype', edited((h) => (h[word]!.dtype = 'Q4')), 'INVALID_FILE', /dtype/],
    [
      'a dtype that is not read',
      edited((h) => Object.assign(h[word]!, { dtype: 'U32' })),
      'UNSUPPORTED',
      /F32, F16, BF16, I8/,
    ],
    [
      'int8 without scales',
      edited((h) => Object.assign(h[word]!, { dtype: 'I8', shape: [320, 24] })),
      'INVALID_FILE',
      /expected \[80, 24\]/,
    ],
    [
      'a missing tensor',
      edited((h) => {
        h.other = h[word]!;
        delete h[word];
      }),
      'INVALID_FILE',
      /expected all tensors .*, got no or too few rows of 1, among them .*word_embeddings/,
    ],
  ];
  test.each(cases)('with %s', async (_, bytes, code, message) => {
    const error = await failure({ ...files, 'model.safetensors': bytes });
    expect(error.code).toBe(code);
    expect(error.message).toMatch(message);
    expect(error.message).toContain('model.safetensors');
    await expectStillWorks();
  });

  test('any bytes result in a header or a HeedError', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), fc.nat(1000), (bytes, size) => {
        try {
          parseHeader(bytes, 'file', size);
        } catch (error) {
          expect(error).toBeInstanceOf(Error);
          expect((error as HeedError).code).toBe('INVALID_FILE');
        }
      }),
      { numRuns: 2000 },
    );
  });

  test('any header gives consecutive tensors or a HeedError', () => {
    const entry = fc.record(
      {
        dtype: fc.constantFrom('F32', 'I8', 'F16', 'X', 3),
        shape: fc.array(fc.integer({ min: -1, max: 5 }), { maxLength: 3 }),
        data_offsets: fc.array(fc.integer({ min: -1, max: 40 }), { maxLength: 3 }),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.oneof(entry, fc.jsonValue())), (header) => {
        const json = new TextEncoder().encode(JSON.stringify(header));
        try {
          let at = 0;
          for (const { begin, end } of parseHeader(json, 'file', null)) {
            expect(begin).toBe(at);
            at = end;
          }
        } catch (error) {
          expect((error as HeedError).code).toBe('INVALID_FILE');
        }
      }),
      { numRuns: 2000 },
    );
  });

  test('a byte changed anywhere in the header never breaks the runtime', async () => {
    const length = Number(new DataView(weights.buffer, weights.byteOffset).getBigUint64(0, true));
    await fc.assert(
      fc.asyncProperty(fc.nat(length + 7), fc.nat(255), async (at, value) => {
        const changed = weights.slice();
        changed[at] = value;
        try {
          (await heed.fromPretrained({ ...files, 'model.safetensors': changed })).dispose();
        } catch (error) {
          expect(error).toBeInstanceOf(HeedError);
        }
      }),
      { numRuns: 300 },
    );
    await expectStillWorks();
  });
});

describe('config.json', () => {
  const cases: [string, Record<string, unknown> | string, string, RegExp][] = [
    ['no JSON', '{', 'INVALID_FILE', /expected JSON, got 1 bytes/],
    ['a list', '[]', 'INVALID_FILE', /expected a JSON object, got \[\]/],
    ['no family', { model_type: undefined }, 'UNSUPPORTED', /bert.*modernbert/],
    ['an unknown family', { model_type: 'gpt2' }, 'UNSUPPORTED', /'gpt2'|"gpt2"/],
    ['a family of Object.prototype', { model_type: 'constructor' }, 'UNSUPPORTED', /constructor/],
    ['no width', { hidden_size: undefined }, 'INVALID_FILE', /hidden_size/],
    ['a width in words', { hidden_size: '24' }, 'INVALID_FILE', /hidden_size/],
    ['a negative count', { num_hidden_layers: -1 }, 'INVALID_FILE', /num_hidden_layers/],
    ['heads that do not divide', { num_attention_heads: 5 }, 'INVALID_FILE', /divisor/],
    ['absurd layers', { num_hidden_layers: 1e9 }, 'INVALID_FILE', /num_hidden_layers/],
    ['absurd widths', { vocab_size: 16777216, hidden_size: 60000, num_attention_heads: 10 }, 'OUT_OF_MEMORY', /bytes/],
    ['another activation', { hidden_act: 'xielu' }, 'UNSUPPORTED', /expected .*gelu.*, got 'xielu'/],
    ['another width than the weights', { hidden_size: 27 }, 'INVALID_FILE', /config.json says/],
    [
      'more layers than the weights',
      { num_hidden_layers: 4 },
      'INVALID_FILE',
      /expected all tensors .*, got no or too few rows of 16/,
    ],
    ['relative positions', { position_embedding_type: 'relative_key' }, 'UNSUPPORTED', /absolute/],
    ['an epsilon of nothing', { layer_norm_eps: 0 }, 'INVALID_FILE', /layer_norm_eps/],
  ];
  test.each(cases)('with %s', async (_, change, code, message) => {
    const text = typeof change === 'string' ? change : JSON.stringify({ ...config, ...change });
    const error = await failure({ ...files, 'config.json': text });
    expect(error.code).toBe(code);
    expect(error.message).toMatch(message);
    await expectStillWorks();
  });

  test('with a width whose product with the tokens exceeds 32 bits', async () => {
    const [width, tokens] = [65536, 65537];
    const shapes: Record<string, number[]> = {
      'embed_tokens.weight': [2, width],
      'norm.weight': [width],
      'layers.0.input_layernorm.weight': [width],
      'layers.0.post_attention_layernorm.weight': [width],
      'layers.0.self_attn.q_norm.weight': [2],
      'layers.0.self_attn.k_norm.weight': [2],
      ...Object.fromEntries(['q', 'k', 'v'].map((one) => [`layers.0.self_attn.${one}_proj.weight`, [2, width]])),
      'layers.0.self_attn.o_proj.weight': [width, 2],
      'layers.0.mlp.gate_proj.weight': [1, width],
      'layers.0.mlp.up_proj.weight': [1, width],
      'layers.0.mlp.down_proj.weight': [width, 1],
    };
    let end = 0;
    const entries = Object.entries(shapes).map(([name, shape]) => {
      const begin = end;
      end += 4 * shape.reduce((a, b) => a * b);
      return [`model.${name}`, { dtype: 'F32', shape, data_offsets: [begin, end] }];
    });
    const wide = {
      model_type: 'qwen3',
      vocab_size: 2,
      hidden_size: width,
      num_hidden_layers: 1,
      intermediate_size: 1,
      max_position_embeddings: tokens,
      num_attention_heads: 1,
      num_key_value_heads: 1,
      head_dim: 2,
      hidden_act: 'silu',
      rms_norm_eps: 1e-6,
    };
    using model = await heed.fromPretrained({
      'config.json': JSON.stringify(wide),
      'model.safetensors': safetensors(Object.fromEntries(entries), end),
    });
    expect((await model.encode({ inputIds: [[0, 1]] })).lastHiddenState.shape).toEqual([1, 2, width]);
    await expect(model.encode({ inputIds: [new Array(tokens).fill(1)] })).rejects.toMatchObject({
      name: 'HeedError',
      code: 'OUT_OF_MEMORY',
    });
    await expectStillWorks();
  });

  test('any JSON gives a model or a HeedError', async () => {
    const value = fc.oneof(
      fc.integer(),
      fc.double(),
      fc.string(),
      fc.boolean(),
      fc.constant(null),
      fc.array(fc.nat(), { maxLength: 2 }),
    );
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...Object.keys(config)), value, async (key, changed) => {
        try {
          (
            await heed.fromPretrained({ ...files, 'config.json': JSON.stringify({ ...config, [key]: changed }) })
          ).dispose();
        } catch (error) {
          expect(error).toBeInstanceOf(HeedError);
        }
      }),
      { numRuns: 300 },
    );
    await expectStillWorks();
  });
});

describe('the folder', () => {
  test('lacks a file', async () => {
    const without = (name: string) => Object.fromEntries(Object.entries(files).filter(([file]) => file !== name));
    expect(await failure(without('config.json'))).toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringContaining('config.json'),
    });
    expect(await failure(without('model.safetensors'))).toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringContaining('model.safetensors'),
    });
  });

  test('is not there', async () => {
    await expect(heed.fromPretrained('/no/such/folder')).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await expect(heed.fromPretrained('')).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    await expect(heed.fromPretrained(3 as unknown as string)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    await expect(heed.fromPretrained('org/name')).rejects.toThrow(/remoteHost/);
  });

  test('has no tokenizer: texts are refused, ids work', async () => {
    using model = await heed.fromPretrained(files);
    await expect(model.encode('text')).rejects.toMatchObject({ code: 'UNSUPPORTED' });
    await expect(model.decode([5])).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining('tokenizer.json'),
    });
    expect((await model.embed({ inputIds: [[5, 6]] })).shape).toEqual([1, 24]);
  });

  test('has a wrong tokenizer', async () => {
    const tiny: Record<string, Uint8Array | string> = { ...tinyModel(), ...runsAsItIs };
    const json = JSON.parse(tiny['tokenizer.json'] as string);
    const wrong = [
      {},
      null,
      { ...json, model: 3 },
      { ...json, model: { ...json.model, vocab: undefined } },
      { ...json, model: { ...json.model, vocab: { a: null } } },
      { ...json, model: { type: 'Unigram', vocab: [null] } },
      { ...json, model: { type: 'BPE', vocab: {} } },
      { ...json, model: { type: 'BPE', vocab: { a: 0 }, merges: 3 } },
      { ...json, model: { vocab: {} } },
      { ...json, added_tokens: [null] },
      { ...json, pre_tokenizer: { type: 'Sequence', pretokenizers: [3] } },
    ];
    for (const tokenizer of wrong) {
      const error = await failure({ ...tiny, 'tokenizer.json': JSON.stringify(tokenizer) });
      expect(error).toMatchObject({ code: 'INVALID_FILE', message: expect.stringMatching(/^tokenizer\.json: /) });
      expect(error.message).not.toMatch(/undefined or null|not iterable|is not a function|Cannot /);
    }
    expect((await failure({ ...tiny, 'tokenizer.json': '{}' })).message).toMatch(
      /^tokenizer\.json: model: expected .*, got nothing/,
    );
    expect((await failure({ ...tiny, 'tokenizer.json': JSON.stringify(wrong[3]) })).message).toBe(
      'tokenizer.json: model: vocab: expected tokens with their ids, got nothing',
    );
    const large = json;
    for (let i = 0; i < 100; i++) large.model.vocab[`word${i}`] = 24 + i;
    expect(await failure({ ...tiny, 'tokenizer.json': JSON.stringify(large) })).toMatchObject({
      code: 'INVALID_FILE',
      message: expect.stringContaining('vocab_size'),
    });
  });

  test('has a tokenizer whose defect shows only on a text', async () => {
    const tiny: Record<string, Uint8Array | string> = { ...tinyModel(), ...runsAsItIs };
    const json = JSON.parse(tiny['tokenizer.json'] as string);
    const post_processor = { type: 'TemplateProcessing', special_tokens: {} };
    using model = await heed.fromPretrained({ ...tiny, 'tokenizer.json': JSON.stringify({ ...json, post_processor }) });
    await expect(model.embed('the fox')).rejects.toMatchObject({
      code: 'INVALID_FILE',
      message: expect.stringContaining(
        "tokenizer.json: expected a tokenizer.json of Hugging Face's format, got a tokenizer that fails on a text",
      ),
    });
    expect((await model.embed({ inputIds: [[5, 6]] })).shape).toEqual([1, 24]);
  });

  test('has modules.json that is not a list', async () => {
    expect(await failure({ ...files, 'modules.json': '{"type":"x.Pooling"}' })).toMatchObject({
      code: 'INVALID_FILE',
      message: 'modules.json: expected a list of modules, got {"type":"x.Pooling"}',
    });
  });

  // As URLs, these paths lead outside the folder, some to another host.
  test.each([
    '../up',
    '/up',
    'a/../../up',
    'https://elsewhere.example/x',
    '\\\\elsewhere.example\\x',
    '%2e%2e/up',
    'a:b',
    '..\\up',
    '.',
  ])('leads out of its folder: %s', async (path) => {
    const modules = JSON.stringify([{ type: 'x.Pooling', path }]);
    expect(await failure({ ...files, 'modules.json': modules })).toMatchObject({ code: 'INVALID_FILE' });
    const index = JSON.stringify({ weight_map: { x: `${path}/model.safetensors` } });
    const { 'model.safetensors': _, ...rest } = files;
    expect(await failure({ ...rest, 'model.safetensors.index.json': index })).toMatchObject({ code: 'INVALID_FILE' });
  });

  test('requests what is not there', async () => {
    expect(
      await failure({
        ...files,
        'modules.json': '[{"type":"x.Nonsense","path":"1_Nonsense"}]',
        '1_Nonsense/config.json': '{}',
      }),
    ).toMatchObject({
      code: 'UNSUPPORTED',
    });
    expect(await failure({ ...files, 'modules.json': '[{"type":"x.Pooling","path":"1_Pooling"}]' })).toMatchObject({
      code: 'NOT_FOUND',
    });
  });
});
