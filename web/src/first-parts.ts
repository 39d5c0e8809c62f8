/** The parts of `heed` that it imports on demand, but most pages use, linked statically. */
import {
  addTexts,
  fillIndex,
  readIndex,
  removeTexts,
  requireRow,
  saveIndex,
  setEmbedder,
  workerStores,
} from './search/text-index-changes.js';
import { loadInWorker, loadPool, loadWorkers } from './worker/index.js';

export const firstParts = {
  'text-index-changes': {
    addTexts,
    fillIndex,
    readIndex,
    removeTexts,
    requireRow,
    saveIndex,
    setEmbedder,
    workerStores,
  } satisfies typeof import('./search/text-index-changes.js'),
  workers: { loadInWorker, loadPool, loadWorkers } satisfies typeof import('./worker/index.js'),
};
