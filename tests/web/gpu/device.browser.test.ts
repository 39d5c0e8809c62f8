/** The choice of a GPU, the number of kernels and submissions, and the detection of faults. */
import { expect, test } from 'vitest';
import { leastRows } from '../../../web/src/gpu/open.js';
import { type Any, everything, useGpuSite } from './site.js';

const site = useGpuSite();

declare const heed: typeof import('heed');
declare const gpuWith: (change: (device: Any) => void, more?: object) => Any;

const input = { inputIds: [[5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21], [5], [9, 8, 7]] };

test('vectors are the same bit for bit, in each of 100 runs, in a batch and alone; runs cost one submission and few dispatches', async () => {
  const out = await site.page.evaluate(async (input) => {
    let [dispatches, submissions] = [0, 0];
    const runtime = await heed.load({
      gpu: gpuWith((device) => {
        const submit = device.queue.submit.bind(device.queue);
        device.queue.submit = (commands: object[]) => {
          submissions++;
          submit(commands);
        };
        const create = device.createCommandEncoder.bind(device);
        device.createCommandEncoder = () => {
          const encoder = create();
          const begin = encoder.beginComputePass.bind(encoder);
          encoder.beginComputePass = () => {
            const pass = begin();
            const dispatch = pass.dispatchWorkgroups.bind(pass);
            pass.dispatchWorkgroups = (...groups: number[]) => {
              dispatches++;
              dispatch(...groups);
            };
            return pass;
          };
          return encoder;
        };
      }),
    });
    const counts: Record<string, number[]> = {};
    for (const name of ['gemma3_text', 'bert']) {
      const model = await runtime.fromPretrained(`/models/${name}`, { device: 'webgpu' });
      [dispatches, submissions] = [0, 0];
      await model.embed(input);
      counts[name] = [(dispatches - 2) / model.config.numLayers, submissions]; // excluding the final norm and the pooling
      if (name === 'gemma3_text') model.dispose();
      else {
        const first = await model.embed(input);
        const width = model.config.embedDim;
        let same = true;
        for (let i = 0; i < 100; i++) {
          const again = await model.embed(input);
          same &&= again.data.every((value, at) => value === first.data[at]);
        }
        let alone = true;
        for (const [n, ids] of input.inputIds.entries()) {
          const { data } = await model.embed({ inputIds: [ids] });
          alone &&= data.every((value, at) => value === first.data[n * width + at]);
        }
        runtime.dispose();
        return { counts, same, alone };
      }
    }
    return null;
  }, input);
  expect(out).toMatchObject({ same: true, alone: true });
  for (const [perLayer, submissions] of Object.values(out!.counts)) {
    expect(perLayer).toBeLessThanOrEqual(10);
    expect(submissions).toBe(1);
  }
});

/** Faults that are injected into kernels' sources: [original, replacement]. */
const allFaults: [string, string][] = [
  ['x[m * K + k]', 'x[m * K + k + 1u]'], // a wrong stride
  ['w[n * K + k]', 'w[n * K]'],
  ['if (m < M && k < K)', 'if (m < M && k + 1u < K)'], // a dropped tail
  ['if (n < N && k < K)', 'if (n + 9u < N && k < K)'],
  ['acc2 += rows4.z * by', 'acc2 += rows4.y * by'],
  ['* N + n + 1u', '* N + n + 2u'],
  [' + b[n + 0u]', ''], // a missing bias
  [' + r[at]', ''], // a missing residual connection
  ['x * select(upper', 'x * x * select(upper'],
  ['let mean = sum_of', 'let mean = 2.0 * sum_of'],
  [' * w[e]', ''],
  ['+ b[e]', '- b[e]'],
  ['parts[i] += parts[i + n]', 'parts[i] = parts[i + n]'],
  ['sum *= fade;', ''], // ignores the previous keys in the sum
  ['acc0 *= fade;', 'acc0 *= 0.5;'],
  ['if (i >= length || j >= length) { return false; }', ''], // keys of the next text
  ['h / 1u', '0u'],
  ['let q_at = h * D;', 'let q_at = 0u;'],
  ['let v_at = VALUES', 'let v_at = KEYS'],
  ['k0 += 32u', 'k0 += 64u'], // every other tile of keys
  ['i32(j) - i32(i)', 'i32(i)'],
  ['f32(end - begin)', 'f32(end - begin + 9u)'], // a wrong divisor of a pooling
];

const faults = everything ? allFaults : allFaults.filter((_, i) => i % 6 === 0);

