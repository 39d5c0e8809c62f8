/**
 * Loads a model's folder: configuration, tokenizer, sentence configuration and weights. A failed load leaves nothing
 * behind.
 */
import { allocating, type HeedError, importing, invalid, invalidFile } from '../base/error.js';
import { linkedAbort, type SignalLike } from '../base/platform.js';
import type { Core, RawEncoderModel, RawEncoderModelConfig, RawTensor } from '../base/wasm/core.js';
import { expectedSize, type ModelFolder, type OpenFile, readAll } from '../io/files.js';
import type { Integrity } from '../io/integrity.js';
import { Settings } from '../io/settings.js';
import type { RemoteOptions } from '../io/source.js';
import { TextTokenizer } from '../text/tokenizer.js';
import type { Family } from './families/family.js';
import { familyOf } from './families/family-of.js';
import type { GlinerConfig } from './families/gliner-config.js';
import { rotatedModules, tableCodeIn } from './families/quantization.js';
import { readSentenceConfig, type SentenceConfig } from './families/sentence-transformers.js';
import { openWeights } from './families/weight-files.js';
import { WeightLoader } from './families/weights.js';
import { isHeadTensor } from './heads/task-heads.js';
import type { ImageEncoder } from './image-encoder.js';
import { reserveFor } from './memory.js';
import { openModelFiles } from './model-files.js';
import { loadOnnx } from './onnx-weights.js';
import type { FetchRows } from './paged-embeddings.js';
import { MODEL2VEC_LENGTH, openTable, STATIC, type StaticTable } from './static-embedding.js';

/**
 * The number of bytes read so far, of one file and of all. `total` is known from the start, or null if a server does
 * not report sizes. Estimated sizes, as for shards and for files compressed in transit, are corrected later; `loaded`
 * never exceeds `total`.
 */
export interface LoadProgress {
  file: string;
  fileLoaded: number;
  fileTotal: number | null;
  loaded: number;
  total: number | null;
}

export interface LoadModelOptions extends RemoteOptions {
  /**
   * The type of the weights. 'fp32' (default): fp32 arithmetic. 'q8': int8 weights and activations; smaller, faster and
   * less accurate. 'fp16', with `device` 'webgpu' or 'auto': the GPU stores weights in fp16, half the memory, and
   * computes in fp32; in WebAssembly, the same as 'fp32'.
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
  onProgress?: ((progress: LoadProgress) => void) | undefined;
  signal?: SignalLike | undefined;
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
  unused: string[];
  storage: string[];
  names: Map<string, string>;
  folder: ModelFolder;
  integrity: Integrity;
  /** Fetches missing rows of the token embeddings; null if all rows are loaded. */
  fetchRows: FetchRows | null;
  /** The settings of a folder with gliner_config.json, else null. */
  gliner: GlinerConfig | null;
}

/** The `architectures` entry of Stanford's ColBERTs. */
export const STANFORD = 'HF_ColBERT';

const pagedEmbeddings = () => importing('paged-embeddings', () => import('./paged-embeddings.js'));

