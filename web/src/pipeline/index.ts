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
  PipelineImages,
  PipelineOptions,
  PipelineProgress,
  Pipelines,
  PipelineTask,
  PipelineTensor,
  QuestionAnswer,
  TokenEntity,
  ZeroShotResult,
} from './types.js';

/**
 * The function of a task over a model that it loads; without a source (or with null), over the model that comes with heed (feature extraction only, as it has no heads).
 *
 * @example
 * const extract = await pipeline('feature-extraction', source);
 * const { data, dims } = await extract(['Hello', 'Hi'], { pooling: 'mean', normalize: true });
 * @throws HeedError `UNSUPPORTED` for an unknown task or device, else as `load` and `fromPretrained`
 */
export function pipeline<T extends PipelineTask>(
  task: T,
  source?: ModelSource | null,
  options?: PipelineOptions,
): Promise<Pipeline<T>> {
  return makePipeline(load, task, source, options);
}
