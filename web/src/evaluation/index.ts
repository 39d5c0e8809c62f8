/** heed/evaluation: how well models and rankings do. A separate entry, so that pages that need none of it do not download it. */
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
