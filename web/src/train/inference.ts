/** What training needs of inference; the folder imports nothing else from outside, apart from the base and metrics. */
export { type FromPretrainedOptions, fromPretrained } from '../api/from-pretrained.js';
export type { LoadOptions } from '../api/load-options.js';
export { Heed } from '../api/runtime.js';
export { openSafetensors } from '../folders/onnx-tensors.js';
export { brainFloats, int8Rows, quantizationConfig, rotate, rotationBlock } from '../folders/quantize-rows.js';
export { bytesOf } from '../io/bytes.js';
export { filesOf } from '../io/file-record.js';
export { concatenate, type ModelFolder, parseJson, readAll } from '../io/files.js';
export { Integrity } from '../io/integrity.js';
export { MODEL_FILES } from '../io/list-files.js';
export {
  codedWidth,
  DTYPE_BYTES,
  type Dtype,
  headerEnd,
  metadataOf,
  parseHeader,
  readableDtype,
  readTensors,
  tensorOf,
  widen,
  widened,
  writeSafetensors,
} from '../io/safetensors.js';
export { Settings } from '../io/settings.js';
export { type ModelSource, type RemoteOptions, sourceForWorker, withFolder } from '../io/source.js';
export { layers } from '../layers/classes.js';
export { allLayers, Composite, layersOf, ownParts } from '../layers/composition/composite.js';
export {
  type FeatureTokenizer,
  type FeatureTokenizerOptions,
  featureTokenizer,
} from '../layers/composition/feature-tokenizer.js';
export { type Computed, makeOperations, type OperationName } from '../layers/composition/make-operations.js';
export type {
  ConcatenateOptions,
  MeanOptions,
  Operand,
  Operations,
  SliceOptions,
} from '../layers/composition/operations.js';
export { FreeParameter } from '../layers/composition/parameter.js';
export { readParts, runParts, type SequentialOptions, type SequentialPart } from '../layers/composition/sequential.js';
export type { DecodedByLayer, DecoderCall, DecoderWeights } from '../layers/decoder.js';
export type { EncoderCall } from '../layers/encoder.js';
export {
  type Attended,
  type AttentionFunctionOptions,
  type DropoutFunctionOptions,
  type LayerNormFunctionOptions,
  type LinearFunctionOptions,
  type RotaryFunctionOptions,
  run,
  type Scored,
  type SoftmaxOptions,
} from '../layers/functions.js';
export { Layer, type LayerTraits, type UnboundLayer } from '../layers/layer.js';
export type { WithActivations } from '../layers/layer-sites.js';
export type { MultiHeadAttentionCall, SelfAttentionCall } from '../layers/multi-head-attention.js';
export { fitState, type StateDict, writeState } from '../layers/state-dict.js';
export type { Transformed, TransformerCall } from '../layers/transformer.js';
export { callSchema, embedSchema, loadSchema, requireTexts } from '../models/call-options.js';
export { listsOf } from '../models/encode-outputs.js';
export { type FamilyConfig, isJinaBert, parameterRowsOf, textFamilyOf } from '../models/families/families.js';
export { activation } from '../models/families/family.js';
export { rotatedModules } from '../models/families/quantization.js';
export { CLASSIFIER, promptOf } from '../models/families/sentence-transformers.js';
export { bareName, isInt8Matrix, isScaleOf, WORD_TABLE } from '../models/families/weights.js';
export { skippedTokens, vectorForm } from '../models/heads/pooling.js';
export {
  Chain,
  filled,
  HEADS,
  type Head,
  type HeadContext,
  type HeadName,
  LAYOUTS,
  makeDense,
  makeNorm,
  wordBiasNames,
} from '../models/heads/task-heads.js';
export {
  allRows,
  type InputOptions,
  isTexts,
  longest,
  type ModelInput,
  type Row,
  readInput,
  rowsOf,
} from '../models/input.js';
export type { LoadedModel, LoadModelOptions } from '../models/load.js';
export { loadAs, loadPretrained } from '../models/load-pretrained.js';
export type { EmbedOptions, ModelConfig, PretrainedModel } from '../models/model.js';
export { notAtRoot } from '../models/model-files.js';
export type { Parts } from '../models/parts.js';
export { LocalModel } from '../models/pretrained.js';
export { batchOf, requireRows } from '../models/run.js';
export { openTable, STATIC } from '../models/static-embedding.js';
export type { Pipeline, PipelineOptions, PipelineTask } from '../pipeline/types.js';
export { Channel } from '../worker/channel.js';
export { loadInWorker, WorkerModel } from '../worker/client.js';
export { Connection } from '../worker/connection.js';
export { listen } from '../worker/port.js';
export { type Message, type Method, type PackedError, packError, unpackError } from '../worker/protocol.js';
export { RemoteModel } from '../worker/remote.js';

// Internal: the package's declarations leave these out.

/** @internal */
export { start } from '../api/instances.js';
/** @internal */
export { type Chosen, runtimeOf } from '../api/runtime.js';
/** @internal */
export { makePipeline } from '../pipeline/make-pipeline.js';
/** @internal */
export { makeHandler } from '../worker/handler.js';
