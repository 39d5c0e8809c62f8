/**
 * The object that `load()` returns: functions, layers and pretrained encoders, bound to one instance of the WebAssembly
 * module.
 */
import type { Count } from '../base/cores.js';
import { HeedError, importing, needsTraining } from '../base/error.js';
import type { HubOptions } from '../base/hub-options.js';
import { whenIdle } from '../base/in-progress.js';
import type { PageRuntime, RawObject, Runtime } from '../base/owned.js';
import { heldByCalls } from '../base/pending.js';
import { dispose, type GpuLike, inspected, registry } from '../base/platform.js';
import { Tensor, type TensorLike } from '../base/tensor.js';
import type { Calls, Core } from '../base/wasm/core.js';
import { type Build, type Choice, threadsOf, type Variant } from '../base/wasm/module.js';
import { shippedModel } from '../base/wasm/shipped.js';
import { version } from '../base/wasm/version.js';
import type { Inspection, InspectOptions } from '../folders/inspect.js';
import type { Pruned, PruneOptions } from '../folders/prune.js';
import type { Quantized, QuantizeOptions } from '../folders/quantize.js';
import type { QuantizeIndexOptions } from '../folders/quantize-index.js';
import type { ModelSource } from '../io/source.js';
import { boundLayers } from '../layers/classes.js';
import {
  type FeatureTokenizer,
  type FeatureTokenizerOptions,
  featureTokenizer,
} from '../layers/composition/feature-tokenizer.js';
import { makeOperations } from '../layers/composition/make-operations.js';
import type { Operations } from '../layers/composition/operations.js';
import { type FreeParameter, type FreeParameterOptions, freeParameter } from '../layers/composition/parameter.js';
import { Module, Sequential } from '../layers/composition/sequential.js';
import type { Conv1D, Conv1DOptions } from '../layers/convolution.js';
import type { Decoder, DecoderLayer, DecoderLayerOptions, DecoderOptions } from '../layers/decoder.js';
import type { Dropout, DropoutOptions } from '../layers/dropout.js';
import type { Embedding, EmbeddingOptions } from '../layers/embedding.js';
import type { Encoder, EncoderLayer, EncoderLayerOptions, EncoderOptions } from '../layers/encoder.js';
import type { FeedForward, FeedForwardOptions } from '../layers/feed-forward.js';
import { Functions } from '../layers/functions.js';
import type { Linear, LinearOptions } from '../layers/linear.js';
import { type Masks, masksOf } from '../layers/masks.js';
import type { MultiHeadAttention, MultiHeadAttentionOptions } from '../layers/multi-head-attention.js';
import type { BatchNorm, BatchNormOptions, LayerNorm, LayerNormOptions } from '../layers/norms.js';
import type { PositionalEncoding, PositionalEncodingOptions } from '../layers/positional-encoding.js';
import type { GRU, LSTM, RecurrentOptions } from '../layers/recurrent.js';
import type { Transformer, TransformerOptions } from '../layers/transformer.js';
import type { PretrainedModel } from '../models/model.js';
import { TextIndex } from '../search/text-index.js';
import type { FromPretrainedOptions, fromPretrained } from './from-pretrained.js';

/** The running build of heed: version, threads, memory. */
export interface Info {
  /** heed's version. */
  readonly version: string;
  /** The build that runs. */
  readonly build: Build;
  /** Why this build was chosen. */
  readonly reason: string;
  /**
   * The number of threads that were started, including the calling thread. At most one per CPU core works on a call.
   */
  readonly threads: number;
  /** Why there are this many threads. */
  readonly threadsReason: string;
  /** The compiler that made the module. */
  readonly compiler: string;
  /** Current size of the module's memory, in bytes. It grows as needed and does not shrink before `dispose()`. */
  readonly memoryBytes: number;
}

/** @internal The build and threads chosen for one caller. Callers with other options may share the instance. */
export type Chosen = Choice & { readonly threads: Count };

/** A layer's class, bound to a runtime. */
export type LayerClass<Made, Options> = undefined extends Options
  ? new (
      options?: Options,
    ) => Made
  : new (
      options: Options,
    ) => Made;

