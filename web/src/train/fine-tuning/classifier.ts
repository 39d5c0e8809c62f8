/** `trainClassifier`: trains a pretrained model to label texts. */
import { describe, guarded, invalid } from '../../base/error.js';
import {
  callback,
  oneOf,
  optional,
  positive,
  type Read,
  type Reader,
  readOptions,
  type Schema,
  seed,
  signal,
  size,
} from '../../base/options.js';
import type { SignalLike } from '../../base/platform.js';
import type { Tensor, TensorLike } from '../../base/tensor.js';
import { type ClassifierMetrics, measure } from '../../evaluation/classification.js';
import type { Batch, ExampleValues } from '../fit/batches.js';
import { type FitProgress, type History, patience, startFit } from '../fit/fit.js';
import type { Parameter } from '../graph/parameters.js';
import { LocalModel, type PretrainedModel } from '../inference.js';
import { lossesOf } from '../losses.js';
import type { Sequential } from '../module.js';
import { Optimizer } from '../optim/optimizer.js';
import type { TrainableModel } from '../trainable/trainable-model.js';
import { trainingOf } from './busy.js';
import { EncoderModule, type EncoderTraining, isLora, prepare, readTraining, requireTrainable } from './encoder.js';
import { type ClassifierExample, type ExampleSet, heldOut, labelsOf, readExamples, split, subset } from './examples.js';
import { type CheckpointOptions, checkpointSchema, decay, epochsFor, type Fitted, fitEncoder } from './fit-encoder.js';
import { type ClassifierHead, chooseHead, inputOf, install, type Kit, trainableHead, trainedHead } from './head.js';
import { Movement } from './movement.js';
import { predictedLabels } from './predicted-labels.js';
import { describeRun, withSeed } from './run.js';

/** Options of `trainClassifier`. */
export interface ClassifierOptions extends CheckpointOptions {
  /**
   * What is trained. 'head' (default): only the classifier, on the model's frozen vectors, which takes seconds. Other
   * values also train the encoder, after the classifier: 'full' trains all parameters; a name pattern (globs or regular
   * expressions), the matching ones; `{ lora }`, LoRA adapters (see `addLora`). Training the encoder requires a model
   * loaded with `trainable: true`.
   */
  train?: 'head' | EncoderTraining;
  /**
   * The kind of classifier. 'sentence': one linear layer on the vectors that `embed` returns. 'family': the layers of
   * the family's published classifiers, which the checkpoint must have and which transformers loads. 'auto' (default):
   * 'family' if the checkpoint has those layers for the same labels, otherwise 'sentence'.
   */
  head?: 'auto' | 'sentence' | 'family';
  /**
   * The number of passes over all examples. Default: 100 for the head; with the encoder, the number that gives about 60
   * steps, at least 3 and at most 10.
   */
  epochs?: number;
  /** The number of examples per step. Default 16. */
  batchSize?: number;
  /**
   * The learning rate of AdamW. Default: 0.01 for the head; with the encoder, 0.001 for LoRA adapters and 5e-5
   * otherwise. With the encoder, the rate rises during the first tenth of the steps and then falls to 0.
   */
  lr?: number;
  /** The weight decay of AdamW. Default: 1 for the head, which keeps its scores moderate; 0.01 with the encoder. */
  weightDecay?: number;
  /**
   * Validation data: examples on which to measure after each epoch, or the fraction of the examples, in (0, 1), to hold
   * out for that, the same fraction per label. Default: none.
   */
  validation?: number | readonly ClassifierExample[];
  /**
   * Stops after `patience` consecutive epochs without an improvement of the validation loss (without validation, the
   * training loss), and restores the best parameters. Default: never.
   */
  earlyStopping?: { patience: number };
  /** A factor on the loss per label, or 'balanced': count / (labels * count of the label). Default: 1. */
  classWeight?: 'balanced' | Readonly<Record<string, number>>;
  /**
   * The seed of the split and of the order of the examples, an integer from 0 to 2^53 - 1. Default: chosen at random.
   */
  seed?: number;
  /**
   * Stops between two steps. The call rejects with the signal's reason, and the model is as it was after the last
   * complete step.
   */
  signal?: SignalLike;
  /** Called after each step with its progress. */
  onStep?: (progress: ClassifierProgress) => void;
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
  /** The relative change of the encoder's trained weights, as in `EmbeddingResult.weightChange`; 0 if only the classifier was trained. */
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
  epochs: optional(size, null),
  batchSize: optional(size, 16),
  lr: optional(positive, null),
  weightDecay: optional(decay, null),
  validation: optional(heldOut, null),
  earlyStopping: optional(patience, null),
  classWeight: optional(classWeights, null),
  ...checkpointSchema,
  seed,
  signal,
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
  const data = readData(examples, read);
  read.signal?.throwIfAborted();
  const { train } = read;
  if (train === 'head') return trainingOf(NAME, own, () => trainHead(kit, own, data, read));
  const trainable = requireTrainable(NAME, own);
  return trainingOf(NAME, own, () => trainEncoder(kit, own, trainable, data, { ...read, train }));
}

