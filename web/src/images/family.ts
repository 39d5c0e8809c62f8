/** How a family that encodes images is described. Notation: E width. */

/** The stack of layers of an encoder of images, and what surrounds it. */
export interface VisionConfig {
  embedDim: number;
  numHeads: number;
  numLayers: number;
  feedForwardDim: number;
  activation: string;
  /** Feed-forwards have the activation x sigmoid(1.702 x). */
  quick: boolean;
  gated: boolean;
  eps: number;
  /** Side of a patch, and of an image, in pixels. */
  patch: number;
  image: number;
}

/** Names of tensors, without the family's prefix; `weight` and `bias` are appended to those of layers. */
export interface VisionNames {
  patch: string;
  /** The row before those of the patches. */
  classRow?: string;
  /** The rows between it and those of the patches, which have no positions. */
  registers?: { name: string; count: number };
  /** Absent: rotary positions. */
  positions?: string;
  /** Rotary positions in two dimensions: the base of their angles. */
  rotaryBase?: number;
  /** A norm of the embeddings. */
  firstNorm?: string;
  /** The norm after the last layer. */
  lastNorm: string;
  /** Whether the norm is applied to the pooled row only. */
  normsPooled?: boolean;
  /** From the pooled row to the vector. */
  projection?: string;
  /** SigLIP's attention pooling. */
  head?: string;
  /** Factors on the outputs of each layer's blocks. */
  layerScales?: (layer: number) => [string, string];
  /** If images may have other sizes than the checkpoint's: whether its positions are interpolated with antialiasing, if they are a table. */
  interpolates?: { antialias: boolean };
}

/** An encoder of texts that is part of a CLIP or a SigLIP. */
export interface TextPart {
  /** The layer from a text's last row to its vector. */
  projection: string;
  /** CLIP: the token at whose row a text ends, or null: the largest id. */
  end?: number | null;
  /** SigLIP: the token that fills texts up to the model's length. */
  padId?: number;
  /** As in VisionConfig. */
  quick: boolean;
}

export interface ImageFamily {
  type: string;
  vision: VisionConfig;
  names: VisionNames;
  /** Of texts, or of images if there are no texts. */
  pooling: 'cls' | 'last';
  text: TextPart | null;
}
