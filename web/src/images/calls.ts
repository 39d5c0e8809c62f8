/** A model's calls for images. Notation: N images, L rows (tokens) per image, E width, H heads. */

import { describe, formatShape, HeedError, invalid } from '../base/error.js';
import { makeYield } from '../base/event-loop.js';
import { append } from '../base/lists.js';
import { callback, flag, optional, readOptions, type Schema, signal } from '../base/options.js';
import { fullRows } from '../base/padding.js';
import { editSchema, needsAll, type ReadEdit, siteSchema } from '../base/site-options.js';
import { planSites, type SitePlan } from '../base/site-plan.js';
import { encoderSizes } from '../base/sites.js';
import { Tensor } from '../base/tensor.js';
import { concatenate } from '../io/files.js';
import type {
  ImageCalls as CallsOfImages,
  EmbedImageOptions,
  EncodeImageOptions,
  EncodeImageResult,
  ImageCallOptions,
} from '../models/image-encoder.js';
import { normalized } from '../models/quantized.js';
import type { PieceHooks, PieceOptions } from '../models/run.js';
import type { ImageTextEncoder } from './image-model.js';
import { type Checked, readImages, rgbOf, type Values } from './pixels.js';

const schema = { signal, onProgress: callback<NonNullable<ImageCallOptions['onProgress']>> };
export const embedImageSchema = {
  ...schema,
  ...editSchema,
  normalize: optional(flag, null),
} satisfies Schema<EmbedImageOptions>;
export const encodeImageSchema = {
  ...schema,
  ...siteSchema,
  outputAttentions: optional(flag, false),
  outputHiddenStates: optional(flag, false),
} satisfies Schema<EncodeImageOptions>;

/** Implements a model's image calls. `alive` throws once the model has been disposed of. */
export class ImageCalls implements CallsOfImages {
  constructor(readonly encoder: ImageTextEncoder) {}

