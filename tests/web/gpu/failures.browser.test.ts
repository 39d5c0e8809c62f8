/** Calls during which the GPU fails, memory over many calls, and several models at once. */
import { beforeAll, expect, test } from 'vitest';
import { encoderFiles } from '../../../bench/random-encoder.mjs';
import { type Any, everything, useGpuSite } from './site.js';

const site = useGpuSite();
beforeAll(async () => {
  // Two layers, so that WebAssembly appears slower by the clock of loadAuto().
  const { files } = encoderFiles(2, 40, { width: 12, heads: 2, positions: 20 });
  const plain = Object.entries(files).map(([name, bytes]) => [name, Array.from(bytes)] as const);
  await site.page.evaluate((plain) => {
    const small = Object.fromEntries(plain.map(([name, bytes]) => [name, Uint8Array.from(bytes)]));
    const real = performance.now.bind(performance);
    Object.assign(globalThis, {
      small,
      /**
       * Loads with 'auto' and a clock that counts its readings: WebAssembly reads it before each layer, the GPU once
       * per run.
       */
      async loadAuto(runtime: Any, source: unknown) {
        let now = 0;
        performance.now = () => (now += 10);
        const model = await runtime.fromPretrained(source, { device: 'auto' });
        performance.now = real;
        return model;
      },
      same: (a: Any, b: Any) =>
        a.data.length === b.data.length && a.data.every((v: number, i: number) => v === b.data[i]),
      near: (a: Any, b: Any) =>
        a.data.length === b.data.length && a.data.every((v: number, i: number) => Math.abs(v - b.data[i]) < 1e-4),
      fate: (call: Promise<unknown>) =>
        call.then(
          () => 'a result',
          (error) => `${error.name} ${error.code}: ${error.message}`,
        ),
    });
  }, plain);
});

declare const heed: typeof import('heed');
declare const gpuWith: (change: (device: Any) => void, more?: object) => Any;
declare const small: Record<string, Uint8Array>;
declare const loadAuto: (runtime: Any, source: unknown) => Promise<Any>;
declare const same: (a: Any, b: Any) => boolean;
declare const near: (a: Any, b: Any) => boolean;
declare const fate: (call: Promise<unknown>) => Promise<string>;

/** Number of calls in the test of memory. */
const numCalls = everything ? 1000 : 200;

test(`${numCalls} calls take no memory beyond that of the first ones, and one submission and one read-back each`, async () => {
  const out = await site.page.evaluate(async (numCalls) => {
    const counts = { buffers: 0, bytes: 0, shaders: 0, submissions: 0, maps: 0 };
    const runtime = await heed.load({
      gpu: gpuWith((device) => {
        const { queue } = device;
        const [createBuffer, createShaderModule, submit] = [
          device.createBuffer.bind(device),
          device.createShaderModule.bind(device),
          queue.submit.bind(queue),
        ];
        device.createBuffer = (options: { size: number }) => {
          counts.buffers++;
          counts.bytes += options.size;
          const buffer = createBuffer(options);
          const [destroy, mapAsync] = [buffer.destroy.bind(buffer), buffer.mapAsync.bind(buffer)];
          buffer.destroy = () => {
            counts.bytes -= options.size;
            destroy();
          };
          buffer.mapAsync = (...range: unknown[]) => {
            counts.maps++;
            return mapAsync(...range);
          };
          return buffer;
        };
        device.createShaderModule = (options: object) => {
          counts.shaders++;
          return createShaderModule(options);
        };
        queue.submit = (commands: object[]) => {
          counts.submissions++;
          submit(commands);
        };
      }),
    });
    const model = await runtime.fromPretrained(small, { device: 'webgpu' });
    const texts = (n: number) =>
      Array.from({ length: 1 + (n % 3) }, (_, t) => new Array(1 + ((n * 7 + t) % 19)).fill(5));
    const longest = { inputIds: [19, 19, 19].map((length) => new Array(length).fill(5)) };
    await model.embed(longest);
    await model.encode(longest);
    const [first, before] = [await model.embed({ inputIds: texts(4) }), { ...counts }];
    for (let n = 0; n < numCalls; n++) {
      if (n % 2 === 0) await model.embed({ inputIds: texts(n) });
      else await model.encode({ inputIds: texts(n) });
    }
    const after = { ...counts };
    const isSame = same(await model.embed({ inputIds: texts(4) }), first);
    runtime.dispose();
    return { before, after, isSame };
  }, numCalls);
  const { before, after } = out;
  expect(before.bytes).toBeGreaterThan(0);
  expect(after).toEqual({ ...before, submissions: before.submissions + numCalls, maps: before.maps + numCalls });
  expect(out.isSame).toBe(true);
});

