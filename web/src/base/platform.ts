/** What differs between engines and hosts, and structural types in place of those of the DOM library: the package's declarations compile without it. */

declare global {
  // As in TypeScript's lib.esnext.disposable, with which these merge, for users who do not have it.
  interface SymbolConstructor {
    readonly dispose: unique symbol;
  }
  interface Disposable {
    [Symbol.dispose](): void;
  }
}

/** The key of `using`'s method. Engines without it: the key that TypeScript's and esbuild's translation of `using` looks for. */
export const dispose: typeof Symbol.dispose = Symbol.dispose ?? (Symbol.for('Symbol.dispose') as typeof Symbol.dispose);

/** The key of the method that says what `console.log` prints, in Node, Deno and Bun. */
export const inspected: unique symbol = Symbol.for('nodejs.util.inspect.custom');

/** Calls `cleanup` for objects that were collected; null in engines without FinalizationRegistry (some edge servers), where only `dispose()` frees. */
export function registry<Held>(cleanup: (held: Held) => void): FinalizationRegistry<Held> | null {
  return typeof FinalizationRegistry === 'function' ? new FinalizationRegistry(cleanup) : null;
}

/** A URL object. */
export interface UrlLike {
  readonly href: string;
  readonly protocol: string;
}

/** An AbortSignal. */
export interface SignalLike {
  readonly aborted: boolean;
  readonly reason: unknown;
  throwIfAborted(): void;
  addEventListener(type: 'abort', listener: () => void): void;
  removeEventListener(type: 'abort', listener: () => void): void;
}

/** @internal A controller that `signal` also aborts, until `unlink()`. */
export function linkedAbort(signal: SignalLike | undefined): { stop: AbortController; unlink(): void } {
  const stop = new AbortController();
  const onAbort = () => stop.abort(signal!.reason);
  signal?.throwIfAborted();
  signal?.addEventListener('abort', onAbort);
  return { stop, unlink: () => signal?.removeEventListener('abort', onAbort) };
}

/** A Blob, or a File with its name and its path below a chosen folder. */
export interface BlobLike {
  readonly size: number;
  readonly type: string;
  slice(start?: number, end?: number): unknown;
  stream(): unknown;
  arrayBuffer(): Promise<ArrayBuffer>;
}
export interface FileLike extends BlobLike {
  readonly name: string;
  readonly webkitRelativePath?: string;
}

/** A dedicated worker: one of a browser, or of Node's worker_threads, which has `on` instead of `addEventListener`. */
export interface WorkerLike {
  postMessage(message: unknown): void;
  terminate(): unknown;
}

/** A GPU object of WebGPU: `navigator.gpu`, or in Node what `create()` of the package `webgpu` returns. */
export interface GpuLike {
  requestAdapter(options?: { powerPreference?: 'high-performance' }): Promise<unknown>;
}

/** What a function in place of `fetch` is called with. */
export interface FetchInit {
  readonly method?: string;
  readonly headers?: object;
  readonly redirect?: string;
  readonly cache?: string;
  readonly signal?: object | null;
}

/** The signature of `FetchLike`, as a method: a function that takes more than it is called with has that type, too. */
interface Fetching {
  fetch(url: string, init: FetchInit): PromiseLike<ResponseLike>;
}
/** A function with the signature of `fetch`, which is called with the URL as a string. */
export type FetchLike = Fetching['fetch'];

/** A Response, as `fetch` resolves to. */
export interface ResponseLike {
  readonly ok: boolean;
  readonly status: number;
  readonly url: string;
  arrayBuffer(): Promise<ArrayBuffer>;
}

/**
 * A built-in module of Node, Deno or Bun; null elsewhere. Not by `import()`, which bundlers for browsers try to resolve and service workers may not call.
 */
export function nodeModule<T>(name: string): T | null {
  const host = (
    globalThis as { process?: { versions?: { node?: string }; getBuiltinModule?: (name: string) => unknown } }
  ).process;
  if (!host?.versions?.node || typeof host.getBuiltinModule !== 'function') return null;
  return (host.getBuiltinModule(`node:${name}`) as T | undefined) ?? null;
}
