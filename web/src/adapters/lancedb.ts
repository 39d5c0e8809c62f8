/** An embedding function for LanceDB, `heed/lancedb`. The base class is that of @lancedb/lancedb, which the caller passes, since this module does not import it. */
import { describe, invalid } from '../base/error.js';
import { type Embedder, makeEmbedTexts, type PromptOptions } from './prompts.js';

/** As far as it is used, LanceDB's TextEmbeddingFunction. */
type TextEmbeddingFunctionLike = abstract new () => object;

/** What the returned class adds to LanceDB's. */
export interface LanceEmbeddingFunction {
  init(): Promise<void>;
  ndims(): number | undefined;
  generateEmbeddings(texts: string[]): Promise<number[][]>;
  computeSourceEmbeddings(texts: string[]): Promise<number[][]>;
  computeQueryEmbeddings(text: string): Promise<number[]>;
}

/**
 * A subclass of LanceDB's `TextEmbeddingFunction` that embeds rows with the document prompt of the model's folder and searches with its query prompt. Register it in each process
 * that opens the table, since LanceDB stores its name and not the model.
 *
 * @example
 * import { LanceSchema, TextEmbeddingFunction, getRegistry, register } from '@lancedb/lancedb/embedding';
 * register('heed')(embeddingFunction(TextEmbeddingFunction, model));
 * const heed = await getRegistry().get('heed').create();
 * const table = await db.createEmptyTable('notes', LanceSchema({ text: heed.sourceField(), vector: heed.vectorField() }));
 * @param TextEmbeddingFunction the class that '@lancedb/lancedb/embedding' exports
 * @throws HeedError INVALID_ARGUMENT for something other than a class and a model, and for unknown options
 */
export function embeddingFunction<Base extends TextEmbeddingFunctionLike>(
  TextEmbeddingFunction: Base,
  model: Embedder,
  options?: PromptOptions,
): new () => InstanceType<Base> & LanceEmbeddingFunction {
  if (typeof TextEmbeddingFunction !== 'function')
    throw invalid('embeddingFunction', "LanceDB's TextEmbeddingFunction", describe(TextEmbeddingFunction));
  const [embedTexts] = makeEmbedTexts('embeddingFunction', model, {}, options);
  let width: number | undefined;
  // The type of a mixin's base must have a constructor with any arguments.
  const AnyBase = TextEmbeddingFunction as unknown as new (...args: unknown[]) => object;
  class HeedEmbeddingFunction extends AnyBase implements LanceEmbeddingFunction {
    /** LanceDB stores it with the table and passes it to the constructor. */
    toJSON(): Record<string, never> {
      return {};
    }
    /** Finds the vectors' width, which layers after the pooling decide. */
    async init(): Promise<void> {
      width ??= (await embedTexts('document', ['']))[0]!.length;
    }
    ndims(): number | undefined {
      return width;
    }
    generateEmbeddings(texts: string[]): Promise<number[][]> {
      return embedTexts('document', texts);
    }
    computeSourceEmbeddings(texts: string[]): Promise<number[][]> {
      return embedTexts('document', texts);
    }
    async computeQueryEmbeddings(text: string): Promise<number[]> {
      return (await embedTexts('query', [text]))[0]!;
    }
  }
  return HeedEmbeddingFunction as never;
}
