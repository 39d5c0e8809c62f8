/** Files at the edges of their formats: work in proportion to their size, ids, headers, masks, and hosts without files. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { load, loadTokenizer } from 'heed';
import { PbfWriter } from 'pbf';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { beside } from '../../../web/src/base/wasm/packaged.js';
import { headerEnd, safetensorsHeader } from '../../../web/src/io/safetensors.js';
import { damaged, parseNode, parseTensor } from '../../../web/src/models/onnx/messages.js';
import { onnxFile, tensorsOf } from './onnx-writer.js';
import { tinyModel } from './tiny.js';

const heed = await load();
const tiny = tinyModel();
const json = (value: unknown) => JSON.stringify(value);
const { 'model.safetensors': weights, ...others } = tiny as Record<string, Uint8Array>;
afterEach(() => vi.unstubAllGlobals());

describe('the work of reading an ONNX file grows with its size', () => {
  const messageOf = (write: (pbf: PbfWriter) => void) => {
    const pbf = new PbfWriter();
    write(pbf);
    return pbf.finish().slice();
  };
  const COUNT = 200_000;

  test('a node with 200,000 inputs and outputs', () => {
    const node = parseNode(
      messageOf((pbf) => {
        for (let i = 0; i < COUNT; i++) pbf.writeStringField(1 + (i % 2), `${i}`);
        pbf.writeStringField(4, 'Sum');
      }),
      'x',
    );
    expect([node.inputs.length, node.outputs.length, node.op]).toEqual([COUNT / 2, COUNT / 2, 'Sum']);
  });

  test('a tensor with 200,000 keys of external data', () => {
    const tensor = parseTensor(
      messageOf((pbf) => {
        for (let i = 0; i < COUNT; i++)
          pbf.writeMessage(
            13,
            (_, inner) => {
              inner.writeStringField(1, i === 7 ? 'location' : `k${i}`);
              inner.writeStringField(2, 'data');
            },
            null,
          );
      }),
      'x',
    );
    expect(tensor.external).toEqual({ location: 'data' });
  });

  test.each<[string, (name: string) => Parameters<typeof onnxFile>[1]]>([
    [
      'a known node',
      () => [{ op: 'Add', inputs: Array.from({ length: COUNT }, (_, i) => `x${i}`), name: '/a'.repeat(COUNT) }],
    ],
    [
      'a node of another domain',
      () => [{ op: 'Y', domain: 'y', inputs: Array.from({ length: COUNT }, (_, i) => `x${i}`) }],
    ],
    [
      'nodes after each other',
      () => Array.from({ length: COUNT / 10 }, (_, i) => ({ op: 'Cast', inputs: [`v${i}`], outputs: [`v${i + 1}`] })),
    ],
    [
      'nodes that read one value',
      () => [
        ...Array.from({ length: COUNT / 20 }, (_, i) => ({ op: 'MatMul', inputs: ['x', `w${i}`], outputs: [`y${i}`] })),
        { op: 'Mul', inputs: Array.from({ length: COUNT / 20 }, (_, i) => `y${i}`), outputs: ['z'] },
        ...Array.from({ length: COUNT / 20 }, (_, i) => ({ op: 'Add', inputs: ['z', `b${i}`], outputs: [`a${i}`] })),
      ],
    ],
    ['names with wrappers', () => [{ op: 'Add', inputs: ['model.'.repeat(COUNT / 4)] }]],
  ])('%s', async (_, nodesOf) => {
    const tensors = tensorsOf(weights!);
    const known = tensors.map(({ name }) => ({ op: 'Identity', inputs: [name], outputs: [`${name}_out`] }));
    using model = await heed.fromPretrained({
      ...others,
      'model.onnx': onnxFile(tensors, [...known, ...nodesOf('x')!]),
    } as never);
    expect(model.config.numLayers).toBe(3);
  });

  test('two nodes cannot compute one value', async () => {
    const nodes = [1, 2].map(() => ({ op: 'MatMul', inputs: ['x', 'w'], outputs: ['y'] }));
    const files = { ...others, 'model.onnx': onnxFile(tensorsOf(weights!), nodes) };
    await expect(heed.fromPretrained(files as never)).rejects.toMatchObject({
      code: 'INVALID_FILE',
      message: expect.stringContaining("two nodes with the output 'y'"),
    });
    expect(damaged('x', 'y')).toMatchObject({ code: 'INVALID_FILE' });
  });
});

test('a safetensors file is not an HTML page because of the length of its header', async () => {
  // The bytes of the length are those of "<a", of "<!" and of "<?".
  for (const length of [0x613c, 0x213c, 0x3f3c]) {
    const prefix = new Uint8Array(8);
    new DataView(prefix.buffer).setUint32(0, length, true);
    expect(headerEnd(prefix, 'x', null)).toBe(8 + length);
    expect(() => headerEnd(prefix, 'x', 100)).toThrow(/an HTML page/);
  }
  const size = new DataView(weights!.buffer, weights!.byteOffset).getUint32(0, true);
  const header = weights!.subarray(8, 8 + size);
  const padded = new Uint8Array(0x613c).fill(32);
  expect(size).toBeLessThan(padded.length);
  padded.set(header);
  const prefix = new Uint8Array(8);
  prefix.set([0x3c, 0x61]);
  const file = Buffer.concat([prefix, padded, weights!.subarray(8 + size)]);
  using model = await heed.fromPretrained({ ...tiny, 'model.safetensors': file } as never);
  using plain = await heed.fromPretrained(tiny);
  expect((await model.embed('the fox')).toArray()).toEqual((await plain.embed('the fox')).toArray());
  expect(safetensorsHeader([]).length % 8).toBe(0);
});

describe('ids that tokenizers cannot have are refused', () => {
  const tokenizer = JSON.parse(tiny['tokenizer.json'] as string);
  const changed = (change: (json: typeof tokenizer) => void) => {
    const copy = structuredClone(tokenizer);
    change(copy);
    return { ...tiny, 'tokenizer.json': json(copy) };
  };
  const ids = [-5, 1.5, 'x', '7', null, true, [], 2 ** 26, 2 ** 32 - 2, 2 ** 32 - 1, 2 ** 53, 1e300];

  test.each(ids)('%j', async (id) => {
    for (const files of [
      changed(({ model }) => {
        model.vocab.fox = id;
      }),
      changed((all) => all.added_tokens.push({ id, content: '<new>', special: false, normalized: false })),
      changed((all) => {
        all.post_processor = { type: 'BertProcessing', cls: ['[CLS]', id], sep: ['[SEP]', 3] };
      }),
    ])
      for (const call of [heed.fromPretrained(files), loadTokenizer(files)])
        await expect(call).rejects.toMatchObject({ name: 'HeedError', code: 'INVALID_FILE' });
  });

  test('the largest id is one less than the limit', async () => {
    const made = await loadTokenizer(
      changed(({ model }) => {
        model.vocab.fox = 2 ** 26 - 1;
      }),
    );
    expect(made.encode('fox')).toContain(2 ** 26 - 1);
  });

  test('a tokenizer with a pattern of exponential time still splits texts', async () => {
    const files = changed((all) => {
      all.pre_tokenizer = { type: 'Split', pattern: { Regex: '(x+x+)+y' }, behavior: 'Isolated', invert: false };
      all.normalizer = null;
    });
    const made = await loadTokenizer(files);
    expect(made.encode(`${'x'.repeat(90)}`).length).toBeGreaterThan(1);
  });
});

describe('token ids with a mask: all lists have one entry per column of the outputs', () => {
  test.each([
    ['padding before', [0, 0, 2, 5, 6, 3], [0, 0, 1, 1, 1, 1]],
    ['padding after', [2, 5, 6, 3, 0, 0], [1, 1, 1, 1, 0, 0]],
    ['a hole', [2, 5, 4, 6, 3, 0], [1, 1, 0, 1, 1, 0]],
    ['no mask', [2, 5, 4, 6, 3, 0], undefined],
  ])('%s', async (_, ids, mask) => {
    using model = await heed.fromPretrained(tiny);
    const types = [0, 1, 0, 1, 0, 1];
    const input = {
      inputIds: [ids, [2, 3]],
      tokenTypeIds: [types, [0, 0]],
      ...(mask && { attentionMask: [mask, [1, 1]] }),
    };
    const found = await model.tokenize(input);
    expect(found.inputIds).toEqual([ids, [2, 3]]);
    expect(found.attentionMask).toEqual([mask ?? [1, 1, 1, 1, 1, 1], [1, 1]]);
    expect(found.tokenTypeIds).toEqual([types, [0, 0]]);
    for (const key of ['tokens', 'offsets', 'parts'] as const)
      expect(found[key].map(({ length }) => length)).toEqual([6, 2]);
    const encoded = await model.encode(input);
    expect(encoded.tokens).toEqual(found.tokens);
    expect(encoded.lastHiddenState.shape.slice(0, 2)).toEqual([2, 6]);
    expect((encoded.attentionMask.toArray() as number[][])[0]).toEqual(mask ?? [1, 1, 1, 1, 1, 1]);
    const masked = await model.predict('fill-mask', input);
    expect(masked.inputIds).toEqual(found.inputIds);
    for (const [text, token] of masked.masks) expect(masked.inputIds[text]![token]).toBe(4);
    expect(masked.masks).toEqual(ids.flatMap((id, i) => (id === 4 && mask?.[i] !== 0 ? [[0, i]] : [])));
    // The output of tokenize is input of the same meaning.
    const { inputIds, attentionMask, tokenTypeIds } = found;
    expect((await model.encode({ inputIds, attentionMask, tokenTypeIds })).lastHiddenState.toArray()).toEqual(
      encoded.lastHiddenState.toArray(),
    );
  });

  test('a mask token after padding is found in its column', async () => {
    using model = await heed.fromPretrained(tiny);
    const input = { inputIds: [[0, 0, 2, 4, 3]], attentionMask: [[0, 0, 1, 1, 1]] };
    expect((await model.predict('fill-mask', input)).masks).toEqual([[0, 3]]);
  });

  test('tokens that are cut are in none of the lists', async () => {
    using model = await heed.fromPretrained(tiny);
    const input = { inputIds: [[0, 2, 5, 6, 3]], attentionMask: [[0, 1, 1, 1, 1]] };
    const found = await model.tokenize(input, { truncation: true, maxLength: 2 });
    expect(found).toMatchObject({ inputIds: [[0, 2, 5]], attentionMask: [[0, 1, 1]], truncated: [2] });
    for (const key of ['tokens', 'offsets', 'parts', 'tokenTypeIds'] as const) expect(found[key][0]).toHaveLength(3);
  });
});

test("the URLs of a record's files may have any names", async () => {
  // A parenthesis in the path used to be part of a regular expression.
  const fetch = async (url: string) => {
    const name = decodeURIComponent(new URL(url).pathname.split('/').at(-1)!).replace('(x', '');
    const content = (tiny as Record<string, Uint8Array | string>)[name];
    return new Response((content ?? null) as never, { status: content ? 200 : 404 });
  };
  const urls = Object.fromEntries(Object.keys(tiny).map((name) => [name, new URL(`https://x.example/${name}`)]));
  const odd = { ...urls, 'a(b[c.json': new URL('https://x.example/a(b[c.json') };
  using model = await heed.fromPretrained(odd as never, { fetch });
  expect(model.config.numLayers).toBe(3);
});

describe('other environments', () => {
  test('without the URL of the script, the error says what to give', () => {
    const make = () => new URL('./model.safetensors', undefined);
    expect(() => beside('source', make, 'Give it')).toThrow(
      expect.objectContaining({
        name: 'HeedError',
        code: 'NOT_FOUND',
        message: expect.stringMatching(/^source: .*Give it$/),
      }),
    );
  });

  test('environment variables that may not be read count as unset, and only hub ids need them', async () => {
    const { env } = process;
    const asked: (string | symbol)[] = [];
    const denied = new Proxy(env, {
      get(target, name) {
        if (!/^(HF_|XDG_)/.test(String(name))) return Reflect.get(target, name);
        asked.push(name);
        throw Object.assign(new Error(`Requires env access to "${String(name)}"`), { name: 'NotCapable' });
      },
    });
    Object.defineProperty(process, 'env', { value: denied, configurable: true });
    try {
      using model = await heed.fromPretrained();
      expect(model.config.numLayers).toBeGreaterThan(0);
      expect(asked).toEqual([]);
      await expect(heed.fromPretrained('org/model')).rejects.toMatchObject({ name: 'HeedError', code: 'NOT_FOUND' });
      expect(asked).toContain('HF_ENDPOINT');
    } finally {
      Object.defineProperty(process, 'env', { value: env, configurable: true, writable: true });
    }
  });

  test('a content security policy that forbids WebAssembly is named first', async () => {
    const real = WebAssembly.compile;
    const text =
      "WebAssembly.compile(): Refused to compile or instantiate WebAssembly module because 'unsafe-eval' is not an allowed source of script in the following Content Security Policy directive: \"script-src 'self'\"";
    WebAssembly.compile = async () => {
      throw new WebAssembly.CompileError(text);
    };
    try {
      const bytes = readFileSync(new URL('../../../dist/heed-simd128.wasm', import.meta.url));
      await expect(load({ wasm: new Uint8Array(bytes), build: 'simd128' })).rejects.toMatchObject({
        code: 'LOAD_FAILED',
        message: expect.stringMatching(
          /^wasm: the page's Content-Security-Policy forbids WebAssembly.*wasm-unsafe-eval/,
        ),
      });
    } finally {
      WebAssembly.compile = real;
    }
  });
});

describe('one place decides', () => {
  const root = join(import.meta.dirname, '../../../web/src');
  const sources = readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => [name.replaceAll('\\', '/'), readFileSync(join(root, name), 'utf8')] as const);
  const matching = (pattern: RegExp) => sources.filter(([, text]) => pattern.test(text)).map(([name]) => name);

  test('what a path inside a folder is', () => {
    // Checks of dots between slashes, and URLs of files made by hand.
    const checks = matching(/'\.\.'|"\.\."|\\\.\{0,2\}|\\\.\\\.(?!\?)|%2e/i);
    expect(checks.filter((name) => name !== 'io/paths.ts')).toEqual([]);
    const own = ['io/cached-models.ts', 'io/http.ts', 'io/hub.ts', 'io/paths.ts', 'io/source.ts'];
    const urls = matching(/new URL\(/).filter((name) => /^(io|models|images|text|folders|search)\//.test(name));
    expect(urls.filter((name) => !own.includes(name))).toEqual([]);
  });

  test('how a text is escaped in a regular expression', () => {
    const escapes = sources.filter(([, text]) => text.includes(String.raw`'\\$&'`)).map(([name]) => name);
    expect(escapes.filter((name) => name !== 'train/graph/parameters.ts')).toEqual(['base/regex.ts']);
    expect(matching(/new RegExp\(`[^`]*replaceAll/)).toEqual([]);
  });

  test('how environment variables are read', () => {
    expect(matching(/\.env\b/).filter((name) => !/^(cli|scale)\//.test(name))).toEqual(['base/hub-options.ts']);
  });
});
