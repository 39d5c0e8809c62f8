/** The tasks of `pipeline` with images. */
import { describe, invalid } from '../base/error.js';
import { flag, plainOptions } from '../base/options.js';
import type { ImageInput, ImagesInput, PretrainedModel } from '../models/index.js';
import { classifyImages } from '../tasks/index.js';
import { type PipelineTensor, pipelineTensor } from './tensor.js';

/** An image in a form that `embedImages` accepts, or its URL. */
export type PipelineImage = ImageInput | string;
/** One image, or several. */
export type PipelineImages = PipelineImage | readonly PipelineImage[];

/** Fetches the images that are given by their URLs. */
async function fetched(images: PipelineImages): Promise<ImagesInput> {
  const one = async (image: PipelineImage, name: string): Promise<ImageInput> => {
    if (typeof image !== 'string') return image;
    const failed = (got: string, cause?: unknown) =>
      invalid(name, 'the address of an image', `'${image}' (${got})`, 'INVALID_ARGUMENT', { cause });
    const response = await fetch(image).catch((cause) => {
      throw failed(describe(cause), cause);
    });
    if (!response.ok) throw failed(`status ${response.status}`);
    return response.blob();
  };
  if (!Array.isArray(images)) return one(images as PipelineImage, 'images');
  return Promise.all(images.map((image, n) => one(image, `images[${n}]`)));
}

/** Whether several images are given: an array, or a tensor [N,3,height,width]. */
const areSeveral = (images: PipelineImages) =>
  Array.isArray(images) || (images as { shape?: readonly number[] | undefined } | null)?.shape?.length === 4;

export function imageClassification(model: PretrainedModel) {
  return async (images: PipelineImages, options?: object) => {
    const { top_k = 5, ...call } = plainOptions('image-classification', options) as {
      top_k?: number | null | undefined;
    };
    const all = await classifyImages(model, await fetched(images), { ...call, topK: top_k ?? Infinity });
    return areSeveral(images) ? all : all[0]!;
  };
}

export function imageFeatureExtraction(model: PretrainedModel) {
  return async (images: PipelineImages, options?: object): Promise<PipelineTensor> => {
    const { pool = false, ...call } = plainOptions('image-feature-extraction', options) as {
      pool?: boolean | undefined;
    };
    const pools = flag(pool, 'pool');
    const given = await fetched(images);
    // For CLIP and SigLIP, return the vectors to compare with those of texts, as transformers.js's exported vision
    // models do.
    const isPaired = ['clip', 'siglip'].includes(model.config.family);
    const result = isPaired
      ? await model.embedImages(given, call)
      : (await model.encodeImage(given, call))[pools ? 'poolerOutput' : 'lastHiddenState'];
    return pipelineTensor(result.data, result.shape);
  };
}
