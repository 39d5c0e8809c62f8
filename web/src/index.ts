/** heed: attention and the transformer encoder around it, in WebAssembly. Start with `load()`. */
export * from './api/index.js';
export { load } from './api/load.js';
export * from './pipeline/index.js';
