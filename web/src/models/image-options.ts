/** The schemas of the options of image calls. */
import { callback, flag, optional, type Schema, signal } from '../base/options.js';
import { editSchema, siteSchema } from '../base/site-options.js';
import type { EmbedImageOptions, EncodeImageOptions, ImageCallOptions } from './image-encoder.js';

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
