/**
 * The entry `heed` for pages without a bundler, as one file (heed.min.js). It includes the parts that `heed` imports on
 * demand but most pages use. The others are in heed.min-parts.js, which is loaded when one of them is used.
 */
import { linked, others } from './base/error.js';
import {
  addTexts,
  fillIndex,
  readIndex,
  removeTexts,
  requireRow,
  saveIndex,
  setEmbedder,
} from './search/text-index-changes.js';
import { loadInWorker, loadPool, loadWorkers } from './worker/index.js';

Object.assign(linked, {
  'text-index-changes': {
    addTexts,
    fillIndex,
    readIndex,
    removeTexts,
    requireRow,
    saveIndex,
    setEmbedder,
  } satisfies typeof import('./search/text-index-changes.js'),
  workers: { loadInWorker, loadPool, loadWorkers } satisfies typeof import('./worker/index.js'),
});
others.link = () => import(new URL('./heed.min-parts.js', import.meta.url).href);

export * from './index.js';
