/** A model folder into a running encoder: configuration, tokenizer, recipe and weights, each checked, all or nothing. */
import type { Core, RawEncoderModel, RawEncoderModelConfig } from '../core.js';
import { allocating, HeedError } from '../error.js';
import { expectedSize, type ModelFolder, type OpenFile, readAll } from '../io/files.js';
import { Integrity } from '../io/integrity.js';
import type { SignalLike } from '../platform.js';
import { Settings } from './config.js';
import { type Family, familyOf } from './families.js';
import { isHeadTensor } from './heads.js';
import { type Recipe, readRecipe } from './sentence-transformers.js';
import { type ModelSource, openFolder, type RemoteOptions } from './source.js';
import { TextTokenizer } from './tokenizer.js';
import { type HeadTensor, openWeights, WeightLoader } from './weights.js';

/**
 * Bytes of one file and of all, as they arrive. `total` is known from the start, but for what a server does not tell (null). Sizes that turn out to be estimates, as for
 * shards and for files that are compressed on their way, are corrected; `loaded` never exceeds `total`.
 */
export interface LoadProgress {
  file: string;
  fileLoaded: number;
  fileTotal: number | null;
  loaded: number;
  total: number | null;
}

export interface LoadModelOptions extends RemoteOptions {
  /** 'fp32' (default): exact. 'q8': int8 weights and activations, smaller and faster, with a loss. */
  dtype?: 'fp32' | 'q8';
  onProgress?: (progress: LoadProgress) => void;
  signal?: SignalLike;
}

export interface LoadedModel {
  raw: RawEncoderModel;
  config: RawEncoderModelConfig;
  type: string;
  family: Family;
  settings: Settings;
  tokenizer: TextTokenizer | null;
  recipe: Recipe;
  heads: Map<string, HeadTensor>;
  unused: string[];
  storage: string[];
  folder: ModelFolder;
  integrity: Integrity;
}

/** `opened`: the source's folder, where it is open already. */
export async function loadModel(
  core: Core,
  source: ModelSource,
  options: LoadModelOptions,
  opened?: ModelFolder,
): Promise<LoadedModel> {
  const { dtype = 'fp32', onProgress, signal } = options;
  const integrity = new Integrity(options.integrity);
  signal?.throwIfAborted();
  // One failure stops what else is under way.
  const stop = new AbortController();
  const onAbort = () => stop.abort(signal!.reason);
  signal?.addEventListener('abort', onAbort);
  let raw: RawEncoderModel | undefined;
  let folder: ModelFolder | undefined;
  try {
    folder = opened ?? (await openFolder(source, { ...options, signal: stop.signal, integrity }));
    const recipeRead = readRecipe(folder, stop.signal);
    recipeRead.catch(() => {}); // awaited below; until then another failure may come first
    const open = (path: string) => folder!.open(path, { signal: stop.signal });
    const others = Promise.all([
      open('tokenizer.json'),
      open('tokenizer_config.json'),
      // What config.json says comes first: a family that is not supported matters more than how its weights are stored.
      openWeights(folder, stop.signal).catch((error: HeedError) => error),
    ]);
    others.catch(() => {}); // awaited below; a folder that cannot be read at all is reported for config.json
    const configFile = await folder.open('config.json', { required: true, signal: stop.signal });
    const [tokenizerFile, tokenizerConfigFile, weights] = await others;
    const sizes = [
      expectedSize(configFile),
      tokenizerFile ? expectedSize(tokenizerFile) : 0,
      tokenizerConfigFile ? expectedSize(tokenizerConfigFile) : 0,
      weights instanceof Error ? 0 : weights.size,
    ];
    const progress = new Progress(
      sizes.includes(null) ? null : sizes.reduce<number>((sum, size) => sum + size!, 0),
      onProgress,
    );

    const settings = Settings.parse(await progress.read(configFile), configFile.name);
    const { type, family, config } = familyOf(settings);
    if (weights instanceof Error) throw weights;
    config.int8 = dtype === 'q8';
    const tokenizerSettings = tokenizerConfigFile
      ? Settings.parse(await progress.read(tokenizerConfigFile), tokenizerConfigFile.name)
      : undefined;
    const recipe = await recipeRead;
    const tokenizer = tokenizerFile
      ? new TextTokenizer(await progress.read(tokenizerFile), tokenizerFile.name, tokenizerSettings, recipe.lowerCase)
      : null;
    if (tokenizer && tokenizer.vocabSize > config.vocabSize) {
      throw new HeedError(
        'INVALID_FILE',
        `${tokenizerFile!.name}: got ${tokenizer.vocabSize} tokens; expected at most ${config.vocabSize}, the vocab_size of config.json`,
      );
    }
    raw = makeEncoder(core, config);
    const tied = settings.flag('tie_word_embeddings', true);
    const loader = new WeightLoader(raw, family, config, (name) => isHeadTensor(name, tied));
    for (const [i, openNext] of weights.files.entries()) {
      const file = await openNext();
      const isLast = i === weights.files.length - 1;
      await loader.load(file, isLast, isLast ? progress.lastCounter(file) : progress.counter(file));
      stop.signal.throwIfAborted();
    }
    const { heads, unused, dtypes } = loader.result();
    return {
      raw,
      config,
      type,
      family,
      settings,
      tokenizer,
      recipe,
      heads,
      unused,
      storage: dtypes,
      folder,
      integrity,
    };
  } catch (error) {
    raw?.delete();
    stop.abort();
    await folder?.failed?.(error);
    if (signal?.aborted) throw signal.reason;
    throw error;
  } finally {
    signal?.removeEventListener('abort', onAbort);
  }
}

/** The core makes all parameters at once; where it cannot, the message names the largest table or matrix. */
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
  private loaded = 0;

  /** `total` may be an estimate: an index does not count its shards' headers, and a server may tell the size of compressed bytes. */
  constructor(
    private total: number | null,
    private readonly onProgress: ((progress: LoadProgress) => void) | undefined,
  ) {}

  counter(file: OpenFile): (count: number) => void {
    const expected = expectedSize(file);
    let fileLoaded = 0;
    return (count) => {
      fileLoaded += count;
      this.loaded += count;
      if (this.total !== null) this.total = Math.max(this.total, this.loaded);
      const fileTotal = expected !== null && fileLoaded > expected ? null : expected;
      this.onProgress?.({ file: file.name, fileLoaded, fileTotal, loaded: this.loaded, total: this.total });
    };
  }

  /** As `counter`; nothing but this file's size is left to come. */
  lastCounter(file: OpenFile): (count: number) => void {
    const expected = expectedSize(file);
    if (expected !== null) this.total = this.loaded + expected;
    return this.counter(file);
  }

  read(file: OpenFile): Promise<Uint8Array> {
    return readAll(file, this.counter(file));
  }
}
