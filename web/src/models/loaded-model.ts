/** A loaded model, and the options with which it is loaded. */
import type { SignalLike } from '../base/platform.js';
import type { RawEncoderModel, RawEncoderModelConfig, RawTensor } from '../base/wasm/core.js';
import type { ModelFolder } from '../io/files.js';
import type { Integrity } from '../io/integrity.js';
import type { Settings } from '../io/settings.js';
import type { RemoteOptions } from '../io/source.js';
import type { TextTokenizer } from '../text/tokenizer.js';
import type { Family } from './families/family.js';
import type { GlinerConfig } from './families/gliner-config.js';
import type { SentenceConfig } from './families/sentence-config.js';
import type { ImageEncoder } from './image-encoder.js';
import type { FetchRows } from './paged-embeddings.js';

/**
 * The number of bytes read so far, of all files and of the current one. `total` is known from the start, or null if a
 * server does not report sizes. Estimated sizes, as for shards and for files compressed in transit, are corrected later;
 * `done` never exceeds `total`.
 */
export interface LoadProgress {
  /** The bytes that have arrived. */
  done: number;
  /** The bytes of all files; null if a server does not report sizes. */
  total: number | null;
  /** The file that is being read. `name`: its path or URL. */
  file: { name: string; done: number; total: number | null };
}

/**
 * The default `dtype` of the bundled model in WebAssembly: twice as fast as fp32, and its searches are as good
 * (docs/quantization.md). Other models run in fp32, because what q8 costs them is unknown. A GPU computes in fp32.
 */
export const SHIPPED_DTYPE = 'q8';

export interface LoadModelOptions extends RemoteOptions {
  /**
   * The type of the weights. 'fp32': fp32 arithmetic. 'q8': int8 weights and activations; smaller, faster and less
   * accurate. 'fp16', with `device` 'webgpu' or 'auto': the GPU stores weights in fp16, half the memory, and computes in
   * fp32; in WebAssembly, the same as 'fp32'. Default: 'q8' for the bundled model (no `source`) in WebAssembly, whose
   * searches are as good in 'q8'; 'fp32' for other models, on a GPU and in heed/train.
   */
  dtype?: 'fp32' | 'q8' | 'fp16' | undefined;
  /**
   * The path of the weights in the folder, .safetensors or .onnx, such as 'onnx/model_q4.onnx'. Default: for `dtype`
   * 'q8', the folder's ONNX file with int8 weights (onnx/model_quantized.onnx, ...), if it has one; otherwise
   * model.safetensors, onnx/model.onnx or model.onnx, the first that the folder has.
   */
  weights?: string | undefined;
  /**
   * 'whole' (default), or 'paged': fetch rows of the token embeddings only when tokens need them. The vectors are the
   * same. 'paged' needs a folder on a server that supports range requests, and reveals to the server which parts of the
   * vocabulary the texts use.
   */
  embeddings?: 'whole' | 'paged' | undefined;
  /**
   * Load only the first `numLayers` layers of the encoder, and stop reading safetensors after their last tensor.
   * Default: all. The result is that of Hugging Face's `from_pretrained(..., num_hidden_layers=n)`: the output of the
   * last loaded layer, with the encoder's final norm if it has one, is what heads and pooling receive.
   */
  numLayers?: number | undefined;
  /**
   * The device that runs the layers. 'wasm' (default): WebAssembly. 'webgpu' (experimental): the GPU. 'auto': the GPU
   * where its vectors agree within the tolerance and it is faster, as measured when the model is loaded; otherwise
   * WebAssembly.
   */
  device?: 'wasm' | 'webgpu' | 'auto' | undefined;
  /**
   * true: throw UNSUPPORTED if the folder's files have settings that heed does not know, the model's `config.unread`.
   * Default false.
   */
  strict?: boolean | undefined;
  onProgress?: ((progress: LoadProgress) => void) | undefined;
  signal?: SignalLike | undefined;
}

/** The options of a load, with those that callers do not set. */
export interface LoadOptions extends LoadModelOptions {
  /** Whether training changes the weights, which takes token embeddings as numbers. */
  isTrained?: boolean | undefined;
}

export interface LoadedModel {
  raw: RawEncoderModel & Partial<ImageEncoder>;
  /** Must be called when `raw` is deleted. */
  release: () => void;
  config: RawEncoderModelConfig;
  type: string;
  family: Family;
  settings: Settings;
  tokenizer: TextTokenizer | null;
  sentence: SentenceConfig;
  heads: Map<string, RawTensor>;
  /** See `HeadContext`. */
  otherDecoder: string | null;
  /** See `InputContext`. */
  replacedTokens: ReadonlyMap<number, number> | undefined;
  unused: string[];
  storage: string[];
  names: Map<string, string>;
  folder: ModelFolder;
  integrity: Integrity;
  /** Fetches missing rows of the token embeddings; null if all rows are loaded. */
  fetchRows: FetchRows | null;
  /** The settings of a folder with gliner_config.json, else null. */
  gliner: GlinerConfig | null;
  /** See `ModelConfig.unread`. Complete once the model has been made, because that reads settings, too. */
  unread: string[];
}

/** The `architectures` entry of Stanford's ColBERTs. */
export const STANFORD = 'HF_ColBERT';
