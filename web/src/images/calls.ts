/** The calls of a model for images. Notation: N images, L rows of an image, E width, H heads. */
import { describe, formatShape, HeedError, invalid } from '../error.js';
import { makeYield } from '../event-loop.js';
import type {
  ImageCalls as CallsOfImages,
  EmbedImageOptions,
  EncodeImageOptions,
  EncodeImageResult,
  ImageCallOptions,
} from '../models/image-encoder.js';
import { normalized } from '../models/quantized.js';
import { callback, flag, optional, readOptions, type Schema, signal } from '../options.js';
import { Tensor } from '../tensor.js';
import { type Checked, readImages, rgbOf } from './pixels.js';
import type { Preprocessing } from './preprocessing.js';

/** A preprocessed image: normalized values [3, height, width]. */
export interface Values {
  values: Float32Array;
  height: number;
  width: number;
}

/** What is observed of one image's way through the layers. */
export interface LayerHooks {
  /** Before each layer. */
  yieldToEventLoop(): Promise<void>;
  /** The embeddings (-1) and each layer's output [L,E]; the last one after the norm. */
  onLayer?(layer: number, rows: Float32Array, weights: Float32Array | null): void;
  returnWeights?: boolean;
}

/** What the calls need of an encoder. */
interface RunsImages {
  readonly about: {
    readonly vision: { readonly embedDim: number; readonly numHeads: number; readonly numLayers: number };
  };
  readonly vectorWidth: number;
  /** null: the folder has no preprocessor_config.json. */
  readonly preprocessing: Preprocessing | null;
  /** The last layer's rows [L,E], the pooled row [E], and the vector of one image. */
  run(image: Values, hooks: LayerHooks): Promise<{ rows: Float32Array; pooled: Float32Array; vector: Float32Array }>;
}

const schema = { signal, onProgress: callback<NonNullable<ImageCallOptions['onProgress']>> };
const embedSchema = { ...schema, normalize: optional(flag, null) } satisfies Schema<EmbedImageOptions>;
const encodeSchema = {
  ...schema,
  outputAttentions: optional(flag, false),
  outputHiddenStates: optional(flag, false),
} satisfies Schema<EncodeImageOptions>;

/** The calls; `alive` throws once the model has been disposed of. */
export class ImageCalls implements CallsOfImages {
  constructor(readonly encoder: RunsImages) {}

  async embed(
    given: unknown,
    options: EmbedImageOptions | undefined,
    normalizes: boolean,
    alive: () => void,
  ): Promise<Tensor> {
    const read = readOptions('embedImage', embedSchema, options);
    const images = readImages(given);
    const normalize = read.normalize ?? normalizes;
    const vectors: Float32Array[] = [];
    await this.#each(images, read, alive, async (values, hooks) => {
      const { vector } = await this.encoder.run(values, hooks);
      vectors.push(normalize ? normalized(vector) : vector);
    });
    return joined(vectors, [vectors[0]?.length ?? this.encoder.vectorWidth]);
  }

  async encode(given: unknown, options: EncodeImageOptions | undefined, alive: () => void): Promise<EncodeImageResult> {
    const read = readOptions('encodeImage', encodeSchema, options);
    const images = readImages(given);
    const { embedDim, numHeads, numLayers } = this.encoder.about.vision;
    const states = Array.from({ length: numLayers + 1 }, (): Float32Array[] => []);
    const weights = Array.from({ length: numLayers }, (): Float32Array[] => []);
    const last: Float32Array[] = [];
    const pooled: Float32Array[] = [];
    await this.#each(images, read, alive, async (values, hooks, n) => {
      const out = await this.encoder.run(values, {
        ...hooks,
        returnWeights: read.outputAttentions,
        onLayer(layer, rows, softmax) {
          if (read.outputHiddenStates) states[layer + 1]!.push(rows);
          if (softmax) weights[layer]!.push(softmax);
        },
      });
      if (n > 0 && out.rows.length !== last[0]!.length)
        throw invalid(`images[${n}]`, `as many patches as the first image`, 'another number', 'SHAPE_MISMATCH', {
          hint: 'Encode images of different sizes in calls of their own',
        });
      last.push(out.rows);
      pooled.push(out.pooled);
    });
    const length = (last[0]?.length ?? 0) / embedDim;
    const rows = (parts: Float32Array[]) => joined(parts, [length, embedDim]);
    return {
      lastHiddenState: rows(last),
      poolerOutput: joined(pooled, [embedDim]),
      ...(read.outputAttentions && { attentions: weights.map((parts) => joined(parts, [numHeads, length, length])) }),
      ...(read.outputHiddenStates && { hiddenStates: states.map(rows) }),
    };
  }

  /** Preprocesses and runs images one after the other. */
  async #each(
    images: Checked[],
    { signal, onProgress }: ImageCallOptions,
    alive: () => void,
    use: (values: Values, hooks: LayerHooks, n: number) => Promise<void>,
  ): Promise<void> {
    const pause = makeYield(signal);
    const hooks = {
      async yieldToEventLoop() {
        await pause();
        alive();
      },
    };
    for (const [n, image] of images.entries()) {
      const name = images.length === 1 ? 'images' : `images[${n}]`;
      try {
        const values = await this.#preprocessed(image, name);
        alive();
        await use(values, hooks, n);
      } catch (error) {
        if (error instanceof HeedError && images.length > 1)
          error.message = error.message.replace(/^images:/, `${name}:`);
        throw error;
      }
      await hooks.yieldToEventLoop();
      onProgress?.({ done: n + 1, total: images.length });
    }
  }

  async #preprocessed(image: Checked, name: string): Promise<Values> {
    if ('values' in image) return image;
    const { preprocessing } = this.encoder;
    if (!preprocessing) {
      const expected = 'preprocessed values [3, height, width], as the model folder has no preprocessor_config.json';
      throw invalid(name, expected, describe(image), 'UNSUPPORTED');
    }
    return preprocessing.apply(await rgbOf(image, name));
  }
}

/** Tensors of the same shape as one, with an axis before theirs. */
export function joined(parts: Float32Array[], shape: number[]): Tensor {
  const size = shape.reduce((a, b) => a * b, 1);
  const out = new Float32Array(parts.length * size);
  parts.forEach((part, n) => {
    if (part.length !== size)
      throw invalid('images', `results of shape ${formatShape(shape)}`, `${part.length} values`, 'INTERNAL');
    out.set(part, n * size);
  });
  return new Tensor(out, [parts.length, ...shape]);
}
