/** Code that few callers need and that is loaded when it is used. */
import type { imageFamily } from './images/families.js';
import type { embedTokens, withResidual } from './models/late-interaction.js';
import type { pagedFolder } from './models/paged-embeddings.js';

interface Late {
  images(): Promise<{ imageFamily: typeof imageFamily }>;
  tools(): Promise<{
    embedTokens: typeof embedTokens;
    withResidual: typeof withResidual;
    pagedFolder: typeof pagedFolder;
  }>;
}

/** @internal How this script loads it, once `setLate` has said so. */
export let late: Late;

/** @internal `load()` gives functions that import. Workers link the code instead: Vite before 8 makes one script of a worker, and refuses to if the worker imports anything at run time. */
export function setLate(loaders: Late): void {
  late = loaders;
}
