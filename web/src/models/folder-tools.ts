/** What reads or writes folders without running their models, in one chunk that is loaded when it is used. */
export { inspect } from './inspect.js';
export { quantize } from './quantize.js';
