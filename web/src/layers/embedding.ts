import { calling } from '../base/error.js';
import { type IndexInput, readIndices } from '../base/indices.js';
import { type Schema, seed, size } from '../base/options.js';
import type { Tensor } from '../base/tensor.js';
import type { RawIndices, RawLayer, RawTensor } from '../base/wasm/core.js';
import { toTensor } from './functions.js';
import { Layer, type LayerOptions } from './layer.js';

/** Options of `Embedding`. */
export interface EmbeddingOptions extends LayerOptions {
  /** The number of rows of the table. */
  numEmbeddings: number;
  /** E, the width of a row. */
  embedDim: number;
}

interface RawEmbeddingInputs {
  ids: RawIndices;
}

/**
 * A table of vectors, looked up by id: `torch.nn.Embedding`. ids [...] -> [..., E]. Parameter `weight` [numEmbeddings,
 * E], initially normally distributed.
 *
 * @example
 * const embedding = new heed.Embedding({ numEmbeddings: 10, embedDim: 4 });
 * embedding.forward([[1, 2, 3]]).shape; // [1, 3, 4]
 */
export class Embedding extends Layer<RawLayer<RawEmbeddingInputs, RawTensor>> {
  /** @internal */
  static readonly takesIds = true;

  /** @internal */
  static readonly schema = { numEmbeddings: size, embedDim: size, seed } satisfies Schema<EmbeddingOptions>;

  /**
   * Returns the rows of `ids`.
   * @throws HeedError `INVALID_ARGUMENT` for an id outside the table
   */
  forward(ids: IndexInput): Tensor {
    const { raw } = this;
    const name = 'Embedding.forward';
    const read = readIndices(`${name}: ids`, ids);
    return calling(name, () => toTensor(raw.forward({ ids: read })));
  }
}
