/** `load()` and what it gives: the functions and layers, bound to one instance of the module. */
import type { Core } from './core.js';
import { describe, guarded, HeedError, invalid } from './error.js';
import type {
  Attended,
  AttentionOptions,
  DropoutFunctionOptions,
  LayerNormFunctionOptions,
  LinearFunctionOptions,
  PositionalEncodingFunctionOptions,
  RotaryFunctionOptions,
} from './functions.js';
import * as functions from './functions.js';
import type { ModelSource } from './io/source.js';
import { type Cost, type CostOptions, compareCosts } from './layers/cost.js';
import { Decoder, DecoderLayer, type DecoderLayerOptions, type DecoderOptions } from './layers/decoder.js';
import { Dropout, type DropoutOptions } from './layers/dropout.js';
import { Encoder, EncoderLayer, type EncoderLayerOptions, type EncoderOptions } from './layers/encoder.js';
import { FeedForward, type FeedForwardOptions } from './layers/feed-forward.js';
import { headImportance } from './layers/heads.js';
import type { Layer } from './layers/layer.js';
import { Linear, type LinearOptions } from './layers/linear.js';
import { MultiHeadAttention, type MultiHeadAttentionOptions } from './layers/multi-head-attention.js';
import { BatchNorm, type BatchNormOptions, LayerNorm, type LayerNormOptions } from './layers/norms.js';
import { PositionalEncoding, type PositionalEncodingOptions } from './layers/positional-encoding.js';
import { Transformer, type TransformerOptions } from './layers/transformer.js';
import { Masks } from './masks.js';
import { type FromPretrainedOptions, fromPretrained } from './models/from-pretrained.js';
import type { PretrainedModel } from './models/model.js';
import { type Build, type Choice, chooseBuild, instantiate, type WasmSource } from './module.js';
import { oneOf, optional, type Reader, readOptions, type Schema } from './options.js';
import type { RawObject, Runtime } from './owned.js';
import { dispose, registry, type UrlLike } from './platform.js';
import type { Tensor, TensorInput } from './tensor.js';
import { version } from './version.js';

export interface LoadOptions {
  /** Which build of the module to run. 'auto' (the default): relaxed SIMD where the engine has it, else SIMD128. */
  build?: 'auto' | Build;
  /** The module itself, where it does not lie beside heed's script: its URL (in Node also a path), bytes, a Response, or the compiled module. */
  wasm?: WasmSource;
}

/** What actually runs. */
export interface Info {
  /** heed's version. */
  readonly version: string;
  readonly build: Build;
  /** Why this build. */
  readonly reason: string;
  /** The compiler that made the module. */
  readonly compiler: string;
  /** Size of the module's memory at this moment, in bytes. It grows with need and does not shrink before `dispose()`. */
  readonly memoryBytes: number;
}

/** A layer's class, bound to the runtime that it hangs on. */
export type LayerClass<Made, Options> = undefined extends Options
  ? new (
      options?: Options,
    ) => Made
  : new (
      options: Options,
    ) => Made;

/** A layer's class and the options that its constructor takes after the runtime. */
type Unbound<Made, Options> = new (runtime: Runtime, options: Options) => Made;

/**
 * One instance of heed: functions, layers and pretrained encoders. Made by `load()`.
 *
 * Letters: N batch, L queries, S keys, E width, Dk / Dv key / value width; `...` any leading axes.
 */
export class Heed {
  readonly #runtime: Runtime & { dispose(): void };
  readonly #choice: Choice;

  /** Masks, made and joined. */
  readonly masks: Masks;

  readonly Linear: LayerClass<Linear, LinearOptions>;
  readonly LayerNorm: LayerClass<LayerNorm, LayerNormOptions>;
  readonly BatchNorm: LayerClass<BatchNorm, BatchNormOptions>;
  readonly Dropout: LayerClass<Dropout, DropoutOptions | undefined>;
  readonly PositionalEncoding: LayerClass<PositionalEncoding, PositionalEncodingOptions>;
  readonly FeedForward: LayerClass<FeedForward, FeedForwardOptions>;
  readonly MultiHeadAttention: LayerClass<MultiHeadAttention, MultiHeadAttentionOptions>;
  readonly EncoderLayer: LayerClass<EncoderLayer, EncoderLayerOptions>;
  readonly Encoder: LayerClass<Encoder, EncoderOptions>;
  readonly DecoderLayer: LayerClass<DecoderLayer, DecoderLayerOptions>;
  readonly Decoder: LayerClass<Decoder, DecoderOptions>;
  readonly Transformer: LayerClass<Transformer, TransformerOptions>;

