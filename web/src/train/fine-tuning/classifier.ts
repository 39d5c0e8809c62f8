/** `trainClassifier`: teaches a pretrained model to label texts. */
import { describe, guarded, invalid } from '../../error.js';
import type { PretrainedModel } from '../../models/model.js';
import { LocalModel } from '../../models/pretrained.js';
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
} from '../../options.js';
import type { SignalLike } from '../../platform.js';
import type { Tensor, TensorLike } from '../../tensor.js';
import type { Batch } from '../batches.js';
import { type FitProgress, fraction, type History, patience, startFit } from '../fit.js';
import { lossesOf } from '../losses.js';
import type { Sequential } from '../module.js';
import { Optimizer } from '../optimizer.js';
import { trainingOf } from './busy.js';
import { type ClassifierExample, type ExampleSet, labelsOf, readExamples, split, subset } from './examples.js';
import { chooseHead, inputOf, install, type Kit, trainableHead, trainedHead } from './head.js';
import { type ClassifierMetrics, measure, predictedLabels } from './metrics.js';

/** Options of `trainClassifier`. */
export interface ClassifierOptions {
  /** What is trained: 'head' (the default), the classifier on the frozen vectors of the model. */
  train?: 'head';
  /**
   * 'sentence': one linear layer on the vectors that `embed` returns. 'family': the layers that published classifiers of the model's family have, which the checkpoint must
   * have; transformers loads them. 'auto' (the default): 'family' if the checkpoint has those layers for the same labels, else 'sentence'.
   */
  head?: 'auto' | 'sentence' | 'family';
  /** How often all examples are gone through. Default 100. */
  epochs?: number;
  /** Examples per step. Default 16. */
  batchSize?: number;
  /** Learning rate of AdamW. Default 0.01. */
  lr?: number;
  /** Of AdamW. Default 0.01. */
  weightDecay?: number;
  /** Examples to measure on after each epoch, or the part of the examples that is kept for that, in (0, 1), the same part of each label. Default: none. */
  validation?: number | readonly ClassifierExample[];
  /** Stops after `patience` epochs in a row whose validation loss (without validation: whose loss) is not below the best so far, and restores the best. Default: not. */
  earlyStopping?: { patience: number };
  /** A factor on the loss of each label, or 'balanced': count / (labels * count of the label). Default: 1. */
  classWeight?: 'balanced' | Readonly<Record<string, number>>;
  /** Of the split and the order of the examples. An integer from 0 to 2^53 - 1; chosen at random if left out. */
  seed?: number;
  /** Stops between two steps: the call rejects with the signal's reason, and the model has the classifier as the last whole step left it. */
  signal?: SignalLike;
  /** Called after each step. */
  onStep?: (progress: ClassifierProgress) => void;
}

/** What `onStep` of `trainClassifier` is told. */
export interface ClassifierProgress extends FitProgress {
  readonly steps: number;
  /** The part of the batch that was labelled correctly before the step. */
  readonly accuracy: number;
}

/** What `trainClassifier` returns. */
export interface ClassifierResult {
  /** The labels, in the order of the logits. */
  labels: string[];
  /** The loss of each epoch, and with validation the validation's. */
  history: History;
  /** Measured on the examples for validation, after training; null if there are none. */
  validation: ClassifierMetrics | null;
  /** Where the head is: see the option `head`. */
  head: 'sentence' | 'family';
  /** The number of examples that were cut to the model's limit of tokens. */
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

const schema = {
  train: optional(oneOf(['head']), 'head' as const),
  head: optional(oneOf(['auto', 'sentence', 'family']), 'auto' as const),
  epochs: optional(size, 100),
  batchSize: optional(size, 16),
  lr: optional(positive, 1e-2),
  weightDecay: optional((value, name) => (value === 0 ? 0 : positive(value, name)), 1e-2),
  validation: optional((value, name) => (typeof value === 'number' ? fraction(value, name) : (value as object)), null),
  earlyStopping: optional(patience, null),
  classWeight: optional(classWeights, null),
  seed,
  signal,
  onStep: callback<(progress: ClassifierProgress) => void>,
} satisfies Schema<ClassifierOptions>;

type OptionsRead = Read<typeof schema>;

/** The examples to train on and those to validate with, and where both are in `all`. */
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
  const read = readOptions(NAME, schema, options);
  const own = requireOwn(kit, NAME, model);
  const data = readData(examples, read);
  read.signal?.throwIfAborted();
  return trainingOf(NAME, own, () => trainHead(kit, own, data, read));
}

