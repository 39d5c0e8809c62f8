/** What is rarely used, in one chunk that is loaded when it is: reading or writing folders without running their models, and token vectors. */

/**
 * Not used here: with these, this chunk reaches every module that the API and its workers share, so that the bundler keeps those in one chunk instead of two, which compresses better
 * (1 KB less to download).
 * @internal
 */
export { chooseBuild, instantiate, locate, moduleOf } from '../module.js';
export { Channel } from '../worker/channel.js';
export { packError } from '../worker/protocol.js';
export { startWorker } from '../worker/start.js';
export { inspect } from './inspect.js';
export { embedTokens, withResidual } from './late-interaction.js';
export { pagedFolder } from './paged-embeddings.js';
export { prune } from './prune.js';
export { quantize } from './quantize.js';
export { addTexts, readIndex, removeTexts, saveIndex } from './text-index-changes.js';
