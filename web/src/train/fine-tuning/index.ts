/** The parts of heed/train that are loaded when they are first used. */

/** @internal */
export { loadAdapter } from './adapter.js';
/** @internal */
export { evaluateClassifier, trainClassifier } from './classifier.js';
/** @internal */
export { trainEmbedding } from './embedding.js';
/** @internal */
export { save } from './save.js';
