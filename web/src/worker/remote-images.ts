/** Calls for images of a model in one or several workers: images are sent one by one, so that workers share them and messages stay small. */
import { HeedError } from '../error.js';
import { joined } from '../images/calls.js';
import { portable, readImages } from '../images/pixels.js';
import type { EmbedImageOptions, EncodeImageOptions, EncodeImageResult } from '../models/image-encoder.js';
import type { Workers } from '../models/model.js';
import { callback, plainOptions, signal } from '../options.js';
import { linkedAbort } from '../platform.js';
import type { Tensor } from '../tensor.js';
import type { Method } from './protocol.js';

/** The model, a RemoteModel. */
interface Caller {
  readonly workers: Workers;
  call<T>(method: Method, args: unknown[], options?: object): Promise<T>;
}

export async function embedRemotely(
  model: Caller,
  given: unknown,
  options: EmbedImageOptions | undefined,
): Promise<Tensor> {
  const { signal: outer, onProgress, ...rest } = plainOptions('embedImage', options);
  const checkedSignal = signal(outer, 'embedImage.signal');
  const report = callback<NonNullable<EmbedImageOptions['onProgress']>>(onProgress, 'embedImage.onProgress');
  const images = readImages(given);
  if (images.length === 0 || rest.edit) {
    const sent = images.map((image, n) => portable(image, images.length === 1 ? 'images' : `images[${n}]`));
    return model.call('embedImage', [await Promise.all(sent)], { ...rest, signal: checkedSignal, onProgress: report });
  }
  const { stop, unlink } = linkedAbort(checkedSignal);
  const vectors: Float32Array[] = [];
  let next = 0;
  let done = 0;
  const work = async () => {
    while (next < images.length) {
      const n = next++;
      const name = images.length === 1 ? 'images' : `images[${n}]`;
      const call = { ...rest, signal: stop.signal };
      const { data } = await model
        .call<Tensor>('embedImage', [await portable(images[n]!, name)], call)
        .catch((error: unknown) => {
          if (error instanceof HeedError) error.message = error.message.replace(/^images(?=[:.])/, name);
          throw error;
        });
      vectors[n] = data;
      report?.({ done: ++done, total: images.length });
    }
  };
  try {
    await Promise.all(Array.from({ length: Math.min(images.length, model.workers.count) }, work));
  } catch (error) {
    stop.abort(error);
    throw error;
  } finally {
    unlink();
  }
  return joined(vectors, [vectors[0]!.length]);
}

export async function encodeRemotely(
  model: Caller,
  given: unknown,
  options: EncodeImageOptions | undefined,
): Promise<EncodeImageResult> {
  const images = readImages(given);
  const sent = images.map((image, n) => portable(image, images.length === 1 ? 'images' : `images[${n}]`));
  return model.call('encodeImage', [await Promise.all(sent)], options);
}
