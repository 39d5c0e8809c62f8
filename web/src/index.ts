/** The entry `heed`: attention and the transformer encoder built on it, in WebAssembly. Start with `load()`. */
export * from './api/index.js';
export * from './pipeline/index.js';
