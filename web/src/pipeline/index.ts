/** `pipeline()`: heed's models with the conventions of transformers.js. */
import { load, type ModelSource } from '../api/index.js';
import { makePipeline } from './make-pipeline.js';
import type { Pipeline, PipelineOptions, PipelineTask } from './types.js';

export type {
  ClassificationScore,
  FeatureExtractionOptions,
  MaskFilling,
  Pipeline,
  PipelineImage,
  PipelineOptions,
  PipelineProgress,
  PipelineTask,
  PipelineTensor,
  QuestionAnswer,
  TokenEntity,
  ZeroShotResult,
} from './types.js';

/**
 * Loads a model and returns the function of a task over it. Without a source (or with null), uses the model that comes
 * with heed, which supports feature extraction only.
 *
 * @example
 * const extract = await pipeline('feature-extraction', source);
 * const { data, dims } = await extract(['Hello', 'Hi'], { pooling: 'mean', normalize: true });
 * @throws HeedError `UNSUPPORTED` for an unknown task or device; otherwise as `load` and `fromPretrained`
 */
export function pipeline<T extends PipelineTask>(
  task: T,
  source?: ModelSource | null,
  options?: PipelineOptions,
): Promise<Pipeline<T>> {
  return makePipeline(load, task, source, options);
}
