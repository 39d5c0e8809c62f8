/** `pipeline` of `heed` and `heed/train`, which loads the code of pipelines when it is called. */
import type { Heed, LoadOptions, ModelSource } from '../api/index.js';
import { importing } from '../base/error.js';
import type { Pipeline, PipelineOptions, PipelineTask } from './types.js';

export async function makePipeline<T extends PipelineTask>(
  load: (options?: LoadOptions) => Promise<Heed>,
  task: T,
  source?: ModelSource | null,
  options?: PipelineOptions,
): Promise<Pipeline<T>> {
  const { openPipeline } = await importing('pipelines', () => import('./pipelines.js'));
  return openPipeline(load, task, source, options);
}
