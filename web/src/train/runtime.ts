/** `load()` of heed/train and the object that it returns: everything that heed offers, and training. */
import type { FromPretrainedOptions } from '../api/from-pretrained.js';
import { type LoadOptions, start } from '../api/instances.js';
import { type Chosen, Heed, runtimeOf } from '../api/runtime.js';
import { HeedError, importing } from '../base/error.js';
import type { HubOptions } from '../base/hub-options.js';
import { plainOptions } from '../base/options.js';
import type { Runtime } from '../base/owned.js';
import { heldByCalls } from '../base/pending.js';
import type { WorkerLike } from '../base/platform.js';
import type { SiteOptions } from '../base/site-options.js';
import type { Tensor, TensorInput } from '../base/tensor.js';
import type { Core } from '../base/wasm/core.js';
import type { ModelSource } from '../io/source.js';
import { layers } from '../layers/classes.js';
import {
  type FeatureTokenizer,
  type FeatureTokenizerOptions,
  featureTokenizer,
} from '../layers/composition/feature-tokenizer.js';
import type { SequentialOptions, SequentialPart } from '../layers/composition/sequential.js';
import type { DecodedByLayer, DecoderWeights } from '../layers/decoder.js';
import type { EncoderCall } from '../layers/encoder.js';
import type {
  Attended,
  AttentionFunctionOptions,
  DropoutFunctionOptions,
  LayerNormFunctionOptions,
  LinearFunctionOptions,
  RotaryFunctionOptions,
  Scored,
  SoftmaxOptions,
} from '../layers/functions.js';
import type { Layer } from '../layers/layer.js';
import type { SelfAttentionCall } from '../layers/multi-head-attention.js';
import type { PretrainedModel } from '../models/model.js';
import { makePipeline } from '../pipeline/make-pipeline.js';
import type { Pipeline, PipelineOptions, PipelineTask } from '../pipeline/types.js';
import type { Adaptable, FineTuning, RemotelyTrained, Savable } from './fine-tuning.js';
import { type Checkpoints, checkpointsOf } from './fit/checkpoint.js';
import { remoteFits } from './fit/fit.js';
import { remoteFit } from './fit/fit-worker.js';
import { recordingCalls } from './graph/calls.js';
import { type Operations, operationsOf } from './graph/operations.js';
import type { Parameter } from './graph/parameters.js';
import { Tape } from './graph/tape.js';
import type { TrainCore } from './graph/train-core.js';
import { training } from './graph/training.js';
import { type Losses, lossesOf } from './losses.js';
import { type MatryoshkaLosses, matryoshkaOf } from './matryoshka.js';
import { Module, Sequential } from './module.js';
import { type Optim, optimOf } from './optim/index.js';
import type { PageModels } from './trainable/page-models.js';
import {
  type DecoderForward,
  type Differentiate,
  type Differentiated,
  type EncoderForward,
  type MultiHeadAttentionForward,
  named,
  ownClasses,
  readBackward,
  type TensorForward,
  type Trainable,
  type TransformerForward,
  trainable,
  trainableParameter,
} from './trainable/trainable.js';
import type { TrainableModel, TrainableOptions } from './trainable/trainable-model.js';

/** A constant, so that `backward`, which keeps it, does not keep the arguments of a function. */
const noParameters = () => [];

/** The functions that take `backward: true`, with the number of their tensor arguments. */
const functions = { attention: 3, softmax: 1, linear: 1, layerNorm: 1, dropout: 1, rotary: 1 };

/**
 * The functions with `backward: true`; without it, they are those of `Heed`. The gradients of `weight` and `bias` are
 * in `parameters`.
 */
export interface DifferentiableFunctions {
  attention<W extends boolean = false, S extends boolean = false>(
    query: TensorInput,
    key: TensorInput,
    value: TensorInput,
    options: AttentionFunctionOptions<W, S> & Differentiate,
  ): Differentiated<Attended<W> & Scored<S>, 'query' | 'key' | 'value' | 'mask'>;
  softmax(x: TensorInput, options: SoftmaxOptions & Differentiate): Differentiated<{ output: Tensor }, 'x'>;
  linear(x: TensorInput, options: LinearFunctionOptions & Differentiate): Differentiated<{ output: Tensor }, 'x'>;
  layerNorm(x: TensorInput, options: LayerNormFunctionOptions & Differentiate): Differentiated<{ output: Tensor }, 'x'>;
  dropout(x: TensorInput, options: DropoutFunctionOptions & Differentiate): Differentiated<{ output: Tensor }, 'x'>;
  rotary(x: TensorInput, options: RotaryFunctionOptions & Differentiate): Differentiated<{ output: Tensor }, 'x'>;
}

