/**
 * Images as models accept them, the options and results of the calls for images, and the interface of image encoders
 * for loading and running. The folder images/ implements image encoders; it is imported on demand.
 */
import type { BlobLike, SignalLike } from '../base/platform.js';
import type { EditOptions, SiteOptions } from '../base/site-options.js';
import type { Tensor, TensorLike } from '../base/tensor.js';
import type { Core, RawEncoderModel, RawEncoderModelConfig, RawTensor } from '../base/wasm/core.js';
import type { ModelFolder } from '../io/files.js';
import type { Settings } from '../io/settings.js';
import type { TextTokenizer } from '../text/tokenizer.js';
import type { ModelDevice } from './device.js';
import type { SentenceConfig } from './families/sentence-config.js';
import type { RowSteps } from './input.js';
import type { PieceHooks, PieceOptions } from './run.js';

/**
 * Pixels as RGBA or RGB bytes, row by row: an ImageData, or a decoder's output. Alpha is ignored, as in the published
 * preprocessing.
 */
export interface Pixels {
  readonly data: Uint8ClampedArray | Uint8Array;
  readonly width: number;
  readonly height: number;
}

/**
 * An object that a canvas can draw, in browsers: an ImageBitmap, an image or video element, a canvas, or a VideoFrame.
 */
export interface Drawable {
  readonly width: unknown;
  readonly height: unknown;
}

/**
 * An image: pixels; a tensor [3, height, width] of normalized values, which is already preprocessed; or, in browsers, a
 * Blob with an encoded image or an object that a canvas can draw.
 */
export type ImageInput = Pixels | BlobLike | Drawable | TensorLike;

/** One image, several images, or preprocessed ones as a tensor [N, 3, height, width]. */
export type ImagesInput = ImageInput | readonly ImageInput[];

export interface ImageCallOptions {
  /** Stops the call between layers and between images. The call rejects with the signal's reason. */
  signal?: SignalLike | undefined;
  /** Called with the number of finished images and the total. */
  onProgress?: ((progress: { done: number; total: number }) => void) | undefined;
}

/** Options of `embedImages`. */
export interface EmbedImageOptions extends ImageCallOptions, EditOptions {
  /** Whether to scale vectors to unit norm. Default: as in the model's folder, else false. */
  normalize?: boolean | undefined;
}

/** Options of `encodeImage`. */
export interface EncodeImageOptions extends ImageCallOptions, SiteOptions {
  /** Whether the result has `attentions`. Default false. */
  outputAttentions?: boolean | undefined;
  /** Whether the result has `hiddenStates`. Default false. */
  outputHiddenStates?: boolean | undefined;
}

/**
 * Notation: N images, E width, H heads, L tokens: the class token (except in SigLIP), the register tokens of DINOv2 and
 * DINOv3, and the patch tokens, in this order.
 */
export interface EncodeImageResult {
  /** The last layer's output, [N,L,E]. */
  lastHiddenState: Tensor;
  /**
   * [N,E]. For CLIP, ViT, DINOv2 and DINOv3, the class token after the last norm, and after ViT's pooler if the
   * checkpoint has one. For SigLIP, the output of the attention pooling.
   */
  poolerOutput: Tensor;
  /** [N,labels]. Only for ViT and DINOv2 classifiers. */
  logits?: Tensor | undefined;
  /** The attention weights (the softmax's output), one tensor [N,H,L,L] per layer. */
  attentions?: Tensor[] | undefined;
  /** The embeddings and each layer's output, [N,L,E] each. The last is `lastHiddenState`. */
  hiddenStates?: Tensor[] | undefined;
  /** The tensors of the sites that `read` names, by name, with images along the axis of texts. */
  activations?: Record<string, Tensor> | undefined;
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

/** The members of an image encoder for loading and running it, besides those of text encoders. */
export interface ImageEncoder {
  readonly images: ImageCalls;
  /** Set after loading if the layers may run on another device than WebAssembly. */
  device: ModelDevice | null;
  /** The options of the image encoder, the side length of an image in pixels, and the text encoder, if there is one. */
  readonly about: { readonly vision: RawEncoderModelConfig; readonly imageSize: number; readonly text: object | null };
  /** Runs images of one size, given as normalized values. */
  run(
    images: readonly { values: Float32Array; height: number; width: number }[],
    options: PieceOptions,
    hooks?: Omit<PieceHooks, 'use'>,
  ): Promise<{ rows: Float32Array }>;
  /** Makes the layers after the encoders, once the encoders' parameters have been written. */
  complete(parts: Completion): Promise<void>;
  /**
   * Adapts the rows of texts to the family. `isText` is false for token ids, which are run as given; `isPooled`: only
   * the last row is used.
   */
  textRows(rows: RowSteps, isText: boolean, isPooled: boolean): RowSteps;
}

/** The inputs of an image encoder besides its parameters. */
export interface Completion {
  /** The tensors after the encoders, by their names without the family's prefix. */
  heads: Map<string, RawTensor>;
  folder: ModelFolder;
  signal: SignalLike;
  sentence: SentenceConfig;
  tokenizer: TextTokenizer | null;
  tokenizerSettings: Settings | undefined;
}

/** Makes an image encoder, possibly with a text encoder. `make` makes a single encoder. */
/** Reads how images are preprocessed from the folder `within`; null if it has no settings of images. */
export type PreprocessingOf = (
  folder: ModelFolder,
  within: string,
  signal: SignalLike | undefined,
) => Promise<object | null>;

export type ImagesOf = (
  core: Core,
  make: (core: Core, config: RawEncoderModelConfig) => RawEncoderModel,
) => RawEncoderModel & ImageEncoder;
