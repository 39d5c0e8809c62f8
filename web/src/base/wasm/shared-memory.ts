/** Whether an instance of the module can have threads here, and the memory that they share. */
import { nodeModule } from '../platform.js';

/** Of the module's memory (-sINITIAL_MEMORY in cmake/wasm.cmake). */
const INITIAL_PAGES = 16;
/** 4 GB, and less for engines that reserve the whole of shared memory at once. */
const MAXIMUM_PAGES = [65536, 32768, 16384];

/** Shared memory for the module, or null if the engine refuses it. */
export function sharedMemory(): WebAssembly.Memory | null {
  for (const maximum of MAXIMUM_PAGES) {
    try {
      return new WebAssembly.Memory({ initial: INITIAL_PAGES, maximum, shared: true });
    } catch {}
  }
  return null;
}

/** Why there can be no threads here; null if there can. */
export function obstacle(): string | null {
  const { crossOriginIsolated } = globalThis as { crossOriginIsolated?: boolean };
  if (crossOriginIsolated === false) return 'the page is not cross-origin isolated';
  if (typeof SharedArrayBuffer !== 'function') return 'the engine has no SharedArrayBuffer';
  if (!nodeModule('worker_threads') && typeof Worker !== 'function') return 'there are no workers here';
  return null;
}
