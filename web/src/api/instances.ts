/** The instances of the module, which calls of `load()` share if their options lead to the same one. */

import { countUpTo } from '../base/cores.js';
import { abortable } from '../base/event-loop.js';
import { type HubOptions, hubOptions } from '../base/hub-options.js';
import { legal, oneOf, optional, readOptions, type Schema, signal } from '../base/options.js';
import type { GpuLike } from '../base/platform.js';
import type { Core } from '../base/wasm/core.js';
import { chooseBuild, endThreads, instantiate, locate, possibleThreads, type Variant } from '../base/wasm/module.js';
import { packaged } from '../base/wasm/packaged.js';
import type { Chosen, LoadOptions } from './runtime.js';

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

/** An instance of the module and how many callers use it. */
interface Shared {
  /** A promise, so that concurrent calls share it. */
  loading: Promise<Core> | null;
  users: number;
  /** Ends the download if nobody waits for it any longer. */
  stop: AbortController;
}

// By the URL of the source (none: the package's own) or the object that was given, then by the variant, the build and the number of threads, whatever options led to them.
const byUrl = new Map<string, Map<string, Shared>>();
const byObject = new WeakMap<object, Map<string, Shared>>();

/** @internal Loads a variant of the module as `load` does; `make` makes the object of this caller. */
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
    const url = (threaded ? module.threadFiles! : module.files)[choice.build]();
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
    loading.catch(forget); // before any caller learns of the failure and tries again
  }
  const release = () => {
    if (--shared.users > 0) return;
    forget();
    shared.stop.abort();
    shared.loading?.then(endThreads, () => {});
    shared.loading = null; // a disposed but still referenced Heed does not keep the memory alive
  };
  shared.users++; // before it has loaded: another caller may dispose of it as soon as it has
  try {
    const core = await abortable(shared.loading!, stopped);
    return make(core, { ...choice, threads }, hub, release, gpu);
  } catch (error) {
    release();
    throw error;
  }
}
