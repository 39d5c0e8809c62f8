/** `device` in engines without WebGPU, such as Node, and with GPU objects that fail. */
import { load } from 'heed';
import { expect, test } from 'vitest';
import { tinyModel } from '../models/tiny.js';

const input = { inputIds: [[1, 2], [3]] };

test.each([
  ['none', undefined, 'got an engine without WebGPU'],
  ['no adapter', async () => null, 'got no adapter'],
  ['adapters refused', () => Promise.reject(new Error('blocked')), 'got no adapter'],
  [
    'no device',
    async () => ({ limits: {}, requestDevice: () => Promise.reject(new Error('in use')) }),
    'the adapter provides no device (in use)',
  ],
])('%s: an error, and with auto the reason for WebAssembly', async (_, requestAdapter, message) => {
  const heed = await load(requestAdapter && { gpu: { requestAdapter } });
  const plain = await heed.fromPretrained(tinyModel());
  await expect(heed.fromPretrained(tinyModel(), { device: 'webgpu' })).rejects.toMatchObject({
    name: 'HeedError',
    code: 'GPU_FAILED',
    message: expect.stringContaining(message),
  });
  const model = await heed.fromPretrained(tinyModel(), { device: 'auto' });
  expect(model.device).toMatchObject({ type: 'wasm', reason: expect.stringContaining(message), adapter: null });
  expect((await model.embed(input)).data).toEqual((await plain.embed(input)).data);
  expect(plain.device).toMatchObject({ type: 'wasm', reason: 'the default' });
  heed.dispose();
});

test("dtype 'fp16' needs a `device`, and is fp32 in WebAssembly", async () => {
  const heed = await load();
  for (const options of [{}, { device: 'wasm' }, { worker: true }] as const)
    await expect(heed.fromPretrained(tinyModel(), { ...options, dtype: 'fp16' })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: "fromPretrained.dtype: expected 'fp32' or 'q8' without `device: 'webgpu'` or 'auto', got 'fp16'",
    });
  const plain = await heed.fromPretrained(tinyModel());
  const expected = (await plain.embed(input)).data;
  for (const options of [{}, { worker: true }, { workers: 1 }] as const) {
    const model = await heed.fromPretrained(tinyModel(), { ...options, device: 'auto', dtype: 'fp16' });
    expect(model.config.dtype).toBe('fp32');
    expect(model.device).toMatchObject({ type: 'wasm', dtype: null });
    expect((await model.embed(input)).data).toEqual(expected);
    model.dispose();
  }
  heed.dispose();
});

test('a GPU object without requestAdapter is refused', async () => {
  await expect(load({ gpu: {} as never })).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
    message: expect.stringMatching(/^load\.gpu: expected a GPU object/),
  });
});
