/** Descriptions of families with an image encoder, and the settings that all of them have in common. */
import type { RawEncoderModelConfig } from '../base/wasm/core.js';
import type { Settings } from '../io/settings.js';
import { activation, DEFAULTS, type Family, MAX_LAYERS, sizesOf } from '../models/families/family.js';

/** Hugging Face's default values for settings that config.json leaves out. */
export const shared = { num_hidden_layers: 12, attention_dropout: 0, num_channels: 3, image_size: 224 };
export const BASE = { hidden_size: 768, intermediate_size: 3072, num_attention_heads: 12 };

/**
 * The layers after an image encoder, as tensor names without the family's prefix. `weight` and `bias` are appended to
 * the names of layers.
 */
export interface VisionHead {
  /** A norm that is applied only to the pooled row. */
  norm?: string | undefined;
  /** The projection from the pooled row to the vector. */
  projection?: string | undefined;
  /** SigLIP's attention pooling, which replaces the class token's row as the pooled row. */
  pooling?: string | undefined;
  /** ViT's pooler: a linear layer and an activation on the class token. Not all checkpoints have it. */
  pooler?: { name: string; activation: string } | undefined;
  /**
   * The linear layer from an image to its labels. Its input is the class token ('class'), or the class token
   * concatenated with the mean of the patch tokens ('class and mean').
   */
  classifier?: { name: string; rows: 'class' | 'class and mean' } | undefined;
}

/** The text encoder of a CLIP or SigLIP. */
export interface TextPart {
  /** The projection from a text's last row to its vector. */
  projection: string;
  /** For CLIP: the id of the token that ends a text; null: the largest id in the text. */
  end?: number | null | undefined;
  /** For SigLIP: the id of the padding token, which fills texts up to the maximum length. */
  padId?: number | undefined;
}

export interface ImageFamily {
  type: string;
  /** The options of the image encoder. */
  vision: RawEncoderModelConfig & { patchSize: number };
  /** The side length of an image in pixels. */
  imageSize: number;
  /** The base of two-dimensional rotary positions. Absent if positions are a table. */
  rotaryBase?: number | undefined;
  /**
   * Present if images may differ in size from the checkpoint's. `antialias`: whether a table of positions is
   * interpolated with antialiasing.
   */
  interpolates?: { antialias: boolean } | undefined;
  head: VisionHead;
  /** The pooling of texts, or of images if there is no text encoder. */
  pooling: 'cls' | 'last';
  text: TextPart | null;
}

export interface Described {
  family: Family;
  config: RawEncoderModelConfig;
  about: ImageFamily;
}

/** Encoder options that text and image encoders have in common; both are pre-norm. */
export function sharedConfig(s: Settings, fallback: Parameters<typeof sizesOf>[1]) {
  return {
    ...DEFAULTS,
    ...sizesOf(s, fallback),
    numLayers: s.count('num_hidden_layers', undefined, 1, MAX_LAYERS),
    activation: activation(s, 'hidden_act', 'gelu'),
    eps: s.between('layer_norm_eps', 0, 1),
    normFirst: true,
    embeddingNorm: false,
    finalNorm: true,
  };
}

/** The options of an image encoder. */
export function visionConfig(
  s: Settings,
  about: { classRow: boolean; registers?: number | undefined; feedForwardFactor?: number | undefined },
) {
  const { classRow, registers = 0, feedForwardFactor } = about;
  const patchSize = s.count('patch_size', undefined, 1, 1024);
  const imageSize = s.count('image_size', undefined, patchSize, 2 ** 14);
  if (s.count('num_channels', 3) !== 3) throw s.unsupported('num_channels', '3', String(s.get('num_channels')));
  const maxPositions = Math.floor(imageSize / patchSize) ** 2 + (classRow ? 1 : 0) + registers;
  const config = sharedConfig(s, { vocabSize: 0, maxPositions, feedForwardFactor });
  return { imageSize, vision: { ...config, maxPositions, patchSize, classRow, registers } };
}
