/** Embeddings and a reranker for LangChain.js, `heed/langchain`. The interfaces are those of @langchain/core 1, which this module does not import. */
import { describe, invalid } from '../base/error.js';
import { optional, readOptions, size } from '../base/options.js';
import type { PretrainedModel } from '../models/index.js';
import { rerank } from '../tasks/index.js';
import { type Embedder, makeEmbedTexts, type PromptOptions } from './prompts.js';

/** @langchain/core's EmbeddingsInterface. */
export interface LangChainEmbeddings {
  embedDocuments(documents: string[]): Promise<number[][]>;
  embedQuery(document: string): Promise<number[]>;
}

/** As far as it is used, @langchain/core's Document. */
export interface LangChainDocument {
  pageContent: string;
  metadata: Record<string, unknown>;
}

/** @langchain/core's BaseDocumentCompressor. */
export interface LangChainReranker {
  /** The documents in descending order of their scores, each a copy whose metadata has the `relevanceScore`, from 0 to 1. */
  compressDocuments<Document extends LangChainDocument>(documents: Document[], query: string): Promise<Document[]>;
}

/**
 * Embeddings for vector stores: documents get the document prompt of the model's folder, queries its query prompt.
 *
 * @example
 * const store = await MemoryVectorStore.fromTexts(texts, metadata, embeddings(model));
 * await store.similaritySearch('What do cats eat?', 3);
 * @throws HeedError INVALID_ARGUMENT for something other than a model, and for unknown options
 */
export function embeddings(model: Embedder, options?: PromptOptions): LangChainEmbeddings {
  const [embedTexts] = makeEmbedTexts('embeddings', model, {}, options);
  return {
    embedDocuments: (documents) => embedTexts('document', documents),
    embedQuery: async (document) => (await embedTexts('query', [document]))[0]!,
  };
}

/**
 * A document compressor that reranks with a cross-encoder of one label and keeps the best `topN` (default: all), for `ContextualCompressionRetriever`.
 *
 * @example
 * const retriever = new ContextualCompressionRetriever({ baseCompressor: reranker(crossEncoder, { topN: 3 }), baseRetriever });
 * @throws HeedError INVALID_ARGUMENT for something other than a model, and for unknown options
 */
export function reranker(model: PretrainedModel, options?: { topN?: number }): LangChainReranker {
  if (typeof model?.predict !== 'function')
    throw invalid('reranker: model', 'a model that `fromPretrained` returned', describe(model));
  const { topN } = readOptions('reranker', { topN: optional(size, Infinity) }, options);
  return {
    async compressDocuments(documents, query) {
      const texts = documents.map(({ pageContent }) => pageContent);
      const hits = await rerank(model, query, texts, { topK: topN, activation: 'sigmoid' });
      return hits.map(({ index, score }) => {
        const document = documents[index]!;
        const metadata = { ...document.metadata, relevanceScore: score };
        // With its class, which LangChain's retrievers expect.
        return Object.assign(Object.create(Object.getPrototypeOf(document)), document, { metadata });
      });
    },
  };
}
