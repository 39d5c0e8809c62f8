/**
 * `load()` on the WebAssembly module for inference. The code that loads and runs models is imported statically, because
 * service workers cannot import it on demand.
 */
import { inference } from '../base/wasm/inference.js';
import { fromPretrained } from './from-pretrained.js';
import { type LoadOptions, start } from './instances.js';
import { Heed, runtimeOf } from './runtime.js';

/**
 * Loads the WebAssembly module. Calls with the same options share one instance, which is freed when every caller has
 * disposed of its object. A call that fails leaves nothing behind.
 *
 * @example
 * const heed = await load();
 * heed.softmax([0, 0]).toArray(); // [0.5, 0.5]
 * @throws HeedError `LOAD_FAILED` if the module cannot be loaded, `UNSUPPORTED` if the engine lacks WebAssembly SIMD,
 * `INVALID_ARGUMENT` for invalid options
 */
export function load(options?: LoadOptions): Promise<Heed> {
  return start(
    inference,
    options,
    (core, choice, hub, onDispose, gpu) =>
      new Heed(runtimeOf(inference, core, core, hub, onDispose, undefined, gpu), choice, fromPretrained),
  );
}