/** @throws HeedError for models that do not come from `fromPretrained` of the same heed/train */
export function requireOwn({ tape }: Kit, call: string, model: unknown): LocalModel {
  return guarded(`${call}: model`, () => {
    if (!(model instanceof LocalModel) || model.runtime.owned !== tape.owned)
      throw invalid(
        `${call}: model`,
        "a model that fromPretrained of the same 'heed/train' returned, without `workers`",
        describe(model),
      );
    void model.raw; // throws after dispose()
    return model;
  });
}

function readData(examples: unknown, { validation, seed }: OptionsRead): Data {
  const given = readExamples(`${NAME}: examples`, examples);
  const argument = `${NAME}.validation`;
  const range = (first: number, end: number) => Array.from({ length: end - first }, (_, i) => first + i);
  const count = given.texts.length;
  const labels = labelsOf(given, `${NAME}: examples`);
  if (validation === null) return { all: given, trained: range(0, count), held: [], labels };
  if (typeof validation === 'number') return { all: given, labels, ...split(given, validation, seed, argument) };
  const others = readExamples(argument, validation, given);
  const unexpected = others.labels.flat().find((label) => !labels.includes(label));
  if (unexpected !== undefined)
    throw invalid(argument, `labels that are trained (${labels.join(', ')})`, describe(unexpected));
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
  const { truncated } = await model.tokenize(all.texts, call);
  const vectors = await model.embed(all.texts, { ...call, ...inputOf(model, head) });
  const module = trainableHead(kit, head, model.headContext.eps);
  return { head, module, vectors, truncated: truncated.filter((cut) => cut > 0).length };
}

