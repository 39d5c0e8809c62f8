/** Layers composed to models: `Module`, the base of a user's own, and `Sequential`. */
import { describe, guarded, invalid } from '../error.js';
import { Layer, type LayerTraits } from '../layers/layer.js';
import type { StateDict } from '../layers/state-dict.js';
import { listOf, optional, readOptions, type Schema, seed } from '../options.js';
import { dispose } from '../platform.js';
import { kindOf, readTensor, Tensor, type TensorInput } from '../tensor.js';
import type { Batches, Examples } from './batches.js';
import { type FitOptions, type History, startFit } from './fit.js';
import type { IndexInput } from './indices.js';
import { matching, type NamePattern, type Parameter, parametersOf, writeState } from './parameters.js';
import type { Tape } from './tape.js';
import { type Differentiate, type Differentiated, hasRandomValues, readBackward, type Trainable } from './trainable.js';
import { allLayers } from './tree.js';

type Child = Layer | Module;

const isChild = (value: unknown): value is Child => value instanceof Layer || value instanceof Module;

/**
 * Base of models of one's own, as `torch.nn.Module`: layers and modules that are properties of the object, or in arrays that are, are its children.
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
export abstract class Module implements Trainable {
  readonly #tape: Tape;
  #training = false;

  /** @internal */
  constructor(tape: Tape) {
    this.#tape = tape;
  }

  /** Whether dropout draws and calls are recorded: true after `train()`, false at first and after `eval()`. */
  get training(): boolean {
    return this.#training;
  }

  /** Switches all layers to training mode. */
  train(): this {
    return this.#setTraining(true);
  }

  /** Switches all layers to evaluation mode. */
  eval(): this {
    return this.#setTraining(false);
  }

  parameters(): Parameter[] {
    const listed = new Map<string, Parameter>();
    for (const [layer, prefix] of layersOf(this)) {
      for (const parameter of parametersOf(this.#tape, layer, prefix)) listed.set(parameter.name, parameter);
    }
    return [...listed.values()];
  }

  freeze(pattern?: NamePattern): this {
    return this.#setRequired('freeze', pattern, false);
  }

  unfreeze(pattern?: NamePattern): this {
    return this.#setRequired('unfreeze', pattern, true);
  }

  /** Number of scalars in all parameters, without buffers. */
  get parameterCount(): number {
    return this.parameters().reduce((sum, { shape }) => sum + shape.reduce((a, b) => a * b, 1), 0);
  }

  /** Copies of all parameters and buffers, by name: the names of the properties and indices that lead to a layer, and its own, joined by dots. */
  stateDict(): StateDict {
    const entries = layersOf(this).flatMap(([layer, prefix]) =>
      Object.entries(layer.stateDict()).map(([name, tensor]) => [prefix + name, tensor] as const),
    );
    return Object.fromEntries(entries);
  }

  /**
   * Sets all parameters and buffers. The state must have each in its shape and nothing else; see `Layer.loadStateDict`. A load that fails changes nothing.
   * @throws HeedError `INVALID_ARGUMENT` or `SHAPE_MISMATCH`, listing all that is missing, unexpected or of another shape
   */
  loadStateDict(state: Readonly<Record<string, TensorInput>>): this {
    const argument = `${this.#name}.loadStateDict`;
    const listed = layersOf(this).flatMap(([{ raw }, prefix]) =>
      raw.parameters().map(({ name, shape }, index) => ({ raw, index, name: prefix + name, shape })),
    );
    writeState(argument, listed, state);
    return this;
  }

  /**
   * Trains the model. The layers are in training mode meanwhile, and in their own again afterwards. The thread's event loop runs between steps.
   *
   * @example
   * const history = await model.fit({ inputs, labels }, {
   *   loss: 'crossEntropy', optimizer, epochs: 10, batchSize: 32, validation: 0.2, earlyStopping: { patience: 3 }, seed: 1,
   * });
   * history.loss; // [2.31, 1.87, ...]
   * @throws HeedError `DIVERGED` if a loss or a gradient is not finite: the model is then as the last whole step left it; `WORKER_FAILED`, with the model as it was before;
   * and whatever its parts throw
   */
  fit(data: Examples | Batches, options: FitOptions): Promise<History> {
    return startFit(this.#tape, this, data, options);
  }

  /** @internal All layers, and the prefixes of their parameters' names. */
  [allLayers](): [Layer, string][] {
    return layersOf(this);
  }

  /** Whether all layers were disposed of. */
  get disposed(): boolean {
    return layersOf(this).every(([layer]) => layer.disposed);
  }

  /** Frees the memory of all layers. */
  dispose(): void {
    for (const [layer] of layersOf(this)) layer.dispose();
  }

  [dispose](): void {
    this.dispose();
  }

  get #name(): string {
    return this.constructor.name;
  }

  #setTraining(training: boolean): this {
    this.#training = training;
    for (const [, child] of childrenOf(this)) training ? child.train() : child.eval();
    return this;
  }

  #setRequired(call: string, pattern: NamePattern | undefined, required: boolean): this {
    for (const parameter of matching(`${this.#name}.${call}`, this.parameters(), pattern))
      parameter.requiresGrad = required;
    return this;
  }
}