/**
 * One instance of heed, as `load()` returns it. Its members, by purpose:
 *
 * - pretrained models: `fromPretrained`, `TextIndex`; their folders: `inspect`, `quantize`, `prune`
 * - layers: `Encoder`, `Decoder`, `Transformer`, their parts, and layers to compare them with; `masks`
 * - models of your own: `Module`, `Sequential`, `Parameter`, and operations on tensors
 * - functions: `attention`, `softmax`, `linear`, `layerNorm`, `dropout`, `positionalEncoding`, `rotary`
 * - the module itself: `info`, `dispose`
 *
 * @example
 * const heed = await load();
 * const encoder = new heed.Encoder({ embedDim: 8, numHeads: 2, feedForwardDim: 16, numLayers: 2 });
 */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: the constructor assigns the operations
export class Heed extends Functions {
  /** @internal For messages and consoles, as minification renames classes. */
  static override readonly name: string = 'Heed';

  readonly #runtime: PageRuntime & { dispose(): void };
  readonly #choice: Chosen;
  readonly #loadModel: typeof fromPretrained;

  /** Makes and combines masks. */
  readonly masks: Masks;

  /** A linear layer, applied to each position. */
  declare readonly Linear: LayerClass<Linear, LinearOptions>;
  /** Layer normalization. */
  declare readonly LayerNorm: LayerClass<LayerNorm, LayerNormOptions>;
  /** Batch normalization. */
  declare readonly BatchNorm: LayerClass<BatchNorm, BatchNormOptions>;
  /** Dropout. */
  declare readonly Dropout: LayerClass<Dropout, DropoutOptions | undefined>;
  /** Sinusoidal or learned positions. */
  declare readonly PositionalEncoding: LayerClass<PositionalEncoding, PositionalEncodingOptions>;
  /** Two linear layers with an activation. */
  declare readonly FeedForward: LayerClass<FeedForward, FeedForwardOptions>;
  /** Several attentions side by side. */
  declare readonly MultiHeadAttention: LayerClass<MultiHeadAttention, MultiHeadAttentionOptions>;
  /** Self-attention and a feed-forward part, with residuals and norms. */
  declare readonly EncoderLayer: LayerClass<EncoderLayer, EncoderLayerOptions>;
  /** A stack of encoder layers. */
  declare readonly Encoder: LayerClass<Encoder, EncoderOptions>;
  /** Self-attention, cross-attention and a feed-forward part, with residuals and norms. */
  declare readonly DecoderLayer: LayerClass<DecoderLayer, DecoderLayerOptions>;
  /** A stack of decoder layers. */
  declare readonly Decoder: LayerClass<Decoder, DecoderOptions>;
  /** An encoder and a decoder. */
  declare readonly Transformer: LayerClass<Transformer, TransformerOptions>;
  /** A table with a row for each id. */
  declare readonly Embedding: LayerClass<Embedding, EmbeddingOptions>;
  /** A convolution along the sequence. */
  declare readonly Conv1D: LayerClass<Conv1D, Conv1DOptions>;
  /** Long short-term memory, a recurrent layer. */
  declare readonly LSTM: LayerClass<LSTM, RecurrentOptions>;
  /** Gated recurrent units, a recurrent layer. */
  declare readonly GRU: LayerClass<GRU, RecurrentOptions>;

  /** The base class of models that compose layers. */
  readonly Module: abstract new () => Module = Module;

  /** Runs layers one after the other, as a model. */
  readonly Sequential = Sequential;

  /** A tensor that is a parameter of the module that has it as a property. */
  declare readonly Parameter: new (
    value: readonly number[] | TensorLike,
    options?: FreeParameterOptions,
  ) => FreeParameter;

  /** Makes tokens of the columns of a table. */
  declare readonly FeatureTokenizer: new (
    options: FeatureTokenizerOptions,
  ) => FeatureTokenizer;

  /**
   * Texts and their vectors for semantic search. The vectors are in the memory of this runtime, which searches with
   * SIMD and all of its threads. `dispose()` frees an index.
   *
   * @example
   * const index = heed.TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]);
   * index.search([[1, 1e-3]], { topK: 1 })[0].text; // "east"
   */
  readonly TextIndex: typeof TextIndex;

