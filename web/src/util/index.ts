/**
 * heed/util: clusters and similar pairs of vectors, and data for training: windows of a series, scalers. A separate entry, so that pages that do not use it do not download
 * it. Works without `load()`.
 */
export type { ProductOptions } from '../search/index.js';
export { type CommunityOptions, communityDetection } from './community-detection.js';
export { type Clusters, type KMeansOptions, kMeans } from './k-means.js';
export {
  type Deduplicated,
  type DeduplicateOptions,
  deduplicate,
  type HardNegativesOptions,
  mineHardNegatives,
  type Paraphrase,
  type ParaphraseOptions,
  paraphraseMining,
} from './mining.js';
export { MinMaxScaler, StandardScaler } from './scalers.js';
export { type WindowsOptions, windows } from './windows.js';
