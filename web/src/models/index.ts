/** Pretrained models, for what builds on them: their types, their options, and conversions of their vectors. */
export { embedSchema } from './call-options.js';
export { POOLINGS } from './families/steps.js';
export { HEADS, type HeadName } from './heads/task-heads.js';
export type { ImageCallOptions, ImageInput, ImagesInput } from './image-encoder.js';
export { countTexts, isTexts, type ModelInput, readInput } from './input.js';
export { type LoadProgress, SHIPPED_DTYPE } from './loaded-model.js';
export { type EncodeResult, type ModelConfig, type Prediction, type PretrainedModel, requireModel } from './model.js';
export { type Role, readRole, withPrompt } from './prompts.js';
export { bitsOf, int8Of, normalized, OUTPUTS, quantized } from './quantized.js';
