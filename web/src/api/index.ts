/** Exports that heed and heed/train have in common. */

export type { Activation } from '../base/activations.js';
export { HeedError, type HeedErrorCode } from '../base/error.js';
export type { HubOptions } from '../base/hub-options.js';
export type { IndexInput } from '../base/indices.js';
export type { SiteEdit } from '../base/site-options.js';
export { type MaskInput, type NestedNumbers, Tensor, type TensorData, type TensorInput } from '../base/tensor.js';
export type { Build, WasmSource } from '../base/wasm/module.js';
export type { VectorSimilarity } from '../folders/folder-loss.js';
export type { Inspection, InspectOptions } from '../folders/inspect.js';
export type { Pruned, PruneLoss, PruneOptions, PruneReport } from '../folders/prune.js';
export type { Quantized, QuantizeOptions, QuantizeReport } from '../folders/quantize.js';
export type { QuantizeIndexOptions } from '../folders/quantize-index.js';
export type { CachedModel, CacheOptions } from '../io/cached-models.js';
export type { FileBytes, ModelSource } from '../io/source.js';
export type { FeatureTokenizer, FeatureTokenizerOptions } from '../layers/composition/feature-tokenizer.js';
export type { Operations } from '../layers/composition/operations.js';
export type { FreeParameter } from '../layers/composition/parameter.js';
export type { SequentialOptions, SequentialPart } from '../layers/composition/sequential.js';
export type { Conv1D, Conv1DOptions } from '../layers/convolution.js';
export { type Cost, type CostOptions, flops } from '../layers/cost.js';
export type {
  Decoder,
  DecoderCache,
  DecoderCall,
  DecoderLayer,
  DecoderLayerOptions,
  DecoderOptions,
  DecoderWeights,
} from '../layers/decoder.js';
export type { Dropout, DropoutOptions } from '../layers/dropout.js';
export type { Embedding, EmbeddingOptions } from '../layers/embedding.js';
export type { Encoder, EncoderCall, EncoderLayer, EncoderLayerOptions, EncoderOptions } from '../layers/encoder.js';
export type { FeedForward, FeedForwardOptions } from '../layers/feed-forward.js';
export type { AttentionOptions, RotaryOptions } from '../layers/functions.js';
export { type HeadImportance, headImportance } from '../layers/heads.js';
export type { FromKerasOptions, KerasWeights } from '../layers/keras.js';
export type { Layer, LayerOptions } from '../layers/layer.js';
export type { Linear, LinearOptions } from '../layers/linear.js';
export type { BooleanMask, Masks } from '../layers/masks.js';
export type {
  MultiHeadAttention,
  MultiHeadAttentionCall,
  MultiHeadAttentionOptions,
} from '../layers/multi-head-attention.js';
export type { BatchNorm, BatchNormOptions, LayerNorm, LayerNormOptions } from '../layers/norms.js';
export type { PositionalEncoding, PositionalEncodingOptions } from '../layers/positional-encoding.js';
export type { GRU, LSTM, RecurrentOptions } from '../layers/recurrent.js';
export { loadSafetensors, type SaveSafetensorsOptions, saveSafetensors } from '../layers/safetensors.js';
export type { StateDict } from '../layers/state-dict.js';
export type { Transformer, TransformerCall, TransformerOptions, TransformerWeights } from '../layers/transformer.js';
export type { LoadTokenizerOptions, Tokenizer, TokenizerOptions } from '../loading/own-tokenizer.js';
export type { Device, DeviceFigures } from '../models/device.js';
export type { Pooling } from '../models/families/steps.js';
export { maxSim } from '../models/heads/max-sim.js';
export { type SparseVector, sparseDot } from '../models/heads/sparse.js';
export type { HeadName } from '../models/heads/task-heads.js';
export type { EmbedImageOptions, EncodeImageOptions, EncodeImageResult, ImageInput } from '../models/image-encoder.js';
export type { ModelInput, TokenIds } from '../models/input.js';
export type { LoadProgress } from '../models/loaded-model.js';
export type {
  CallOptions,
  EmbedOptions,
  EmbedTokensOptions,
  EncodeOptions,
  EncodeResult,
  ModelConfig,
  Prediction,
  PredictOptions,
  PretrainedModel,
  Projections,
  SpanScores,
  TextHead,
  TokenizeOptions,
  TokenizeResult,
  Workers,
} from '../models/model.js';
export type { Int8Vectors, VectorOutput, VectorsOf } from '../models/quantized.js';
export {
  type EmbedBatch,
  type EncodeBatch,
  embedStream,
  encodeStream,
  type StreamOptions,
  type TextStream,
} from '../models/stream.js';
export { type Corpus, type Hit, type SemanticSearchOptions, semanticSearch, similarity } from '../search/index.js';
export type { EmbedFunction } from '../search/index-model.js';
export type { TextHit, TextHits, TextSearchOptions } from '../search/index-search.js';
export { type EmbeddedIndexOptions, TextIndex } from '../search/text-index.js';
export type {
  AddOptions,
  LoadIndexOptions,
  TextIndexOptions,
} from '../search/text-index-options.js';
export type { TextId, TextItem } from '../search/text-rows.js';
export type { ExtractEntitiesOptions, LabeledEntity } from '../tasks/entities.js';
export {
  type Aggregation,
  type Answer,
  attentionRollout,
  type Entity,
  type Filling,
  type Label,
  type TaskOptions,
  type ZeroShotOptions,
} from '../tasks/index.js';
export type { EmbedLongOptions, Passage, PassageOptions } from '../tasks/split-passages.js';
export type { FromPretrainedOptions } from './from-pretrained.js';
export type { LoadOptions } from './instances.js';
export { load } from './load.js';
export {
  answerQuestion,
  classify,
  classifyImages,
  classifyTokens,
  clearCache,
  embedLong,
  extractEntities,
  fillMask,
  fromKeras,
  listCache,
  loadTokenizer,
  rerank,
  splitPassages,
  vocabularyCoverage,
  zeroShotClassify,
} from './on-demand.js';
export type { Heed, Info } from './runtime.js';
