/** `trainClassifier`: trains a pretrained model to label texts. */
import { describe, invalid } from '../../base/error.js';
import { inTurns, makeYield, type Steps } from '../../base/event-loop.js';
import {
  callback,
  oneOf,
  optional,
  positive,
  type Read,
  type Reader,
  readOptions,
  type Schema,
  signal,
  size,
} from '../../base/options.js';
import type { SignalLike } from '../../base/platform.js';
import type { Tensor, TensorLike } from '../../base/tensor.js';
import type { ClassifierMetrics } from '../../evaluation/classification.js';
import type { ExampleValues } from '../fit/batches.js';
import type { FitProgress } from '../fit/callbacks.js';
import { startFit } from '../fit/fit.js';
import type { History } from '../fit/fit-options.js';
import type { LocalModel, PretrainedModel } from '../inference.js';
import type { Sequential } from '../module.js';
import { Optimizer } from '../optim/optimizer.js';
import type { TrainableModel } from '../trainable/trainable-model.js';
import { trainingOf } from './busy.js';
import { classifierLoss, metricsOf, targetsOf } from './classifier-loss.js';
import { decayGroups, EncoderModule, type EncoderTraining, isLora, readTraining, requireTrainable } from './encoder.js';
import {
  type ClassifierExample,
  type ExampleSet,
  labelsOf,
  readExamples,
  requireLabels,
  split,
  subset,
} from './examples.js';
import { epochsFor, type Fitted, fitEncoder } from './fit-encoder.js';
import { type ClassifierHead, chooseHead, inputOf, install, type Kit, trainableHead, trainedHead } from './head.js';
import { Movement } from './movement.js';
import { withSeed } from './run.js';
import {
  countTruncated,
  decay,
  type FineTuningOptions,
  fineTuningSchema,
  requireOwn,
  withTrained,
} from './training-call.js';

/** Options of `trainClassifier`. */
export interface ClassifierOptions extends FineTuningOptions {
  /**
   * What is trained. 'head' (default): only the classifier, on the model's frozen vectors, which takes seconds. Other
   * values also train the encoder, after the classifier: 'full' trains all parameters; a name pattern (globs or regular
   * expressions), the matching ones; `{ lora }`, LoRA adapters (see `addLora`). Training the encoder requires a model
   * loaded with `trainable: true`.
   */
  train?: 'head' | EncoderTraining | undefined;
  /**
   * The kind of classifier. 'sentence': one linear layer on the vectors that `embed` returns. 'family': the layers of
   * the family's published classifiers, which the checkpoint must have and which transformers loads. 'auto' (default):
   * 'family' if the checkpoint has those layers for the same labels, otherwise 'sentence'.
   */
  head?: 'auto' | 'sentence' | 'family' | undefined;
  /**
   * The number of passes over all examples. Default: 100 for the head; with the encoder, the number that gives about 60
   * steps, at least 3 and at most 10.
   */
  epochs?: number | undefined;
  /** The number of examples per step. Default 16. */
  batchSize?: number | undefined;
  /**
   * The learning rate of AdamW. Default: 0.01 for the head; with the encoder, 0.001 for LoRA adapters and 5e-5
   * otherwise. With the encoder, the rate rises during the first tenth of the steps and then falls to 0.
   */
  lr?: number | undefined;
  /**
   * The weight decay of AdamW, which biases and norms do not have. Default: 1 for the head, which keeps its scores
   * moderate; 0.01 with the encoder.
   */
  weightDecay?: number | undefined;
  /**
   * Validation data: examples on which to measure after each epoch, or the fraction of the examples, in (0, 1), to hold
   * out for that, the same fraction per label. Default: none.
   */
  validation?: number | readonly ClassifierExample[] | undefined;
  /** A factor on the loss per label, or 'balanced': count / (labels * count of the label). Default: 1. */
  classWeight?: 'balanced' | Readonly<Record<string, number>> | undefined;
  /** Called after each step with its progress. */
  onStep?: ((progress: ClassifierProgress) => void) | undefined;
}

