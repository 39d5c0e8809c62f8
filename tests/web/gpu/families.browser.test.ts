/** Every family's golden checkpoint on a GPU, through the public API, against PyTorch. */
import { describe, expect, test } from 'vitest';
import { expectClose, fixture } from '../models/fixtures.js';
import { everything, useGpuSite } from './site.js';

const site = useGpuSite();

declare const heed: typeof import('heed');

const withHeads = [
  'bert',
  'roberta',
  'xlm-roberta',
  'distilbert',
  'mpnet',
  'electra',
  'albert',
  'modernbert',
  'jina-bert-v2',
  'jina-bert-v2-code',
  'deberta-v2',
  'deberta-v2-unshared',
  'deberta-v2-convolution',
  'new',
];
const headless = ['nomic_bert', 'qwen3', 'gemma3_text', 'bert-i8'];

/** A tensor as plain data that can be passed out of the page. */
type Plain = { data: number[]; shape: number[] };
const tensor = ({ data, shape }: Plain) => ({ data: Float32Array.from(data), shape });

/** One checkpoint per kind of positions and of norms. */
const some = ['bert', 'gemma3_text', 'deberta-v2-convolution', 'jina-bert-v2-code'];

describe.each(everything ? [...withHeads, ...headless] : some)('%s', (name) => {
  const { expected, input } = fixture(name);

  test("gives PyTorch's hidden states, attentions, pooled vectors and logits", async () => {
    const out = await site.page.evaluate(
      async ([name, input, hasHeads]) => {
        const plain = ({ data, shape }: { data: ArrayLike<number>; shape: readonly number[] }) => ({
          data: Array.from(data),
          shape: [...shape],
        });
        const runtime = await heed.load();
        const model = await runtime.fromPretrained(`/models/${name}`, { device: 'webgpu' });
        const all = await model.encode(input, { outputAttentions: true, outputHiddenStates: true });
        const logits: Record<string, Plain> = {};
        const heads = { sequence: 'sequence-classification', token: 'token-classification' } as const;
        for (const [key, head] of Object.entries(heads))
          if (hasHeads) logits[key] = plain((await model.predict(head, input)).logits);
        const result = {
          device: model.device.type,
          states: all.hiddenStates.map(plain),
          attentions: all.attentions.map(plain),
          last: plain((await model.encode(input)).lastHiddenState),
          mean: plain(await model.embed(input, { pooling: 'mean', normalize: true })),
          cls: plain(await model.embed(input, { pooling: 'cls', normalize: false })),
          max: plain(await model.embed(input, { pooling: 'max', normalize: false })),
          logits,
        };
        runtime.dispose();
        return result;
      },
      [name, input, withHeads.includes(name)] as const,
    );
    expect(out.device).toBe('webgpu');
    out.states.forEach((state, i) => {
      expectClose(tensor(state), expected.get(`hidden_states.${i}`), `hidden state ${i}`);
    });
    out.attentions.forEach((weights, i) => {
      expectClose(tensor(weights), expected.get(`attentions.${i}`), `attention ${i}`);
    });
    expectClose(tensor(out.last), expected.get(`hidden_states.${out.states.length - 1}`), 'last hidden state');
    for (const pooling of ['mean', 'cls', 'max'] as const)
      expectClose(tensor(out[pooling]), expected.get(pooling), pooling);
    for (const [key, logits] of Object.entries(out.logits))
      if (expected.has(key)) expectClose(tensor(logits), expected.get(key), key);
  });
});

test.each(everything ? ['mpnet-long', 'deberta-v2-long', 'deberta-v2-distances', 'modernbert-layers'] : ['mpnet-long'])(
  '%s: distances and windows of long texts',
  async (name) => {
    const { expected, input } = fixture(name);
    const last = await site.page.evaluate(
      async ([name, input]) => {
        const runtime = await heed.load();
        const model = await runtime.fromPretrained(`/models/${name}`, { device: 'webgpu' });
        const { data, shape } = (await model.encode(input)).lastHiddenState;
        runtime.dispose();
        return { data: Array.from(data), shape: [...shape] };
      },
      [name, input] as const,
    );
    expectClose(tensor(last), expected.get('hidden_states.3'), 'last hidden state');
  },
);

