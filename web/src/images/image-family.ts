/** How a family that encodes images is described. */
import type { RawEncoderModelConfig } from '../base/wasm/core.js';

/** What follows an encoder of images, by the names of its tensors without the family's prefix; `weight` and `bias` are appended to those of layers. */
export interface VisionHead {
  /** A norm of the pooled row alone. */
  norm?: string;
  /** From the pooled row to the vector. */
  projection?: string;
  /** SigLIP's attention pooling, in place of the first row. */
  pooling?: string;
  /** ViT's layer with tanh after the class's row, which not all checkpoints have. */
  pooler?: string;
  /** The layer from an image's row to its labels, which classifiers have: of the class's row alone ('class'), or followed by the mean of the patches' rows. */
  classifier?: { name: string; rows: 'class' | 'class and mean' };
}

/** An encoder of texts that is part of a CLIP or a SigLIP. */
export interface TextPart {
  /** The layer from a text's last row to its vector. */
  projection: string;
  /** CLIP: the token at whose row a text ends, or null: the largest id. */
  end?: number | null;
  /** SigLIP: the token that fills texts up to the model's length. */
  padId?: number;
}

export interface ImageFamily {
  type: string;
  /** The core's options for the encoder of images. */
  vision: RawEncoderModelConfig & { patchSize: number };
  /** The side of an image in pixels. */
  imageSize: number;
  /** Rotary positions in two dimensions: the base of their angles. Absent: a table of positions. */
  rotaryBase?: number;
  /** If images may have other sizes than the checkpoint's: whether its positions are interpolated with antialiasing, if they are a table. */
  interpolates?: { antialias: boolean };
  head: VisionHead;
  /** Of texts, or of images if there are no texts. */
  pooling: 'cls' | 'last';
  text: TextPart | null;
}
