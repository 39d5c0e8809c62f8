/** JavaScript objects that own an object of the core: freed by `dispose()`, by `using`, or by the garbage collector. */

import { HeedError } from './error.js';
import type { HubOptions } from './hub-options.js';
import { whenIdle } from './in-progress.js';
import { dispose, type GpuLike, registry, type WorkerLike } from './platform.js';
import type { Calls, Core } from './wasm/core.js';

/** A resource that must be deleted: an object of the core, a worker. */
export interface RawObject {
  delete(): void;
}

/** One caller's use of an instance of the WebAssembly module. */
export interface Runtime {
  /** Throws `DISPOSED` after the caller has disposed of the runtime. */
  readonly core: Core;
  /** What its layers and functions call. */
  readonly calls: Calls;
  /** What the caller made with it and has not deleted yet; disposing of the runtime deletes it. */
  readonly owned: Set<RawObject>;
  /** Where its models are downloaded from. */
  readonly hub: HubOptions;
  /** Where its models look for a GPU; undefined: where the engine has one. */
  readonly gpu?: GpuLike | undefined;
}

/** That of a script that can start workers. */
export interface PageRuntime extends Runtime {
  /** Starts a worker with heed's script. */
  startWorker(): WorkerLike;
}

interface Held {
  raw: RawObject;
  owned: Set<RawObject>;
}

/** Deletes an object unless its owner, the garbage collector or its runtime already has; if calls are in progress, after them. */
function release({ raw, owned }: Held): void {
  if (owned.delete(raw)) whenIdle(() => raw.delete());
}

// The registry holds the raw object, which therefore lives until its owner is collected.
const collected = registry<Held>(release);

/** Owns one object of the core. */
export abstract class Owned<Raw extends RawObject> {
  /** @internal For messages. */
  readonly name: string;
  /** @internal */
  readonly runtime: Runtime;
  #raw: Raw | null;

  /** @internal */
  constructor(name: string, runtime: Runtime, raw: Raw) {
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

  /** Frees the memory, from a callback of a call after that call. Calling it again does nothing; any other use afterwards throws `DISPOSED`. */
  dispose(): void {
    const raw = this.#raw;
    if (raw === null) return;
    this.#raw = null;
    collected?.unregister(this);
    release({ raw, owned: this.runtime.owned });
  }

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
