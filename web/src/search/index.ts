/** Search: similarity of vectors, and the products that functions over vectors share. */
export { type Hit, Largest, largest } from '../base/scores.js';
export {
  eachBlock,
  eachPair,
  eachUnorderedPair,
  type Matrix,
  type ProductOptions,
  productSchema,
} from './pair-products.js';
export { type Corpus, readFiniteRows, readUnitRows, requireWidth } from './rows.js';
export { type SearchOptions, type SemanticSearchOptions, semanticSearch, similarity } from './similarity.js';
