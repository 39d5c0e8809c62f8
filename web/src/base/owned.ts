/**
 * JavaScript objects that own an object in WebAssembly memory. It is freed by `dispose()`, by `using`, or by the
 * garbage collector.
 */
import { HeedError } from './error.js';
import type { HubOptions } from './hub-options.js';
import { whenIdle } from './in-progress.js';
import { dispose, type GpuLike, registry, type WorkerLike } from './platform.js';
import { Unproxied } from './unproxied.js';
import type { Calls, Core } from './wasm/core.js';

/** A resource that must be deleted: an object in WebAssembly memory, or a worker. */
export interface RawObject {
  delete(): void;
}

/** One caller's use of an instance of the WebAssembly module. */
export interface Runtime {
  /** Throws `DISPOSED` after the caller has disposed of the runtime. */
  readonly core: Core;
  /** The functions and layer classes that the runtime's layers and functions call. */
  readonly calls: Calls;
  /**
   * The objects that the caller made with the runtime and has not deleted yet. Disposing of the runtime deletes them.
   */
  readonly owned: Set<RawObject>;
  /** The download options of its models. */
  readonly hub: HubOptions;
  /** The GPU for its models; undefined: the engine's own. */
  readonly gpu?: GpuLike | undefined;
}

/** The runtime of a script that can start workers. */
export interface PageRuntime extends Runtime {
  /** Starts a worker with heed's script. */
  startWorker(): WorkerLike;
}

interface Held {
  raw: RawObject;
  owned: Set<RawObject>;
}

/** Deletes an object unless it has already been deleted. Waits until no call is in progress. */
function release({ raw, owned }: Held): void {
  if (owned.delete(raw)) whenIdle(() => raw.delete());
}

// The registry references the raw object, which therefore lives until its owner is collected.
const collected = registry<Held>(release);

/** Owns one object in WebAssembly memory. */
export abstract class Owned<Raw extends RawObject> extends Unproxied {
  /** @internal The name of the object in messages. */
  readonly name: string;
  /** @internal */
  readonly runtime: Runtime;
  #raw: Raw | null;

  /** @internal */
  constructor(name: string, runtime: Runtime, raw: Raw) {
    super();
    this.name = name;
    this.runtime = runtime;
    this.#raw = raw;
    runtime.owned.add(raw);
    collected?.register(this, { raw, owned: runtime.owned }, this);
  }

  /** Whether `dispose()` was called on this object or on its runtime. */
  get disposed(): boolean {
    return this.#raw === null || !this.runtime.owned.has(this.#raw);
  }

  /**
   * Frees the memory; from within a callback, after the call that runs it. Calling it again does nothing; any other use
   * afterwards throws `DISPOSED`.
   */
  dispose(): void {
    const raw = this.#raw;
    if (raw === null) return;
    this.#raw = null;
    collected?.unregister(this);
    release({ raw, owned: this.runtime.owned });
  }

  /** Calls `dispose`, for `using`. */
  [dispose](): void {
    this.dispose();
  }

  /** @internal */
  get raw(): Raw {
    if (this.#raw === null) throw new HeedError('DISPOSED', `${this.name}: used after dispose()`);
    void this.runtime.core;
    return this.#raw;
  }
}
