/** `trainClassifier`: trains a pretrained model to label texts. */
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
  size,
} from '../../base/options.js';
import type { Tensor, TensorLike } from '../../base/tensor.js';
import type { ClassifierMetrics } from '../../evaluation/classification.js';
import { metricsOf } from '../../evaluation/classifier.js';
import {
  type ClassifierExample,
  type ExampleSet,
  readExamples,
  requireLabels,
} from '../../evaluation/labeled-examples.js';
import type { PretrainedModel } from '../../models/model.js';
import type { LocalModel } from '../../models/pretrained.js';
import type { ExampleValues } from '../fit/batches.js';
import { weightsByClass } from '../fit/example-weights.js';
import { startFit } from '../fit/fit.js';
import type { FitProgress, History } from '../fit/fit-options.js';
import type { Sequential } from '../module.js';
import { Optimizer } from '../optim/optimizer.js';
import type { TrainableModel } from '../trainable/trainable-model.js';
import { classifierLoss, targetsOf } from './classifier-loss.js';
import { decayGroups, EncoderModule, type EncoderTraining, isLora, readTraining, requireTrainable } from './encoder.js';
import { labelsOf, split, subset } from './examples.js';
import { epochsFor, fitEncoder } from './fit-encoder.js';
import { chooseHead, inputOf, install, type Kit, trainableHead, trainedHead } from './head.js';
import { withSeed } from './run.js';
import {
  countTruncated,
  decay,
  type FineTuningOptions,
  fineTuningSchema,
  requireOwn,
  trainingOf,
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
  /** The number of examples that were cut to the model's maximum number of tokens. */
  truncated: number;
}

const NAME = 'trainClassifier';

const classWeights: Reader<'balanced' | Record<string, number>> = (value, name) =>
  value === 'balanced' ? value : weightsByClass(positive, "'balanced' or factors by label")(value, name);

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
  const encoder = read.train === 'head' ? null : requireTrainable(NAME, own, ", or train 'head'");
  const between = makeYield(read.signal);
  return trainingOf(NAME, own, async () => {
    const data = await inTurns(readClassifierData(examples, read), between);
    await between();
    const body = () => train(kit, own, encoder, data, read);
    return encoder ? withTrained(NAME, encoder, read.train as EncoderTraining, body) : body();
  });
}

function* readClassifierData(examples: unknown, { validation, seed }: OptionsRead): Steps<Data> {
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

/** The defaults for the head, and those for the encoder with the head. */
const HEAD = { epochs: 100, lr: 1e-2, weightDecay: 1 };
const ENCODER = { lr: 5e-5, loraLr: 1e-3, weightDecay: 1e-2 };

/**
 * Trains the head on vectors that are computed once and then, if `encoder` is given, the encoder and the head jointly
 * (Kumar et al. 2022, arXiv:2202.10054). Installs the head in the model, even if the training is interrupted.
 */
async function train(
  kit: Kit,
  model: LocalModel,
  encoder: TrainableModel | null,
  data: Data,
  options: OptionsRead,
): Promise<ClassifierResult> {
  const { all, labels, held } = data;
  const { lr, weightDecay, epochs } = options;
  const call = { signal: options.signal, textPairs: all.textPairs };
  const head = chooseHead(model, options.head, labels);
  const truncated = await countTruncated(model, all.texts, call);
  const vectors = await model.embed(all.texts, { ...call, ...inputOf(model, head) });
  const module = trainableHead(kit, head, model.headContext.eps);
  const vectorsOf = (indices: readonly number[]) => rowsOf(vectors, indices);
  let isTrained = false;
  const onResume = () => {
    isTrained = true;
  };
  const onStep = (progress: ClassifierProgress) => {
    isTrained = true;
    options.onStep?.(progress);
  };
  try {
    let fitting: Promise<History>;
    if (encoder) {
      const first = { ...options, ...HEAD, onStep: undefined, earlyStopping: null };
      await fitHead(kit, module, fitOf(kit, { ...data, held: [] }, first, vectorsOf), first);
      const whole = new EncoderModule(kit.tape, encoder, inputOf(model, head), module);
      fitting = fitWhole(kit, whole, data, { ...options, onStep, onResume });
    } else {
      const given = {
        ...options,
        lr: lr ?? HEAD.lr,
        weightDecay: weightDecay ?? HEAD.weightDecay,
        epochs: epochs ?? HEAD.epochs,
        onStep,
      };
      fitting = fitHead(kit, module, fitOf(kit, data, given, vectorsOf), given);
    }
    const history = await fitting.finally(() => {
      if (isTrained && !model.disposed) install(kit, model, { ...trainedHead(head, module), ...labelling(data) });
    });
    void model.raw; // throws if the model has been disposed of
    const validated = subset(all, held);
    const measured = async () => {
      if (!encoder) return vectorsOf(held);
      return model.embed(validated.texts, { ...inputOf(model, head), textPairs: validated.textPairs });
    };
    return {
      labels: [...labels],
      history,
      validation: held.length > 0 ? metricsOf(validated, labels, module.forward(await measured())) : null,
      head: head.kind,
      truncated,
    };
  } finally {
    module.dispose();
  }
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

/** Fits the head to vectors. */
async function fitHead(
  { runtime, tape }: Kit,
  module: Sequential,
  { examples, ...fit }: ReturnType<typeof fitOf>,
  options: OptionsRead & { lr: number; weightDecay: number; epochs: number },
): Promise<History> {
  const { lr, weightDecay, epochs, batchSize, seed, signal, earlyStopping } = options;
  const optimizer = new Optimizer(runtime, tape, 'AdamW', decayGroups(module.parameters(), lr, weightDecay), {});
  try {
    const given = { ...fit, epochs, batchSize, seed, signal, earlyStopping, optimizer };
    return await startFit(tape, module, examples, given);
  } finally {
    optimizer.dispose();
  }
}

/** Fits the encoder and the head to texts. */
function fitWhole(
  kit: Kit,
  module: EncoderModule,
  data: Data,
  options: OptionsRead & { onResume(): void },
): Promise<History> {
  const { all, trained } = data;
  const { lr, weightDecay, epochs, batchSize, classWeight } = options;
  const train = options.train as EncoderTraining;
  const { examples, ...fit } = fitOf(kit, data, options, (indices) =>
    indices.map((i) => ({ text: all.texts[i]!, pair: all.textPairs?.[i] })),
  );
  return fitEncoder(kit, NAME, module, examples, {
    ...options,
    ...fit,
    train,
    lr: lr ?? (isLora(train) ? ENCODER.loraLr : ENCODER.lr),
    weightDecay: weightDecay ?? ENCODER.weightDecay,
    // About 60 steps, because the head is already fitted. Chosen by the accuracy on labels other than those in the model
    // card (web/model/README.md).
    epochs: epochs ?? epochsFor(trained.length, batchSize, 3),
    examples: trained.map((i) => [all.texts[i], all.textPairs?.[i], all.labels[i]]),
    settings: { classWeight },
  });
}

function rowsOf({ data, shape }: Tensor, indices: readonly number[]): TensorLike {
  const width = shape[1]!;
  const rows = new Float32Array(indices.length * width);
  for (const [to, from] of indices.entries()) rows.set(data.subarray(from * width, (from + 1) * width), to * width);
  return { data: rows, shape: [indices.length, width] };
}
