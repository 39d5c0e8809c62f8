/** The parts of `heed` that it imports on demand, but many pages use, linked statically: in heed.min.js. */
import { coverageOfQueries, embedRows } from './search/index-embedding.js';
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
import { classify, classifyImages, rerank } from './tasks/classification.js';
import { fillMask } from './tasks/fill-mask.js';
import { answerQuestion } from './tasks/question-answering.js';
import { classifyTokens } from './tasks/token-classification.js';
import { zeroShotClassify } from './tasks/zero-shot.js';
import { loadInWorker, loadPool, loadWorkers } from './worker/index.js';

export const firstParts = {
  classification: { classify, classifyImages, rerank } satisfies typeof import('./tasks/classification.js'),
  'fill-mask': { fillMask } satisfies typeof import('./tasks/fill-mask.js'),
  'index-embedding': { coverageOfQueries, embedRows } satisfies Pick<
    typeof import('./search/index-embedding.js'),
    'coverageOfQueries' | 'embedRows'
  >,
  'question-answering': { answerQuestion } satisfies typeof import('./tasks/question-answering.js'),
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
  'token-classification': { classifyTokens } satisfies typeof import('./tasks/token-classification.js'),
  workers: { loadInWorker, loadPool, loadWorkers } satisfies typeof import('./worker/index.js'),
  'zero-shot': { zeroShotClassify } satisfies typeof import('./tasks/zero-shot.js'),
};
