/** Opens the model that a command line names. */
import { type EmbedOptions, load, type PretrainedModel } from '../index.js';
import { ProgressLine } from './progress.js';

// Options as commander gives them: camelCase, undefined if not given.
export interface ModelOptions {
  model?: string;
  dtype?: 'fp32' | 'q8';
}

export type EmbeddingOptions = Pick<EmbedOptions, 'pooling' | 'dimensions' | 'prompt'>;

export async function openModel({ model: source, dtype }: ModelOptions): Promise<PretrainedModel> {
  const heed = await load();
  const progress = new ProgressLine('loading, bytes');
  const model = await heed.fromPretrained(source, { dtype, onProgress: ({ loaded }) => progress.update(loaded) });
  progress.end();
  return model;
}
