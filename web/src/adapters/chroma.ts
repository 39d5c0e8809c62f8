/** An embedding function for Chroma, `heed/chroma`. The interface is that of chromadb 3, which this module does not import. */
import { oneOf, optional } from '../base/options.js';
import { type Embedder, makeEmbedTexts, type PromptOptions } from './prompts.js';

export type ChromaSpace = 'cosine' | 'l2' | 'ip';

export interface ChromaOptions extends PromptOptions {
  /**
   * Distance of collections that do not specify one. Default 'cosine', which does not depend on whether the model
   * normalizes its vectors.
   */
  space?: ChromaSpace | undefined;
}

/** chromadb's EmbeddingFunction. */
export interface ChromaEmbeddingFunction {
  readonly name: 'heed';
  generate(texts: string[]): Promise<number[][]>;
  generateForQueries(texts: string[]): Promise<number[][]>;
  defaultSpace(): ChromaSpace;
  supportedSpaces(): ChromaSpace[];
  getConfig(): Record<string, unknown>;
}

const SPACES = ['cosine', 'l2', 'ip'] as const;
const schema = { space: optional(oneOf(SPACES), 'cosine' as const) };

/**
 * Creates an embedding function for collections: `add` embeds with the document prompt of the model's folder, `query`
 * with its query prompt. Chroma cannot store a model, so pass the function to `getCollection` as well as to
 * `createCollection`.
 *
 * @example
 * const collection = await client.getOrCreateCollection({ name: 'notes', embeddingFunction: embeddingFunction(model) });
 * await collection.add({ ids, documents });
 * await collection.query({ queryTexts: ['What do cats eat?'], nResults: 3 });
 * @throws HeedError INVALID_ARGUMENT if `model` is not a model, and for unknown options
 */
export function embeddingFunction(model: Embedder, options?: ChromaOptions): ChromaEmbeddingFunction {
  const [embedTexts, { space }] = makeEmbedTexts('embeddingFunction', model, schema, options);
  return {
    name: 'heed',
    generate: (texts) => embedTexts('document', texts),
    generateForQueries: (texts) => embedTexts('query', texts),
    defaultSpace: () => space,
    supportedSpaces: () => [...SPACES],
    getConfig: () => ({ family: model.config.family }),
  };
}
