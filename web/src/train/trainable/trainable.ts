/**
 * The members that layers have in heed/train in addition to those in heed: gradients of single calls, and parameters.
 */
import { flag, optional, plainOptions } from '../../base/options.js';
import type { Tensor, TensorInput } from '../../base/tensor.js';
import { type Composite, layersOf } from '../../layers/composition/composite.js';
import type { FreeParameter } from '../../layers/composition/parameter.js';
import type { DecoderCall } from '../../layers/decoder.js';
import type { Attended } from '../../layers/functions.js';
import type { Layer, LayerTraits } from '../../layers/layer.js';
import type { WithActivations } from '../../layers/layer-sites.js';
import type { MultiHeadAttentionCall } from '../../layers/multi-head-attention.js';
import type { Transformed, TransformerCall } from '../../layers/transformer.js';
import { matching, type NamePattern, type Parameter, parametersOf } from '../graph/parameters.js';
import type { Gradients, Tape } from '../graph/tape.js';

/** The option of calls that can be differentiated by themselves. */
export interface Differentiate {
  /** Whether to return `backward`, too. */
  backward: true;
}

/** The result of a call with `backward: true`. */
export type Differentiated<Result, Inputs extends string> = Result & {
  /**
   * Computes the gradients of sum(cotangent * output) with respect to the inputs and the parameters. `cotangent` has
   * the shape of the output. May be called once, while the parameters are those of the forward pass. Adds nothing to
   * the parameters' `grad`.
   * @throws HeedError `SHAPE_MISMATCH`; `INVALID_ARGUMENT` for a second call, or after the parameters have changed;
   * `DISPOSED`
   */
  backward(cotangent: TensorInput): Gradients<Inputs>;
};

/** Members of every layer and module. */
export interface Trainable {
  /**
   * Lists the parameters of the layer or module and of the layers inside it, without buffers.
   *
   * @example
   * new heed.Linear({ inFeatures: 8, outFeatures: 2 }).parameters().map(({ name }) => name); // ["weight", "bias"]
   */
  parameters(): Parameter[];
  /**
   * Excludes parameters whose names match from training. Default: all parameters.
   *
   * @example
   * model.freeze('*.bias').parameters().filter(({ requiresGrad }) => requiresGrad); // all but the biases
   * @throws HeedError `INVALID_ARGUMENT` for a pattern that matches none
   */
  freeze(pattern?: NamePattern): this;
  /**
   * Includes parameters whose names match in training again. Default: all parameters.
   *
   * @example
   * model.freeze().unfreeze(/weight$/); // only weights are trained
   */
  unfreeze(pattern?: NamePattern): this;
}

/** `forward` of a layer that maps one tensor to one tensor. */
export interface TensorForward {
  forward(x: TensorInput, options: Differentiate): Differentiated<{ output: Tensor }, 'x'>;
}

/** `forward` of `MultiHeadAttention`. In self-attention, the gradient of `query` is that of the whole input. */
export interface MultiHeadAttentionForward {
  forward<W extends boolean = false, A extends boolean = false>(
    query: TensorInput,
    options: MultiHeadAttentionCall<W, A> & Differentiate,
  ): Differentiated<
    Attended<W extends true ? true : A> & WithActivations,
    'query' | 'key' | 'value' | 'mask' | 'keyMask' | 'headMask'
  >;
}

/** `forward` of `EncoderLayer` and `Encoder`. */
export interface EncoderForward<Call, Weights> {
  forward<W extends boolean = false>(
    x: TensorInput,
    options: Call & { returnWeights?: W | undefined } & Differentiate,
  ): Differentiated<Attended<W, Weights> & WithActivations, 'x' | 'mask' | 'keyMask' | 'headMask'>;
}

/** `forward` of `DecoderLayer` and `Decoder`. */
export interface DecoderForward<Weights> {
  forward<W extends boolean = false>(
    target: TensorInput,
    memory: TensorInput,
    options: DecoderCall<W> & Differentiate,
  ): Differentiated<
    Attended<W, Weights> & WithActivations,
    'target' | 'memory' | 'mask' | 'keyMask' | 'memoryMask' | 'memoryKeyMask'
  >;
}

/** `forward` of `Transformer`. The cotangent belongs to `output`. */
export interface TransformerForward {
  forward<W extends boolean = false>(
    source: TensorInput,
    target: TensorInput,
    options: TransformerCall<W> & Differentiate,
  ): Differentiated<Transformed<W> & WithActivations, 'source' | 'target' | 'sourceKeyMask' | 'targetKeyMask'>;
}

