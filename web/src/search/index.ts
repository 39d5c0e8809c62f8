/** Search: similarity of vectors, and the products that functions over vectors share. */
export { type Hit, Largest } from '../base/scores.js';
export {
  eachBlock,
  eachPair,
  eachUnorderedPair,
  type Matrix,
  type ProductOptions,
  productSchema,
} from './pair-products.js';
export {
  type Corpus,
  type SearchOptions,
  type SemanticSearchOptions,
  semanticSearch,
  similarity,
} from './similarity.js';
export { largestHits, readFiniteRows, readUnitRows, requireSameWidth } from './unit-rows.js';