  /** @internal */
  constructor(runtime: PageRuntime & { dispose(): void }, choice: Chosen, loadModel: typeof fromPretrained) {
    super(runtime);
    this.#runtime = runtime;
    this.#loadModel = loadModel;
    this.#choice = choice;
    this.masks = masksOf(runtime);
    this.TextIndex = class<Metadata = unknown, Worker extends boolean = false> extends TextIndex<Metadata, Worker> {
      static override readonly name = 'TextIndex';
      static override get runtime(): Runtime {
        return runtime;
      }
    };
    const operations = makeOperations(runtime, ({ result }) => {
      void runtime.core; // throws after dispose()
      return new Tensor(result.data, result.shape);
    });
    Object.assign(this, boundLayers(runtime), operations, { Parameter: freeParameter(runtime) });
    Object.assign(this, { FeatureTokenizer: featureTokenizer(this) });
  }

  /** @internal */
  [inspected](): string {
    return `heed ${version} (${this.#choice.build})`;
  }

  /** The build, threads and memory of the running module, and the reasons for their choice. */
  get info(): Info {
    const { core } = this.#runtime;
    const { build, reason, threads: asked } = this.#choice;
    const { count: threads, reason: threadsReason } = threadsOf(core);
    return {
      version,
      build,
      reason,
      threads,
      threadsReason: threads === asked.count ? asked.reason : threadsReason,
      compiler: core.compiler(),
      memoryBytes: core.memoryBytes(),
    };
  }

  /**
   * Loads a pretrained encoder from files in Hugging Face's layout: the URL of a folder, its path in Node, or its
   * files' bytes. Without a source, loads the model that comes with heed, for English, in 'q8'; see `dtype`.
   *
   * @example
   * const model = await heed.fromPretrained();
   * const vectors = await model.embed(['a cat', 'a dog'], { normalize: true });
   * @throws HeedError `NOT_FOUND`, `NETWORK`, `INVALID_FILE`, `UNSUPPORTED`, `OUT_OF_MEMORY`; a load that fails leaves nothing behind
   */
  fromPretrained(source?: ModelSource, options?: FromPretrainedOptions): Promise<PretrainedModel> {
    return this.#loadModel(this.#runtime, source, options);
  }