/** Faults that are injected with weights in fp16. */
const halfFaults: [string, string][] = [
  ['at % 2u == 1u', 'at % 2u == 0u'], // the two numbers of a word swapped
  ['w[at / 2u]', 'w[(at + 1u) / 2u]'],
  ['let at = n * K + k', 'let at = n * K'],
  [' * s[n + 1u]', ''], // a row without its scale
  [' * s[n + 2u]', ' * s[n + 3u]'],
];

test("faulty kernels are found when the model is loaded: 'auto' runs it in WebAssembly", async () => {
  const out = await site.page.evaluate(
    async ([faults, halfFaults, input]) => {
      const plain = await heed.load();
      const found: { fault: string; applied: number; type: string; reason: string; same: boolean }[] = [];
      const expected: Record<string, Float32Array> = {};
      for (const name of ['bert', 'mpnet'])
        expected[name] = (await (await plain.fromPretrained(`/models/${name}`)).embed(input)).data as Float32Array;
      for (const [from, to] of [...faults, ...halfFaults]) {
        const dtype = halfFaults.some((fault) => fault[0] === from) ? 'fp16' : 'fp32';
        let applied = 0;
        const name = from.startsWith('i32(j)') ? 'mpnet' : 'bert';
        const gpu = gpuWith((device) => {
          const create = device.createShaderModule.bind(device);
          device.createShaderModule = ({ code }: { code: string }) => {
            if (code.includes(from)) applied++;
            return create({ code: code.replaceAll(from, to) });
          };
        });
        const runtime = await heed.load({ gpu });
        const model = await runtime.fromPretrained(`/models/${name}`, { device: 'auto', dtype });
        const { data } = await model.embed(input);
        const same = (data as Float32Array).every((value, i) => value === expected[name]![i]);
        found.push({ fault: from, applied, type: model.device.type, reason: model.device.reason, same });
        runtime.dispose();
      }
      plain.dispose();
      return found;
    },
    [faults, everything ? halfFaults : halfFaults.filter((_, i) => i % 3 === 0), input] as const,
  );
  for (const each of out) {
    expect(each.applied, each.fault).toBeGreaterThan(0);
    expect(each, each.fault).toMatchObject({ type: 'wasm', same: true });
    expect(each.reason, each.fault).toMatch(/differ from WebAssembly's|error of kind/);
  }
}, 1_200_000);

test("'auto' takes the GPU where it is faster, and the core for the same call once the GPU fails", async () => {
  const out = await site.page.evaluate(async (input) => {
    const real = performance.now.bind(performance);
    let device: Any;
    const runtime = await heed.load({ gpu: gpuWith((made) => (device = made)) });
    // A clock that counts its readings: WebAssembly reads it before each layer, the GPU once per run.
    let now = 0;
    performance.now = () => (now += 10);
    const model = await runtime.fromPretrained('/models/bert', { device: 'auto' });
    performance.now = real;
    const before = { ...model.device };
    const first = await model.embed(input);
    const edit = [{ site: 'layers.0.weights', scale: 2 }]; // not supported on the GPU
    const edited = await model.embed(input, { edit });
    const afterEdit = model.device.type;
    device.destroy();
    await device.lost;
    const second = await model.embed(input);
    const after = { ...model.device };
    const plain = await heed.load();
    const expected = await (await plain.fromPretrained('/models/bert')).embed(input);
    const difference = Math.max(...Array.from(first.data, (v, i) => Math.abs(v - expected.data[i]!)));
    const editedOnCore = await (await plain.fromPretrained('/models/bert')).embed(input, { edit });
    const isEditCores = edited.data.every((value, i) => value === editedOnCore.data[i]);
    const isCores = second.data.every((value, i) => value === expected.data[i]);
    runtime.dispose();
    plain.dispose();
    return { before, after, difference, isCores, isEditCores, afterEdit };
  }, input);
  expect(out.before.type).toBe('webgpu');
  expect(out.before.reason).toContain('texts run on the GPU: ');
  expect(out.before.measured.map(({ length }) => length)).toHaveLength(2);
  expect(out.difference).toBeLessThan(1e-4);
  expect(out.isCores).toBe(true);
  expect(out).toMatchObject({ isEditCores: true, afterEdit: 'webgpu' });
  expect(out.after).toMatchObject({ type: 'wasm', reason: expect.stringContaining('the GPU failed in a call') });
});

test("dtype 'fp16' halves the weights on the GPU; those in WebAssembly stay in fp32, and take over once the GPU fails", async () => {
  const out = await site.page.evaluate(async (input) => {
    const real = performance.now.bind(performance);
    const plain = await heed.load();
    const core = await plain.fromPretrained('/models/bert');
    const expected = await core.embed(input);
    const found = [];
    for (const dtype of ['fp32', 'fp16'] as const) {
      let device: Any;
      let uploaded = 0;
      const gpu = gpuWith((made) => {
        device = made;
        const create = made.createBuffer.bind(made);
        made.createBuffer = (of: { size: number; usage: number }) => {
          if (of.usage === (128 | 8)) uploaded += of.size; // buffers that are only written and read by kernels
          return create(of);
        };
      });
      const runtime = await heed.load({ gpu });
      let now = 0;
      performance.now = () => (now += 10); // counts readings, as above
      const model = await runtime.fromPretrained('/models/bert', { device: 'auto', dtype });
      performance.now = real;
      const [first, second] = [await model.embed(input), await model.embed(input)];
      const [alone, before] = [await model.embed({ inputIds: [input.inputIds[2]!] }), { ...model.device }];
      device.destroy();
      await device.lost;
      const last = await model.embed(input);
      const width = model.config.embedDim;
      found.push({
        uploaded,
        before,
        after: { ...model.device },
        difference: Math.max(...Array.from(first.data, (value, i) => Math.abs(value - expected.data[i]!))),
        isSame: second.data.every((value, i) => value === first.data[i]),
        isSameAlone: alone.data.every((value, i) => value === first.data[2 * width + i]),
        isCores: last.data.every((value, i) => value === expected.data[i]),
        dtype: model.config.dtype,
      });
      runtime.dispose();
    }
    const { embedDim, feedForwardDim, numLayers } = core.config;
    plain.dispose();
    return { found, embedDim, feedForwardDim, numLayers };
  }, input);
  const { found, embedDim: width, feedForwardDim: wide, numLayers } = out;
  const [whole, half] = found;
  const weights = numLayers * (4 * width * width + 2 * width * wide);
  const rows = numLayers * (5 * width + wide);
  expect(whole!.uploaded - half!.uploaded).toBe(2 * weights - 4 * rows); // fp16 has one factor per row
  found.forEach((each, i) => {
    expect(each).toMatchObject({
      before: { type: 'webgpu', dtype: ['fp32', 'fp16'][i] },
      after: { type: 'wasm', dtype: null },
      dtype: 'fp32',
      ...{ isSame: true, isSameAlone: true, isCores: true },
    });
  });
  expect(half!.difference).toBeLessThan(1e-2);
  expect(half!.difference).toBeGreaterThan(10 * whole!.difference);
});

test('what speaks against a GPU is one clear error, or with auto the reason for WebAssembly', async () => {
  const out = await site.page.evaluate(async (input) => {
    const results: Record<string, unknown> = {};
    const attempt = async (name: string, gpu: unknown, options: object, use?: (model: Any) => Promise<unknown>) => {
      const runtime = await heed.load(gpu === null ? {} : { gpu: gpu as never });
      results[name] = await runtime
        .fromPretrained('/models/bert', options)
        .then(async (model) => (use ? await use(model) : model.device.reason))
        .catch((error) => `${error.name} ${error.code}: ${error.message}`);
      runtime.dispose();
    };
    const none = { requestAdapter: async () => null };
    await attempt('no adapter', none, { device: 'webgpu' });
    await attempt('no adapter, auto', none, { device: 'auto' });
    await attempt('a fallback adapter, auto', null, { device: 'auto' });
    await attempt(
      'small limits',
      gpuWith((made) =>
        Object.defineProperty(made, 'limits', {
          value: { maxBufferSize: 1024, maxStorageBufferBindingSize: 1024, maxComputeWorkgroupsPerDimension: 65_535 },
        }),
      ),
      { device: 'webgpu' },
    );
    const edit = [{ site: 'layers.0.weights', scale: 2 }];
    await attempt('weights', null, { device: 'webgpu' }, (model) => model.encode(input, { edit }));
    await attempt('disposed', null, { device: 'webgpu' }, (model) => {
      const call = model.embed(input);
      model.dispose();
      return call;
    });
    let device: Any;
    await attempt(
      'lost',
      gpuWith((made) => (device = made)),
      { device: 'webgpu' },
      async (model) => {
        device.destroy();
        return model.embed(input);
      },
    );
    await attempt('gpu', { requestAdapter: 1 }, {}).catch((error) => (results.gpu = `${error.code}: ${error.message}`));
    await attempt('in workers', null, { device: 'webgpu', workers: 2 });
    await attempt('a given gpu and a worker', none, { device: 'webgpu', worker: true });
    const worker = new Worker('/worker.js', { type: 'module' });
    await attempt('a worker without a GPU', null, { device: 'webgpu', worker });
    return results;
  }, input);
  expect(out['no adapter']).toMatch(/^HeedError GPU_FAILED: device: expected a GPU, got no adapter/);
  expect(out['no adapter, auto']).toMatch(/^device: expected a GPU, got no adapter/);
  expect(out['a fallback adapter, auto']).toMatch(/got a fallback adapter/);
  expect(out['small limits']).toMatch(/^HeedError (OUT_OF_MEMORY|GPU_FAILED): device: /);
  expect(out.weights).toMatch(/^HeedError UNSUPPORTED: edit: 'scores' and 'weights' cannot be edited on a GPU/);
  expect(out.disposed).toMatch(/^HeedError DISPOSED: PretrainedModel: used after dispose\(\)/);
  expect(out.lost).toMatch(/^HeedError GPU_FAILED: device: .*lost/);
  expect(out.gpu).toMatch(/^INVALID_ARGUMENT: load.gpu: expected a GPU object/);
  expect(out['in workers']).toMatch(
    /^HeedError UNSUPPORTED: fromPretrained.device: expected 'wasm' or 'auto' with `workers`/,
  );
  const refused = /^HeedError UNSUPPORTED: fromPretrained.worker: expected a worker that runs gpu-worker.js/;
  expect(out['a given gpu and a worker']).toMatch(refused);
  expect(out['a worker without a GPU']).toMatch(refused);
});

test('a model in a worker runs on the GPU there, the same bit for bit', async () => {
  const out = await site.page.evaluate(async (input) => {
    const runtime = await heed.load();
    const here = await runtime.fromPretrained('/models/bert', { device: 'webgpu' });
    const expected = await here.embed(input);
    const edit = [{ site: 'layers.1.heads', heads: [1], scale: 0 }];
    const edited = await here.embed(input, { edit });
    const results: Record<string, unknown> = {};
    for (const [name, options] of Object.entries({
      worker: { device: 'webgpu', worker: true },
      'given worker': { device: 'webgpu', worker: new Worker('/gpu-worker.js', { type: 'module' }) },
      'given files': { device: 'webgpu', worker: true, fetch: (url: string) => fetch(url) },
      'fp16 in a worker': { device: 'webgpu', worker: true, dtype: 'fp16' },
      auto: { device: 'auto', worker: true },
      'auto in a worker without a GPU': {
        device: 'auto',
        worker: new Worker('/worker.js', { type: 'module' }),
      },
      'auto in workers': { device: 'auto', workers: 1 },
    } as const)) {
      const model = await runtime.fromPretrained('/models/bert', options);
      const same = ({ data }: { data: ArrayLike<number> }, other: { data: ArrayLike<number> }) =>
        Array.from(data).every((value, i) => value === other.data[i]);
      const { type, reason, dtype } = model.device;
      const [plain, ablated] = [await model.embed(input), await model.embed(input, { edit })];
      results[name] = {
        type,
        reason,
        dtype,
        same: same(plain, expected),
        edited: same(ablated, edited),
        after: model.device.type,
      };
      model.dispose();
    }
    runtime.dispose();
    return results;
  }, input);
  const onGpu = {
    type: 'webgpu',
    dtype: 'fp32',
    reason: expect.stringMatching(/^requested/),
    same: true,
    edited: true,
    after: 'webgpu',
  };
  expect(out).toMatchObject({
    worker: onGpu,
    'given worker': onGpu,
    'given files': onGpu,
    'fp16 in a worker': { type: 'webgpu', dtype: 'fp16', same: false },
    auto: { type: 'wasm', reason: expect.stringMatching(/got a fallback adapter/) },
    'auto in a worker without a GPU': { type: 'wasm', reason: "its worker lacks heed's GPU code" },
    'auto in workers': { type: 'wasm' },
  });
});

test('the length from which the GPU is faster lies between those that were measured, or beyond', () => {
  const of = (short: [number, number], long: [number, number]) =>
    leastRows([
      { length: 10, wasm: short[0], webgpu: short[1] },
      { length: 110, wasm: long[0], webgpu: long[1] },
    ]);
  expect(of([1, 5], [20, 10])).toBe(Math.ceil(10 + (4 / 14) * 100));
  expect(of([5, 1], [20, 10])).toBe(0);
  expect(of([1, 5], [10, 20])).toBe(Number.POSITIVE_INFINITY);
});
