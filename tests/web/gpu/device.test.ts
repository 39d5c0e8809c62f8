/**
 * Buffers of a GPU device in failing runs and in growing runs, on a fake device that follows WebGPU's validation rules.
 */
import { expect, test } from 'vitest';
import { Device, type Recorder } from '../../../web/src/gpu/device.js';
import type { Adapter, Binding, GpuBuffer, GpuDevice } from '../../../web/src/gpu/webgpu.js';

type Filter = 'validation' | 'out-of-memory' | 'internal';

/** As in WebGPU, errors do not throw: a buffer that cannot be allocated is invalid, and so is a submission that uses it. */
class FakeBuffer implements GpuBuffer {
  isDestroyed = false;
  readonly size: number;
  readonly isValid: boolean;
  constructor(size: number, isValid: boolean) {
    this.size = size;
    this.isValid = isValid;
  }
  getMappedRange(offset = 0, size = this.size): ArrayBuffer {
    return new ArrayBuffer(size - offset);
  }
  async mapAsync(): Promise<void> {
    if (!this.isValid || this.isDestroyed) throw new Error('the buffer is invalid');
  }
  unmap(): void {}
  destroy(): void {
    this.isDestroyed = true;
  }
}

/** A device whose allocations fail beyond `memory` bytes. */
async function openDevice(memory = Number.POSITIVE_INFINITY) {
  const state = { memory, buffers: [] as FakeBuffer[] };
  const scopes: { filter: Filter; error: string | null }[] = [];
  const report = (filter: Filter, message: string) => {
    const scope = [...scopes].reverse().find((scope) => scope.filter === filter)!;
    scope.error ??= message;
  };
  let used: FakeBuffer[] = [];
  const allocated = () => state.buffers.reduce((sum, { isDestroyed, size }) => sum + (isDestroyed ? 0 : size), 0);
  const device = {
    limits: { maxBufferSize: 1e6, maxStorageBufferBindingSize: 1e6, maxComputeWorkgroupsPerDimension: 1000 },
    lost: new Promise(() => {}),
    queue: {
      submit() {
        if (used.some(({ isValid }) => !isValid)) report('validation', 'an invalid buffer');
        if (used.some(({ isDestroyed }) => isDestroyed)) report('validation', 'a destroyed buffer');
        used = [];
      },
      writeBuffer() {},
    },
    createBuffer({ size }: { size: number }) {
      const isValid = allocated() + size <= state.memory;
      if (!isValid) report('out-of-memory', 'allocation failed');
      const buffer = new FakeBuffer(size, isValid);
      if (isValid) state.buffers.push(buffer);
      return buffer;
    },
    createShaderModule: () => ({}),
    createComputePipeline: () => ({ getBindGroupLayout: () => ({}) }),
    createBindGroup({ entries }: { entries: { resource: Binding }[] }) {
      used.push(...entries.map(({ resource }) => resource.buffer as FakeBuffer));
      return {};
    },
    createCommandEncoder: () => ({
      beginComputePass: () => ({ setPipeline() {}, setBindGroup() {}, dispatchWorkgroups() {}, end() {} }),
      copyBufferToBuffer(from: FakeBuffer, _: number, to: FakeBuffer) {
        used.push(from, to);
      },
      finish: () => ({}),
    }),
    pushErrorScope: (filter: Filter) => void scopes.push({ filter, error: null }),
    popErrorScope: async () => {
      const message = scopes.pop()!.error;
      return message === null ? null : { message };
    },
    destroy() {},
  };
  const adapter = { limits: device.limits, requestDevice: async () => device as unknown as GpuDevice };
  return { state, allocated, device: await Device.open(adapter as unknown as Adapter) };
}

/** A run with one kernel on `count` values, which are read back. */
const useAndRead = (count: number) =>
  function* (to: Recorder): Generator<void, void, void> {
    const x = to.scratch('x', count);
    to.dispatch('kernel', [x], 1);
    to.read(x, () => {});
  };

test('a failed allocation is reported as such, although the commands that use the buffer are invalid, too', async () => {
  const { device } = await openDevice(1000);
  await expect(device.run(useAndRead(4000))).rejects.toMatchObject({
    code: 'OUT_OF_MEMORY',
    message: expect.stringContaining('an error of kind out-of-memory (allocation failed)'),
  });
});

test('buffers of a run that failed are freed and not used again', async () => {
  const { device, state, allocated } = await openDevice();
  await device.run(useAndRead(100));
  const before = allocated();
  for (const count of [4000, 200]) {
    state.memory = before + 500; // too little for either
    await expect(device.run(useAndRead(count))).rejects.toMatchObject({ code: 'OUT_OF_MEMORY' });
    expect(allocated()).toBe(0);
    await device.run(useAndRead(100));
    state.memory = Number.POSITIVE_INFINITY;
    await device.run(useAndRead(count));
    state.memory = 0;
    await expect(device.run(useAndRead(2 * count))).rejects.toMatchObject({ code: 'OUT_OF_MEMORY' });
    state.memory = Number.POSITIVE_INFINITY;
    await device.run(useAndRead(100));
  }
});

test('a buffer that grows within a submission keeps commands that were recorded before valid', async () => {
  const { device, allocated } = await openDevice();
  await device.run(function* (to) {
    for (const count of [10, 1000, 100_000]) {
      const x = to.scratch('x', count);
      to.dispatch('kernel', [x], 1);
      to.read(x, () => {});
    }
    yield;
    to.dispatch('kernel', [to.scratch('x', 110_000)], 1);
  });
  const [scratch, staging] = [150_000 * 4, 4 * 101_010];
  expect(allocated()).toBe(scratch + staging); // replaced buffers have been destroyed
});

test('an error of a recording, before anything is submitted, frees the buffers as well', async () => {
  const { device, allocated } = await openDevice();
  const failing = device.run(function* (to) {
    to.scratch('x', 10);
    to.scratch('x', 1_000_000);
    yield;
  });
  await expect(failing).rejects.toMatchObject({ code: 'OUT_OF_MEMORY' });
  expect(allocated()).toBe(0);
  await device.run(useAndRead(10));
});
