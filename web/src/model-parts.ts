/**
 * The parts that models of few folders need: what pages import on demand when such a model is loaded or called, linked
 * statically. A service worker, which must not import scripts after its installation, has them from the start; worker.js
 * loads them together, when it needs the first one.
 */
import { scoreActivation, TORCH_ACTIVATIONS, TORCH_ROW_ACTIVATIONS } from './base/torch-activations.js';
import { imageFamily } from './images/image-families.js';
import { cachedSource } from './io/cache.js';
import { loadRoutes } from './loading/load-routes.js';
import { unreadOf } from './loading/unread.js';
import { CompressedTensors, openCompressed } from './models/compressed-tensors.js';
import { bertLikeFamilies, jinaBertOf } from './models/families/bert-like-families.js';
import { GlinerConfig } from './models/families/gliner-config.js';
import { missingParts } from './models/families/missing-parts.js';
import { readModule, readRoutes, readTransformer, withActivation } from './models/families/other-modules.js';
import { rotaryFamilies } from './models/families/rotary-families.js';
import { t5Families } from './models/families/t5-families.js';
import { scoreSpans, spanScorer } from './models/heads/gliner.js';
import { colbertSettings, embedTokens } from './models/heads/late-interaction.js';
import { logitScore } from './models/heads/logit-score.js';
import { layersHead, otherStep } from './models/heads/other-steps.js';
import { loadSparseSteps, openWeightTable } from './models/heads/sparse-steps.js';
import { headFile, readHead } from './models/heads/text-head.js';
import { readOnnx } from './models/onnx/read.js';
import { pagedFolder } from './models/paged-embeddings.js';
import { openTable, staticTensors, tableSettings } from './models/static-table.js';
import { openChatTemplate } from './text/chat-template.js';
import { classTokenizer } from './text/class-tokenizer.js';
import { components } from './text/components.js';

// Exports are listed by name, because for namespace objects Rolldown emits a script that browsers cannot load.
export const modelParts = {
  'bert-like-families': {
    bertLikeFamilies,
    jinaBertOf,
  } satisfies typeof import('./models/families/bert-like-families.js'),
  cache: { cachedSource } satisfies typeof import('./io/cache.js'),
  'chat-template': { openChatTemplate } satisfies Pick<typeof import('./text/chat-template.js'), 'openChatTemplate'>,
  'class-tokenizer': { classTokenizer } satisfies typeof import('./text/class-tokenizer.js'),
  'compressed-tensors': {
    CompressedTensors,
    openCompressed,
  } satisfies typeof import('./models/compressed-tensors.js'),
  gliner: { scoreSpans, spanScorer } satisfies typeof import('./models/heads/gliner.js'),
  'gliner-config': { GlinerConfig } satisfies typeof import('./models/families/gliner-config.js'),
  images: { imageFamily } satisfies typeof import('./images/image-families.js'),
  'late-interaction': { colbertSettings, embedTokens } satisfies typeof import('./models/heads/late-interaction.js'),
  'logit-score': { logitScore } satisfies typeof import('./models/heads/logit-score.js'),
  'missing-parts': { missingParts } satisfies typeof import('./models/families/missing-parts.js'),
  onnx: { readOnnx } satisfies typeof import('./models/onnx/read.js'),
  'other-modules': {
    readModule,
    readRoutes,
    readTransformer,
    withActivation,
  } satisfies typeof import('./models/families/other-modules.js'),
  'other-steps': { layersHead, otherStep } satisfies typeof import('./models/heads/other-steps.js'),
  'paged-embeddings': { pagedFolder } satisfies typeof import('./models/paged-embeddings.js'),
  'rotary-families': { rotaryFamilies } satisfies typeof import('./models/families/rotary-families.js'),
  routes: { loadRoutes } satisfies typeof import('./loading/load-routes.js'),
  'sparse-steps': { loadSparseSteps, openWeightTable } satisfies Pick<
    typeof import('./models/heads/sparse-steps.js'),
    'loadSparseSteps' | 'openWeightTable'
  >,
  'static-table': { openTable, staticTensors, tableSettings } satisfies typeof import('./models/static-table.js'),
  't5-families': { t5Families } satisfies typeof import('./models/families/t5-families.js'),
  'text-head': { headFile, readHead } satisfies typeof import('./models/heads/text-head.js'),
  'tokenizer-components': { components } satisfies typeof import('./text/components.js'),
  'torch-activations': {
    scoreActivation,
    TORCH_ACTIVATIONS,
    TORCH_ROW_ACTIVATIONS,
  } satisfies typeof import('./base/torch-activations.js'),
  unread: { unreadOf } satisfies typeof import('./loading/unread.js'),
};
