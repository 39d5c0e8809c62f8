/**
 * Calls with images for a model in one or several workers. Images are sent one by one, so that workers share the work
 * and messages stay small.
 */
import { readOptions } from '../base/options.js';
import type { Tensor } from '../base/tensor.js';
import { embedImageSchema, encodeImageSchema, stacked } from '../images/calls.js';
import { type Checked, portable, readImages } from '../images/pixels.js';
import type { EmbedImageOptions, EncodeImageOptions, EncodeImageResult } from '../models/image-encoder.js';
import type { Workers } from '../models/model.js';
import { runTogether } from './failures.js';
import type { Method } from './protocol.js';
import { type Control, sentOptions } from './sent-options.js';

/** The part of RemoteModel that is used here. */
interface Caller {
  readonly workers: Workers;
  call<T>(method: Method, args: unknown[], options?: Control): Promise<T>;
}

export async function embedRemotely(
  model: Caller,
  given: unknown,
  options: EmbedImageOptions | undefined,
): Promise<Tensor> {
  const read = sentOptions(readOptions('embedImages', embedImageSchema, options));
  const images = readImages(given);
  if (images.length < 2 || read.edit) return model.call('embedImages', [await sent(images)], read);
  const { signal, onProgress, ...rest } = read;
  const vectors: Float32Array[] = [];
  let next = 0;
  let done = 0;
  await runTogether(Math.min(images.length, model.workers.count), signal, async (signal, failures) => {
    while (next < images.length && !failures.first) {
      const n = next++;
      try {
        const image = await portable(images[n]!, 'images');
        const { data } = await model.call<Tensor>('embedImages', [[image]], { ...rest, signal });
        vectors[n] = data;
      } catch (error) {
        if (signal.aborted || !failures.add(error, [n])) throw error;
        return;
      }
      if (!failures.first) onProgress?.({ done: ++done, total: images.length });
    }
  });
  return stacked(vectors, [vectors[0]!.length]);
}

export async function encodeRemotely(
  model: Caller,
  given: unknown,
  options: EncodeImageOptions | undefined,
): Promise<EncodeImageResult> {
  const read = sentOptions(readOptions('encodeImage', encodeImageSchema, options));
  return model.call('encodeImage', [await sent(readImages(given))], read);
}

function sent(images: readonly Checked[]): Promise<object[]> {
  const nameOf = (n: number) => (images.length === 1 ? 'images' : `images[${n}]`);
  return Promise.all(images.map((image, n) => portable(image, nameOf(n))));
}
