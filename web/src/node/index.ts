/** Files, texts and arrays in Node, for the command line and for runs over corpora. */
export { invalid, invalidFile } from '../base/error.js';
export * from './batches.js';
export * from './embed-texts.js';
export * from './folders-and-files.js';
export * from './lines.js';
export * from './servers.js';
export * from './stored.js';
export * from './write.js';