const readFlag = optional(flag, false);

/** Separates `backward` from a call's options. */
export function readBackward<Options extends object>(
  name: string,
  options: (Options & { backward?: boolean | undefined }) | undefined,
): { backward: boolean; rest: Options | undefined } {
  if (options === undefined || options === null) return { backward: false, rest: options };
  const { backward, ...rest } = plainOptions(name, options);
  return { backward: readFlag(backward, `${name}.backward`), rest: rest as Options };
}

type Forward = (...args: unknown[]) => Tensor | { output: Tensor };

/** The classes that heed itself made, as opposed to their subclasses. */
export const ownClasses = new WeakSet<object>();

/** Restores the name of a class, which minification removes. */
export function named<T extends object>(name: string, Class: T): T {
  return Object.defineProperty(Class, 'name', { value: name });
}

/** Adds the members of `Trainable` to the layer class `Base`. */
// biome-ignore lint/suspicious/noExplicitAny: TypeScript requires it for a class that extends an argument
function withParameters<Class extends new (...given: any[]) => Layer>(tape: Tape, name: string, Base: Class) {
  return class extends Base implements Trainable {
    parameters(): Parameter[] {
      return parametersOf(tape, this);
    }

    freeze(pattern?: NamePattern): this {
      return setRequired(this, `${name}.freeze`, pattern, false);
    }

    unfreeze(pattern?: NamePattern): this {
      return setRequired(this, `${name}.unfreeze`, pattern, true);
    }
  };
}

/** A function of its own, so that `backward`, which keeps what it returns, does not keep the arguments of `forward`. */
const parametersFor = (layer: { parameters(): Parameter[] }) => () => layer.parameters();

/**
 * Makes a trainable subclass of the layer class `Base`. It has no fields, because pruned layers are made without its
 * constructor.
 */
export function trainable(tape: Tape, name: string, Base: new (options?: object) => Layer): object {
  const { inputs: at = 1 } = Base as LayerTraits;
  const { forward } = Base.prototype as { forward: Forward };
  const Made = class extends withParameters(tape, name, Base) {
    forward(...args: unknown[]) {
      const { owner } = tape;
      tape.owner = this;
      try {
        const { backward, rest } = readBackward(`${name}.forward`, args[at] as object | undefined);
        const given = [...args.slice(0, at), rest];
        if (!backward) return forward.apply(this, given);
        return tape.capture(`${name}.forward`, null, parametersFor(this), () => forward.apply(this, given));
      } finally {
        tape.owner = owner;
      }
    }
  };
  ownClasses.add(Made);
  return named(name, Made);
}

/**
 * Makes a trainable subclass of `Parameter`. A parameter follows the mode of the model that has it, and is in training
 * mode if none has. Its constructor cannot know the model, so its first use looks for it among the new models.
 */
export function trainableParameter(tape: Tape, Base: new (...given: unknown[]) => FreeParameter): object {
  const Made = class
    extends withParameters(tape, 'Parameter', Base)
    implements Pick<Parameter, 'grad' | 'requiresGrad'>
  {
    #hasMode = false;

    override train(): this {
      this.#hasMode = true;
      return super.train();
    }

    override eval(): this {
      this.#hasMode = true;
      return super.eval();
    }

    #findMode(): void {
      for (const model of tape.newModels.splice(0)) {
        const found = model.deref() as Composite | undefined;
        for (const [layer] of found ? layersOf(found) : [])
          if (layer instanceof Made && !layer.#hasMode) found!.training ? layer.train() : layer.eval();
      }
      if (!this.#hasMode) this.train();
    }

    override get data(): Float32Array {
      if (!this.#hasMode) this.#findMode();
      const before = tape.owner;
      tape.owner = this;
      try {
        return super.data;
      } finally {
        tape.owner = before;
      }
    }

    get grad(): Tensor | null {
      return this.parameters()[0]!.grad;
    }

    get requiresGrad(): boolean {
      return this.parameters()[0]!.requiresGrad;
    }

    set requiresGrad(required: boolean) {
      this.parameters()[0]!.requiresGrad = required;
    }

    override parameters(): Parameter[] {
      return parametersOf(tape, this, () => 'parameter');
    }
  };
  return named('Parameter', Made);
}

/** Freezes or unfreezes the parameters of `owner` whose names match. */
export function setRequired<T extends Trainable>(
  owner: T,
  name: string,
  pattern: NamePattern | undefined,
  required: boolean,
): T {
  for (const parameter of matching(name, owner.parameters(), pattern)) parameter.requiresGrad = required;
  return owner;
}