  async embed(
    given: unknown,
    options: EmbedImageOptions | undefined,
    normalizes: boolean,
    alive: () => void,
  ): Promise<Tensor> {
    const call = readOptions('embedImages', embedImageSchema, options);
    const images = readImages(given);
    const normalize = call.normalize ?? normalizes;
    const vectors: Float32Array[] = [];
    await this.#each(images, call, alive, async (values, options, n) => {
      const siteOf = (length: number) =>
        this.#sites('embedImages', call, images.length, length)?.raw(n, fullRows(values.length, length)) ?? null;
      const run = await this.encoder.run(values, options, {}, siteOf);
      append(vectors, normalize ? run.vectors.map(normalized) : run.vectors);
    });
    return stacked(vectors, [vectors[0]?.length ?? this.encoder.vectorWidth]);
  }

  async encode(given: unknown, options: EncodeImageOptions | undefined, alive: () => void): Promise<EncodeImageResult> {
    const call = readOptions('encodeImage', encodeImageSchema, options);
    const images = readImages(given);
    const { embedDim, numHeads, numLayers } = this.encoder.about.vision;
    const states = Array.from({ length: numLayers + 1 }, (): Float32Array[] => []);
    const weights = Array.from({ length: numLayers }, (): Float32Array[] => []);
    const last: Float32Array[] = [];
    const pooled: Float32Array[] = [];
    const logits: Float32Array[] = [];
    let sites: SitePlan | null = null;
    await this.#each(images, call, alive, async (values, options, n) => {
      const requireLength = (length: number) => {
        if (n === 0 || length * embedDim === last[0]!.length) return;
        throw invalid(
          `images[${n}]`,
          `${last[0]!.length / embedDim} image tokens, as for the first image`,
          `${length}`,
          'SHAPE_MISMATCH',
          {
            hint: 'Encode images of different sizes in separate calls',
          },
        );
      };
      const siteOf = (length: number) => {
        requireLength(length);
        sites ??= this.#sites('encodeImage', call, images.length, length);
        return sites?.raw(n, fullRows(values.length, length)) ?? null;
      };
      const hooks: Omit<PieceHooks, 'use'> = {
        returnWeights: call.outputAttentions,
        returnStates: call.outputHiddenStates,
        onLayer(layer, encoding, softmax) {
          if (call.outputHiddenStates) states[layer + 1]!.push(encoding.hidden());
          if (softmax) weights[layer]!.push(softmax);
        },
      };
      const out = await this.encoder.run(values, options, hooks, siteOf);
      last.push(out.rows);
      append(pooled, out.pooled);
      append(logits, out.logits);
    });
    const length = last.reduce((sum, { length }) => sum + length, 0) / embedDim / Math.max(1, images.length);
    const rows = (parts: Float32Array[]) => stacked(parts, [length, embedDim]);
    return {
      lastHiddenState: rows(last),
      poolerOutput: stacked(pooled, [embedDim]),
      ...(logits.length > 0 && { logits: stacked(logits, [logits[0]!.length]) }),
      ...(call.outputAttentions && { attentions: weights.map((parts) => stacked(parts, [numHeads, length, length])) }),
      ...(call.outputHiddenStates && { hiddenStates: states.map(rows) }),
      ...(call.read && { activations: (sites as SitePlan | null)?.activations() ?? {} }),
    };
  }

  /** Plans the sites that a call for `count` images of `length` rows each reads and edits. */
  #sites(owner: string, call: Parameters<typeof planSites>[0], count: number, length: number): SitePlan | null {
    const { vision } = this.encoder.about;
    const sizes = encoderSizes(vision, count, length);
    return planSites(call, () => ({ owner, stacks: [{ numLayers: vision.numLayers, sizesOf: () => sizes }] }));
  }

  /**
   * Preprocesses and runs images one by one, or all at once if an edit needs all of them. `n`: the number of the first
   * image passed to `use`.
   */
  async #each(
    images: Checked[],
    { signal, onProgress, edit }: Pick<ImageCallOptions, 'signal' | 'onProgress'> & { edit: ReadEdit[] | null },
    alive: () => void,
    use: (values: readonly Values[], options: PieceOptions, n: number) => Promise<void>,
  ): Promise<void> {
    const pause = makeYield(signal);
    const options = {
      headMask: null,
      sites: null,
      async yieldToEventLoop() {
        await pause();
        alive();
      },
    };
    const together = edit?.some(needsAll) ? images.length : 1;
    let waiting: Values[] = [];
    for (const [n, image] of images.entries()) {
      const name = images.length === 1 ? 'images' : `images[${n}]`;
      try {
        waiting.push(await this.#preprocessed(image, name));
        alive();
        if (waiting.length < together) continue;
        const values = waiting;
        waiting = [];
        await use(values, options, n + 1 - values.length);
      } catch (error) {
        if (error instanceof HeedError && images.length > 1)
          error.message = error.message.replace(/^images:/, `${name}:`);
        throw error;
      }
      await options.yieldToEventLoop();
      onProgress?.({ done: n + 1, total: images.length });
    }
  }

  async #preprocessed(image: Checked, name: string): Promise<Values> {
    if ('values' in image) return image;
    const { preprocessing } = this.encoder;
    if (!preprocessing) {
      const expected =
        'preprocessed values [3, height, width], as the model folder has no preprocessor_config.json or processor_config.json';
      throw invalid(name, expected, describe(image), 'UNSUPPORTED');
    }
    return preprocessing.apply(await rgbOf(image, name));
  }
}

/** Concatenates tensors of shape `shape`, one or more per part, along a new first axis. */
export function stacked(parts: Float32Array[], shape: number[]): Tensor {
  const size = shape.reduce((a, b) => a * b, 1);
  const wrong = parts.find((part) => part.length % size !== 0);
  if (wrong) throw invalid('images', `results of shape ${formatShape(shape)}`, `${wrong.length} values`, 'INTERNAL');
  const out = concatenate(Float32Array, parts);
  return new Tensor(out, [out.length / (size || 1), ...shape]);
}
