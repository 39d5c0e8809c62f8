/** Runs one kernel and compares its output. */
import { expect } from 'vitest';
import type { Site } from '../models/site.js';
import type { Any } from './site.js';

export interface Kernel {
  code: string;
  /** Values of each binding: floats or, for tiles and rows, unsigned integers (`whole`). */
  inputs: { data: number[]; whole?: boolean }[];
  output: number;
  groups: [number, number];
}

/** Runs a kernel. `output`: index of the binding that it writes. */
export const runKernel = (site: Pick<Site, 'page'>, kernel: Kernel): Promise<number[]> =>
  site.page.evaluate(async ({ code, inputs, output, groups }) => {
    const adapter = await (navigator as Any).gpu.requestAdapter();
    const device = await adapter.requestDevice();
    device.pushErrorScope('validation');
    const buffers = inputs.map(({ data, whole }) => {
      const values = whole ? Uint32Array.from(data) : Float32Array.from(data);
      const buffer = device.createBuffer({ size: values.byteLength, usage: 128 | 8 | 4 });
      device.queue.writeBuffer(buffer, 0, values);
      return buffer;
    });
    const module = device.createShaderModule({ code });
    const pipeline = device.createComputePipeline({ layout: 'auto', compute: { module } });
    const entries = buffers.map((buffer, binding) => ({ binding, resource: { buffer } }));
    const commands = device.createCommandEncoder();
    const pass = commands.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries }));
    pass.dispatchWorkgroups(...groups);
    pass.end();
    const result = device.createBuffer({ size: buffers[output].size, usage: 1 | 8 });
    commands.copyBufferToBuffer(buffers[output], 0, result, 0, result.size);
    device.queue.submit([commands.finish()]);
    const error = await device.popErrorScope();
    if (error) throw new Error(error.message);
    await result.mapAsync(1);
    const values = Array.from(new Float32Array(result.getMappedRange()));
    device.destroy();
    return values;
  }, kernel);

let state = 7;
/** Random values between -1 and 1, rounded to fp32. */
export const values = (count: number) =>
  Array.from({ length: count }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.fround(state / 2 ** 31 - 1);
  });

export function expectNear(actual: number[], expected: number[]) {
  expect(actual).toHaveLength(expected.length);
  const worst = Math.max(...expected.map((value, i) => Math.abs(actual[i]! - value) / (1e-5 + 1e-4 * Math.abs(value))));
  expect(worst).toBeLessThanOrEqual(1);
}
