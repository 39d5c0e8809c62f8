/** The parts of heed/train that are imported on demand. */

/** @internal */
export { loadAdapter } from './adapter.js';
/** @internal */
export { trainClassifier } from './classifier.js';
/** @internal */
export { trainEmbedding } from './embedding.js';
/** @internal */
export { save } from './save.js';
