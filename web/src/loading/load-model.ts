/**
 * Loads a model's folder: configuration, tokenizer, sentence configuration and weights. A failed load leaves nothing
 * behind.
 */
import { allocating, type HeedError, importing, invalid, invalidFile } from '../base/error.js';
import { makeYield } from '../base/event-loop.js';
import { linkedAbort } from '../base/platform.js';
import type { Core, RawEncoderModel, RawEncoderModelConfig } from '../base/wasm/core.js';
import { expectedSize, type ModelFolder, type OpenFile, readAll } from '../io/files.js';
import type { Integrity } from '../io/integrity.js';
import { Settings } from '../io/settings.js';
import { openCompressedWeights } from '../models/compressed-weights.js';
import type { Family } from '../models/families/family.js';
import { type Rotation, rotatedModules, tableCodeIn } from '../models/families/quantization.js';
import type { SentenceConfig } from '../models/families/sentence-config.js';
import { readSentenceConfig } from '../models/families/sentence-transformers.js';
import { addLastToken, addNormalize, isSparseTable, isStaticIn } from '../models/families/steps.js';
import { openWeights } from '../models/families/weight-files.js';
import { WeightLoader } from '../models/families/weights.js';
import { classPoolingOf, isHeadTensor, isTied, tiedDecoderOf } from '../models/heads/task-heads.js';
import { type LoadedModel, type LoadOptions, type LoadProgress, STANFORD } from '../models/loaded-model.js';
import { reserveFor } from '../models/memory.js';
import { openModelFiles } from '../models/model-files.js';
import { readOnnxWeights } from '../models/onnx-weights.js';
import { STATIC, specialTokensOf } from '../models/static-embedding.js';
import type { StaticTable } from '../models/static-table.js';
import { ofFile, tokenizerOf } from '../text/class-settings.js';
import { type SpecialTokens, TextTokenizer } from '../text/tokenizer.js';
import type { TokenizerFiles } from '../text/tokenizer-settings.js';
import { familyOf } from './family-of.js';

const pagedEmbeddings = () => importing('paged-embeddings', () => import('../models/paged-embeddings.js'));

