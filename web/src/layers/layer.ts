/** The base class of layers: options, parameters by PyTorch's names, modes, cost, disposal. */
import { calling } from '../base/error.js';
import { requireIdle } from '../base/in-progress.js';
import type { Reader } from '../base/options.js';
import { Owned, type Runtime } from '../base/owned.js';
import { inspected } from '../base/platform.js';
import { elementCount, Tensor, type TensorInput } from '../base/tensor.js';
import type { Calls, RawModule } from '../base/wasm/core.js';
import { type FlopsOptions, layerSummary, type Pass, readPass } from './cost.js';
import { type StateDict, writeState } from './state-dict.js';

/** Options that every layer takes. */
export interface LayerOptions {
  /** The seed of the initial parameters and of dropout, an integer from 0 to 2^53 - 1. Default: chosen at random. */
  seed?: number | undefined;
}

/** Properties of a layer's class that heed/train needs besides its name and the schema of its options. */
export interface LayerTraits {
  /** The number of tensor arguments of `forward`. Default 1. */
  readonly inputs?: number | undefined;
  /** Whether the input is ids, which have no gradient. Default false. */
  readonly takesIds?: boolean | undefined;
  /**
   * Whether the layer relates the rows of its first input to each other, so that an input without a batch axis is one
   * sequence. Default false.
   */
  readonly relatesRows?: boolean | undefined;
  /** Whether the layer relates the examples of a batch to each other in training. Default false. */
  readonly relatesExamples?: boolean | undefined;
}

/** A layer's class before it is bound to a runtime. Its constructor takes options that its schema has read. */
export interface UnboundLayer<Made, Options> extends LayerTraits {
  readonly schema: { readonly [K in keyof Options]-?: Reader<unknown> };
  new (runtime: Runtime, name: string, options: never): Made;
}

/**
 * The base class of layers, as `torch.nn.Module`. A new layer has the initial values of PyTorch's module of the same
 * name and is in evaluation mode, in which equal calls have equal results.
 *
 * Calls throw a HeedError: `SHAPE_MISMATCH` for tensors whose shapes do not match, `INVALID_ARGUMENT` for other invalid
 * arguments, `OUT_OF_MEMORY`, and `DISPOSED` after `dispose()`.
 *
 * @example
 * const layer = new heed.Linear({ inFeatures: 8, outFeatures: 2, seed: 1 });
 * layer.parameterCount; // 18
 * layer.flops(10); // 320
 * console.log(layer.summary());
 * const other = new heed.Linear({ inFeatures: 8, outFeatures: 2 });
 * other.loadStateDict(layer.stateDict()); // names and shapes are PyTorch's
 * other.train().training; // true
 * other.eval().training; // false
 * other.dispose(); // frees its memory; `using other = ...` does so at the end of a block
 */
export abstract class Layer<Raw extends RawModule = RawModule> extends Owned<Raw> {
  /**
   * @internal The constructor's options as its schema has read them, with every option present. Subclasses declare the
   * type.
   */
  protected readonly options: object;
  /**
   * @internal Whether the values were initialized with an explicit seed or loaded, so that a `Sequential` does not
   * initialize them.
   */
  hasOwnDraws = true;
  #training = false;

  /** @internal What separates the layer's name from those of its parameters. */
  get separator(): string {
    return '.';
  }

  /**
   * @internal `name`: the name of the class, here and in the WebAssembly module. `given`: the options for the module's
   * class.
   */
  constructor(
    runtime: Runtime,
    name: string,
    options: { readonly [option: string]: unknown; readonly seed: number },
    given: object = options,
  ) {
    const RawClass = runtime.calls[name as keyof Calls] as unknown as new (options: object) => Raw;
    const raw = calling(name, () => new RawClass(given));
    super(name, runtime, raw);
    this.options = options;
    calling(name, () => {
      raw.initialize(options.seed);
      raw.seed(options.seed);
    });
  }

  /** Whether dropout is active: true after `train()`; false initially and after `eval()`. */
  get training(): boolean {
    return this.#training;
  }

  /** Switches to training mode, in which dropout samples a new mask in every call. */
  train(): this {
    return this.#setTraining(true);
  }

  /** Switches to evaluation mode, in which dropout is the identity. */
  eval(): this {
    return this.#setTraining(false);
  }

  /** The number of scalars in all parameters, without buffers. */
  get parameterCount(): number {
    return this.raw.parameters().reduce((sum, { shape, isBuffer }) => sum + (isBuffer ? 0 : elementCount(shape)), 0);
  }

