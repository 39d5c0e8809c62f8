/** Embeddings and a reranker for LangChain.js, `heed/langchain`. The interfaces are those of @langchain/core 1, which this module does not import. */
import { optional, readOptions, size } from '../base/options.js';
import type { PretrainedModel } from '../models/index.js';
import { rerank } from '../tasks/index.js';
import { type Embedder, makeEmbed, type PromptOptions, requireMethod } from './adapter.js';

/** @langchain/core's EmbeddingsInterface. */
export interface LangChainEmbeddings {
  /** Embeds documents. */
  embedDocuments(documents: string[]): Promise<number[][]>;
  /** Embeds a query. */
  embedQuery(document: string): Promise<number[]>;
}

/** @langchain/core's Document, reduced to what is used here. */
export interface LangChainDocument {
  /** The text. */
  pageContent: string;
  /** The data that is stored with the text. */
  metadata: Record<string, unknown>;
}

/** @langchain/core's BaseDocumentCompressor. */
export interface LangChainReranker {
  /**
   * Returns copies of the documents in descending order of score, with the score, from 0 to 1, as `relevanceScore` in
   * their metadata.
   */
  compressDocuments<Document extends LangChainDocument>(documents: Document[], query: string): Promise<Document[]>;
}

/**
 * Creates embeddings for vector stores. Documents are embedded with the document prompt of the model's folder, queries
 * with its query prompt.
 *
 * @example
 * const store = await MemoryVectorStore.fromTexts(texts, metadata, embeddings(model));
 * await store.similaritySearch('What do cats eat?', 3);
 * @throws HeedError INVALID_ARGUMENT if `model` is not a model, and for unknown options
 */
export function embeddings(model: Embedder, options?: PromptOptions): LangChainEmbeddings {
  const [embed] = makeEmbed('embeddings', model, {}, options);
  return {
    embedDocuments: async (documents) => (await embed('document', documents)).embeddings,
    embedQuery: async (document) => (await embed('query', [document])).embeddings[0]!,
  };
}

/**
 * Creates a document compressor for `ContextualCompressionRetriever` that reranks with a cross-encoder of one label, or
 * with the token vectors of another model (see `rerank`), and keeps the best `topN` documents (default: all).
 *
 * @example
 * const retriever = new ContextualCompressionRetriever({ baseCompressor: reranker(crossEncoder, { topN: 3 }), baseRetriever });
 * @throws HeedError INVALID_ARGUMENT if `model` is not a model, and for unknown options
 */
export function reranker(model: PretrainedModel, options?: { topN?: number | undefined }): LangChainReranker {
  requireMethod('reranker', model, 'predict');
  const { topN } = readOptions('reranker', { topN: optional(size, Infinity) }, options);
  return {
    async compressDocuments(documents, query) {
      const texts = documents.map(({ pageContent }) => pageContent);
      const hits = await rerank(model, query, texts, { topK: topN, activation: 'sigmoid' });
      return hits.map(({ index, score }) => {
        const document = documents[index]!;
        const metadata = { ...document.metadata, relevanceScore: score };
        // Keeps the document's class, which LangChain's retrievers expect.
        return Object.assign(Object.create(Object.getPrototypeOf(document)), document, { metadata });
      });
    },
  };
}
