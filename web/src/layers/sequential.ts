/** Layers one after the other. */
import { describe, invalid } from '../base/error.js';
import { requireIdle } from '../base/in-progress.js';
import type { IndexInput } from '../base/indices.js';
import { listOf, optional, readOptions, type Schema, seed } from '../base/options.js';
import type { Tensor, TensorInput } from '../base/tensor.js';
import { allLayers, type Child, Composite, isChild, ownParts } from './composite.js';
import type { Layer } from './layer.js';

// biome-ignore lint/suspicious/noExplicitAny: inputs differ: tensors, or ids for an embedding
type Step = (x: any) => Tensor | { readonly output: Tensor };

/** What may stand in a `Sequential`: a layer, a model or a function, from a tensor to a tensor or to an object whose `output` goes on. */
export type SequentialPart = Step | (Child & { forward: Step });

/** Options of `Sequential`. */
export interface SequentialOptions {
  /**
   * Draws the initial values and the dropout of all layers that were made without a seed and have not been loaded or trained, each from a stream of its own. An integer from
   * 0 to 2^53 - 1; default: they stay as they are.
   */
  seed?: number;
}

const schema = { seed: optional(seed, null) } satisfies Schema<SequentialOptions>;

/** Reads the constructor's arguments; `draw` is to be called with the model's layers. */
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

/** The result of one part after the other. */
export function runParts(parts: readonly SequentialPart[], x: unknown): Tensor {
  return parts.reduce((input: unknown, part) => {
    const result = typeof part === 'function' ? part(input) : part.forward(input);
    return 'output' in result ? result.output : result;
  }, x) as Tensor;
}

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
export class Sequential extends Composite {
  // Minified classes keep this name in errors and consoles.
  static {
    Object.defineProperty(Sequential, 'name', { value: 'Sequential' });
  }

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

  /** x as the first layer takes it: a tensor, or ids for an `Embedding`. */
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

/** The seed of the i-th of several streams (the increments of SplitMix64; Steele, Lea, Flood 2014). */
function streamSeed(given: number, i: number): number {
  return Number((BigInt(given) + BigInt(i + 1) * 0x9e3779b97f4a7c15n) & (2n ** 53n - 1n));
}