/** The progress that `onStep` of `trainClassifier` receives. */
export interface ClassifierProgress extends FitProgress {
  readonly steps: number;
  /** The fraction of the batch that was labeled correctly, before the step. */
  readonly accuracy: number;
}

/** The result of `trainClassifier`. */
export interface ClassifierResult {
  /** The labels, in the order of the logits. */
  labels: string[];
  /** The loss of each epoch and, with validation, the validation loss. */
  history: History;
  /** The metrics on the validation examples after training; null if there are none. */
  validation: ClassifierMetrics | null;
  /** The kind of head; see the option `head`. */
  head: 'sentence' | 'family';
  /**
   * The relative change of the encoder's trained weights, as in `EmbeddingResult.weightChange`; 0 if only the
   * classifier was trained.
   */
  weightChange: number;
  /** The number of examples that were cut to the model's maximum number of tokens. */
  truncated: number;
}

const NAME = 'trainClassifier';

const classWeights: Reader<'balanced' | Record<string, number>> = (value, name) => {
  if (value === 'balanced') return value;
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw invalid(name, "'balanced' or factors by label", describe(value));
  const entries = Object.entries(value).map(([label, factor]) => [label, positive(factor, `${name}['${label}']`)]);
  return Object.fromEntries(entries) as Record<string, number>;
};

const whatReader: Reader<'head' | EncoderTraining> = (value, name) =>
  value === 'head' ? value : readTraining(value, name, "'head', ");

const schema = {
  train: optional(whatReader, 'head' as const),
  head: optional(oneOf(['auto', 'sentence', 'family']), 'auto' as const),
  batchSize: optional(size, 16),
  weightDecay: optional(decay, null),
  classWeight: optional(classWeights, null),
  ...fineTuningSchema,
  onStep: callback<(progress: ClassifierProgress) => void>,
} satisfies Schema<ClassifierOptions>;

type OptionsRead = Read<typeof schema>;

/** All examples, with the indices of those for training and for validation. */
interface Data {
  readonly all: ExampleSet;
  readonly trained: readonly number[];
  readonly held: readonly number[];
  readonly labels: readonly string[];
}

/** @internal See `FineTuning.trainClassifier`. */
export async function trainClassifier(
  kit: Kit,
  model: PretrainedModel,
  examples: readonly ClassifierExample[],
  options?: ClassifierOptions,
): Promise<ClassifierResult> {
  const read = withSeed(NAME, readOptions(NAME, schema, options), options);
  const own = requireOwn(kit, NAME, model);
  const { train } = read;
  const trainable = train === 'head' ? null : requireTrainable(NAME, own, ", or train 'head'");
  const between = makeYield(read.signal);
  return trainingOf(NAME, own, async () => {
    const data = await inTurns(readData(examples, read), between);
    await between();
    if (train === 'head') return trainHead(kit, own, data, read);
    return withTrained(NAME, trainable!, train, () => trainEncoder(kit, own, trainable!, data, { ...read, train }));
  });
}

function* readData(examples: unknown, { validation, seed }: OptionsRead): Steps<Data> {
  const given = yield* readExamples(`${NAME}: examples`, examples);
  const argument = `${NAME}.validation`;
  const range = (first: number, end: number) => Array.from({ length: end - first }, (_, i) => first + i);
  const count = given.texts.length;
  const labels = labelsOf(given, `${NAME}: examples`);
  if (validation === null) return { all: given, trained: range(0, count), held: [], labels };
  if (typeof validation === 'number') return { all: given, labels, ...split(given, validation, seed, argument) };
  const others = yield* readExamples(argument, validation, given);
  requireLabels(argument, others, labels, 'labels that are trained');
  const all = {
    ...given,
    texts: [...given.texts, ...others.texts],
    textPairs: given.textPairs && [...given.textPairs, ...others.textPairs!],
    labels: [...given.labels, ...others.labels],
  };
  return { all, trained: range(0, count), held: range(count, all.texts.length), labels };
}

/** The head to train, and the vectors of all texts, which are computed once. */
interface Frozen {
  readonly head: ClassifierHead;
  readonly module: Sequential;
  readonly vectors: Tensor;
  readonly truncated: number;
}