/** @throws HeedError for models that `fromPretrained` of the same heed/train did not return */
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
  const stranger = others.labels.flat().find((label) => !labels.includes(label));
  if (stranger !== undefined)
    throw invalid(argument, `labels that are trained (${labels.join(', ')})`, describe(stranger));
  const all = {
    ...given,
    texts: [...given.texts, ...others.texts],
    textPairs: given.textPairs && [...given.textPairs, ...others.textPairs!],
    labels: [...given.labels, ...others.labels],
  };
  return { all, trained: range(0, count), held: range(count, all.texts.length), labels };
}

/** Trains a classifier on vectors that are computed once. */
async function trainHead(kit: Kit, model: LocalModel, data: Data, options: OptionsRead): Promise<ClassifierResult> {
  const { all, labels, held } = data;
  const { signal } = options;
  const call = { signal, textPairs: all.textPairs };
  const head = chooseHead(model, options.head, labels);
  const { truncated } = await model.tokenize(all.texts, call);
  const vectors = await model.embed(all.texts, { ...call, ...inputOf(model, head) });
  const module = trainableHead(kit, head, model.headContext.eps);
  try {
    let steps = 0;
    const onStep = (progress: ClassifierProgress) => {
      steps++;
      options.onStep?.(progress);
    };
    const history = await fitHead(kit, module, vectors, data, { ...options, onStep }).finally(() => {
      if (steps > 0 && !model.disposed) install(kit, model, { ...trainedHead(head, module), ...labelling(data) });
    });
    void model.raw; // throws if it was disposed of meanwhile
    const measured = subset(all, held);
    return {
      labels: [...labels],
      history,
      validation: held.length > 0 ? metricsOf(measured, labels, module.forward(rowsOf(vectors, held))) : null,
      head: head.kind,
      truncated: truncated.filter((cut) => cut > 0).length,
    };
  } finally {
    module.dispose();
  }
}

const labelling = ({ labels, all }: Data) => ({
  labels,
  problemType: all.isMultiLabel ? ('multi_label_classification' as const) : ('single_label_classification' as const),
});

async function fitHead(
  kit: Kit,
  module: Sequential,
  vectors: Tensor,
  { all, labels, trained, held }: Data,
  { lr, weightDecay, validation, classWeight, onStep, ...options }: OptionsRead,
): Promise<History> {
  const { tape, runtime } = kit;
  const loss = lossOf(kit, subset(all, trained), labels, classWeight);
  const part = (indices: readonly number[]) => ({
    inputs: rowsOf(vectors, indices),
    labels: targetsOf(subset(all, indices), labels),
  });
  const optimizer = new Optimizer(runtime, tape, 'AdamW', module.parameters(), { lr, weightDecay });
  try {
    return await startFit(tape, module, part(trained), {
      loss: loss.of,
      optimizer,
      epochs: options.epochs,
      batchSize: options.batchSize,
      seed: options.seed,
      signal: options.signal,
      ...(held.length > 0 && { validation: part(held) }),
      ...(options.earlyStopping && { earlyStopping: options.earlyStopping }),
      onStep: ({ steps, ...progress }: FitProgress) =>
        onStep?.({ ...progress, steps: steps!, accuracy: loss.accuracy() }),
    });
  } finally {
    optimizer.dispose();
  }
}

/** Cross entropy, of each label by itself if texts have several; and the accuracy of the last batch that it was computed for. */
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

/** Class indices, or with several labels per text 1 for those that hold, [N, C]. */
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
  const stranger = Object.keys(by).find((label) => !labels.includes(label));
  if (stranger !== undefined)
    throw invalid(argument, `labels of the examples (${labels.join(', ')})`, describe(stranger));
  return labels.map((label) => by[label] ?? 1);
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
  const stranger = set.labels.flat().find((label) => !labels.includes(label));
  if (stranger !== undefined)
    throw invalid(
      `${name}: examples`,
      `labels of the model (${labels.join(', ') || 'it has none'})`,
      describe(stranger),
    );
  const call = { ...read, textPairs: set.textPairs };
  const { logits } = await model.predict('sequence-classification', set.texts, call as object);
  return metricsOf(set, labels, logits);
}
