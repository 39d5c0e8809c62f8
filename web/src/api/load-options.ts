/** The options of `load`. */
import type { HubOptions } from '../base/hub-options.js';
import type { GpuLike, SignalLike } from '../base/platform.js';
import type { Build, WasmSource } from '../base/wasm/module.js';

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
  /** Aborts the call. The module's download is cancelled unless another call needs it. */
  signal?: SignalLike | undefined;
}
