/**
 * The entry `heed/train`: everything in heed, and training. Start with `load()`.
 *
 * The words of training are PyTorch's. A `Tensor` holds values. Calls of layers in training mode, and of functions
 * and operations on their results, are recorded: the `Tape` of a `load()` keeps a graph that says from which
 * tensors, and by which layer, each result was computed. (A call with `backward: true` is recorded in a graph of its
 * own, which its `backward` follows and frees.) A `Loss` is a result without axes; its `backward()` follows the
 * graph back to the parameters and adds to their gradients. A `Parameter` is an array of a layer, with its gradient.
 * What has parameters is `Trainable`: a layer, a `Module`, which consists of layers, or a pretrained model
 * (`TrainableModel`). An `Optimizer` changes parameters by their gradients. `fit` repeats these steps for batches of
 * examples; `trainClassifier` and `trainEmbedding` call it for pretrained models.
 */
export * from '../api/index.js';
export type { ClassifierMetrics, LabelMetrics } from '../evaluation/classification.js';
export type { ClassifierExample } from '../evaluation/labeled-examples.js';
export type { ConcatenateOptions, MeanOptions, SliceOptions } from '../layers/composition/operations.js';
export type { SavedFiles } from './fine-tuning/adapter.js';
export type { ClassifierOptions, ClassifierProgress, ClassifierResult } from './fine-tuning/classifier.js';
export type { EmbeddingResult, EmbeddingTrainingOptions } from './fine-tuning/embedding.js';
export type {
  EmbeddingExamples,
  LabeledText,
  PairExample,
  ScoredPair,
  TripletExample,
} from './fine-tuning/embedding-examples.js';
export type { EncoderTraining } from './fine-tuning/encoder.js';
export type { SaveOptions } from './fine-tuning/save.js';
export type { FineTuningOptions } from './fine-tuning/training-call.js';
export type { FineTuning, RemotelyTrained, Savable } from './fine-tuning.js';
export type { Batch, Batches, Examples, ExampleValues } from './fit/batches.js';
export type { CheckpointParts, Checkpoints } from './fit/checkpoint.js';
export type { EvaluateOptions, Evaluation, PredictBatchesOptions } from './fit/evaluate.js';
export type { ClassWeight } from './fit/example-weights.js';
export type { FitLoss } from './fit/fit-losses.js';
export type { EpochResult, FitCallback, FitOptions, FitProgress, History } from './fit/fit-options.js';
export type { FitMetric, MetricName } from './fit/metrics.js';
export { Loss } from './graph/loss.js';
export type { CustomFunction, LossOperations } from './graph/operations.js';
export type { NamePattern, Parameter } from './graph/parameters.js';
export type { SiteActivation } from './graph/recorded-sites.js';
export type { Gradients } from './graph/tape.js';
export type * from './losses.js';
export type { MatryoshkaLosses, MatryoshkaOptions } from './matryoshka.js';
export type { Module, Sequential } from './module.js';
export type { Optim } from './optim/index.js';
export type * from './optim/optimizer.js';
export type {
  ConstantScheduleOptions,
  NoamOptions,
  ReduceOnPlateauOptions,
  Schedule,
  ScheduleOptions,
  Schedules,
} from './optim/schedules.js';
export { type DifferentiableFunctions, load, pipeline, type TrainableLayers, type TrainingHeed } from './runtime.js';
export type { Lora, LoraOptions } from './trainable/lora.js';
export type {
  DecoderForward,
  Differentiate,
  Differentiated,
  EncoderForward,
  MultiHeadAttentionForward,
  TensorForward,
  Trainable,
  TransformerForward,
} from './trainable/trainable.js';
export type {
  ForwardOptions,
  ForwardResult,
  SentenceVectorOptions,
  TrainableModel,
  TrainableOptions,
} from './trainable/trainable-model.js';
