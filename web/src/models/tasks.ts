/** Tasks on top of `PretrainedModel`, one per file. */
export { attentionRollout } from './tasks/attention-rollout.js';
export { classify, classifyImages, type Label, rerank } from './tasks/classification.js';
export { type Filling, fillMask } from './tasks/fill-mask.js';
export { type Answer, answerQuestion } from './tasks/question-answering.js';
export {
  type Corpus,
  type Hit,
  type SearchOptions,
  type SearchRuntime,
  type SemanticSearchOptions,
  semanticSearch,
  similarity,
} from './tasks/similarity.js';
export type { TaskOptions } from './tasks/task.js';
export { type Aggregation, classifyTokens, type Entity } from './tasks/token-classification.js';
export { type ZeroShotOptions, zeroShotClassify } from './tasks/zero-shot.js';
