/**
 * Images as models take them, the options and results of their calls, and what loading and running a model need of an encoder of images. The folder images/ has such encoders; they
 * are loaded when a folder's family calls for one.
 */

import type { BlobLike, SignalLike } from '../base/platform.js';
import type { EditOptions, SiteOptions } from '../base/sites.js';
import type { Tensor, TensorLike } from '../base/tensor.js';
import type { Core, RawEncoderModel, RawEncoderModelConfig, RawTensor } from '../base/wasm/core.js';
import type { ModelFolder } from '../io/files.js';
import type { Settings } from '../io/settings.js';
import type { TextTokenizer } from '../text/tokenizer.js';
import type { ModelDevice } from './device.js';
import type { SentenceConfig } from './families/sentence-transformers.js';
import type { RowSteps } from './input.js';
import type { PieceHooks, PieceOptions } from './run.js';

/** Pixels as RGBA or RGB bytes, row by row: an ImageData, or what a decoder returns. Alpha is ignored, as by the published preprocessing. */
export interface Pixels {
  readonly data: Uint8ClampedArray | Uint8Array;
  readonly width: number;
  readonly height: number;
}

/** In browsers, what a canvas draws: an ImageBitmap, an image or a video element, a canvas, a VideoFrame. */
export interface Drawable {
  readonly width: unknown;
  readonly height: unknown;
}

/**
 * An image: pixels; in browsers also a Blob with an encoded image, or what a canvas draws; or one that has been preprocessed already, as a tensor [3, height, width] of normalized
 * values.
 */
export type ImageInput = Pixels | BlobLike | Drawable | TensorLike;

/** One image, several, or preprocessed ones as a tensor [N, 3, height, width]. */
export type ImagesInput = ImageInput | readonly ImageInput[];

export interface ImageCallOptions {
  /** Stops the call between layers and between images; it rejects with the signal's reason. */
  signal?: SignalLike;
  /** Called with the number of images done so far and in total. */
  onProgress?: (progress: { done: number; total: number }) => void;
}

export interface EmbedImageOptions extends ImageCallOptions, EditOptions {
  /** Whether to scale vectors to length 1. Default: as for texts, false unless the model's folder says otherwise. */
  normalize?: boolean;
}

export interface EncodeImageOptions extends ImageCallOptions, SiteOptions {
  /** Whether the result has `attentions`. Default false. */
  outputAttentions?: boolean;
  /** Whether the result has `hiddenStates`. Default false. */
  outputHiddenStates?: boolean;
}

/** L: the class token (not in SigLIP), the registers of DINOv2 and DINOv3, and the patches, in this order. */
export interface EncodeImageResult {
  /** [N,L,E] */
  lastHiddenState: Tensor;
  /** [N,E]. CLIP, ViT, DINOv2 and DINOv3: the row of the class token after the last norm, and after ViT's pooler if the checkpoint has one; SigLIP: the output of the attention pooling. */
  poolerOutput: Tensor;
  /** [N,labels], of checkpoints of ViT and DINOv2 that are classifiers. */
  logits?: Tensor;
  /** One tensor [N,H,L,L] per layer: the softmax's output. */
  attentions?: Tensor[];
  /** The embeddings and each layer's output, [N,L,E] each; the last is lastHiddenState. */
  hiddenStates?: Tensor[];
  /** The tensor of each site that `read` names; images are its texts. */
  activations?: Record<string, Tensor>;
}

/** A model's calls for images. `alive` throws once the model has been disposed of. */
export interface ImageCalls {
  embed(
    images: ImagesInput,
    options: EmbedImageOptions | undefined,
    normalizes: boolean,
    alive: () => void,
  ): Promise<Tensor>;
  encode(images: ImagesInput, options: EncodeImageOptions | undefined, alive: () => void): Promise<EncodeImageResult>;
}

/** What loading and running need of an encoder of images, apart from what encoders of texts have. */
export interface ImageEncoder {
  readonly images: ImageCalls;
  /** Set once the model has been loaded, if its layers may run elsewhere than in the core. */
  device: ModelDevice | null;
  /** The description of the encoder of images, the side of an image in pixels, and whether there is an encoder of texts. */
  readonly about: { readonly vision: RawEncoderModelConfig; readonly imageSize: number; readonly text: object | null };
  /** Runs images of one size, of normalized values. */
  run(
    images: readonly { values: Float32Array; height: number; width: number }[],
    options: PieceOptions,
    hooks?: Omit<PieceHooks, 'use'>,
  ): Promise<{ rows: Float32Array }>;
  /** After the encoders' parameters have been written: makes what follows them. */
  complete(parts: Completion): Promise<void>;
  /** The rows of texts as the family runs them; `isText`: not token ids, which are run as they are; `isPooled`: only the last row matters. */
  textRows(rows: RowSteps, isText: boolean, isPooled: boolean): RowSteps;
}

/** What an encoder of images needs besides its parameters. */
export interface Completion {
  /** The tensors of what follows the encoders, by their names without the family's prefix. */
  heads: Map<string, RawTensor>;
  folder: ModelFolder;
  signal: SignalLike;
  sentence: SentenceConfig;
  tokenizer: TextTokenizer | null;
  tokenizerSettings: Settings | undefined;
}

/** Makes an encoder of images, and of texts; `make` makes one encoder of the core. */
export type ImagesOf = (
  core: Core,
  settings: Settings,
  make: (core: Core, config: RawEncoderModelConfig) => RawEncoderModel,
) => RawEncoderModel & ImageEncoder;
