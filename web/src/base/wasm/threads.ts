/**
 * The shared-memory threads of an instance of the module. Imported on demand; shared-memory.ts decides whether threads
 * are possible.
 */
import { type Count, coreCount } from '../cores.js';
import { describe, HeedError } from '../error.js';
import type { WorkerLike } from '../platform.js';
import { keepAlive, listen, nodeOptions, start } from '../start-worker.js';
import type { Core } from './core.js';
import { packaged } from './packaged.js';

/**
 * The data for starting a thread. The functions are indices in the function table, which is the same in all instances.
 */
export interface ThreadStart {
  module: WebAssembly.Module;
  memory: WebAssembly.Memory;
  initialize: number;
  main: number;
  failed: number;
  stack: number;
  stackBytes: number;
  index: number;
}

/** Whether this thread may block. The main thread of a page may not. */
function mayWait(): boolean {
  try {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 1, 0); // returns immediately, because the value is not 1
    return true;
  } catch {
    return false;
  }
}

/**
 * Starts a worker that runs heed's thread.js. Bundlers recognize exactly these expressions and bundle the script
 * separately.
 */
const startThread = () =>
  start(
    'thread.js',
    ({ Worker }) => new Worker(packaged('thread.js', new URL('./thread.js', import.meta.url)), nodeOptions),
    () => new Worker(new URL('./thread.js', import.meta.url), { type: 'module' }),
  );

/** The threads of one instance. A thread that ends is replaced; meanwhile, calls run on the others. */
export class Threads {
  readonly #core: Core;
  readonly #workers: (WorkerLike | null)[];
  readonly #start: Omit<ThreadStart, 'stack' | 'index'>;
  #disposed = false;
  #reason: string;

  private constructor(core: Core, module: WebAssembly.Module, memory: WebAssembly.Memory, { count, reason }: Count) {
    this.#core = core;
    this.#reason = reason;
    this.#workers = new Array(count - 1).fill(null);
    const [initialize, main, failed, stackBytes] = core.startThreads!(count - 1, coreCount(), mayWait());
    this.#start = { module, memory, initialize, main, failed, stackBytes };
  }

  /** Starts count - 1 threads. If one cannot start, calls run on the calling thread only. */
  static async start(
    core: Core,
    module: WebAssembly.Module,
    memory: WebAssembly.Memory,
    count: Count,
  ): Promise<Threads> {
    const threads = new Threads(core, module, memory, count);
    try {
      await Promise.all(threads.#workers.map((_, i) => threads.#replace(i)));
    } catch (error) {
      threads.dispose();
      core.startThreads!(0, 0, false);
      threads.#reason = `a thread could not start (${error instanceof HeedError ? error.message : describe(error)})`;
    }
    return threads;
  }

  /** The number of running threads, including the calling thread, and the reason for it. */
  get count(): Count {
    return { count: 1 + this.#workers.filter(Boolean).length, reason: this.#reason };
  }

  /** Replaces all threads, after a call that did not end normally. */
  restart(): void {
    if (!this.#disposed) for (const i of this.#workers.keys()) this.#replace(i).catch(() => {});
  }

  dispose(): void {
    this.#disposed = true;
    for (const i of this.#workers.keys()) this.#end(i);
  }

  #end(i: number): void {
    void this.#workers[i]?.terminate();
    this.#workers[i] = null;
  }

  /** Starts thread i in place of the current one. */
  #replace(i: number): Promise<void> {
    this.#end(i);
    return new Promise((resolve, reject) => {
      const worker = startThread();
      let ready = false;
      listen(
        worker,
        () => {
          ready = true;
          keepAlive(worker, false);
          if (this.#disposed) void worker.terminate();
          else this.#workers[i] = worker;
          resolve();
        },
        (how, cause) => {
          const current = this.#workers[i] === worker;
          if (ready && current && !this.#disposed) this.#replace(i).catch(() => {});
          else reject(cause ?? new Error(how));
        },
      );
      worker.postMessage({ ...this.#start, stack: this.#core.addThread!(i), index: i } satisfies ThreadStart);
    });
  }
}
