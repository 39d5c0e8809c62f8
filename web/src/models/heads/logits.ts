import type { RawTensor } from '../../base/wasm/core.js';
import type { RunnableModel } from '../runnable-model.js';
import type { Head } from './task-heads.js';

/** Applies a head. With a tied decoder, the logits lack its bias. */
export function logitsOf(model: RunnableModel, { chain, isTied }: Head, rows: RawTensor): RawTensor {
  const output = chain.forward(rows);
  return isTied ? model.raw.encoder.wordLogits(output) : output;
}