test('models beside each other, and calls at once, do not disturb each other', async () => {
  const out = await site.page.evaluate(async () => {
    const inputs = [[[5, 6, 7, 8, 9, 10, 11, 12, 13]], [[9], [8, 7]], [[3, 4, 5]]].map((inputIds) => ({ inputIds }));
    const runtime = await heed.load();
    const open = (source: Any, device: 'wasm' | 'webgpu') => runtime.fromPretrained(source, { device });
    const models = [await open('/models/bert', 'webgpu'), await open(small, 'webgpu')];
    const plain = [await open('/models/bert', 'wasm'), await open(small, 'wasm')];
    const expected = await Promise.all(plain.flatMap((model) => inputs.map((input) => model.embed(input))));
    const alone: Any[] = [];
    for (const model of models) for (const input of inputs) alone.push(await model.embed(input));
    const atOnce = await Promise.all(models.flatMap((model) => inputs.map((input) => model.embed(input))));
    models[0]!.dispose();
    const after = await Promise.all(inputs.map((input) => models[1]!.embed(input)));
    const result = {
      near: alone.map((vectors, i) => near(vectors, expected[i])),
      same: atOnce.map((vectors, i) => same(vectors, alone[i])),
      after: after.map((vectors, i) => same(vectors, alone[inputs.length + i])),
      disposed: await fate(models[0]!.embed(inputs[0]!)),
    };
    runtime.dispose();
    return result;
  });
  expect(out.near).toEqual(new Array(6).fill(true));
  expect(out.same).toEqual(new Array(6).fill(true));
  expect(out.after).toEqual(new Array(3).fill(true));
  expect(out.disposed).toMatch(/^HeedError DISPOSED: /);
});

/** Runs in the page: adds a GPU whose next run fails in the way specified by `fail.next`. */
const addFailingGpu = () => {
  const fail = { next: null as string | null };
  const gpu = gpuWith((device) => {
    const { queue } = device;
    const submit = queue.submit.bind(queue);
    queue.submit = (commands: object[]) => {
      submit(commands);
      if (fail.next === 'lost') device.destroy();
    };
    const create = device.createCommandEncoder.bind(device);
    device.createCommandEncoder = () => {
      const commands = create();
      const copy = commands.copyBufferToBuffer.bind(commands);
      // Copying three bytes is invalid, because sizes must be multiples of four.
      commands.copyBufferToBuffer = (...range: [Any, number, Any, number, number]) =>
        copy(...(fail.next === 'validation' ? [...range.slice(0, 4), 3] : range));
      return commands;
    };
    const scopes: string[] = [];
    const [push, pop] = [device.pushErrorScope.bind(device), device.popErrorScope.bind(device)];
    device.pushErrorScope = (filter: string) => {
      scopes.push(filter);
      push(filter);
    };
    device.popErrorScope = async () => {
      const filter = scopes.pop();
      const error = await pop();
      return fail.next === 'out-of-memory' && filter === fail.next ? { message: 'not enough memory' } : error;
    };
  });
  Object.assign(globalThis, { failing: { fail, gpu } });
};
declare const failing: { fail: { next: string | null }; gpu: Any };

test('a GPU that fails in the midst of a call is one clear error', async () => {
  await site.page.evaluate(addFailingGpu);
  const out = await site.page.evaluate(async () => {
    const { fail, gpu } = failing;
    const input = { inputIds: [[5, 6, 7], [8]] };
    const runtime = await heed.load({ gpu });
    const results: Record<string, string> = {};
    const model = await runtime.fromPretrained(small, { device: 'webgpu' });
    for (const kind of ['validation', 'out-of-memory', 'none', 'lost', 'after']) {
      fail.next = kind;
      results[kind] = await fate(model.embed(input));
    }
    fail.next = null;
    const other = await runtime.fromPretrained(small, { device: 'webgpu' });
    const calls = [other.embed(input), other.encode(input), other.embed(input)].map(fate);
    other.dispose();
    results.disposed = [...new Set(await Promise.all(calls))].join(' and ');
    runtime.dispose();
    return results;
  });
  expect(out.validation).toMatch(
    /^HeedError GPU_FAILED: device: .*error of kind validation \(.*\)\. Load the model with device: 'auto' or 'wasm'$/s,
  );
  expect(out['out-of-memory']).toMatch(
    /^HeedError OUT_OF_MEMORY: device: .*error of kind out-of-memory \(not enough memory\)/,
  );
  expect(out.none).toBe('a result');
  expect(out.lost).toMatch(/^HeedError GPU_FAILED: device: the GPU was lost/);
  expect(out.after).toBe(out.lost);
  expect(out.disposed).toMatch(/^HeedError DISPOSED: PretrainedModel: used after dispose\(\)$/);
});

