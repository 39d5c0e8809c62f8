/** The door to pretrained encoders: in this thread, or in a worker of their own. */
import type { Runtime } from '../owned.js';
import { shippedModel } from '../shipped.js';
import type { LoadModelOptions } from './load.js';
import type { PretrainedModel } from './model.js';
import { loadPretrained } from './pretrained.js';
import type { ModelSource } from './source.js';

export interface FromPretrainedOptions extends LoadModelOptions {}

export function fromPretrained(
  runtime: Runtime,
  source: ModelSource = shippedModel,
  options: FromPretrainedOptions = {},
): Promise<PretrainedModel> {
  return loadPretrained(runtime, source, options);
}
