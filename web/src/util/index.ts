/** heed/util: clusters and near pairs of vectors. A separate entry, so that pages that need none of it do not download it; it needs no `load()`. */

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
