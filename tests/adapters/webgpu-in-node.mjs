/** Runs a checkpoint on the GPU that the package webgpu finds, and prints what came out. Arguments: the checkpoint's folder, and an input. */
import { load } from 'heed';
import { create } from 'webgpu';

const [folder, input] = process.argv.slice(2);
const heed = await load({ gpu: create([]) });
const model = await heed.fromPretrained(folder, { device: 'webgpu' });
const { data, shape } = (await model.encode(JSON.parse(input))).lastHiddenState;
const chosen = await heed.fromPretrained(folder, { device: 'auto' });
process.stdout.write(
  JSON.stringify({ device: model.device, data: Array.from(data), shape, auto: chosen.device }, null, 1),
);
heed.dispose();
