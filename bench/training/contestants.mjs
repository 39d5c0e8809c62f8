/**
 * The libraries that bench/training.mjs times. Each takes a task and returns
 * `{ about: string, step(): Promise<{ ms: number, loss: number }>, peakMB?(): Promise<number>, dispose(): unknown }`.
 */

import { heedForward, heedTraining } from './heed.mjs';
import { jaxTraining } from './jax.mjs';
import { torchTraining } from './pytorch.mjs';
import { tfjsTraining } from './tfjs.mjs';

export const contestants = {
  heed: heedTraining,
  'heed forward': heedForward,
  pytorch: torchTraining,
  'tfjs-wasm': (task) => tfjsTraining(task, 'wasm'),
  'tfjs-cpu': (task) => tfjsTraining(task, 'cpu'),
  'jax-js': jaxTraining,
};
