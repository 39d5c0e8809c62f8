/** What heed/train loads when it is first used. */
export { evaluateClassifier, trainClassifier } from './classifier.js';
export { save } from './save.js';
