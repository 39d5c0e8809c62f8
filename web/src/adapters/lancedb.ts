/** An embedding function for LanceDB, `heed/lancedb`. The base class is that of @lancedb/lancedb, which the caller passes, since this module does not import it. */
import { describe, invalid } from '../base/error.js';
import { type Embedder, makeEmbed, type PromptOptions } from './adapter.js';

/** LanceDB's TextEmbeddingFunction, reduced to what is used here. */
type TextEmbeddingFunctionLike = abstract new () => object;

/** The methods that the returned class adds to LanceDB's. */
export interface LanceEmbeddingFunction {
  /** LanceDB calls it before the function is used. */
  init(): Promise<void>;
  /** The width of the vectors. */
  ndims(): number | undefined;
  /** Embeds texts. */
  generateEmbeddings(texts: string[]): Promise<number[][]>;
  /** Embeds documents. */
  computeSourceEmbeddings(texts: string[]): Promise<number[][]>;
  /** Embeds a query. */
  computeQueryEmbeddings(text: string): Promise<number[]>;
}

/**
 * Creates a subclass of LanceDB's `TextEmbeddingFunction` that embeds rows with the document prompt of the model's
 * folder and searches with its query prompt. Register it in every process that opens the table, since LanceDB stores
 * its name and not the model.
 *
 * @example
 * import { LanceSchema, TextEmbeddingFunction, getRegistry, register } from '@lancedb/lancedb/embedding';
 * register('heed')(embeddingFunction(TextEmbeddingFunction, model));
 * const heed = await getRegistry().get('heed').create();
 * const table = await db.createEmptyTable('notes', LanceSchema({ text: heed.sourceField(), vector: heed.vectorField() }));
 * @param TextEmbeddingFunction the class that '@lancedb/lancedb/embedding' exports
 * @throws HeedError INVALID_ARGUMENT if the arguments are not a class and a model, and for unknown options
 */
export function embeddingFunction<Base extends TextEmbeddingFunctionLike>(
  TextEmbeddingFunction: Base,
  model: Embedder,
  options?: PromptOptions,
): new () => InstanceType<Base> & LanceEmbeddingFunction {
  if (typeof TextEmbeddingFunction !== 'function')
    throw invalid('embeddingFunction', "LanceDB's TextEmbeddingFunction", describe(TextEmbeddingFunction));
  const [embed] = makeEmbed('embeddingFunction', model, {}, options);
  let width: number | undefined;
  // TypeScript requires the base of a mixin to have a constructor with any arguments.
  const AnyBase = TextEmbeddingFunction as unknown as new (...args: unknown[]) => object;
  class HeedEmbeddingFunction extends AnyBase implements LanceEmbeddingFunction {
    /** @internal For messages and consoles, as minification renames classes. */
    static override readonly name: string = 'HeedEmbeddingFunction';

    /** LanceDB stores the result with the table and passes it to the constructor. */
    toJSON(): Record<string, never> {
      return {};
    }
    /** Determines the vectors' width by embedding a text, because layers after the pooling may change it. */
    async init(): Promise<void> {
      width ??= (await this.generateEmbeddings(['']))[0]!.length;
    }
    ndims(): number | undefined {
      return width;
    }
    async generateEmbeddings(texts: string[]): Promise<number[][]> {
      return (await embed('document', texts)).embeddings;
    }
    computeSourceEmbeddings(texts: string[]): Promise<number[][]> {
      return this.generateEmbeddings(texts);
    }
    async computeQueryEmbeddings(text: string): Promise<number[]> {
      return (await embed('query', [text])).embeddings[0]!;
    }
  }
  return HeedEmbeddingFunction as never;
}
