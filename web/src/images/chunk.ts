/** What only models for images need, in one chunk that is loaded when it is used. */

/** Not used here; as in folder-tools.ts, so that what the API and its workers share stays one chunk. Not start.ts: a worker's script must not refer to itself. */
export { makeHandler } from '../worker/handler.js';
export { imageFamily } from './families.js';
export { embedRemotely, encodeRemotely } from './remote.js';
