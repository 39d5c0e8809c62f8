/** What only models for images need, in one chunk that is loaded when it is used. */

/** @internal Not used here: as in folder-tools.ts, so that what the API and its workers share stays one chunk. */
export { chooseBuild, instantiate, locate, moduleOf } from '../module.js';
export { Channel } from '../worker/channel.js';
export { packError } from '../worker/protocol.js';
export { imageFamily } from './families.js';
export { embedRemotely, encodeRemotely } from './remote.js';
