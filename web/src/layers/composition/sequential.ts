/** Models: `Module`, the base class of custom ones, and `Sequential`, which runs layers one after another. */
import { describe, invalid, needsTraining } from '../../base/error.js';
import { requireIdle } from '../../base/in-progress.js';
import type { IndexInput } from '../../base/indices.js';
import { listOf, optional, readOptions, type Schema, seed } from '../../base/options.js';
import type { Tensor, TensorInput } from '../../base/tensor.js';
import type { Layer } from '../layer.js';
import { allLayers, type Child, Composite, isChild, ownParts } from './composite.js';

// biome-ignore lint/suspicious/noExplicitAny: inputs differ: tensors, or ids for an embedding
type Step = (x: any) => Tensor | { readonly output: Tensor };

/**
 * A part of a `Sequential`: a layer, a model or a function that maps a tensor to a tensor, or to an object whose
 * `output` is passed on.
 */
export type SequentialPart = Step | (Child & { forward: Step });

/** Options of `Sequential`. */
export interface SequentialOptions {
  /**
   * Initializes the parameters and the dropout of all layers that were made without a seed and have not been loaded or
   * trained, each from its own random stream. An integer from 0 to 2^53 - 1. Default: the layers are unchanged.
   */
  seed?: number | undefined;
}

const schema = { seed: optional(seed, null) } satisfies Schema<SequentialOptions>;

/** Reads the constructor's arguments. `draw` must be called with the model's layers. */
export function readParts(
  parts: unknown,
  options: unknown,
): { parts: readonly SequentialPart[]; draw(layers: [Layer, string][], isDrawn?: (layer: Layer) => boolean): void } {
  const { seed } = readOptions('Sequential', schema, options);
  return {
    parts: listOf(readPart, 'an array of layers')(parts, 'Sequential: layers'),
    draw(layers, isDrawn = () => true) {
      if (seed === null) return;
      const drawn = layers.map(([layer]) => !layer.hasOwnDraws && isDrawn(layer));
      requireIdle(
        'Sequential.seed',
        layers.flatMap(([{ raw }], i) => (drawn[i] ? [raw] : [])),
      );
      for (const [i, [layer]] of layers.entries()) {
        if (!drawn[i]) continue;
        const own = streamSeed(seed, i);
        layer.raw.initialize(own);
        layer.raw.seed(own);
      }
    },
  };
}

/** Runs the parts one after another. */
export function runParts(parts: readonly SequentialPart[], x: unknown): Tensor {
  return parts.reduce((input: unknown, part) => {
    const result = typeof part === 'function' ? part(input) : part.forward(input);
    return 'output' in result ? result.output : result;
  }, x) as Tensor;
}

/**
 * Base class of custom models, like `torch.nn.Module`, without gradients. Its children are the layers, modules and
 * parameters that are properties of the object, or elements of arrays that are properties. A model that was trained
 * with heed/train computes the same bits here.
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
 * classifier.forward(x).shape; // [3]
 * new Classifier().loadStateDict(classifier.stateDict());
 */
export abstract class Module extends Composite {
  /** @internal For messages and consoles, as minification renames classes. */
  static override readonly name: string = 'Module';
}

// Names that have no meaning without gradients.
for (const name of ['fit', 'evaluate', 'predict', 'parameters', 'freeze', 'unfreeze', 'backward']) {
  Object.defineProperty(Module.prototype, name, {
    configurable: true,
    get(this: Module) {
      throw needsTraining(`${this.constructor.name}.${name}`);
    },
    set(this: Module, value: unknown) {
      Object.defineProperty(this, name, { value, configurable: true, enumerable: true, writable: true });
    },
  });
}

/**
 * Runs layers one after another: `torch.nn.Sequential`. If a layer returns more than a tensor, its `output` is passed
 * on. Parameters `0.*`, `1.*`, ...
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
  /** @internal For messages and consoles, as minification renames classes. */
  static override readonly name: string = 'Sequential';

  readonly #parts: readonly SequentialPart[];

  constructor(parts: readonly SequentialPart[], options?: SequentialOptions) {
    super();
    const read = readParts(parts, options);
    this.#parts = read.parts;
    read.draw(this[allLayers]());
  }

  /** The parts in order. */
  get parts(): readonly SequentialPart[] {
    return this.#parts;
  }

  /** Runs the model on x, the input of the first layer: a tensor, or ids for an `Embedding`. */
  forward(x: TensorInput | IndexInput): Tensor;
  forward(x: unknown, options?: object): Tensor {
    readOptions('Sequential.forward', {}, options);
    return runParts(this.#parts, x);
  }

  /** @internal */
  override [ownParts](): object {
    return this.#parts;
  }
}

function readPart(value: unknown, name: string): SequentialPart {
  if (typeof value === 'function' || (isChild(value) && 'forward' in value)) return value as SequentialPart;
  throw invalid(name, 'a layer, a model of layers or a function', describe(value));
}

/** The seed of the i-th random stream (the increments of SplitMix64; Steele, Lea, Flood 2014). */
function streamSeed(given: number, i: number): number {
  return Number((BigInt(given) + BigInt(i + 1) * 0x9e3779b97f4a7c15n) & (2n ** 53n - 1n));
}