test.each(everything ? ['clip', 'siglip', 'dinov2-registers', 'dinov2-swiglu', 'dinov3', 'dinov3-gated'] : ['dinov3'])(
  "%s: PyTorch's vectors, hidden states and attentions of images",
  async (name) => {
    const { expected } = fixture(name);
    const { data, shape } = expected.get('pixels')!;
    const out = await site.page.evaluate(
      async ([name, data, shape]) => {
        const plain = ({ data, shape }: { data: ArrayLike<number>; shape: readonly number[] }) => ({
          data: Array.from(data),
          shape: [...shape],
        });
        const runtime = await heed.load();
        const model = await runtime.fromPretrained(`/models/${name}`, { device: 'webgpu' });
        const pixels = { data: Float32Array.from(data), shape };
        const all = await model.encodeImage(pixels, { outputAttentions: true, outputHiddenStates: true });
        const result = {
          measured: model.device.measured.map(({ input }) => input),
          vectors: plain(await model.embedImages(pixels)),
          states: all.hiddenStates!.map(plain),
          attentions: all.attentions!.map(plain),
        };
        runtime.dispose();
        return result;
      },
      [name, Array.from(data), shape] as const,
    );
    expect(out.measured).toContain('image');
    expectClose(tensor(out.vectors), expected.get('image.vectors'), 'vectors');
    out.states.forEach((state, i) => {
      expectClose(tensor(state), expected.get(`image.hidden_states.${i}`), `hidden state ${i}`);
    });
    out.attentions.forEach((weights, i) => {
      expectClose(tensor(weights), expected.get(`image.attentions.${i}`), `attention ${i}`);
    });
  },
);

test("int8: the weights of a file in fp32 arithmetic, PyTorch's vectors of these weights", async () => {
  const { expected, input } = fixture('bert-i8');
  const out = await site.page.evaluate(async (input) => {
    const runtime = await heed.load();
    const model = await runtime.fromPretrained('/models/bert-i8', { device: 'webgpu', dtype: 'q8' });
    const { data, shape } = await model.embed(input, { pooling: 'mean', normalize: true });
    const core = await runtime.fromPretrained('/models/bert-i8', { dtype: 'q8' });
    const ofCore = await core.embed(input, { pooling: 'mean', normalize: true });
    const result = {
      dtypes: [model.config.dtype, core.config.dtype],
      differences: model.device.measured.map(({ difference }) => difference),
      mean: { data: Array.from(data), shape: [...shape] },
      far: Math.max(...Array.from(ofCore.data, (value, i) => Math.abs(value - data[i]!))),
    };
    runtime.dispose();
    return result;
  }, input);
  expect(out.dtypes).toEqual(['q8', 'q8']);
  expectClose(tensor(out.mean), expected.get('mean'), 'mean');
  // WebAssembly rounds activations to int8.
  for (const difference of [...out.differences, out.far]) expect(difference).toBeGreaterThan(1e-4);
});

/** The minimum cosine between a row and PyTorch's. */
function leastCosine({ data }: Plain, expected: { data: Float32Array; shape: number[] } | undefined): number {
  const width = expected!.shape.at(-1)!;
  expect(data).toHaveLength(expected!.data.length);
  let least = 1;
  for (let at = 0; at < data.length; at += width) {
    const [a, b] = [data.slice(at, at + width), expected!.data.subarray(at, at + width)];
    const dot = (x: ArrayLike<number>, y: ArrayLike<number>) =>
      Array.from(x, (v, i) => v * y[i]!).reduce((p, q) => p + q);
    const cosine = dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b) || 1);
    if (dot(b, b) > 0 && !(cosine >= least)) least = cosine; // rows of padding are zeros
  }
  return least;
}

const inHalves = everything
  ? [...withHeads, ...headless, 'bert-f16', 'bert-bf16']
  : ['bert-f16', 'bert-bf16', 'bert', 'qwen3'];

