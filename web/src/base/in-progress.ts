/**
 * Tracks calls of the WebAssembly module that are in progress. A callback, such as an edit's `map`, may call the module
 * again while the outer call still uses its objects. Therefore, objects that a callback disposes of are freed after the
 * outermost call has returned, and a callback must not change modules that the outer call uses.
 */
import { HeedError } from './error.js';
import type { RawModule } from './wasm/core.js';

let depth = 0;
const waiting: (() => void)[] = [];

/** Begins a call of the WebAssembly module, which `leaveCall` ends. */
export function enterCall(): void {
  depth++;
}

export function leaveCall(): void {
  if (--depth === 0) for (const free of waiting.splice(0)) free();
}

/** Calls `free`, which deletes objects in WebAssembly memory, once no call is in progress. */
export function whenIdle(free: () => void): void {
  if (depth > 0) waiting.push(free);
  else free();
}

/**
 * Requires that no call of these modules is in progress, because `call` would change them. @throws HeedError
 * `INVALID_ARGUMENT`
 */
export function requireIdle(call: string, modules: Iterable<RawModule>): void {
  if (depth === 0) return;
  for (const module of modules) {
    if (module.isRunning())
      throw new HeedError(
        'INVALID_ARGUMENT',
        `${call}: a call of the module is in progress. A callback, such as the map of an edit, may call the module but not change it`,
      );
  }
}
