/**
 * What is loaded when it is first used. The scripts of workers export it, so that it is part of them: Vite before version 8 makes
 * one script of a worker and refuses to divide it. An import without an export would be dropped, as no module has side effects.
 */
export { imageFamily } from '../images/families.js';
export { embedTokens } from '../models/late-interaction.js';
export { pagedFolder } from '../models/paged-embeddings.js';
