/** Instances of the WebAssembly module. Calls of `load()` share an instance if their options lead to the same one. */
import { countUpTo } from '../base/cores.js';
import { abortable } from '../base/event-loop.js';
import { type HubOptions, hubOptions } from '../base/hub-options.js';
import { legal, oneOf, optional, readOptions, type Schema, signal } from '../base/options.js';
import type { GpuLike } from '../base/platform.js';
import type { Core } from '../base/wasm/core.js';
import {
  chooseBuild,
  endThreads,
  HINT,
  instantiate,
  locate,
  possibleThreads,
  type Variant,
} from '../base/wasm/module.js';
import { beside, packaged } from '../base/wasm/packaged.js';
import type { LoadOptions } from './load-options.js';
import type { Chosen } from './runtime.js';

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
  const { build, wasm, threads: wanted, hub, gpu, signal: stopped } = readOptions('load', loadSchema, options);
  stopped?.throwIfAborted();
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