/** The types of `forward` in training, for layers whose `forward` is not a `TensorForward`. */
interface Forwards {
  MultiHeadAttention: MultiHeadAttentionForward;
  EncoderLayer: EncoderForward<Omit<SelfAttentionCall, 'returnWeights'> & SiteOptions, Tensor>;
  Encoder: EncoderForward<Omit<EncoderCall, 'returnWeights'>, Tensor[]>;
  DecoderLayer: DecoderForward<NonNullable<DecodedByLayer['weights']>>;
  Decoder: DecoderForward<DecoderWeights[]>;
  Transformer: TransformerForward;
  Embedding: unknown;
}

type ForwardOf<Name> = Name extends keyof Forwards ? Forwards[Name] : TensorForward;

type TrainableClass<Class, Members> = Class extends new (
  ...options: infer Options
) => infer Made
  ? new (
      ...options: Options
    ) => Made & Members
  : never;

/** Layer classes with training. */
export type TrainableLayers = {
  readonly [Name in keyof typeof layers]: TrainableClass<Heed[Name], Trainable & ForwardOf<Name>>;
};

/**
 * One instance of heed with training, as `load()` of heed/train returns it.
 *
 * In training mode (`train()`), layers record how their results were computed. The results can be passed to other
 * layers, functions, operations and losses; `loss.backward()` then adds gradients to the parameters. In evaluation
 * mode, layers compute exactly as in heed.
 *
 * @example
 * const heed = await load();
 * const model = new heed.Sequential([
 *   new heed.Embedding({ numEmbeddings: 10, embedDim: 8 }),
 *   new heed.Linear({ inFeatures: 8, outFeatures: 10 }),
 * ], { seed: 1 }).train();
 * const optimizer = new heed.optim.AdamW(model.parameters(), { lr: 1e-2 });
 * for (let step = 0; step < 100; step++) {
 *   optimizer.zeroGrad();
 *   const loss = heed.losses.crossEntropy(model.forward([[1, 2, 3]]), [[2, 3, 4]]);
 *   loss.backward();
 *   optimizer.step();
 * }
 */
export type TrainingHeed = TrainableLayers &
  DifferentiableFunctions &
  Operations &
  Checkpoints &
  FineTuning & {
    /**
     * Loads a pretrained encoder that can be trained.
     *
     * @example
     * const model = await heed.fromPretrained(source, { trainable: true });
     * const optimizer = new heed.optim.AdamW(model.parameters(), { lr: 2e-5 });
     * const loss = heed.losses.infoNCE(model.train().sentenceVectors(queries), model.sentenceVectors(answers));
     * @throws HeedError as without `trainable`
     */
    fromPretrained(
      source: ModelSource | undefined,
      options: TrainableOptions,
    ): Promise<TrainableModel & Savable & Adaptable>;
    /**
     * Loads a pretrained encoder into a worker, where it can be trained: `trainClassifier`, `trainEmbedding`, `save`,
     * `mergeLora` and the calls of a model run there.
     */
    fromPretrained(
      source: ModelSource | undefined,
      options: TrainableOptions & { worker: true | WorkerLike },
    ): Promise<PretrainedModel & RemotelyTrained>;
    /** Loads a pretrained encoder, as in heed; in addition, the model can be saved. */
    fromPretrained(source?: ModelSource, options?: FromPretrainedOptions): Promise<PretrainedModel & Savable>;
    readonly losses: Losses & MatryoshkaLosses;
    readonly optim: Optim;
    readonly Sequential: new (parts: readonly SequentialPart[], options?: SequentialOptions) => Sequential;
  } & HeedWithModules;

/** The members of `Heed` whose classes have other bases in training. */
interface HeedWithModules extends Heed {
  readonly Module: abstract new () => Module;
  readonly Parameter: TrainableClass<Heed['Parameter'], Trainable & Pick<Parameter, 'grad' | 'requiresGrad'>>;
  readonly FeatureTokenizer: new (options: FeatureTokenizerOptions) => Module & FeatureTokenizer;
}

