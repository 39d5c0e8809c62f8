/** What reads or writes folders without running their models, and changes indices: one chunk, which is loaded when it is used. */
export { inspect } from './inspect.js';
export { prune } from './prune.js';
export { quantize } from './quantize.js';
export { addTexts, readIndex, removeTexts, saveIndex } from './text-index-changes.js';
