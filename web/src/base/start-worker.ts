/** Starts workers and listens to them, in browsers and with Node's worker_threads. */
import { describe, HeedError } from './error.js';
import { nodeModule, ownOrigin, type WorkerLike } from './platform.js';
import { isPrepared, packaged } from './wasm/packaged.js';

type NodeWorker = import('node:worker_threads').Worker;
type NodeThreads = typeof import('node:worker_threads');

/** Calls `receive` with each message, and `failed` with a short description when the worker ends or fails. */
export function listen(
  worker: WorkerLike,
  // biome-ignore lint/suspicious/noExplicitAny: what the script of the worker posts
  receive: (message: any) => void,
  failed: (how: string, cause?: unknown) => void,
): void {
  const unreadable = () => failed('the worker sent a message that cannot be read');
  // Uses listeners because the caller may have set `onmessage` and `onerror`.
  if (typeof (worker as NodeWorker).on === 'function') {
    const node = worker as NodeWorker;
    node.on('message', receive);
    node.on('messageerror', unreadable);
    node.on('error', (error) => failed(`the worker failed (${describe(error)})`, error));
    node.on('exit', (code) => failed(`the worker ended (exit code ${code})`));
    if (node.threadId === -1) failed('the worker has ended');
  } else {
    const web = worker as Worker;
    web.addEventListener('message', ({ data }: MessageEvent) => receive(data));
    web.addEventListener('messageerror', unreadable);
    web.addEventListener('error', (event) => {
      event.preventDefault();
      failed(`the worker failed (${event.message || 'its script could not be loaded'})`, event.error ?? undefined);
    });
  }
}

/** In Node: sets whether a worker keeps the process alive. */
export function keepAlive(worker: WorkerLike, keeps: boolean): void {
  if (keeps) (worker as Partial<NodeWorker>).ref?.();
  else (worker as Partial<NodeWorker>).unref?.();
}

/**
 * Does not pass on the options of the process: with `--input-type`, which requires `--eval`, no script can be started.
 */
export const nodeOptions = { execArgv: [] };

/**
 * Starts a worker that runs heed's script of this name. The caller writes out `new Worker(new URL(...))`, the
 * expression that bundlers look for.
 */
export function start(script: string, inNode: (threads: NodeThreads) => unknown, inPage: () => unknown): WorkerLike {
  const threads = nodeModule<NodeThreads>('worker_threads');
  if (!threads && typeof Worker !== 'function')
    throw new HeedError('UNSUPPORTED', 'worker: this environment has no workers. Leave `worker` out');
  try {
    return (threads ? inNode(threads) : startInPage(script, inPage)) as WorkerLike;
  } catch (cause) {
    if (cause instanceof HeedError) throw cause;
    const how = `heed's ${script}, expected next to heed's script, cannot be started`;
    throw new HeedError('WORKER_FAILED', `worker: ${how} (${(cause as Error).message})`, { cause });
  }
}

/**
 * Starts a worker in a page. Browsers reject worker scripts from another origin, such as a CDN, and all scripts with a
 * URL in a sandboxed frame, but a script of the page may import them. If that happens, a blob with a one-line script
 * imports the worker's script; in a sandboxed frame a data: URL, because Chromium runs no modules from blobs there.
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
  if (url.origin === ownOrigin()) return new Worker(url, options);
  const text = options?.type === 'module' ? `import ${JSON.stringify(url)}` : `importScripts(${JSON.stringify(url)})`;
  const own =
    ownOrigin() === 'null'
      ? `data:text/javascript,${encodeURIComponent(text)}`
      : URL.createObjectURL(new Blob([text], { type: 'text/javascript' }));
  return new Worker(own, options);
}

/**
 * Returns the arguments of `new Worker(...)` in `inPage` as the bundler has written them, by replacing the class while
 * `inPage` runs. undefined if it cannot be replaced.
 */
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
