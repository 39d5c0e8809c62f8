/** Instances of the WebAssembly module. Calls of `load()` share an instance if their options lead to the same one. */
import { countUpTo } from '../base/cores.js';
import { abortable } from '../base/event-loop.js';
import { type HubOptions, hubOptions } from '../base/hub-options.js';
import { flag, legal, oneOf, optional, readOptions, type Schema, signal } from '../base/options.js';
import type { GpuLike, SignalLike } from '../base/platform.js';
import type { Core } from '../base/wasm/core.js';
import {
  type Build,
  chooseBuild,
  endThreads,
  HINT,
  instantiate,
  locate,
  possibleThreads,
  type Variant,
  type WasmSource,
} from '../base/wasm/module.js';
import { beside, packaged } from '../base/wasm/packaged.js';
import { prefetchModel } from './prefetch.js';
import type { Chosen } from './runtime.js';

/** Options of `load`. */
export interface LoadOptions {
  /** The build of the module to run. 'auto' (the default): relaxed SIMD if the engine has it, else SIMD128. */
  build?: 'auto' | Build | undefined;
  /**
   * The WebAssembly module, if it is not served next to heed's script: a URL (in Node also a path), bytes (which are
   * copied), a Response, or a compiled module.
   */
  wasm?: WasmSource | undefined;
  /**
   * The number of threads that share the work of a call, including the calling thread: 1 to 16, or 'auto' for the
   * number of CPU cores, at most 4. Default: 1. Threads need Node or a cross-origin isolated page; elsewhere one thread
   * runs, and `info.threadsReason` says why. Results do not depend on the number, bit for bit.
   */
  threads?: number | 'auto' | undefined;
  /**
   * Download settings of all calls: the host of models that are given by their id, its token, a custom `fetch`, and the
   * cache. Default: no host, or in Node the environment variable HF_ENDPOINT.
   */
  hub?: HubOptions | undefined;
  /**
   * The GPU that `fromPretrained` uses: in Node, the result of `create([])` of the package `webgpu`. Default:
   * `navigator.gpu`.
   */
  gpu?: GpuLike | undefined;
  /**
   * Whether to start the download of the bundled model with that of the module, for a `fromPretrained` without a source
   * that follows. It then waits for one response less. Default false; no effect in Node and on `trainable` models.
   */
  prefetch?: boolean | undefined;
  /** Aborts the call. The module's download is cancelled unless another call needs it. */
  signal?: SignalLike | undefined;
}

const gpuOption = legal<GpuLike>(
  'a GPU object, such as navigator.gpu',
  ({ requestAdapter }) => typeof requestAdapter === 'function',
);

const loadSchema = {
  build: optional(oneOf(['auto', 'relaxed-simd', 'simd128']), 'auto' as const),
  wasm: optional(locate, undefined),
  threads: optional(countUpTo(16, 4), { count: 1, reason: 'the default' }),
  hub: optional(hubOptions, {}),
  gpu: optional(gpuOption, undefined),
  prefetch: optional(flag, false),
  signal,
} satisfies Schema<LoadOptions>;

/** An instance of the module and the number of its users. */
interface Shared {
  /** A promise, so that concurrent calls can share it. */
  loading: Promise<Core> | null;
  users: number;
  /** Cancels the download when no caller waits for it any longer. */
  stop: AbortController;
}

// The first key is the URL of the source ('' for the package's own files) or the object that was given; the second is
// the variant, the build and the number of threads.
const byUrl = new Map<string, Map<string, Shared>>();
const byObject = new WeakMap<object, Map<string, Shared>>();

/** @internal Implements `load` for a variant of the module. `make` makes the caller's object. */
export async function start<T>(
  module: Variant,
  options: LoadOptions | undefined,
  make: (core: Core, choice: Chosen, hub: HubOptions, onDispose: () => void, gpu?: GpuLike) => T,
): Promise<T> {
  const read = readOptions('load', loadSchema, options);
  const { build, wasm, threads: wanted, hub, gpu, prefetch, signal: stopped } = read;
  stopped?.throwIfAborted();
  if (prefetch) prefetchModel((hub as HubOptions).fetch);
  const threads = possibleThreads(module, wanted);
  const choice = await chooseBuild(build);
  const variant = `${module.name} ${choice.build} ${threads.count}`;
  const key = wasm?.key ?? '';
  const instances = (typeof key === 'string' ? byUrl : byObject) as Map<unknown, Map<string, Shared>>;
  const byVariant = instances.get(key) ?? new Map<string, Shared>();
  instances.set(key, byVariant);
  const shipped = (threaded: boolean) => {
    const url = beside('wasm', (threaded ? module.threadFiles! : module.files)[choice.build], HINT);
    return locate(packaged(`heed-${threaded ? 'threads-' : module.prefix}${choice.build}.wasm`, url), 'wasm');
  };
  const forget = () => {
    if (byVariant.get(variant) === shared) byVariant.delete(variant);
  };
  let shared = byVariant.get(variant);
  if (!shared) {
    const stop = new AbortController();
    const loading = instantiate(module, wasm ?? shipped, threads, stop.signal);
    shared = { loading, users: 0, stop };
    byVariant.set(variant, shared);
    loading.catch(forget); // so that a caller who retries after the failure does not get this promise
  }
  const release = () => {
    if (--shared.users > 0) return;
    forget();
    shared.stop.abort();
    shared.loading?.then(endThreads, () => {});
    shared.loading = null; // so that a Heed that is disposed of but still referenced does not retain the memory
  };
  shared.users++; // counted before loading ends, because another caller may dispose of the instance right after
  try {
    const core = await abortable(shared.loading!, stopped);
    return make(core, { ...choice, threads }, hub, release, gpu);
  } catch (error) {
    release();
    throw error;
  }
}
