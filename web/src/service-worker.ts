/**
 * `heed` for service workers, which may not import scripts later: all that pages load when it is first used is linked. Only what needs workers is left out, as service workers cannot
 * start any.
 */
import { linked } from './error.js';
import { leastRows, openDevice } from './gpu/open.js';
import { imageFamily } from './images/families.js';
import { clearCache, listCache } from './io/cached-models.js';
import { decodeSpans } from './models/entities.js';
import { scoreSpans, spanScorer } from './models/gliner.js';
import { GlinerConfig } from './models/gliner-config.js';
import { inspect } from './models/inspect.js';
import { embedTokens, withResidual } from './models/late-interaction.js';
import { loadTokenizer, Tokenizer } from './models/own-tokenizer.js';
import { pagedFolder } from './models/paged-embeddings.js';
import { prune } from './models/prune.js';
import { isSettings, quantize, quantizedBytes } from './models/quantize.js';
import { embedLong, splitPassages } from './models/split-passages.js';
import { addTexts, readIndex, removeTexts, saveIndex, setEmbedder } from './models/text-index-changes.js';

// With each export by its name: for namespaces, Rolldown adds a script that browsers cannot load.
Object.assign(linked, {
  gpu: { leastRows, openDevice } satisfies typeof import('./gpu/open.js'),
  images: { imageFamily } satisfies typeof import('./images/families.js'),
  'cached-models': { clearCache, listCache } satisfies typeof import('./io/cached-models.js'),
  entities: { decodeSpans } satisfies typeof import('./models/entities.js'),
  gliner: { scoreSpans, spanScorer } satisfies typeof import('./models/gliner.js'),
  'gliner-config': { GlinerConfig } satisfies typeof import('./models/gliner-config.js'),
  inspect: { inspect } satisfies typeof import('./models/inspect.js'),
  'late-interaction': { embedTokens, withResidual } satisfies typeof import('./models/late-interaction.js'),
  'own-tokenizer': { loadTokenizer, Tokenizer } satisfies typeof import('./models/own-tokenizer.js'),
  'paged-embeddings': { pagedFolder } satisfies typeof import('./models/paged-embeddings.js'),
  prune: { prune } satisfies typeof import('./models/prune.js'),
  quantize: { isSettings, quantize, quantizedBytes } satisfies typeof import('./models/quantize.js'),
  'split-passages': { embedLong, splitPassages } satisfies typeof import('./models/split-passages.js'),
  'text-index-changes': {
    addTexts,
    readIndex,
    removeTexts,
    saveIndex,
    setEmbedder,
  } satisfies typeof import('./models/text-index-changes.js'),
});

export * from './index.js';
