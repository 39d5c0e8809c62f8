/** heed: attention and the transformer encoder around it, in WebAssembly. Start with `load()`. */
export * from './api.js';
export { load, pipeline } from './load.js';
