/** heed/lens: interpretability methods based on reading and editing activations. */
export { type AttributeOptions, attribute } from './attribute.js';
export { type LensWord, type LogitLensOptions, logitLens } from './logit-lens.js';
export { type PatchGridOptions, patchGrid } from './patch-grid.js';
export { type RolloutOptions, rollout } from './rollout.js';