async function embedAll(kit: Kit, model: LocalModel, { all, labels }: Data, options: OptionsRead): Promise<Frozen> {
  const call = { signal: options.signal, textPairs: all.textPairs };
  const head = chooseHead(model, options.head, labels);
  const truncated = await countTruncated(model, all.texts, call);
  const vectors = await model.embed(all.texts, { ...call, ...inputOf(model, head) });
  const module = trainableHead(kit, head, model.headContext.eps);
  return { head, module, vectors, truncated };
}

/** Trains a classifier on vectors that are computed once. */
async function trainHead(kit: Kit, model: LocalModel, data: Data, options: OptionsRead): Promise<ClassifierResult> {
  const frozen = await embedAll(kit, model, data, options);
  const settings = {
    lr: options.lr ?? HEAD.lr,
    weightDecay: options.weightDecay ?? HEAD.weightDecay,
    epochs: options.epochs ?? HEAD.epochs,
  };
  try {
    return await installing(kit, model, frozen, data, options, {
      run: (hooks) => fitHead(kit, frozen, data, { ...options, ...settings, ...hooks }),
      measured: async () => rowsOf(frozen.vectors, data.held),
    });
  } finally {
    frozen.module.dispose();
  }
}

/** Trains the head, then the encoder and the head jointly (Kumar et al. 2022, arXiv:2202.10054). */
async function trainEncoder(
  kit: Kit,
  model: LocalModel,
  trainable: TrainableModel,
  data: Data,
  options: OptionsRead & { train: EncoderTraining },
): Promise<ClassifierResult> {
  const { all, trained, held } = data;
  const { train, lr, weightDecay, batchSize, classWeight } = options;
  const frozen = await embedAll(kit, model, data, options);
  try {
    await fitHead(kit, frozen, { ...data, held: [] }, { ...options, ...HEAD, onStep: undefined, earlyStopping: null });
    const encoder = new EncoderModule(kit.tape, trainable, inputOf(model, frozen.head), frozen.module);
    const textsOf = (indices: readonly number[]) =>
      indices.map((i) => ({ text: all.texts[i]!, pair: all.textPairs?.[i] }));
    return await installing(kit, model, frozen, data, options, {
      run(hooks) {
        const { examples, ...fit } = fitOf(kit, data, { ...options, ...hooks }, textsOf);
        return fitEncoder(kit, NAME, encoder, examples, {
          ...options,
          ...hooks,
          ...fit,
          lr: lr ?? (isLora(train) ? ENCODER.loraLr : ENCODER.lr),
          weightDecay: weightDecay ?? ENCODER.weightDecay,
          epochs: options.epochs ?? encoderEpochs(trained.length, batchSize),
          examples: trained.map((i) => [all.texts[i], all.textPairs?.[i], all.labels[i]]),
          settings: { classWeight },
        });
      },
      measured() {
        const { texts, textPairs } = subset(all, held);
        return model.embed(texts, { ...inputOf(model, frozen.head), textPairs });
      },
    });
  } finally {
    frozen.module.dispose();
  }
}

const HEAD = { epochs: 100, lr: 1e-2, weightDecay: 1 };
const ENCODER = { lr: 5e-5, loraLr: 1e-3, weightDecay: 1e-2 };

/**
 * About 60 steps, because the head is already fitted. Chosen by the accuracy on labels other than those in the model
 * card (web/model/README.md).
 */
const encoderEpochs = (count: number, batchSize: number) => epochsFor(count, batchSize, 3);

/** Called while fitting, so that the caller knows whether the head has changed. */
interface Hooks {
  readonly onStep: (progress: ClassifierProgress) => void;
  readonly onResume: () => void;
}

/**
 * Fits a module that ends with the head, installs the head in the model, even if fitting is interrupted, and measures
 * it on the vectors that `measured` returns.
 */
