/** Starts workers and listens to them, in browsers and in Node's worker_threads. */
import { describe, HeedError, invalid } from './error.js';
import { nodeModule, type WorkerLike } from './platform.js';
import { isPrepared, packaged } from './wasm/packaged.js';

type NodeWorker = import('node:worker_threads').Worker;
type NodeThreads = typeof import('node:worker_threads');

/** Calls `receive` with each message, and `failed` with a few words on how the worker ended or failed. */
export function listen(
  worker: WorkerLike,
  // biome-ignore lint/suspicious/noExplicitAny: what the script of the worker posts
  receive: (message: any) => void,
  failed: (how: string, cause?: unknown) => void,
): void {
  const unreadable = () => failed('a message that cannot be read');
  // Listeners rather than `onmessage` and `onerror`, which the caller may have set.
  if (typeof (worker as NodeWorker).on === 'function') {
    const node = worker as NodeWorker;
    node.on('message', receive);
    node.on('messageerror', unreadable);
    node.on('error', (error) => failed(`one that failed (${describe(error)})`, error));
    node.on('exit', (code) => failed(`one that ended (exit code ${code})`));
    if (node.threadId === -1) failed('one that has ended');
  } else {
    const web = worker as Worker;
    web.addEventListener('message', ({ data }: MessageEvent) => receive(data));
    web.addEventListener('messageerror', unreadable);
    web.addEventListener('error', (event) => {
      event.preventDefault();
      failed(`one that failed (${event.message || 'its script could not be loaded'})`, event.error ?? undefined);
    });
  }
}

/** In Node, whether a worker keeps the process alive. */
export function keepAlive(worker: WorkerLike, keeps: boolean): void {
  if (keeps) (worker as Partial<NodeWorker>).ref?.();
  else (worker as Partial<NodeWorker>).unref?.();
}

/** Without the options of the process: with `--input-type`, which goes with `--eval`, no script can be started. */
export const nodeOptions = { execArgv: [] };

/** Starts a worker that runs heed's script of that name. The caller spells out `new Worker(new URL(...))`, which bundlers look for. */
export function start(script: string, inNode: (threads: NodeThreads) => unknown, inPage: () => unknown): WorkerLike {
  const threads = nodeModule<NodeThreads>('worker_threads');
  if (!threads && typeof Worker !== 'function')
    throw invalid('worker', 'a page or Node', 'an environment without workers', 'UNSUPPORTED', {
      hint: 'Leave `worker` out',
    });
  try {
    return (threads ? inNode(threads) : startInPage(script, inPage)) as WorkerLike;
  } catch (cause) {
    if (cause instanceof HeedError) throw cause;
    throw invalid(
      'worker',
      `heed's ${script} next to heed's script`,
      `one that cannot be started (${(cause as Error).message})`,
      'WORKER_FAILED',
      { cause },
    );
  }
}

/**
 * A page refuses scripts of another origin, such as a CDN, as workers, but a script of its own may import them. Such a script of one line is made here, as a blob, when the page
 * has refused.
 */
function startInPage(script: string, inPage: () => unknown): unknown {
  let given: [URL | string, WorkerOptions?] | undefined;
  try {
    given = isPrepared(import.meta.url) ? argumentsOf(inPage) : undefined;
    if (!given) return inPage();
  } catch (error) {
    if ((error as Error).name !== 'SecurityError') throw error;
    given = argumentsOf(inPage);
    if (!given) throw error;
  }
  const [address, options] = given;
  const url = packaged(script, new URL(address, location.href));
  if (url.origin === location.origin) return new Worker(url, options);
  const text = options?.type === 'module' ? `import ${JSON.stringify(url)}` : `importScripts(${JSON.stringify(url)})`;
  return new Worker(URL.createObjectURL(new Blob([text], { type: 'text/javascript' })), options);
}

/** The arguments of `new Worker(...)` in `inPage`, as a bundler has written them: the class is replaced while `inPage` runs; undefined if it cannot be. */
function argumentsOf(inPage: () => unknown): [URL | string, WorkerOptions?] | undefined {
  const scope = globalThis as { Worker: unknown };
  const { Worker } = scope;
  if (!Object.getOwnPropertyDescriptor(scope, 'Worker')?.writable) return undefined;
  let given: [URL | string, WorkerOptions?] | undefined;
  try {
    scope.Worker = class {
      constructor(...args: [URL | string, WorkerOptions?]) {
        given = args;
      }
    };
    inPage();
  } catch {
    given = undefined;
  } finally {
    scope.Worker = Worker;
  }
  return given;
}
