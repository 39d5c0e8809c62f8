/** The calls of a model for images. Notation: N images, L rows of an image, E width, H heads. */
import { describe, formatShape, HeedError, invalid } from '../error.js';
import { normalized } from '../models/quantized.js';
import { makeYield } from '../models/run.js';
import { callback, flag, optional, readOptions, type Schema, signal } from '../options.js';
import type { SignalLike } from '../platform.js';
import { Tensor } from '../tensor.js';
import type { ImageTextEncoder, LayerHooks, Values } from './encoder.js';
import { type Checked, type ImagesInput, readImages, rgbOf } from './pixels.js';

export interface ImageCallOptions {
  /** Stops the call between layers and between images; it rejects with the signal's reason. */
  signal?: SignalLike;
  /** Called with the number of images done so far and in total. */
  onProgress?: (progress: { done: number; total: number }) => void;
}

export interface EmbedImageOptions extends ImageCallOptions {
  /** Whether to scale vectors to length 1. Default: as for texts, false unless the model's folder says otherwise. */
  normalize?: boolean;
}

export interface EncodeImageOptions extends ImageCallOptions {
  /** Whether the result has `attentions`. Default false. */
  outputAttentions?: boolean;
  /** Whether the result has `hiddenStates`. Default false. */
  outputHiddenStates?: boolean;
}

/** L: the class token in CLIP, DINOv2 and DINOv3, the registers in the latter two, and the patches, in this order. */
export interface EncodeImageResult {
  /** [N,L,E] */
  lastHiddenState: Tensor;
  /** [N,E]. CLIP, DINOv2 and DINOv3: the row of the class token after the last norm; SigLIP: the output of the attention pooling. */
  poolerOutput: Tensor;
  /** One tensor [N,H,L,L] per layer: the softmax's output. */
  attentions?: Tensor[];
  /** The embeddings and each layer's output, [N,L,E] each; the last is lastHiddenState. */
  hiddenStates?: Tensor[];
}

const schema = { signal, onProgress: callback<NonNullable<ImageCallOptions['onProgress']>> };
const embedSchema = { ...schema, normalize: optional(flag, null) } satisfies Schema<EmbedImageOptions>;
const encodeSchema = {
  ...schema,
  outputAttentions: optional(flag, false),
  outputHiddenStates: optional(flag, false),
} satisfies Schema<EncodeImageOptions>;

/** The calls; `alive` throws once the model has been disposed of. */
export class ImageCalls {
  constructor(readonly encoder: ImageTextEncoder) {}

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

export type { ImagesInput };