async function installing(
  kit: Kit,
  model: LocalModel,
  { head, module, truncated }: Frozen,
  data: Data,
  options: OptionsRead,
  { run, measured }: { run(hooks: Hooks): Promise<Fitted>; measured(): Promise<TensorLike> },
): Promise<ClassifierResult> {
  const { all, labels, held } = data;
  let isTrained = false;
  const onResume = () => {
    isTrained = true;
  };
  const onStep = (progress: ClassifierProgress) => {
    isTrained = true;
    options.onStep?.(progress);
  };
  const fitted = await run({ onStep, onResume }).finally(() => {
    if (isTrained && !model.disposed) install(kit, model, { ...trainedHead(head, module), ...labelling(data) });
  });
  void model.raw; // throws if the model has been disposed of
  return {
    labels: [...labels],
    ...fitted,
    validation: held.length > 0 ? metricsOf(subset(all, held), labels, module.forward(await measured())) : null,
    head: head.kind,
    truncated,
  };
}

const labelling = ({ labels, all }: Data) => ({
  labels,
  problemType: all.isMultiLabel ? ('multi_label_classification' as const) : ('single_label_classification' as const),
});

/**
 * The examples to fit a module to, and options of `fit`. `inputsOf`: what the module's `forward` takes for the examples
 * at `indices`.
 */
function fitOf(
  { tape }: Kit,
  { all, labels, trained, held }: Data,
  { classWeight, onStep }: Pick<OptionsRead, 'classWeight' | 'onStep'>,
  inputsOf: (indices: readonly number[]) => ExampleValues,
) {
  const loss = classifierLoss(NAME, tape, subset(all, trained), labels, classWeight);
  const examplesOf = (indices: readonly number[]) => ({
    inputs: inputsOf(indices),
    labels: targetsOf(subset(all, indices), labels),
  });
  return {
    examples: examplesOf(trained),
    validation: held.length > 0 ? examplesOf(held) : null,
    loss: loss.of,
    onStep: ({ steps, ...progress }: FitProgress) =>
      onStep?.({ ...progress, steps: steps!, accuracy: loss.accuracy() }),
  };
}

async function fitHead(
  kit: Kit,
  { module, vectors }: Frozen,
  data: Data,
  options: OptionsRead & { lr: number; weightDecay: number; epochs: number },
): Promise<Fitted> {
  const { runtime, tape } = kit;
  const { lr, weightDecay, epochs, batchSize, seed, signal, earlyStopping } = options;
  const params = module.parameters();
  const { examples, ...fit } = fitOf(kit, data, options, (indices) => rowsOf(vectors, indices));
  const optimizer = new Optimizer(runtime, tape, 'AdamW', decayGroups(params, lr, weightDecay), {});
  const movement = new Movement(params);
  try {
    const given = { ...fit, epochs, batchSize, seed, signal, earlyStopping, optimizer };
    const history = await startFit(tape, module, examples, given);
    movement.measure(NAME, `${history.loss.length} epochs at a learning rate of ${lr}`);
    return { history, weightChange: 0 };
  } finally {
    optimizer.dispose();
  }
}

function rowsOf({ data, shape }: Tensor, indices: readonly number[]): TensorLike {
  const width = shape[1]!;
  const rows = new Float32Array(indices.length * width);
  for (const [to, from] of indices.entries()) rows.set(data.subarray(from * width, (from + 1) * width), to * width);
  return { data: rows, shape: [indices.length, width] };
}

/** @internal See `FineTuning.evaluateClassifier`. */
export async function evaluateClassifier(
  model: PretrainedModel,
  examples: readonly ClassifierExample[],
  options: { signal?: SignalLike | undefined } = {},
): Promise<ClassifierMetrics> {
  const name = 'evaluateClassifier';
  const read = readOptions(name, { signal }, options);
  const argument = `${name}: examples`;
  const set = await inTurns(readExamples(argument, examples), makeYield(read.signal));
  const { labels } = model.config;
  requireLabels(argument, set, labels, 'labels of the model');
  const call = { ...read, textPairs: set.textPairs };
  const { logits } = await model.predict('sequence-classification', set.texts, call as object);
  return metricsOf(set, labels, logits);
}