  /**
   * Returns the floating-point operations, one per multiplication or addition, in the matrix products of one forward
   * pass over a sequence of `length` rows.
   */
  flops(length: number, options?: FlopsOptions): number {
    void this.raw; // throws after dispose()
    return this.countFlops(readPass(`${this.name}.flops`, length, options));
  }

  /** @internal The text for `console.log`: the options, with default widths filled in, and the number of parameters. */
  [inspected](): string {
    if (this.disposed) return `${this.name} (disposed)`;
    return `${this.name} ${optionsText(this.options)}, ${this.parameterCount.toLocaleString('en')} parameters`;
  }

  /**
   * Formats a table of the parameters; with a `length`, also the flops of one forward pass over a sequence of that
   * length.
   */
  summary(length?: number): string {
    const flops = length === undefined ? null : { length, flops: this.flops(length) };
    return layerSummary(this.name, this.raw.parameters(), this.parameterCount, flops);
  }

  /** Returns copies of all parameters and buffers, by their names in PyTorch's module of the same name. */
  stateDict(): StateDict {
    const { raw } = this;
    return calling(`${this.name}.stateDict`, () =>
      Object.fromEntries(raw.parameters().map(({ name, shape }, i) => [name, new Tensor(raw.readParameter(i), shape)])),
    );
  }

  /**
   * Sets all parameters from a state dict that was saved here or in PyTorch. It must contain exactly the layer's
   * parameters, in their shapes; query, key and value projections may be packed (`in_proj_weight`) or separate
   * (`q_proj_weight`, `k_proj_weight`, `v_proj_weight`). If it throws, nothing is changed.
   *
   * @throws HeedError `INVALID_ARGUMENT` or `SHAPE_MISMATCH`, listing all parameters that are missing, unexpected or of
   * another shape
   */
  loadStateDict(state: Readonly<Record<string, TensorInput>>): this {
    const { raw } = this;
    const argument = `${this.name}.loadStateDict`;
    const listed = raw.parameters().map((parameter, index) => ({ ...parameter, raw, index }));
    writeState(argument, listed, state);
    this.hasOwnDraws = true;
    return this;
  }

  /** @internal The flops of the matrix products. Layers that have matrix products override it. */
  protected countFlops(_pass: Pass): number {
    return 0;
  }

  /**
   * @internal Makes another layer of the same class in the same mode, with options changed by `changes` and the
   * parameters of `state`. `Base`: the class that is not bound to a runtime.
   */
  protected another(Base: UnboundLayer<Layer, object>, changes: object, state: StateDict): this {
    // Not `new this.constructor(...)`, which would read the options again.
    const given = [this.runtime, this.name, { ...this.options, ...changes }];
    const layer: this = Reflect.construct(Base, given, this.constructor);
    layer.loadStateDict(state);
    return this.training ? layer.train() : layer;
  }

  #setTraining(training: boolean): this {
    const { raw } = this;
    requireIdle(`${this.name}.${training ? 'train' : 'eval'}`, [raw]);
    raw.setTraining(training);
    this.#training = training;
    return this;
  }
}

/** Formats a layer's options as its schema has read them, where widths that were left out are 0. */
function optionsText(options: object): string {
  type Widths = {
    embedDim?: number | undefined;
    numHeads?: number | undefined;
    keyDim?: number | undefined;
    rotary?: object | null | undefined;
  };
  const { embedDim = 0, numHeads = 1, keyDim = 0, rotary } = options as Widths;
  const width = embedDim / numHeads;
  const defaults = { keyDim: width, valueDim: width, keyInputDim: embedDim, valueInputDim: embedDim };
  return fieldsText({
    ...withWidths(options, defaults),
    ...(rotary && { rotary: withWidths(rotary, { dim: keyDim || width }) }),
    seed: null,
  });
}

/** Replaces zeros in the options by `defaults`. */
function withWidths(options: object, defaults: Record<string, number>): object {
  return Object.fromEntries(Object.entries(options).map(([name, value]) => [name, value || (defaults[name] ?? value)]));
}

function fieldsText(fields: object): string {
  const texts = Object.entries(fields)
    .filter(([, value]) => value !== null && value !== undefined)
    .map(([name, value]) => {
      const isFields = typeof value === 'object' && !Array.isArray(value);
      return `${name}: ${isFields ? fieldsText(value) : JSON.stringify(value).replaceAll('"', "'")}`;
    });
  return `{ ${texts.join(', ')} }`;
}
