/** An embedding function for Chroma, `heed/chroma`. The interface is that of chromadb 3, which this module does not import. */
import { oneOf, optional } from '../base/options.js';
import { type Embedder, makeEmbed, type PromptOptions } from './adapter.js';

/** The distances of Chroma. */
export type ChromaSpace = 'cosine' | 'l2' | 'ip';

/** Options of `embeddingFunction`. */
export interface ChromaOptions extends PromptOptions {
  /**
   * Distance of collections that do not specify one. Default 'cosine', which does not depend on whether the model
   * normalizes its vectors.
   */
  space?: ChromaSpace | undefined;
}

/** chromadb's EmbeddingFunction. */
export interface ChromaEmbeddingFunction {
  /** The name under which Chroma stores the function. */
  readonly name: 'heed';
  /** Embeds documents. */
  generate(texts: string[]): Promise<number[][]>;
  /** Embeds queries. */
  generateForQueries(texts: string[]): Promise<number[][]>;
  /** The distance of collections without a configuration. */
  defaultSpace(): ChromaSpace;
  /** The distances that fit the vectors. */
  supportedSpaces(): ChromaSpace[];
  /** What Chroma stores with a collection; the model is not part of it. */
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
  const [embed, { space }] = makeEmbed('embeddingFunction', model, schema, options);
  return {
    name: 'heed',
    generate: async (texts) => (await embed('document', texts)).embeddings,
    generateForQueries: async (texts) => (await embed('query', texts)).embeddings,
    defaultSpace: () => space,
    supportedSpaces: () => [...SPACES],
    getConfig: () => ({ family: model.config.family }),
  };
}
