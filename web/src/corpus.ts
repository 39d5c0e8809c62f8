/**
 * The entry `heed/corpus`: embeds corpora too large for one machine. A folder contains the plan and the finished parts;
 * any number of workers can share it.
 */
export {
  type EmbeddingStatus,
  embeddingStatus,
  type FinishOptions,
  type FinishResult,
  finishEmbedding,
} from './scale/finish.js';
export type { Chunk, EmbeddingSettings, Manifest, PartFormat } from './scale/manifest.js';
export { type PlanOptions, planEmbedding } from './scale/plan.js';
export type { ServerOptions, Signal } from './scale/plan-options.js';
export { type WorkOptions, type WorkResult, workEmbedding } from './scale/work.js';
