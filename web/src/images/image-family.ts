/** Types that describe a family with an image encoder. */
import type { RawEncoderModelConfig } from '../base/wasm/core.js';

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
  /** ViT's pooler: a linear layer and tanh on the class token. Not all checkpoints have it. */
  pooler?: string | undefined;
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
