/**
 * The entry `heed` for service workers, which must not import scripts after installation: everything that pages import
 * on demand is linked statically, except for what a model in a worker loads for a GPU.
 */
import { linked } from './base/error.js';
import { inspect } from './folders/inspect.js';
import { prune } from './folders/prune.js';
import { isSettings, quantize, quantizedBytes } from './folders/quantize.js';
import { quantizeIndex } from './folders/quantize-index.js';
import { leastRows, openDevice } from './gpu/open.js';
import { imageFamily } from './images/image-families.js';
import { cachedSource } from './io/cache.js';
import { clearCache, listCache, removeCached } from './io/cached-models.js';
import { setWeights } from './layers/keras.js';
import { GlinerConfig } from './models/families/gliner-config.js';
import { rotaryFamilies } from './models/families/rotary-families.js';
import { scoreSpans, spanScorer } from './models/heads/gliner.js';
import { embedTokens, withResidual } from './models/heads/late-interaction.js';
import { readOnnx } from './models/onnx/index.js';
import { loadTokenizer, Tokenizer } from './models/own-tokenizer.js';
import { pagedFolder } from './models/paged-embeddings.js';
import { openPipeline } from './pipeline/pipelines.js';
import { addTexts, readIndex, removeTexts, requireRow, saveIndex, setEmbedder } from './search/text-index-changes.js';
import { decodeSpans } from './tasks/entities.js';
import { embedLong, splitPassages } from './tasks/split-passages.js';
import { loadInWorker, loadPool, loadWorkers } from './worker/index.js';

// Exports are listed by name, because for namespace objects Rolldown emits a script that browsers cannot load.
Object.assign(linked, {
  gpu: { leastRows, openDevice } satisfies typeof import('./gpu/open.js'),
  images: { imageFamily } satisfies typeof import('./images/image-families.js'),
  cache: { cachedSource } satisfies typeof import('./io/cache.js'),
  'cached-models': { clearCache, listCache, removeCached } satisfies typeof import('./io/cached-models.js'),
  entities: { decodeSpans } satisfies typeof import('./tasks/entities.js'),
  gliner: { scoreSpans, spanScorer } satisfies typeof import('./models/heads/gliner.js'),
  'gliner-config': { GlinerConfig } satisfies typeof import('./models/families/gliner-config.js'),
  inspect: { inspect } satisfies typeof import('./folders/inspect.js'),
  keras: { setWeights } satisfies typeof import('./layers/keras.js'),
  'late-interaction': { embedTokens, withResidual } satisfies typeof import('./models/heads/late-interaction.js'),
  onnx: { readOnnx } satisfies typeof import('./models/onnx/index.js'),
  'own-tokenizer': { loadTokenizer, Tokenizer } satisfies typeof import('./models/own-tokenizer.js'),
  'paged-embeddings': { pagedFolder } satisfies typeof import('./models/paged-embeddings.js'),
  pipelines: { openPipeline } satisfies typeof import('./pipeline/pipelines.js'),
  prune: { prune } satisfies typeof import('./folders/prune.js'),
  quantize: { isSettings, quantize, quantizedBytes } satisfies typeof import('./folders/quantize.js'),
  'quantize-index': { quantizeIndex } satisfies typeof import('./folders/quantize-index.js'),
  'rotary-families': { rotaryFamilies } satisfies typeof import('./models/families/rotary-families.js'),
  'split-passages': { embedLong, splitPassages } satisfies typeof import('./tasks/split-passages.js'),
  'text-index-changes': {
    addTexts,
    readIndex,
    removeTexts,
    requireRow,
    saveIndex,
    setEmbedder,
  } satisfies typeof import('./search/text-index-changes.js'),
  // For their errors: a service worker cannot start workers.
  workers: { loadInWorker, loadPool, loadWorkers } satisfies typeof import('./worker/index.js'),
});

export * from './index.js';
