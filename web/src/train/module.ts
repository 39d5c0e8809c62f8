/** Composes layers into models: `Module`, the base class of custom models, and `Sequential`. */
import { guarded } from '../base/error.js';
import type { IndexInput } from '../base/indices.js';
import { readOptions } from '../base/options.js';
import { heldByCalls } from '../base/pending.js';
import { kindOf, readTensor, Tensor, type TensorInput } from '../base/tensor.js';
import { Composite, layersOf, ownParts } from '../layers/composition/composite.js';
import { readParts, runParts, type SequentialOptions, type SequentialPart } from '../layers/composition/sequential.js';
import { Layer, type LayerTraits } from '../layers/layer.js';
import type { Batches, Examples, ExampleValues } from './fit/batches.js';
import {
  type EvaluateOptions,
  type Evaluation,
  evaluate,
  type PredictBatchesOptions,
  predict,
} from './fit/evaluate.js';
import { startFit } from './fit/fit.js';
import type { FitOptions, History } from './fit/fit-options.js';
import { summary } from './fit/summary.js';
import { type NamePattern, type Parameter, parametersOf } from './graph/parameters.js';
import type { Tape } from './graph/tape.js';
import {
  type Differentiate,
  type Differentiated,
  readBackward,
  setRequired,
  type Trainable,
} from './trainable/trainable.js';

/**
 * Base class of custom models, like `torch.nn.Module`. Its children are the layers and modules that are properties of
 * the object, or elements of arrays that are properties.
 *
 * @example
 * class Classifier extends heed.Module {
 *   encoder = new heed.EncoderLayer({ embedDim: 8, numHeads: 2, feedForwardDim: 16 });
 *   head = new heed.Linear({ inFeatures: 8, outFeatures: 3 });
 *   forward(x) {
 *     return this.head.forward(heed.mean(this.encoder.forward(x).output));
 *   }
 * }
 * const classifier = new Classifier();
 * classifier.train(); // ... and train it, then
 * classifier.eval().forward(x).shape; // [3]
 * new Classifier().loadStateDict(classifier.stateDict());
 * classifier.dispose();
 */
export abstract class Module extends Composite implements Trainable {
  readonly #tape: Tape;

  /** @internal */
  constructor(tape: Tape) {
    super();
    this.#tape = tape;
    if (tape.newModels.length > 1000) tape.newModels = tape.newModels.filter((one) => one.deref());
    tape.newModels.push(new WeakRef(this));
  }

