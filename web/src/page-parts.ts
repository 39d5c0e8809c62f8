/**
 * The parts of `heed` that pages import on demand besides those of models (model-parts.ts) and those that most pages use
 * (first-parts.ts), linked statically.
 */
import { inspect } from './folders/inspect.js';
import { prune } from './folders/prune.js';
import { isSettings, quantize, quantizedBytes } from './folders/quantize.js';
import { quantizeIndex } from './folders/quantize-index.js';
import { leastRows, openDevice } from './gpu/open.js';
import { clearCache, listCache, removeCached } from './io/cached-models.js';
import { fromKeras } from './layers/keras.js';
import { loadTokenizer, Tokenizer } from './loading/own-tokenizer.js';
import { openPipeline } from './pipeline/pipelines.js';
import { hybridSearch, WordIndex } from './search/hybrid-search.js';
import { extractEntities } from './tasks/entities.js';
import { embedLong, splitPassages } from './tasks/split-passages.js';
import { vocabularyCoverage } from './tasks/vocabulary-coverage.js';
import { openStore } from './worker/remote-store.js';

export const pageParts = {
  gpu: { leastRows, openDevice } satisfies typeof import('./gpu/open.js'),
  'cached-models': { clearCache, listCache, removeCached } satisfies typeof import('./io/cached-models.js'),
  entities: { extractEntities } satisfies typeof import('./tasks/entities.js'),
  'hybrid-search': { hybridSearch, WordIndex } satisfies typeof import('./search/hybrid-search.js'),
  inspect: { inspect } satisfies typeof import('./folders/inspect.js'),
  keras: { fromKeras } satisfies typeof import('./layers/keras.js'),
  'own-tokenizer': { loadTokenizer, Tokenizer } satisfies typeof import('./loading/own-tokenizer.js'),
  pipelines: { openPipeline } satisfies typeof import('./pipeline/pipelines.js'),
  prune: { prune } satisfies typeof import('./folders/prune.js'),
  quantize: { isSettings, quantize, quantizedBytes } satisfies typeof import('./folders/quantize.js'),
  'quantize-index': { quantizeIndex } satisfies typeof import('./folders/quantize-index.js'),
  'remote-store': { openStore } satisfies typeof import('./worker/remote-store.js'),
  'split-passages': { embedLong, splitPassages } satisfies typeof import('./tasks/split-passages.js'),
  'vocabulary-coverage': { vocabularyCoverage } satisfies typeof import('./tasks/vocabulary-coverage.js'),
};