test.each(inHalves)(
  "%s: weights in fp16 give nearly PyTorch's rows, and the same for files in fp16 and bfloat16",
  async (name) => {
    const { expected, input } = fixture(name);
    const out = await site.page.evaluate(
      async ([name, input]) => {
        const plain = ({ data, shape }: { data: ArrayLike<number>; shape: readonly number[] }) => ({
          data: Array.from(data),
          shape: [...shape],
        });
        const runtime = await heed.load();
        const model = await runtime.fromPretrained(`/models/${name}`, { device: 'webgpu', dtype: 'fp16' });
        const { device, config } = model;
        const result = {
          device: { type: device.type, dtype: device.dtype },
          dtype: config.dtype,
          last: plain((await model.encode(input)).lastHiddenState),
          mean: plain(await model.embed(input, { pooling: 'mean', normalize: true })),
        };
        runtime.dispose();
        return result;
      },
      [name, input] as const,
    );
    expect(out).toMatchObject({ device: { type: 'webgpu', dtype: 'fp16' }, dtype: 'fp32' });
    const states = [...expected.keys()].filter((key) => key.startsWith('hidden_states.'));
    const last = expected.get(`hidden_states.${states.length - 1}`);
    if (/f16$/.test(name)) {
      expectClose(tensor(out.last), last, 'last hidden state');
      expectClose(tensor(out.mean), expected.get('mean'), 'mean');
    } else {
      const least = Math.min(leastCosine(out.last, last), leastCosine(out.mean, expected.get('mean')));
      expect(least).toBeGreaterThan(0.99999);
      expect(least).toBeLessThan(1 - 1e-9); // weights are in fp16
    }
  },
);

test('weights that fp16 has keep their rows, behind factors of rows and gates, too', async () => {
  const out = await site.page.evaluate(async () => {
    const runtime = await heed.load();
    const differences: Record<string, number[]> = {};
    for (const name of ['dinov2-registers', 'dinov2-swiglu']) {
      const read = async (file: string) => new Uint8Array(await (await fetch(`/models/${name}/${file}`)).arrayBuffer());
      const weights = await read('model.safetensors');
      const header = 8 + Number(new DataView(weights.buffer).getBigUint64(0, true));
      // Clears the 13 bits that fp16 lacks, so that the numbers are exact in fp16.
      const bits = new Uint32Array(weights.buffer.slice(header)).map((each) => each & 0xffffe000);
      weights.set(new Uint8Array(bits.buffer), header);
      const files = { 'config.json': await read('config.json'), 'model.safetensors': weights };
      const model = await runtime.fromPretrained(files, { device: 'webgpu', dtype: 'fp16' });
      differences[name] = model.device.measured.map(({ difference }) => difference);
    }
    runtime.dispose();
    return differences;
  });
  for (const [name, differences] of Object.entries(out)) {
    expect(differences, name).toHaveLength(1);
    expect(differences[0], name).toBeLessThan(1e-5);
  }
});

test('4-bit matrices and tables: the rows of their values in WebAssembly', async () => {
  const { input } = fixture('bert');
  const out = await site.page.evaluate(async (input) => {
    const runtime = await heed.load();
    const { files, report } = await runtime.quantize('/models/bert', { tables: 'int4', matrices: 'int4' });
    const rows = async (source: typeof files | string, options: object) =>
      (await (await runtime.fromPretrained(source, options)).encode(input)).lastHiddenState.data;
    const expected = await rows(files, {});
    const far = (data: Float32Array) => Math.max(...data.map((value, i) => Math.abs(value - expected[i]!)));
    const result = {
      int4: report.int4.length,
      original: far(await rows('/models/bert', {})),
      fp32: far(await rows(files, { device: 'webgpu' })),
      fp16: far(await rows(files, { device: 'webgpu', dtype: 'fp16' })),
    };
    runtime.dispose();
    return result;
  }, input);
  expect(out.int4).toBeGreaterThan(3);
  expect(out.original).toBeGreaterThan(0.1); // 4 bits
  expect(out.fp32).toBeLessThan(1e-4);
  expect(out.fp16).toBeLessThan(1e-2);
});

test('pipeline() passes its device on', async () => {
  const out = await site.page.evaluate(async () => {
    const vectors: Record<string, { type: string; data: number[] }> = {};
    for (const device of ['cpu', 'webgpu'] as const) {
      const extract = await heed.pipeline('feature-extraction', null, { device, dtype: 'fp32' });
      const { data } = await extract('The cat sat on the mat.', { pooling: 'mean', normalize: true });
      vectors[device] = { type: extract.model.device.type, data: Array.from(data as Float32Array) };
      await extract.dispose();
    }
    return vectors;
  });
  expect([out.cpu!.type, out.webgpu!.type]).toEqual(['wasm', 'webgpu']);
  const shape = [out.cpu!.data.length];
  expectClose(tensor({ data: out.webgpu!.data, shape }), tensor({ data: out.cpu!.data, shape }), 'vectors');
});