  parameters(): Parameter[] {
    const listed = new Map<string, Parameter>();
    for (const [layer, prefix] of layersOf(this)) {
      for (const parameter of parametersOf(this.#tape, layer, prefix)) listed.set(parameter.name, parameter);
    }
    return [...listed.values()];
  }

  freeze(pattern?: NamePattern): this {
    return setRequired(this, `${this.constructor.name}.freeze`, pattern, false);
  }

  unfreeze(pattern?: NamePattern): this {
    return setRequired(this, `${this.constructor.name}.unfreeze`, pattern, true);
  }

  /**
   * Trains the model. Layers are in training mode during the call and return to their previous modes afterwards. Yields
   * to the event loop between steps.
   *
   * @example
   * const history = await model.fit({ inputs, labels }, {
   *   loss: 'crossEntropy', optimizer, epochs: 10, batchSize: 32, validation: 0.2, earlyStopping: { patience: 3 }, seed: 1,
   * });
   * history.loss; // [2.31, 1.87, ...]
   * @throws HeedError `DIVERGED` if a loss or gradient is not finite; the model is then as it was after the last
   * complete step. `WORKER_FAILED`, leaving the model as it was before the call. Errors of the model's parts
   */
  fit(data: Examples | Batches, options: FitOptions): Promise<History> {
    return startFit(this.#tape, this, data, options);
  }

  /**
   * Measures the loss and metrics on data, in evaluation mode. The modes of the layers stay as they are.
   *
   * @example
   * const { loss, metrics } = await model.evaluate({ inputs, labels }, { loss: 'crossEntropy', metrics: ['accuracy'] });
   * @throws HeedError as `fit`, for the data, the loss and the metrics
   */
  evaluate(data: Examples | Batches, options?: EvaluateOptions): Promise<Evaluation> {
    return evaluate(this.#tape, this, data, options);
  }

  /**
   * Computes the outputs for inputs in batches, in evaluation mode: `forward` of all inputs, in less memory. The modes of
   * the layers stay as they are.
   *
   * @example
   * const output = await model.predict(inputs, { batchSize: 64 });
   * output.shape[0]; // the number of inputs
   * @throws HeedError `INVALID_ARGUMENT`, `SHAPE_MISMATCH`; errors of the model's parts
   */
  predict(inputs: ExampleValues, options?: PredictBatchesOptions): Promise<Tensor> {
    return predict(this, inputs, options);
  }

  /**
   * Describes the model as text: the name, the class and the number of parameters of every layer, and how many parameters
   * are trained and frozen.
   *
   * @example
   * console.log(model.summary());
   */
  summary(): string {
    return summary(this.#tape, this);
  }
}

heldByCalls(Module.prototype);

/**
 * Runs layers one after another: `torch.nn.Sequential`. If a layer returns more than a tensor, its `output` is passed
 * on. Parameters are named `0.*`, `1.*`, ...
 *
 * @example
 * const model = new heed.Sequential([
 *   new heed.Embedding({ numEmbeddings: 10, embedDim: 8 }),
 *   new heed.Encoder({ embedDim: 8, numHeads: 2, feedForwardDim: 16, numLayers: 2 }),
 *   new heed.Linear({ inFeatures: 8, outFeatures: 10 }),
 * ], { seed: 1 });
 * model.forward([[1, 2, 3]]).shape; // [1, 3, 10]
 */
export class Sequential extends Module {
  readonly #tape: Tape;
  readonly #parts: readonly SequentialPart[];

  /** @internal */
  constructor(tape: Tape, parts: readonly SequentialPart[], options?: SequentialOptions) {
    super(tape);
    this.#tape = tape;
    const read = readParts(parts, options);
    this.#parts = read.parts;
    read.draw(layersOf(this), ({ raw }) => !tape.stateOf(raw).written);
  }

  /** The parts in order. */
  get parts(): readonly SequentialPart[] {
    return this.#parts;
  }

  /**
   * Runs the model on `x`, the input of the first layer: a tensor, or ids for an `Embedding`. With `backward: true`,
   * ids for a custom module or function must be a tensor of integers, `{ data: Int32Array, shape }`.
   */
  forward(x: TensorInput | IndexInput): Tensor;
  forward(x: TensorInput | IndexInput, options: Differentiate): Differentiated<{ output: Tensor }, 'x'>;
  forward(x: unknown, options?: { backward?: boolean | undefined }): Tensor | Differentiated<{ output: Tensor }, 'x'> {
    const name = 'Sequential.forward';
    const { backward, rest } = readBackward(name, options);
    readOptions(name, {}, rest);
    if (!backward) return runParts(this.#parts, x);
    // Ids have no gradient. Custom modules and functions receive them as a tensor of integers.
    const first = firstPart(this);
    const isIds =
      (first instanceof Layer && (first.constructor as LayerTraits).takesIds) ||
      guarded(`${name}: x`, () => kindOf((x as { data?: unknown } | null)?.data) === 'Int32Array');
    const inputs: Record<string, Tensor> = {};
    if (!isIds) {
      const { data, shape } = readTensor(`${name}: x`, x);
      inputs.x = new Tensor(data.subarray(), shape); // a new array, which is not a variable yet
    }
    return this.#tape.capture(
      name,
      inputs,
      () => this.parameters(),
      () => runParts(this.#parts, inputs.x ?? x),
    );
  }

  /** @internal */
  override [ownParts](): object {
    return this.#parts;
  }
}

/** The part that receives the input, also in nested Sequentials. */
function firstPart({ parts }: Sequential): SequentialPart | undefined {
  for (const part of parts) {
    const first = part instanceof Sequential ? firstPart(part) : part;
    if (first) return first;
  }
  return undefined;
}