  /** @internal */
  constructor(core: Core, choice: Choice, onDispose: () => void) {
    this.#runtime = runtimeOf(core, onDispose);
    this.#choice = choice;
    this.masks = new Masks(this.#runtime);
    this.Linear = this.#bind('Linear', Linear);
    this.LayerNorm = this.#bind('LayerNorm', LayerNorm);
    this.BatchNorm = this.#bind('BatchNorm', BatchNorm);
    this.Dropout = this.#bind('Dropout', Dropout);
    this.PositionalEncoding = this.#bind('PositionalEncoding', PositionalEncoding);
    this.FeedForward = this.#bind('FeedForward', FeedForward);
    this.MultiHeadAttention = this.#bind('MultiHeadAttention', MultiHeadAttention);
    this.EncoderLayer = this.#bind('EncoderLayer', EncoderLayer);
    this.Encoder = this.#bind('Encoder', Encoder);
    this.DecoderLayer = this.#bind('DecoderLayer', DecoderLayer);
    this.Decoder = this.#bind('Decoder', Decoder);
    this.Transformer = this.#bind('Transformer', Transformer);
  }

  get info(): Info {
    const { core } = this.#runtime;
    return { version, ...this.#choice, compiler: core.compiler(), memoryBytes: core.memoryBytes() };
  }

  /**
   * Scaled dot-product attention, softmax(Q K^T / sqrt(Dk) + M) V (Vaswani et al. 2017, arXiv:1706.03762, eq. 1).
   *
   * query [...,L,Dk], key [...,S,Dk], value [...,S,Dv], whose leading axes broadcast -> output [...,L,Dv] and, on request, weights [...,L,S]. A query whose keys are all masked gets zeros in both.
   * @throws HeedError `SHAPE_MISMATCH`, `INVALID_ARGUMENT`
   */
  attention<W extends boolean = false>(
    query: TensorInput,
    key: TensorInput,
    value: TensorInput,
    options?: AttentionOptions<W>,
  ): Attended<W> {
    return functions.attention(this.#runtime.core, query, key, value, options);
  }

  /** exp(x_i) / sum_j exp(x_j) over the last axis, without overflow. x [...,E] -> [...,E]. */
  softmax(x: TensorInput): Tensor {
    return functions.softmax(this.#runtime.core, x);
  }

  /** The time-distributed layer phi(x W^T + b). x [...,in], weight [out,in] -> [...,out]. */
  linear(x: TensorInput, options: LinearFunctionOptions): Tensor {
    return functions.linear(this.#runtime.core, x, options);
  }

  /** gamma (x - mean) / sqrt(variance + eps) + delta over the last axis, variance with 1/E (Ba, Kiros, Hinton 2016, arXiv:1607.06450). x [...,E] -> [...,E]. */
  layerNorm(x: TensorInput, options?: LayerNormFunctionOptions): Tensor {
    return functions.layerNorm(this.#runtime.core, x, options);
  }

  /** Z * x, each entry of Z zero with probability p (Srivastava et al. 2014). x of any shape -> the same shape. */
  dropout(x: TensorInput, options?: DropoutFunctionOptions): Tensor {
    return functions.dropout(this.#runtime.core, x, options);
  }

  /** Sine on even columns, cosine on odd, of i base^(-2k/dim) (Vaswani et al. 2017, section 3.5). -> [length, dim]. */
  positionalEncoding(length: number, dim: number, options?: PositionalEncodingFunctionOptions): Tensor {
    return functions.positionalEncoding(this.#runtime.core, length, dim, options);
  }

  /** Rotary embedding (Su et al. 2021, arXiv:2104.09864): pair k of row i turns by i base^(-2k/dim). x [...,L,D] -> [...,L,D]. */
  rotary(x: TensorInput, options?: RotaryFunctionOptions): Tensor {
    return functions.rotary(this.#runtime.core, x, options);
  }

  /** What attention, a dense, a convolutional and a recurrent layer of the same width cost for a sequence of `length`. */
  flops(length: number, options: CostOptions): Record<'attention' | 'dense' | 'convolution' | 'recurrent', Cost> {
    return compareCosts(length, options);
  }

  /** Masks each head alone and ranks the heads by what that changes, see `HeadImportance`. */
  readonly headImportance = headImportance;

  /**
   * A pretrained encoder from the files as Hugging Face stores them: a folder's URL, its path in Node, or its files' bytes; without a source, the model that comes with heed.
   * @throws HeedError `NOT_FOUND`, `NETWORK`, `INVALID_FILE`, `UNSUPPORTED`, `OUT_OF_MEMORY`; nothing of a failed load stays behind
   */
  fromPretrained(source?: ModelSource, options?: FromPretrainedOptions): Promise<PretrainedModel> {
    return fromPretrained(this.#runtime, source, options);
  }

  /**
   * Ends this caller's use of the module: frees the layers and models made through this object and ends their workers. Calling it again does nothing; any other use of
   * this object, its layers or its models throws `DISPOSED`. Objects that other calls of `load()` returned go on working; the module's memory is freed with the last of them.
   */
  dispose(): void {
    this.#runtime.dispose();
  }

  [dispose](): void {
    this.dispose();
  }

  #bind<Made extends Layer, Options>(name: string, Base: Unbound<Made, Options>): LayerClass<Made, Options> {
    const runtime = this.#runtime;
    const Bound = class extends (Base as unknown as Unbound<Layer, Options>) {
      // What follows the options is heed's own, see Layer.another().
      constructor(options: Options, ...more: []) {
        super(runtime, options, ...more);
      }
    };
    Object.defineProperty(Bound, 'name', { value: name });
    return Bound as unknown as LayerClass<Made, Options>;
  }
}

/** Counts runtimes as disposed of that were forgotten together with all that was made with them. */
const dropped = registry<() => void>((onDispose) => onDispose());

function runtimeOf(alive: Core, onDispose: () => void): Runtime & { dispose(): void } {
  let core: Core | null = alive;
  const owned = new Set<RawObject>();
  const runtime = {
    owned,
    get core() {
      if (core === null)
        throw new HeedError('DISPOSED', 'heed: got a call after dispose(); expected one before it, or a new load()');
      return core;
    },
    dispose() {
      if (core === null) return;
      core = null;
      dropped?.unregister(runtime);
      for (const raw of owned) raw.delete();
      owned.clear();
      onDispose();
    },
  };
  dropped?.register(runtime, onDispose, runtime);
  return runtime;
}

const source: Reader<WasmSource> = (value, name) => {
  if ((typeof value === 'string' && value !== '') || (typeof value === 'object' && value !== null)) return value;
  throw invalid(name, describe(value), 'a URL, its string, bytes, a Response or a WebAssembly.Module');
};

const loadSchema = {
  build: optional(oneOf(['auto', 'relaxed-simd', 'simd128']), 'auto' as const),
  wasm: optional(source, undefined),
} satisfies Schema<LoadOptions>;

/** An instance of the module and how many callers use it. A promise, so that concurrent calls share it. */
interface Shared {
  loading: Promise<[Core, Choice]> | null;
  users: number;
}

// By the source that was given, then by the build.
const byBuild = new Map<string, Shared>();
const bySource = new WeakMap<object, Map<string, Shared>>();

/**
 * Loads the WebAssembly module. Calls with the same options share one instance of it, which is let go of when each caller has disposed of what it got; a failed call leaves
 * nothing behind.
 *
 * @throws HeedError `LOAD_FAILED` where the module cannot be had, `UNSUPPORTED` where the engine lacks WebAssembly SIMD, `INVALID_ARGUMENT` for wrong options
 */
export async function load(options?: LoadOptions): Promise<Heed> {
  const { build, wasm } = readOptions('load', loadSchema, options);
  const url = guarded('load.wasm', () => {
    const text = typeof wasm === 'object' ? (wasm as Partial<UrlLike>).href : wasm;
    return typeof text === 'string' ? text : null;
  });
  const place = wasm === undefined || url !== null ? byBuild : mapOf(wasm as object);
  const key = `${build} ${url ?? ''}`;
  const start = async (): Promise<[Core, Choice]> => {
    const choice = await chooseBuild(build);
    return [await instantiate(choice.build, wasm), choice];
  };
  const forget = () => {
    if (place.get(key) === shared) place.delete(key);
  };
  let shared = place.get(key);
  if (!shared) {
    const loading = start();
    shared = { loading, users: 0 };
    place.set(key, shared);
    loading.catch(forget); // before any caller hears of it and tries again
  }
  const { loading } = shared;
  shared.users++; // before it has loaded: another caller may dispose of it as soon as it has
  const [core, choice] = await loading!;
  return new Heed(core, choice, () => {
    if (--shared.users > 0) return;
    shared.loading = null; // so that a disposed object which is kept does not keep the memory
    forget();
  });
}

function mapOf(source: object): Map<string, Shared> {
  const map = bySource.get(source) ?? new Map<string, Shared>();
  bySource.set(source, map);
  return map;
}
