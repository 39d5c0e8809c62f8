/** Whether the module can have threads in this environment, and the memory that they share. */
import { nodeModule } from '../platform.js';

/** The initial size of the module's memory (-sINITIAL_MEMORY in cmake/wasm.cmake). */
const INITIAL_PAGES = 16;
/** 4 GB, then less for engines that reserve the maximum of shared memory immediately. */
const MAXIMUM_PAGES = [65536, 32768, 16384];

/** Allocates shared memory for the module; null if the engine cannot. */
export function sharedMemory(): WebAssembly.Memory | null {
  for (const maximum of MAXIMUM_PAGES) {
    try {
      return new WebAssembly.Memory({ initial: INITIAL_PAGES, maximum, shared: true });
    } catch {}
  }
  return null;
}

/** Why threads are not possible here; null if they are. */
export function obstacle(): string | null {
  const { crossOriginIsolated } = globalThis as { crossOriginIsolated?: boolean | undefined };
  if (crossOriginIsolated === false) return 'the page is not cross-origin isolated';
  if (typeof SharedArrayBuffer !== 'function') return 'the engine has no SharedArrayBuffer';
  if (!nodeModule('worker_threads') && typeof Worker !== 'function') return 'there are no workers here';
  return null;
}
