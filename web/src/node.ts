/** heed/node: embeds corpora that are larger than one machine. A plan in a folder, any number of workers, files as the record of what is done. */

export {
  type EmbeddingStatus,
  embeddingStatus,
  type FinishOptions,
  type FinishResult,
  finishEmbedding,
} from './scale/finish.js';
export type { Chunk, EmbeddingSettings, Manifest, PartFormat, VectorType } from './scale/manifest.js';
export { type PlanOptions, planEmbedding } from './scale/plan.js';
export type { Signal } from './scale/plan-options.js';
export { type WorkOptions, type WorkResult, workEmbedding } from './scale/work.js';