  /**
   * Describes a model's folder without downloading its weights: family, sizes, what is missing, and the number of bytes
   * that loading it would download.
   *
   * @example
   * const { family, download, missing } = await heed.inspect(source);
   * const model = download.fp32 < 30e6 ? await heed.fromPretrained(source, { dtype: 'q8' }) : null;
   * @throws HeedError as `fromPretrained`, if the folder cannot be read. If it can be read but not loaded, `problem`
   * says why
   */
  async inspect(source: ModelSource = shippedModel(), options?: InspectOptions): Promise<Inspection> {
    void this.#runtime.core;
    const { inspect } = await importing('inspect', () => import('../folders/inspect.js'));
    return inspect(source, options, this.#runtime.hub);
  }

  /**
   * Converts a model's folder to matrices and embedding tables in 8, 4, 3 or 2 bits: at most a quarter of the bytes,
   * loaded by `fromPretrained` like any other folder. In Node, `out` names a new folder to write to.
   *
   * @example
   * const { files, report } = await heed.quantize(source, { texts: ['a cat', 'a dog'] });
   * const model = await heed.fromPretrained(files, { dtype: 'q8' });
   * @throws HeedError INVALID_FILE for weights that are not finite or already quantized, INVALID_ARGUMENT if `out`
   * exists; otherwise as `fromPretrained`
   */
  async quantize(source: ModelSource, options?: QuantizeOptions): Promise<Quantized> {
    void this.#runtime.core;
    const { quantize } = await importing('quantize', () => import('../folders/quantize.js'));
    return quantize(this.#runtime, source, options);
  }

  /**
   * Removes the rows of a model's vocabulary that a corpus does not need. The vectors of the corpus's texts stay
   * identical, bit for bit, which is checked; words of other texts may become the tokenizer's unknown token. Also
   * accepts folders that `quantize` has written.
   *
   * @example
   * const { files, report } = await heed.prune(source, { keep: ['a cat', 'a dog'] });
   * const model = await heed.fromPretrained(files);
   * @throws HeedError UNSUPPORTED for a folder without tokenizer.json or with a tokenizer that cannot be pruned,
   * INVALID_ARGUMENT for an empty corpus or if `out` exists; otherwise as `fromPretrained`
   */
  async prune(source: ModelSource, options: PruneOptions): Promise<Pruned> {
    void this.#runtime.core;
    const { prune } = await importing('prune', () => import('../folders/prune.js'));
    return prune(this.#runtime, source, options);
  }

  /**
   * Returns the file `index.safetensors` of an index, with its vectors projected to their first principal components, in
   * 3 or 4 bits: about a fifth of the bytes of int8 vectors. `TextIndex.load` reads it. See docs/search.md.
   *
   * @example
   * const index = await heed.TextIndex.of(model, ['the quick fox', 'a dog']);
   * const bytes = await heed.quantizeIndex(index);
   * (await heed.TextIndex.load(bytes, { embedder: model })).texts; // ["the quick fox", "a dog"]
   * @throws HeedError INVALID_ARGUMENT for an index without texts; UNSUPPORTED for one with the similarity 'dot'
   */
  async quantizeIndex(
    index: TextIndex<unknown, boolean>,
    options?: QuantizeIndexOptions,
  ): Promise<Uint8Array<ArrayBuffer>> {
    void this.#runtime.core;
    const { quantizeIndex } = await importing('quantize-index', () => import('../folders/quantize-index.js'));
    return quantizeIndex(this.#runtime, index, options);
  }

  /**
   * Ends this caller's use of the module: frees the layers and models made through this object and ends their workers.
   * Calling it again does nothing; any other use of this object, its layers or its models throws `DISPOSED`. Objects
   * from other calls of `load()` are not affected; the module's memory is freed with the last of them.
   *
   * @example
   * const heed = await load();
   * heed.dispose(); // or `using heed = await load();`
   */
  dispose(): void {
    this.#runtime.dispose();
  }

  /** Calls `dispose`, for `using`. */
  [dispose](): void {
    this.dispose();
  }
}

// The operations are assigned by the constructor.
export interface Heed extends Operations {}

// Former members, which are exports of the package: they need no module.
for (const name of ['flops', 'headImportance', 'loadTokenizer', 'maxSim'])
  Object.defineProperty(Heed.prototype, name, {
    get() {
      throw new HeedError('UNSUPPORTED', `heed.${name}: import \`${name}\` from 'heed' instead`);
    },
  });

for (const name of 'losses optim saveCheckpoint loadCheckpoint trainClassifier trainEmbedding custom'.split(' ')) {
  Object.defineProperty(Heed.prototype, name, {
    get() {
      throw needsTraining(`heed.${name}`);
    },
  });
}

heldByCalls(Heed.prototype);

/** Calls `onDispose` when a runtime and everything made with it have been garbage-collected. */
const collectedRuntimes = registry<() => void>((onDispose) => onDispose());

/** @internal */
export function runtimeOf(
  { startWorker }: Variant,
  given: Core,
  calls: Calls,
  hub: HubOptions,
  onDispose: () => void,
  owned = new Set<RawObject>(),
  gpu?: GpuLike,
): PageRuntime & { dispose(): void } {
  let core: Core | null = given;
  const runtime = {
    owned,
    hub,
    gpu,
    startWorker,
    get core() {
      if (core === null) throw new HeedError('DISPOSED', 'heed: used after dispose(). Call load() again');
      return core;
    },
    get calls() {
      void runtime.core;
      return calls;
    },
    dispose() {
      if (core === null) return;
      core = null;
      collectedRuntimes?.unregister(runtime);
      const all = [...owned];
      owned.clear();
      whenIdle(() => {
        for (const raw of all) raw.delete();
        onDispose();
      });
    },
  };
  collectedRuntimes?.register(runtime, onDispose, runtime);
  return runtime;
}