/** All layers of a module, and the prefixes of their parameters' names. A layer that occurs twice is listed once, as in PyTorch. */
function layersOf(module: Module, prefix = '', listed = new Set<object>()): [Layer, string][] {
  return childrenOf(module).flatMap(([name, child]): [Layer, string][] => {
    if (listed.has(child)) return [];
    listed.add(child);
    const inner = `${prefix}${name}.`;
    return child instanceof Module ? layersOf(child, inner, listed) : [[child, inner]];
  });
}

// Functions instead of methods, as a user's properties may have any name.
function childrenOf(module: Module): [string, Child][] {
  const entries = Object.entries(module instanceof Sequential ? module.parts : module);
  return entries.flatMap(([name, value]): [string, Child][] => {
    if (isChild(value)) return [[name, value]];
    return Array.isArray(value)
      ? value.flatMap((entry, i): [string, Child][] => (isChild(entry) ? [[`${name}.${i}`, entry]] : []))
      : [];
  });
}

// biome-ignore lint/suspicious/noExplicitAny: inputs differ: tensors, or ids for an embedding
type Step = (x: any) => Tensor | { readonly output: Tensor };

/** What may stand in a `Sequential`: a layer, a module or a function, from a tensor to a tensor or to an object whose `output` goes on. */
export type SequentialPart = Step | (Child & { forward: Step });

/** Options of `Sequential`. */
export interface SequentialOptions {
  /**
   * Draws the initial values and the dropout of all layers that were made without a seed and have not been loaded or trained, each from a stream of its own. An integer from
   * 0 to 2^53 - 1; default: they stay as they are.
   */
  seed?: number;
}

const sequentialSchema = { seed: optional(seed, null) } satisfies Schema<SequentialOptions>;

const differentiateSchema = {};

/**
 * Layers one after the other: `torch.nn.Sequential`. Of a layer that returns more than a tensor, `output` goes on. Parameters `0.*`, `1.*`, ...
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
    const read = readOptions('Sequential', sequentialSchema, options);
    this.#parts = listOf(readPart, 'an array of layers')(parts, 'Sequential: layers');
    if (read.seed !== null) this.#draw(read.seed);
  }

  /** The parts in order. */
  get parts(): readonly SequentialPart[] {
    return this.#parts;
  }

  /**
   * x as the first layer takes it: a tensor, or ids for an `Embedding`. With `backward: true`, ids for a module or a function of one's own are a tensor of integers:
   * `{ data: Int32Array, shape }`.
   */
  forward(x: TensorInput | IndexInput): Tensor;
  forward(x: TensorInput | IndexInput, options: Differentiate): Differentiated<{ output: Tensor }, 'x'>;
  forward(x: unknown, options?: { backward?: boolean }): Tensor | Differentiated<{ output: Tensor }, 'x'> {
    const name = 'Sequential.forward';
    const { backward, rest } = readBackward(name, options);
    readOptions(name, differentiateSchema, rest);
    if (!backward) return this.#run(x);
    // Ids have no gradient.
    const first = firstPart(this);
    const isIds = (first instanceof Layer && (first.constructor as LayerTraits).takesIds) || isIntegers(x);
    const inputs: Record<string, Tensor> = {};
    if (!isIds) {
      const { data, shape } = readTensor(`${name}: x`, x);
      inputs.x = new Tensor(data.subarray(), shape); // an array of its own, which is not yet a variable
    }
    return this.#tape.capture(
      name,
      inputs,
      () => this.parameters(),
      () => this.#run(inputs.x ?? x),
    );
  }

  #run(x: unknown): Tensor {
    return this.#parts.reduce((input: unknown, part) => {
      const result = typeof part === 'function' ? part(input) : part.forward(input);
      return 'output' in result ? result.output : result;
    }, x) as Tensor;
  }

  #draw(given: number): void {
    for (const [i, [layer]] of layersOf(this).entries()) {
      if (!hasRandomValues(this.#tape, layer)) continue;
      const own = streamSeed(given, i);
      layer.raw.initialize(own);
      layer.raw.seed(own);
    }
  }
}

/** The part that takes the input, in Sequentials inside each other. */
function firstPart({ parts }: Sequential): SequentialPart | undefined {
  for (const part of parts) {
    const first = part instanceof Sequential ? firstPart(part) : part;
    if (first) return first;
  }
  return undefined;
}

/** A tensor of integers, as modules and functions take ids. */
function isIntegers(x: unknown): boolean {
  return guarded('Sequential.forward: x', () => kindOf((x as { data?: unknown } | null)?.data) === 'Int32Array');
}

function readPart(value: unknown, name: string): SequentialPart {
  if (typeof value === 'function' || (isChild(value) && 'forward' in value)) return value as SequentialPart;
  throw invalid(name, 'a layer, a Module or a function', describe(value));
}

/** The seed of the i-th of several streams (the increments of SplitMix64; Steele, Lea, Flood 2014). */
function streamSeed(given: number, i: number): number {
  return Number((BigInt(given) + BigInt(i + 1) * 0x9e3779b97f4a7c15n) & (2n ** 53n - 1n));
}
