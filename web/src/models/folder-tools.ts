/** What reads or writes folders without running their models: one chunk, which is loaded when it is used. */
export { inspect } from './inspect.js';
export { prune } from './prune.js';
export { quantize } from './quantize.js';