/** Loads the model in an open folder. `chain`: the chain of modules to load, if the folder has several; see `Routes`. */
export async function loadModel(
  core: Core,
  folder: ModelFolder,
  options: LoadOptions,
  integrity: Integrity,
  chain?: SentenceConfig,
): Promise<LoadedModel> {
  const { dtype, onProgress, embeddings, numLayers, weights: path, isTrained = false } = options;
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
    const sentenceRead = chain ? Promise.resolve(chain) : readSentenceConfig(folder, signal);
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
    const isRoute = async () => chain !== undefined || (await sentenceRead.catch(() => null))?.routes != null;
    const { within, configFile, tokenizerFile } = await openModelFiles(folder, () => sentenceRead, signal, isRoute);
    let [tokenizerConfigFile, weights] = await (within ? othersIn(within) : atRoot);
    if (isSparseTable(await sentenceRead.catch(() => null))) {
      const { openWeightTable } = await importing('sparse-steps', () => import('../models/heads/sparse-steps.js'));
      weights = await openWeightTable(folder, within, weights, signal);
    }
    const sizes = [configFile, tokenizerFile, tokenizerConfigFile].map((file) => (file ? expectedSize(file) : 0));
    if (!(weights instanceof Error)) sizes.push(weights.size);
    const progress = new Progress(sizes, onProgress);

    let settings = configFile && (await progress.readSettings(configFile));
    const isStatic =
      settings === null || settings.get('model_type') === STATIC || isStaticIn(await sentenceRead.catch(() => null));
    if (settings && !isStatic) await familyOf(settings); // its error takes precedence over one of the weights
    if (weights instanceof Error) throw weights;
    let table: StaticTable | null = null;
    if (isStatic) {
      if (weights.onnx) throw invalid(weights.onnx, 'model.safetensors for static embeddings', 'ONNX', 'UNSUPPORTED');
      const file = await weights.files[0]!();
      const { openTable } = await importing('static-table', () => import('../models/static-table.js'));
      table = await openTable(file, settings, progress.counter(file, true));
      settings = table.settings;
      weights.files = [async () => table!.file];
    }
    const { type, family, config, gliner = null, replacedTokens } = await familyOf(settings!);
    if (numLayers !== undefined) keepFirstLayers(config, numLayers, family);
    config.int8 = dtype === 'q8';
    const tableCode = weights.onnx ? undefined : tableCodeIn(settings!);
    if (weights.onnx) settings!.get('quantization_config'); // describes other files
    if (config.int8 || !isTrained) config.tableCode = tableCode;
    const tokenizerSettings = tokenizerConfigFile ? await progress.readSettings(tokenizerConfigFile) : undefined;
    if (!tokenizerFile) tokenizerSettings?.entries(); // only token ids can be given
    const sentence = await sentenceRead;
    if (String(settings!.get('architectures')) === STANFORD)
      sentence.general = (await Settings.in(folder, 'artifact.metadata', signal)) ?? settings;
    addLastToken(sentence, settings!);
    const isModel2vec = table !== null && (table.isModel2vec || !isStaticIn(sentence));
    if (isModel2vec && settings!.flag('normalize', false)) addNormalize(sentence);
    const special = specialTokensOf(sentence, isModel2vec);
    const tokenizer = tokenizerFile
      ? await openTokenizer(await progress.readTokenizer(tokenizerFile), special, sentence, config.vocabSize, {
          settings: tokenizerSettings,
          config: gliner ? undefined : settings!,
          read: (name) => Settings.in(folder, within + name, signal),
        })
      : null;
    const { chat } = sentence.texts;
    if (chat && !(chat.onlyPairs && classPoolingOf(type, settings!) !== 'last')) {
      const { openChatTemplate } = await importing('chat-template', () => import('../text/chat-template.js'));
      const config = tokenizerSettings ?? null;
      sentence.texts.template = await openChatTemplate(folder, within, config, type, chat, signal);
    }
    // In published checkpoints, added tokens of other modalities may have no row. A text with such a token is rejected
    // when it is run.
    if (tokenizer && tokenizer.ownSize > config.vocabSize) {
      const expected = `at most ${config.vocabSize} tokens, the vocab_size of config.json, besides added ones`;
      throw invalidFile(tokenizerFile!.name, expected, `${tokenizer.ownSize}`);
    }
    release = reserveFor(core, config);
    const images = family.images?.(core, makeEncoder);
    raw = images ?? makeEncoder(core, config);
    const tied = isTied(type, settings!);
    // Quantized ONNX files have tied decoders of their own, with other values than the embeddings.
    const isOwn = (name: string) => isHeadTensor(name, tied, family);
    const isHead = weights.onnx ? (name: string) => isHeadTensor(name, false, family) : isOwn;
    // An ONNX file beside the quantized weights has weights of its own.
    const rotated = weights.onnx ? new Map<string, Rotation>() : rotatedModules(settings!);
    const loader = new WeightLoader(
      raw,
      family,
      config,
      isHead,
      rotated,
      numLayers !== undefined,
      tiedDecoderOf(type, settings!),
    );
    const receive: typeof loader.loadTensor = (...tensor) => loader.loadTensor(...tensor);
    const places = { rows: loader.rows, isHead };
    const openCompressed = weights.onnx ? null : await openCompressedWeights(settings!);
    const compressed = openCompressed?.({
      ...places,
      prefix: family.prefix,
      keepIntegers: true,
      receive,
      pause: makeYield(signal),
    });
    if (paged && compressed) {
      const expected = "'whole' for weights in a format of compressed-tensors";
      throw invalid('fromPretrained.embeddings', expected, "'paged'", 'UNSUPPORTED');
    }
    for (const [i, openNext] of weights.files.entries()) {
      const file = await openNext();
      const isLast = i === weights.files.length - 1;
      const counter = (opened: OpenFile) => progress.counter(opened, true);
      if (weights.onnx) {
        const how = { counter, keepIntegers: true, receive };
        await readOnnxWeights(file, weights.onnx, folder, { type, family, config }, { ...places, isOwn }, how, signal);
        loader.complete(file.name);
      } else if (compressed) {
        await compressed.read(file, progress.counter(file, isLast));
        if (isLast) {
          compressed.finish(file.name);
          loader.complete(file.name);
        }
      } else await loader.load(file, isLast, table ? () => {} : progress.counter(file, isLast));
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
      replacedTokens,
      unread: [],
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

/** Static embeddings run tokenizer.json as it is. */
export async function openTokenizer(
  json: Settings,
  special: SpecialTokens,
  { texts }: SentenceConfig,
  rows: number,
  files: TokenizerFiles,
): Promise<TextTokenizer> {
  if (special !== 'all') files.settings?.entries(); // none of the other settings matters
  const made = special === 'all' ? await tokenizerOf(json, files) : ofFile(json);
  return TextTokenizer.open(made.json, files.settings, texts, special, rows, made);
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
  #done = 0;
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
    if (isLast && expected !== null) this.#total = this.#done + expected;
    let done = 0;
    return (count) => {
      const corrected = expectedSize(file);
      if (this.#total !== null && expected !== null && corrected !== null) this.#total += corrected - expected;
      expected = corrected;
      done += count;
      this.#done += count;
      if (this.#total !== null) this.#total = Math.max(this.#total, this.#done);
      const total = expected !== null && done > expected ? null : expected;
      this.#onProgress?.({ done: this.#done, total: this.#total, file: { name: file.name, done, total } });
    };
  }

  async readSettings(file: OpenFile): Promise<Settings> {
    return Settings.read(file, this.counter(file));
  }

  /** Reads tokenizer.json. Its components check their own settings, so it is not part of a `SettingsRecord`. */
  async readTokenizer(file: OpenFile): Promise<Settings> {
    return Settings.parse(await readAll(file, this.counter(file)), file.name);
  }
}