/** Loads the model in an open folder. */
export async function loadModel(
  core: Core,
  folder: ModelFolder,
  options: LoadModelOptions,
  integrity: Integrity,
): Promise<LoadedModel> {
  const { dtype, onProgress, embeddings, numLayers, weights: path } = options;
  // A failure stops all other reads.
  const { stop, unlink } = linkedAbort(options.signal);
  const { signal } = stop;
  let raw: RawEncoderModel | undefined;
  let release: (() => void) | undefined;
  try {
    const paged = embeddings === 'paged' ? (await pagedEmbeddings()).pagedFolder(folder, integrity) : null;
    const weightsFolder = paged?.folder ?? folder;
    // Only safetensors can be read in pages.
    const choice = { dtype: paged ? undefined : dtype, weights: path };
    const sentenceRead = readSentenceConfig(folder, signal);
    sentenceRead.catch(() => {}); // awaited below
    const othersIn = (within: string) => {
      const others = Promise.all([
        folder.open(`${within}tokenizer_config.json`, { signal }),
        // Reported after the errors of config.json, because an unsupported family matters more than how weights are
        // stored.
        openWeights(weightsFolder, signal, within, choice).catch((error: HeedError) => error),
      ]);
      others.catch(() => {}); // for a folder that cannot be read at all, config.json reports the error
      return others;
    };
    const atRoot = othersIn('');
    const { within, configFile, tokenizerFile } = await openModelFiles(folder, () => sentenceRead, signal);
    const [tokenizerConfigFile, weights] = await (within ? othersIn(within) : atRoot);
    const sizes = [configFile, tokenizerFile, tokenizerConfigFile].map((file) => (file ? expectedSize(file) : 0));
    if (!(weights instanceof Error)) sizes.push(weights.size);
    const progress = new Progress(sizes, onProgress);

    let settings = configFile && (await progress.readSettings(configFile));
    const isStatic =
      settings === null || settings.get('model_type') === STATIC || (await sentenceRead.catch(() => null))?.isStatic;
    if (settings && !isStatic) await familyOf(settings); // its error takes precedence over one of the weights
    if (weights instanceof Error) throw weights;
    let table: StaticTable | null = null;
    if (isStatic) {
      if (weights.onnx) throw invalid(weights.onnx, 'model.safetensors for static embeddings', 'ONNX', 'UNSUPPORTED');
      const file = await weights.files[0]!();
      table = await openTable(file, settings, progress.counter(file, true));
      settings = table.settings;
      weights.files = [async () => table!.file];
    }
    const { type, family, config, gliner = null } = await familyOf(settings!);
    if (numLayers !== undefined) keepFirstLayers(config, numLayers, family);
    config.int8 = dtype === 'q8';
    if (config.int8) config.tableCode = tableCodeIn(settings!);
    const tokenizerSettings = tokenizerConfigFile ? await progress.readSettings(tokenizerConfigFile) : undefined;
    const sentence = await sentenceRead;
    if (String(settings!.get('architectures')) === STANFORD) {
      const file = await folder.open('artifact.metadata', { signal });
      sentence.colbert = file ? Settings.parse(await readAll(file), file.name) : settings;
    }
    // model2vec leaves out unknown tokens; sentence-transformers uses their row.
    const special = !table ? 'all' : sentence.isStatic && !table.isModel2vec ? 'unknown' : 'none';
    if (special === 'none') {
      sentence.maxLength = Math.min(sentence.maxLength, MODEL2VEC_LENGTH);
      sentence.normalize ||= settings!.flag('normalize', false);
    }
    const tokenizer = tokenizerFile
      ? new TextTokenizer(
          await progress.readSettings(tokenizerFile),
          tokenizerSettings,
          sentence.lowerCase,
          special,
          config.vocabSize,
        )
      : null;
    // In published checkpoints, added tokens of other modalities may have no row. A text with such a token is rejected
    // when it is run.
    if (tokenizer && tokenizer.ownSize > config.vocabSize) {
      const expected = `at most ${config.vocabSize} tokens, the vocab_size of config.json, besides added ones`;
      throw invalidFile(tokenizerFile!.name, expected, `${tokenizer.ownSize}`);
    }
    release = reserveFor(core, config);
    const images = family.images?.(core, settings!, makeEncoder);
    raw = images ?? makeEncoder(core, config);
    const tied = settings!.flag('tie_word_embeddings', true);
    // Quantized ONNX files have tied decoders of their own, with other values than the embeddings.
    const isOwn = (name: string) => isHeadTensor(name, tied, family);
    const isHead = weights.onnx ? (name: string) => isHeadTensor(name, false, family) : isOwn;
    // An ONNX file beside the quantized weights has weights of its own.
    const rotated = weights.onnx ? new Set<string>() : rotatedModules(settings!);
    const loader = new WeightLoader(raw, family, config, isHead, rotated, numLayers !== undefined);
    for (const [i, openNext] of weights.files.entries()) {
      const file = await openNext();
      const isLast = i === weights.files.length - 1;
      const counter = (opened: OpenFile) => progress.counter(opened, true);
      if (weights.onnx)
        await loadOnnx(loader, file, weights.onnx, folder, { type, family, config, isOwn, counter, signal });
      else await loader.load(file, isLast, table ? () => {} : progress.counter(file, isLast));
      signal.throwIfAborted();
    }
    const { dtypes: storage, ...rest } = loader.result();
    await images?.complete({ ...rest, folder, signal, sentence, tokenizer, tokenizerSettings });
    const fetchRows = paged?.fetchRows() ?? null;
    return {
      raw,
      release,
      config,
      type,
      family,
      settings: gliner?.encoder ?? settings!,
      tokenizer,
      sentence,
      storage,
      ...rest,
      folder,
      integrity,
      fetchRows,
      gliner,
    };
  } catch (error) {
    raw?.delete();
    release?.();
    stop.abort();
    throw options.signal?.aborted ? options.signal.reason : error;
  } finally {
    unlink();
  }
}