test("with 'auto', calls under way end in WebAssembly, and the GPU's memory is freed", async () => {
  await site.page.evaluate(addFailingGpu);
  const out = await site.page.evaluate(async () => {
    const { fail, gpu } = failing;
    const input = { inputIds: [[5, 6, 7], [8]] };
    const runtime = await heed.load({ gpu });
    const core = await (await runtime.fromPretrained(small)).embed(input);
    const results: Record<string, unknown> = {};
    for (const kind of ['validation', 'lost']) {
      const model = await loadAuto(runtime, small);
      const before = model.device.type;
      const onGpu = await model.embed(input);
      fail.next = 'out-of-memory';
      const withoutMemory = await model.embed(input);
      fail.next = null;
      const again = await model.embed(input);
      const still = model.device.type;
      fail.next = kind;
      const atOnce = await Promise.all([model.embed(input), model.embed(input), model.embed(input)]);
      fail.next = null;
      results[kind] = {
        types: [before, still, model.device.type],
        onGpu: near(onGpu, core),
        withoutMemory: same(withoutMemory, core),
        again: same(again, onGpu),
        atOnce: atOnce.map((vectors: Any) => same(vectors, core)),
        later: same(await model.embed(input), core),
        reason: model.device.reason,
      };
    }
    runtime.dispose();
    return results;
  });
  for (const [kind, reason] of Object.entries({ validation: /error of kind validation/, lost: /lost/ }))
    expect(out[kind], kind).toMatchObject({
      types: ['webgpu', 'webgpu', 'wasm'],
      onGpu: true,
      withoutMemory: true,
      again: true,
      atOnce: [true, true, true],
      later: true,
      reason: expect.stringMatching(reason),
    });
});

test("'auto' keeps no memory of a GPU that it does not take", async () => {
  const out = await site.page.evaluate(async () => {
    const lost: Promise<unknown>[] = [];
    const runtime = await heed.load({ gpu: gpuWith((device) => lost.push(device.lost)) });
    const real = performance.now.bind(performance);
    // Time stands still for WebAssembly, so that the GPU appears slower.
    const { submit } = (globalThis as Any).GPUQueue.prototype;
    let now = 0;
    performance.now = () => now;
    (globalThis as Any).GPUQueue.prototype.submit = function (this: Any, commands: object[]) {
      now += 10;
      submit.call(this, commands);
    };
    const model = await runtime.fromPretrained(small, { device: 'auto' });
    performance.now = real;
    (globalThis as Any).GPUQueue.prototype.submit = submit;
    await Promise.all(lost);
    const core = await (await runtime.fromPretrained(small)).embed({ inputIds: [[5, 6]] });
    const isSame = same(await model.embed({ inputIds: [[5, 6]] }), core);
    const { type, reason, measured } = model.device;
    runtime.dispose();
    return { type, reason, measured: measured.length, devices: lost.length, isSame };
  });
  expect(out).toMatchObject({ type: 'wasm', measured: 2, devices: 1, isSame: true });
  expect(out.reason).toMatch(/^texts run in WebAssembly: 20 rows take/);
});

test('limits: says what is too large, and cuts batches', async () => {
  const out = await site.page.evaluate(async () => {
    const setLimits = (device: Any, bytes: number) =>
      Object.defineProperty(device, 'limits', {
        value: { maxBufferSize: bytes, maxStorageBufferBindingSize: bytes, maxComputeWorkgroupsPerDimension: 65_535 },
      });
    const runtime = await heed.load({ gpu: gpuWith((device) => setLimits(device, 2000)) });
    const tooSmall = await fate(runtime.fromPretrained(small, { device: 'webgpu' }));
    const { type, reason } = (await runtime.fromPretrained(small, { device: 'auto' })).device;
    // Rows of the widest matrix have 48 values; 31 rows fit into 6000 bytes.
    let submissions = 0;
    const cut = await heed.load({
      gpu: gpuWith((device) => {
        const submit = device.queue.submit.bind(device.queue);
        device.queue.submit = (commands: object[]) => {
          submissions++;
          submit(commands);
        };
        setLimits(device, 6000);
      }),
    });
    const model = await cut.fromPretrained(small, { device: 'webgpu' });
    const input = { inputIds: [15, 15, 15].map((length) => new Array(length).fill(5)) };
    submissions = 0;
    const isNear = near(await model.embed(input), await (await cut.fromPretrained(small)).embed(input));
    const result = {
      tooSmall,
      type,
      reason,
      isNear,
      submissions,
      attentions: await fate(model.encode(input, { outputAttentions: true })),
    };
    runtime.dispose();
    cut.dispose();
    return result;
  });
  expect(out.tooSmall).toMatch(
    /^HeedError OUT_OF_MEMORY: device: .*buffers have at most 2000 bytes, too few for layers\.0\.linear1\.\w+ \(2304 bytes\)/,
  );
  expect(out.type).toBe('wasm');
  expect(out.reason).toContain('for layers.0.linear1');
  expect(out).toMatchObject({ isNear: true, submissions: 2 });
  expect(out.attentions).toMatch(
    /^HeedError OUT_OF_MEMORY: device: .*at most 6000 bytes, too few for values of a batch \(\d+ bytes\)/,
  );
});