/** Trains a classifier on vectors that are computed once. */
async function trainHead(kit: Kit, model: LocalModel, data: Data, options: OptionsRead): Promise<ClassifierResult> {
  const frozen = await embedAll(kit, model, data, options);
  const { module, vectors } = frozen;
  const { lr, weightDecay } = options;
  const part = (indices: readonly number[]) => rowsOf(vectors, indices);
  try {
    return await fitTo(kit, model, frozen, data, options, {
      module,
      part,
      groups: [{ params: module.parameters(), lr: lr ?? HEAD.lr, weightDecay: weightDecay ?? HEAD.weightDecay }],
      epochs: options.epochs ?? HEAD.epochs,
      measured: async () => part(data.held),
    });
  } finally {
    module.dispose();
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
  const { tape } = kit;
  const { all, held } = data;
  const { train, lr, weightDecay } = options;
  const restore = prepare(`${NAME}.train`, trainable, train);
  let isDone = false;
  let module: Sequential | null = null;
  try {
    const frozen = await embedAll(kit, model, data, options);
    module = frozen.module;
    const rate = lr ?? (isLora(train) ? ENCODER.loraLr : ENCODER.lr);
    await fitModule(
      kit,
      data,
      { ...options, onStep: undefined, earlyStopping: null },
      {
        module,
        part: (indices) => rowsOf(frozen.vectors, indices),
        groups: [{ params: module.parameters(), lr: HEAD.lr, weightDecay: HEAD.weightDecay }],
        epochs: HEAD.epochs,
        isValidated: false,
      },
    );
    const encoder = new EncoderModule(tape, trainable, inputOf(model, frozen.head), module);
    const result = await fitTo(kit, model, frozen, data, options, {
      module: encoder,
      part: (indices) => indices.map((i) => ({ text: all.texts[i]!, pair: all.textPairs?.[i] })),
      groups: encoder.groups(rate, weightDecay ?? ENCODER.weightDecay),
      epochs: options.epochs ?? encoderEpochs(data.trained.length, options.batchSize),
      measured: () => {
        const some = subset(all, held);
        return model.embed(some.texts, { ...inputOf(model, frozen.head), textPairs: some.textPairs });
      },
    });
    isDone = true;
    return result;
  } finally {
    module?.dispose();
    if (!model.disposed) restore(isDone);
  }
}

const HEAD = { epochs: 100, lr: 1e-2, weightDecay: 1 };
const ENCODER = { lr: 5e-5, loraLr: 1e-3, weightDecay: 1e-2 };

/**
 * About 60 steps, because the head is already fitted. Chosen by the accuracy on labels other than those in the model
 * card (web/model/README.md).
 */
const encoderEpochs = (count: number, batchSize: number) => epochsFor(count, batchSize, 3);

/** The module to fit, its data and its settings. */
interface Fitting {
  readonly module: Sequential | EncoderModule;
  /** The inputs of the examples at `indices`. */
  part(indices: readonly number[]): ExampleValues;
  readonly groups: { params: Parameter[]; lr: number; weightDecay: number }[];
  readonly epochs: number;
  readonly isValidated?: boolean;
  readonly onResume?: () => void;
}

/**
 * Fits a module that ends with the head, installs the head in the model (even if fitting is interrupted), and measures
 * it.
 */
async function fitTo(
  kit: Kit,
  model: LocalModel,
  { head, module: last, truncated }: Frozen,
  data: Data,
  options: OptionsRead,
  fitting: Fitting & { measured(): Promise<TensorLike> },
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
  const fitted = await fitModule(kit, data, { ...options, onStep }, { ...fitting, onResume }).finally(() => {
    if (isTrained && !model.disposed) install(kit, model, { ...trainedHead(head, last), ...labelling(data) });
  });
  void model.raw; // throws if the model has been disposed of
  const measured = subset(all, held);
  return {
    labels: [...labels],
    ...fitted,
    validation: held.length > 0 ? metricsOf(measured, labels, last.forward(await fitting.measured())) : null,
    head: head.kind,
    truncated,
  };
}

const labelling = ({ labels, all }: Data) => ({
  labels,
  problemType: all.isMultiLabel ? ('multi_label_classification' as const) : ('single_label_classification' as const),
});

async function fitModule(
  kit: Kit,
  { all, labels, trained, held }: Data,
  { train, classWeight, batchSize, seed, signal, earlyStopping, onStep, resume, onCheckpoint }: OptionsRead,
  { module, part, groups, epochs, isValidated = held.length > 0, onResume }: Fitting,
): Promise<Fitted> {
  const { tape, runtime } = kit;
  const loss = lossOf(kit, subset(all, trained), labels, classWeight);
  const examples = (indices: readonly number[]) => ({
    inputs: part(indices),
    labels: targetsOf(subset(all, indices), labels),
  });
  const options = {
    loss: loss.of,
    ...{ epochs, batchSize, seed, signal },
    ...(isValidated && { validation: examples(held) }),
    ...(earlyStopping && { earlyStopping }),
    onStep: ({ steps, ...progress }: FitProgress) =>
      onStep?.({ ...progress, steps: steps!, accuracy: loss.accuracy() }),
  };
  if (module instanceof EncoderModule) {
    const { lr, weightDecay } = groups[0]!;
    const settings = { training: NAME, seed, epochs, batchSize, lr, weightDecay, classWeight };
    const rows = trained.map((i) => [all.texts[i], all.textPairs?.[i], all.labels[i]]);
    const run = describeRun(settings, train as EncoderTraining, rows);
    const job = { ...options, groups, count: trained.length, resume, onCheckpoint, run, onResume } as const;
    return fitEncoder(kit, NAME, module, examples(trained) as never, job as Parameters<typeof fitEncoder>[4]);
  }
  const optimizer = new Optimizer(runtime, tape, 'AdamW', groups, {});
  const movement = new Movement(module.parameters());
  try {
    const history = await startFit(tape, module, examples(trained), { ...options, optimizer });
    movement.measure(NAME, `${history.loss.length} epochs at a learning rate of ${groups[0]!.lr}`);
    return { history, weightChange: 0 };
  } finally {
    optimizer.dispose();
  }
}

/**
 * Returns the cross entropy (per label if texts have several) and the accuracy in the last batch for which it was
 * computed.
 */
function lossOf(
  { tape }: Kit,
  trained: ExampleSet,
  labels: readonly string[],
  classWeight: OptionsRead['classWeight'],
) {
  const losses = lossesOf(tape);
  const { isMultiLabel } = trained;
  const weight = classWeight === null ? null : weightsOf(trained, labels, classWeight);
  let last = { logits: null as Tensor | null, expected: [] as number[][] };
  return {
    of(logits: Tensor, targets: Targets, _: Batch) {
      last = { logits, expected: expectedOf(targets) };
      return isMultiLabel
        ? losses.bceWithLogits(logits, targets as TensorLike, weight ? { weight } : {})
        : losses.crossEntropy(logits, targets as number[], weight ? { weight } : {});
    },
    accuracy: () => measure(labels, last.expected, predictedLabels(last.logits!, isMultiLabel), isMultiLabel).accuracy,
  };
}

/** Class indices or, with several labels per text, [N, C] with 1 for the labels that apply. */
type Targets = number[] | TensorLike;

function targetsOf({ labels: given, isMultiLabel }: ExampleSet, labels: readonly string[]): Targets {
  const indices = given.map((list) => list.map((label) => labels.indexOf(label)));
  if (!isMultiLabel) return indices.map(([index]) => index!);
  const data = new Float32Array(indices.length * labels.length);
  for (const [n, list] of indices.entries()) for (const i of list) data[n * labels.length + i] = 1;
  return { data, shape: [indices.length, labels.length] };
}

function expectedOf(targets: Targets): number[][] {
  return Array.isArray(targets) ? targets.map((index) => [index]) : predictedLabels(targets, true);
}

function weightsOf({ labels: given }: ExampleSet, labels: readonly string[], by: 'balanced' | Record<string, number>) {
  const argument = `${NAME}.classWeight`;
  if (by === 'balanced') {
    const counts = labels.map((label) => given.filter((list) => list.includes(label)).length);
    return counts.map((count) => given.length / (labels.length * Math.max(1, count)));
  }
  const unexpected = Object.keys(by).find((label) => !labels.includes(label));
  if (unexpected !== undefined)
    throw invalid(argument, `labels of the examples (${labels.join(', ')})`, describe(unexpected));
  return labels.map((label) => (Object.hasOwn(by, label) ? by[label]! : 1));
}

function rowsOf({ data, shape }: Tensor, indices: readonly number[]): TensorLike {
  const width = shape[1]!;
  const rows = new Float32Array(indices.length * width);
  for (const [to, from] of indices.entries()) rows.set(data.subarray(from * width, (from + 1) * width), to * width);
  return { data: rows, shape: [indices.length, width] };
}

function metricsOf(set: ExampleSet, labels: readonly string[], logits: Tensor): ClassifierMetrics {
  const expected = set.labels.map((list) => list.map((label) => labels.indexOf(label)));
  return measure(labels, expected, predictedLabels(logits, set.isMultiLabel), set.isMultiLabel);
}

/** @internal See `FineTuning.evaluateClassifier`. */
export async function evaluateClassifier(
  model: PretrainedModel,
  examples: readonly ClassifierExample[],
  options: { signal?: SignalLike } = {},
): Promise<ClassifierMetrics> {
  const name = 'evaluateClassifier';
  const read = readOptions(name, { signal }, options);
  const set = readExamples(`${name}: examples`, examples);
  const { labels } = model.config;
  const unexpected = set.labels.flat().find((label) => !labels.includes(label));
  if (unexpected !== undefined)
    throw invalid(
      `${name}: examples`,
      `labels of the model (${labels.join(', ') || 'it has none'})`,
      describe(unexpected),
    );
  const call = { ...read, textPairs: set.textPairs };
  const { logits } = await model.predict('sequence-classification', set.texts, call as object);
  return metricsOf(set, labels, logits);
}
