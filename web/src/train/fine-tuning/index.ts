/** What heed/train loads when it is first used. */

export { loadAdapter } from './adapter.js';
export { evaluateClassifier, trainClassifier } from './classifier.js';
export { trainEmbedding } from './embedding.js';
export { save } from './save.js';