/** Limits the encoder to its first layers. */
function keepFirstLayers(config: RawEncoderModelConfig, numLayers: number, family: Family): void {
  const name = 'fromPretrained.numLayers';
  if (family.images) throw invalid(name, 'undefined for models that encode images', `${numLayers}`, 'UNSUPPORTED');
  if (numLayers > config.numLayers)
    throw invalid(name, `at most ${config.numLayers}, the layers of the model`, `${numLayers}`);
  config.numLayers = numLayers;
  if (config.localLayers) config.localLayers = config.localLayers.slice(0, numLayers);
}

/**
 * Makes an encoder, which allocates all parameters at once. If that fails, the error names the largest table or matrix.
 */
function makeEncoder(core: Core, config: RawEncoderModelConfig): RawEncoderModel {
  const { embedDim, embeddingDim, feedForwardDim, vocabSize, int8 } = config;
  const words = [vocabSize, embeddingDim || embedDim] as const;
  const linear = [(config.gated ? 2 : 1) * feedForwardDim, embedDim] as const;
  const isTable = words[0] * words[1] > linear[0] * linear[1];
  const shape = isTable ? words : linear;
  const name = isTable ? 'embeddings.word.weight' : 'layers.0.linear1.weight';
  return allocating(name, shape, shape[0] * shape[1] * (int8 ? 1 : 4), () => new core.EncoderModel(config));
}

class Progress {
  #loaded = 0;
  /** May be an estimate: an index does not include the shards' headers, and a server may report the compressed size. */
  #total: number | null;
  readonly #onProgress: ((progress: LoadProgress) => void) | undefined;

  constructor(sizes: (number | null)[], onProgress: ((progress: LoadProgress) => void) | undefined) {
    this.#total = sizes.reduce((sum, size) => (sum === null || size === null ? null : sum + size), 0);
    this.#onProgress = onProgress;
  }

  /** `isLast`: no other file follows. */
  counter(file: OpenFile, isLast = false): (count: number) => void {
    let expected = expectedSize(file);
    if (isLast && expected !== null) this.#total = this.#loaded + expected;
    let fileLoaded = 0;
    return (count) => {
      const corrected = expectedSize(file);
      if (this.#total !== null && expected !== null && corrected !== null) this.#total += corrected - expected;
      expected = corrected;
      fileLoaded += count;
      this.#loaded += count;
      const loaded = this.#loaded;
      if (this.#total !== null) this.#total = Math.max(this.#total, loaded);
      const fileTotal = expected !== null && fileLoaded > expected ? null : expected;
      this.#onProgress?.({ file: file.name, fileLoaded, fileTotal, loaded, total: this.#total });
    };
  }

  async readSettings(file: OpenFile): Promise<Settings> {
    return Settings.parse(await readAll(file, this.counter(file)), file.name);
  }
}
