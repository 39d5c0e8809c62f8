/**
 * heed/evaluation: metrics of models and rankings. A separate entry, so that pages that do not use it do not download
 * it.
 */
export {
  type ClassifierMetrics,
  classificationMetrics,
  type LabelMetrics,
  type LabelValue,
} from './classification.js';
export {
  evaluateInformationRetrieval,
  informationRetrievalMetrics,
  type RetrievalCutoffs,
  type RetrievalData,
  type RetrievalMetrics,
  type RetrievalOptions,
} from './retrieval.js';
export {
  type Correlations,
  embeddingSimilarityMetrics,
  evaluateEmbeddingSimilarity,
  type SimilarityExample,
  type SimilarityOptions,
} from './similarity.js';
