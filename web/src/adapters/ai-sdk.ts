/** Embedding and reranking models for the AI SDK, `heed/ai-sdk`. The interfaces are those of @ai-sdk/provider 2 to 4 (`ai` 5 to 7), which this module does not import. */
import { oneOf, optional, readOptions, text } from '../base/options.js';
import type { SignalLike } from '../base/platform.js';
import { type PretrainedModel, type Role, readRole } from '../models/index.js';
import { rerank } from '../tasks/index.js';
import { type Embedder, makeEmbed, type PromptOptions, requireMethod } from './adapter.js';

/**
 * Version of @ai-sdk/provider's interfaces: 'v2' for AI SDK 5 (AI SDK 6 accepts it with a warning), 'v3' for AI SDK 6
 * and 7, 'v4' for AI SDK 7.
 */
export type Specification = 'v2' | 'v3' | 'v4';

/** Options of `embeddingModel`. */
export interface EmbeddingModelOptions<V extends Specification = 'v3'> extends PromptOptions {
  /**
   * Whether texts get the query prompt or the document prompt, since the AI SDK does not distinguish them. Default
   * 'document'. To set it for one call, pass `providerOptions: { heed: { role: 'query' } }`.
   */
  role?: Role | undefined;
  /** Model name that the SDK reports. Default: `model_type` of config.json. */
  modelId?: string | undefined;
  /** Version of the AI SDK's interface. Default 'v3', for AI SDK 6 and 7. Use 'v2' for AI SDK 5. */
  specificationVersion?: V | undefined;
}

/** @ai-sdk/provider's EmbeddingModelV2, EmbeddingModelV3 or EmbeddingModelV4. */
export interface AiSdkEmbeddingModel<V extends Specification = 'v3'> {
  /** The version of the interface of the AI SDK. */
  readonly specificationVersion: V;
  /** 'heed'. */
  readonly provider: 'heed';
  /** The name of the model. */
  readonly modelId: string;
  /** The maximum number of texts per call: none. */
  readonly maxEmbeddingsPerCall: undefined;
  /** Whether calls may run at the same time. */
  readonly supportsParallelCalls: boolean;
  /** Embeds texts; the SDK calls it. */
  doEmbed(options: {
    values: string[];
    dimensions?: number | undefined;
    abortSignal?: SignalLike | undefined;
    providerOptions?: Record<string, Record<string, unknown>> | undefined;
  }): Promise<{
    embeddings: number[][];
    usage?: { tokens: number } | undefined;
    warnings: { type: 'other'; message: string }[];
  }>;
}

/** @ai-sdk/provider's RerankingModelV3 or RerankingModelV4. */
export interface AiSdkRerankingModel<V extends 'v3' | 'v4' = 'v3'> {
  /** The version of the interface of the AI SDK. */
  readonly specificationVersion: V;
  /** 'heed'. */
  readonly provider: 'heed';
  /** The name of the model. */
  readonly modelId: string;
  /** Ranks documents; the SDK calls it. */
  doRerank(options: {
    documents: { type: 'text'; values: string[] } | { type: 'object'; values: object[] };
    query: string;
    topN?: number | undefined;
    abortSignal?: SignalLike | undefined;
  }): Promise<{ ranking: { index: number; relevanceScore: number }[]; warnings: [] }>;
}

const schema = {
  role: optional(readRole, 'document' as const),
  modelId: optional(text, undefined),
  specificationVersion: optional(oneOf(['v2', 'v3', 'v4']), 'v3' as const),
};
const rerankingSchema = { modelId: schema.modelId, specificationVersion: optional(oneOf(['v3', 'v4']), 'v3' as const) };

/**
 * Creates an embedding model for `embed` and `embedMany`. Calls are not limited in size and run one after the other.
 * Texts longer than the model's limit are truncated, which the call's warnings report.
 *
 * @example
 * const { embeddings } = await embedMany({ model: embeddingModel(model), values: documents });
 * const { embedding } = await embed({ model: embeddingModel(model, { role: 'query' }), value: question });
 * @throws HeedError INVALID_ARGUMENT if `model` is not a model, and for unknown options
 */
export function embeddingModel<V extends Specification = 'v3'>(
  model: Embedder,
  options?: EmbeddingModelOptions<V>,
): AiSdkEmbeddingModel<V> {
  const [embed, { role, modelId, specificationVersion }] = makeEmbed('embeddingModel', model, schema, options);
  return {
    specificationVersion: specificationVersion as V,
    provider: 'heed',
    modelId: modelId ?? model.config.family,
    maxEmbeddingsPerCall: undefined,
    supportsParallelCalls: false,
    async doEmbed({ values, dimensions, abortSignal, providerOptions }) {
      const own = providerOptions?.heed?.role;
      const callRole = own === undefined ? role : readRole(own, 'providerOptions.heed.role');
      const { embeddings, tokens, cut } = await embed(callRole, values, { signal: abortSignal, dimensions });
      const message = `${cut} of ${values.length} texts were longer than the model's limit and have been cut`;
      return {
        embeddings,
        ...(tokens !== undefined && { usage: { tokens } }),
        warnings: cut > 0 ? [{ type: 'other', message }] : [],
      };
    },
  };
}

/**
 * Creates a reranking model for `rerank` of AI SDK 6 and 7 from a cross-encoder with one label, such as ms-marco-MiniLM
 * or bge-reranker, or another model, whose token vectors are compared: see `rerank`. Scores are sigmoids, from 0 to 1.
 * Documents that are objects are converted to JSON.
 *
 * @example
 * const { ranking } = await rerank({ model: rerankingModel(crossEncoder), query, documents, topN: 3 });
 * @throws HeedError INVALID_ARGUMENT if `model` is not a model; calls throw UNSUPPORTED for a model with several labels
 */
export function rerankingModel<V extends 'v3' | 'v4' = 'v3'>(
  model: PretrainedModel,
  options?: { modelId?: string | undefined; specificationVersion?: V | undefined },
): AiSdkRerankingModel<V> {
  requireMethod('rerankingModel', model, 'predict');
  const { modelId, specificationVersion } = readOptions('rerankingModel', rerankingSchema, options);
  return {
    specificationVersion: specificationVersion as V,
    provider: 'heed',
    modelId: modelId ?? model.config.family,
    async doRerank({ documents: { type, values }, query, topN, abortSignal }) {
      const texts = type === 'text' ? values : values.map((value) => JSON.stringify(value));
      const hits = await rerank(model, query, texts, {
        activation: 'sigmoid',
        topK: topN,
        signal: abortSignal,
      });
      return { ranking: hits.map(({ index, score }) => ({ index, relevanceScore: score })), warnings: [] };
    },
  };
}
