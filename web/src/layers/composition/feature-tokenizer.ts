/** Tokens from the columns of a table: the input of a tabular transformer. */
import { invalid, misshapen } from '../../base/error.js';
import { count, flag, listOf, natural, optional, readOptions, type Schema, size } from '../../base/options.js';
import { elementCount, readTensor, type Tensor, type TensorInput } from '../../base/tensor.js';
import type { Embedding, EmbeddingOptions } from '../embedding.js';
import type { LayerOptions } from '../layer.js';
import type { Operations } from './operations.js';
import type { FreeParameter, FreeParameterOptions } from './parameter.js';
import type { Module } from './sequential.js';

/** Options of `FeatureTokenizer`. */
export interface FeatureTokenizerOptions extends LayerOptions {
  /** F, the number of numerical columns. Default 0. */
  numerical?: number | undefined;
  /** The number of categories of each of the C categorical columns. Default: none. */
  categories?: readonly number[] | undefined;
  /** E, the width of a token. */
  embedDim: number;
  /** Whether a trainable CLS token precedes the columns' tokens. Default true. */
  cls?: boolean | undefined;
}

const schema = {
  numerical: optional(count, 0),
  categories: optional(listOf(size, 'an array of numbers of categories'), [] as number[]),
  embedDim: size,
  cls: optional(flag, true),
  seed: optional(natural, null),
} satisfies Schema<FeatureTokenizerOptions>;

/**
 * Makes one token per column of a table, as in the FT-Transformer (Gorishniy et al. 2021, arXiv:2106.11959, section
 * 3.3). x [..., F + C], the numerical columns first, then the categorical ones, as ids from 0 -> [..., 1 + F + C, E]:
 * the CLS token, x_j w_j + b_j for each numerical and e_j[x_j] + b_j for each categorical column.
 *
 * Parameters: `weight` [F, E], `embedding.weight` [sum of the categories, E], one column after another, `bias` [F + C, E],
 * `cls` [E], initially uniform in +-1 / sqrt(E), the embeddings as those of `Embedding`.
 *
 * @example
 * const tokenizer = new heed.FeatureTokenizer({ numerical: 2, categories: [3], embedDim: 4 });
 * tokenizer.forward([[0.5, -1, 2], [1, 0, 0]]).shape; // [2, 4, 4]: CLS and three columns
 */
export interface FeatureTokenizer extends Module {
  /**
   * x [..., F + C] -> [..., 1 + F + C, E].
   *
   * @throws HeedError `SHAPE_MISMATCH`; `INVALID_ARGUMENT` for an id outside its column's categories
   */
  forward(x: TensorInput): Tensor;
}

/** What a `FeatureTokenizer` is made of. */
interface Parts extends Operations {
  readonly Module: abstract new () => Module;
  readonly Parameter: new (shape: readonly number[], options: FreeParameterOptions) => FreeParameter;
  readonly Embedding: new (options: EmbeddingOptions) => Embedding;
}

/** The class `FeatureTokenizer` of one runtime. */
export function featureTokenizer(heed: Parts): new (options: FeatureTokenizerOptions) => FeatureTokenizer {
  const name = 'FeatureTokenizer';
  const Class = class extends heed.Module {
    readonly weight?: FreeParameter;
    readonly embedding?: Embedding;
    readonly bias: FreeParameter;
    readonly cls?: FreeParameter;
    readonly #numerical: number;
    readonly #categories: readonly number[];

    constructor(options: FeatureTokenizerOptions) {
      super();
      const { numerical, categories, embedDim, cls, seed } = readOptions(name, schema, options);
      const columns = numerical + categories.length;
      if (columns === 0) throw invalid(name, 'at least one column: `numerical` or `categories`', 'none');
      const drawn = (stream: number) => (seed === null ? {} : { seed: (seed + stream) % 2 ** 53 });
      const parameter = (stream: number, ...shape: number[]) =>
        new heed.Parameter(shape, { init: { uniform: embedDim ** -0.5 }, ...drawn(stream) });
      if (numerical > 0) this.weight = parameter(0, numerical, embedDim);
      if (categories.length > 0) {
        const numEmbeddings = categories.reduce((sum, one) => sum + one, 0);
        this.embedding = new heed.Embedding({ numEmbeddings, embedDim, ...drawn(1) });
      }
      this.bias = parameter(2, columns, embedDim);
      if (cls) this.cls = parameter(3, embedDim);
      this.#numerical = numerical;
      this.#categories = categories;
    }

    forward(x: TensorInput): Tensor {
      const argument = `${name}.forward: x`;
      const read = readTensor(argument, x);
      const columns = this.#numerical + this.#categories.length;
      const leading = read.shape.slice(0, -1);
      if (read.shape.at(-1) !== columns) throw misshapen(argument, `[..., ${columns}]`, read.shape);
      const width = this.bias.shape[1]!;
      const tokens: Tensor[] = [];
      if (this.weight) {
        const values = heed.slice(read, { axis: -1, end: this.#numerical });
        tokens.push(heed.multiply(heed.reshape(values, [...values.shape, 1]), this.weight));
      }
      if (this.embedding) tokens.push(this.embedding.forward(this.#rowsOf(argument, read.data, columns, leading)));
      const all = heed.add(heed.concatenate(tokens, { axis: -2 }), this.bias);
      if (!this.cls) return all;
      const zeros = { data: new Float32Array(elementCount(leading) * width), shape: [...leading, 1, width] };
      return heed.concatenate([heed.add(zeros, this.cls), all], { axis: -2 });
    }

    /** The rows of the embedding table for the categorical columns. */
    #rowsOf(argument: string, data: Float32Array, columns: number, leading: readonly number[]) {
      const categories = this.#categories;
      const firsts = categories.map((_, column) => categories.slice(0, column).reduce((sum, one) => sum + one, 0));
      const rows = new Int32Array((data.length / columns) * categories.length);
      for (let i = 0; i < rows.length; i++) {
        const [row, column] = [Math.floor(i / categories.length), i % categories.length];
        const id = data[row * columns + this.#numerical + column]!;
        if (!Number.isInteger(id) || id < 0 || id >= categories[column]!) {
          const place = `${argument}, row ${row}, column ${this.#numerical + column}`;
          throw invalid(place, `an id from 0 to ${categories[column]! - 1}`, String(id));
        }
        rows[i] = firsts[column]! + id;
      }
      return { data: rows, shape: [...leading, categories.length] };
    }
  };
  return Object.defineProperty(Class, 'name', { value: name }) as never;
}
