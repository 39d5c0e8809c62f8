/** Tasks on top of `PretrainedModel`, one per file. `api/on-demand.ts` has those of the package that are imported when they are called. */
export { attentionRollout } from './attention-rollout.js';
export { classify, classifyImages, type Label, rerank } from './classification.js';
export { type Filling, fillMask } from './fill-mask.js';
export { type Answer, answerQuestion } from './question-answering.js';
export type { TaskOptions } from './task.js';
export { type Aggregation, classifyTokens, type Entity } from './token-classification.js';
export { type ZeroShotOptions, zeroShotClassify } from './zero-shot.js';
