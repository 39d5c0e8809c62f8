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
export { type ClassifierEvaluationOptions, evaluateClassifier } from './classifier.js';
export type { ClassifierExample } from './labeled-examples.js';
export type { MetricOptions, Numbers } from './numbers.js';
export { giniCoefficient, rocAucScore } from './ranking.js';
export {
  d2GammaScore,
  d2PoissonScore,
  meanAbsoluteError,
  meanGammaDeviance,
  meanPoissonDeviance,
  meanSquaredError,
  r2Score,
  rootMeanSquaredError,
} from './regression.js';
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