/** Makes a `Heed` with training. */
function withTraining(core: TrainCore, choice: Chosen, hub: HubOptions, onDispose: () => void): TrainingHeed {
  const owned: Runtime['owned'] = new Set();
  const tape = new Tape(core, owned);
  const runtime = runtimeOf(training, core, recordingCalls(core, tape), hub, onDispose, owned);
  let models: PageModels | undefined;
  const loadModels = async () => {
    const { pageModels } = await importing('page-models', () => import('./trainable/page-models.js'));
    models ??= pageModels(runtime, tape);
    return models;
  };
  const heed = new Heed(runtime, choice, async (_, source, options) => {
    const given = options && plainOptions('fromPretrained', options); // read before loading code
    return (models ?? (await loadModels())).fromPretrained(source, given);
  });
  const members: Record<string, unknown> = {
    ...operationsOf(tape),
    ...checkpointsOf(tape),
    losses: { ...lossesOf(tape), ...matryoshkaOf(tape) },
    optim: optimOf(runtime, tape),
  };
  // Does not wait if the code is already loaded, so that calls of a model keep their order.
  const fineTuning: Record<string, unknown> = {};
  for (const name of ['trainClassifier', 'trainEmbedding'] as const)
    fineTuning[name] = async (...args: never[]) =>
      ((models ?? (await loadModels()))[name] as (...args: never[]) => unknown)(...args);
  Object.assign(members, heldByCalls(fineTuning), {
    async evaluateClassifier() {
      const problem = "a function of heed/evaluation. Import `evaluateClassifier` from 'heed/evaluation'";
      throw new HeedError('UNSUPPORTED', `heed.evaluateClassifier: ${problem}`);
    },
  });
  for (const name of Object.keys(layers)) {
    members[name] = trainable(tape, name, heed[name as 'Dropout'] as unknown as new (options?: object) => Layer);
  }
  for (const [name, at] of Object.entries(functions)) {
    const plain = heed[name as keyof DifferentiableFunctions].bind(heed) as (...args: unknown[]) => Tensor;
    members[name] = (...args: unknown[]) => {
      const { backward, rest } = readBackward(name, args[at] as object | undefined);
      const run = () => plain(...args.slice(0, at), rest);
      return backward ? tape.capture(name, null, noParameters, run) : run();
    };
  }
  members.Parameter = trainableParameter(tape, heed.Parameter as never);
  const OwnModule = class extends Module {
    constructor() {
      super(tape);
    }
  };
  const OwnSequential = class extends Sequential {
    constructor(parts: readonly SequentialPart[], options?: SequentialOptions) {
      super(tape, parts, options);
    }
  };
  members.Module = named('Module', OwnModule);
  members.Sequential = named('Sequential', OwnSequential);
  members.FeatureTokenizer = featureTokenizer({ ...heed, ...members } as never);
  ownClasses.add(members.Sequential as object);
  remoteFits.set(tape, remoteFit(runtime, tape));
  // Defined rather than assigned, because accessing some of these names in heed throws an error.
  for (const [name, value] of Object.entries(members))
    Object.defineProperty(heed, name, { value, enumerable: true, configurable: true });
  return heed as unknown as TrainingHeed;
}

/**
 * Loads the WebAssembly module with training. Otherwise works like `load` of heed.
 *
 * @example
 * const heed = await load();
 * const layer = new heed.Linear({ inFeatures: 8, outFeatures: 2 }).train();
 * @throws HeedError `LOAD_FAILED`, `UNSUPPORTED`, `INVALID_ARGUMENT`
 */
export function load(options?: LoadOptions): Promise<TrainingHeed> {
  return start(training, options, (core: Core, choice, hub, onDispose) =>
    withTraining(core as TrainCore, choice, hub, onDispose),
  );
}

/**
 * Works like `pipeline` of heed, on the WebAssembly module with training.
 *
 * @example
 * const extract = await pipeline('feature-extraction', source);
 * @throws HeedError as `pipeline` of heed
 */
export function pipeline<T extends PipelineTask>(
  task: T,
  source?: ModelSource,
  options?: PipelineOptions,
): Promise<Pipeline<T>> {
  return makePipeline(load, task, source, options);
}
