/** JavaScript objects that own one of the core's: freed by `dispose()`, by `using`, or by the garbage collector. */
import type { Core } from './core.js';
import { HeedError } from './error.js';
import { dispose, registry } from './platform.js';

/** One instance of the WebAssembly module. Throws `DISPOSED` once it was given back. */
export interface Runtime {
  readonly core: Core;
}

interface RawObject {
  delete(): void;
}

// The raw object is the registry's held value, so it lives until its owner is collected.
const collected = registry<RawObject>((raw) => raw.delete());

/** Owns one object of the core. */
export abstract class Owned<Raw extends RawObject> {
  readonly #name: string;
  readonly #runtime: Runtime;
  #raw: Raw | null;

  /** @internal */
  constructor(name: string, runtime: Runtime, raw: Raw) {
    this.#name = name;
    this.#runtime = runtime;
    this.#raw = raw;
    collected?.register(this, raw, this);
  }

  /** Whether `dispose()` was called. */
  get disposed(): boolean {
    return this.#raw === null;
  }

  /** Frees the memory. Calling it again does nothing; any other use afterwards throws `DISPOSED`. */
  dispose(): void {
    const raw = this.#raw;
    if (raw === null) return;
    this.#raw = null;
    collected?.unregister(this);
    raw.delete();
  }

  [dispose](): void {
    this.dispose();
  }

  /** @internal */
  get raw(): Raw {
    if (this.#raw === null)
      throw new HeedError('DISPOSED', `${this.#name}: got a call after dispose(); expected one before it`);
    void this.#runtime.core;
    return this.#raw;
  }

  /** @internal */
  get runtime(): Runtime {
    return this.#runtime;
  }
}
