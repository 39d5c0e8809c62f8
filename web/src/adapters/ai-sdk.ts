/** Embedding and reranking models for the AI SDK, `heed/ai-sdk`. The interfaces are those of @ai-sdk/provider 4 (`ai` 7), which this module does not import. */
import { describe, invalid } from '../error.js';
import type { PretrainedModel } from '../models/model.js';
import { rerank } from '../models/tasks/classification.js';
import { oneOf, optional, text } from '../options.js';
import type { SignalLike } from '../platform.js';
import { type Embedder, makeEmbedTexts, type PromptOptions, type Role } from './prompts.js';

export interface EmbeddingModelOptions extends PromptOptions {
  /** Which prompt texts get: the AI SDK does not tell queries from documents. Default 'document'; `providerOptions: { heed: { role: 'query' } }` decides for one call. */
  role?: Role;
  /** The name that the SDK reports. Default: config.json's model_type. */
  modelId?: string;
}

/** @ai-sdk/provider's EmbeddingModelV4. */
export interface AiSdkEmbeddingModel {
  readonly specificationVersion: 'v4';
  readonly provider: 'heed';
  readonly modelId: string;
  readonly maxEmbeddingsPerCall: undefined;
  readonly supportsParallelCalls: boolean;
  doEmbed(options: {
    values: string[];
    dimensions?: number;
    abortSignal?: SignalLike;
    providerOptions?: Record<string, Record<string, unknown>>;
  }): Promise<{ embeddings: number[][]; warnings: [] }>;
}

/** @ai-sdk/provider's RerankingModelV4. */
export interface AiSdkRerankingModel {
  readonly specificationVersion: 'v4';
  readonly provider: 'heed';
  readonly modelId: string;
  doRerank(options: {
    documents: { type: 'text'; values: string[] } | { type: 'object'; values: object[] };
    query: string;
    topN?: number;
    abortSignal?: SignalLike;
  }): Promise<{ ranking: { index: number; relevanceScore: number }[]; warnings: [] }>;
}

const roles = oneOf(['query', 'document']);
const schema = { role: optional(roles, 'document' as const), modelId: optional(text, undefined) };

/**
 * An embedding model for `embed` and `embedMany`. Calls are not limited in size, and run one after the other.
 *
 * @example
 * const { embeddings } = await embedMany({ model: embeddingModel(model), values: documents });
 * const { embedding } = await embed({ model: embeddingModel(model, { role: 'query' }), value: question });
 * @throws HeedError INVALID_ARGUMENT for something other than a model, and for unknown options
 */
export function embeddingModel(model: Embedder, options?: EmbeddingModelOptions): AiSdkEmbeddingModel {
  const [embedTexts, { role, modelId }] = makeEmbedTexts('embeddingModel', model, schema, options);
  return {
    specificationVersion: 'v4',
    provider: 'heed',
    modelId: modelId ?? model.config.family,
    maxEmbeddingsPerCall: undefined,
    supportsParallelCalls: false,
    async doEmbed({ values, dimensions, abortSignal, providerOptions }) {
      const own = providerOptions?.heed?.role;
      const callRole = own === undefined ? role : roles(own, 'providerOptions.heed.role');
      return { embeddings: await embedTexts(callRole, values, { signal: abortSignal, dimensions }), warnings: [] };
    },
  };
}

/**
 * A reranking model for `rerank`: a cross-encoder with one label, such as ms-marco-MiniLM or bge-reranker. Scores are between 0 and 1, the sigmoid of the logit. Documents that
 * are objects are scored by their JSON.
 *
 * @example
 * const { ranking } = await rerank({ model: rerankingModel(crossEncoder), query, documents, topN: 3 });
 * @throws HeedError INVALID_ARGUMENT for something other than a model; calls throw UNSUPPORTED for a model with several labels
 */
export function rerankingModel(model: PretrainedModel, { modelId }: { modelId?: string } = {}): AiSdkRerankingModel {
  if (typeof model?.predict !== 'function')
    throw invalid('rerankingModel: model', 'a model that `fromPretrained` returned', describe(model));
  return {
    specificationVersion: 'v4',
    provider: 'heed',
    modelId: modelId ?? model.config.family,
    async doRerank({ documents: { type, values }, query, topN, abortSignal }) {
      const texts = type === 'text' ? values : values.map((value) => JSON.stringify(value));
      const hits = await rerank(model, query, texts, {
        activation: 'sigmoid',
        ...(topN !== undefined && { topK: topN }),
        ...(abortSignal && { signal: abortSignal }),
      });
      return { ranking: hits.map(({ index, score }) => ({ index, relevanceScore: score })), warnings: [] };
    },
  };
}
