/**
 * Differences between engines and hosts. Structural types replace those of the DOM library, so that the package's
 * declarations compile without it.
 */

declare global {
  // Copied from TypeScript's lib.esnext.disposable, for users who do not include it. The declarations merge.
  interface SymbolConstructor {
    readonly dispose: unique symbol;
  }
  interface Disposable {
    [Symbol.dispose](): void;
  }
}

/**
 * The key of the method that `using` calls. In engines without `using`, the key that the code compiled by TypeScript
 * and esbuild looks for.
 */
export const dispose: typeof Symbol.dispose = Symbol.dispose ?? (Symbol.for('Symbol.dispose') as typeof Symbol.dispose);

/** The key of the method that returns what `console.log` prints in Node, Deno and Bun. */
export const inspected: unique symbol = Symbol.for('nodejs.util.inspect.custom');

/**
 * Calls `cleanup` for garbage-collected objects. null in engines without FinalizationRegistry (some edge servers),
 * where only `dispose()` frees memory.
 */
export function registry<Held>(cleanup: (held: Held) => void): FinalizationRegistry<Held> | null {
  return typeof FinalizationRegistry === 'function' ? new FinalizationRegistry(cleanup) : null;
}

/**
 * The origin of this script's page or worker; undefined in Node. In a sandboxed frame it is 'null', unlike
 * `location.origin`.
 */
export function ownOrigin(): string | undefined {
  return (globalThis as { origin?: string | undefined }).origin ?? globalThis.location?.origin;
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

/** @internal Returns a controller that `signal` also aborts, until `unlink()`. */
export function linkedAbort(signal: SignalLike | undefined): { stop: AbortController; unlink(): void } {
  const stop = new AbortController();
  const onAbort = () => stop.abort(signal!.reason);
  signal?.throwIfAborted();
  signal?.addEventListener('abort', onAbort);
  return { stop, unlink: () => signal?.removeEventListener('abort', onAbort) };
}

/** A Blob, or a File with its name and its path relative to a chosen folder. */
export interface BlobLike {
  readonly size: number;
  readonly type: string;
  slice(start?: number, end?: number): unknown;
  stream(): unknown;
  arrayBuffer(): Promise<ArrayBuffer>;
}
export interface FileLike extends BlobLike {
  readonly name: string;
  readonly webkitRelativePath?: string | undefined;
}

/** A dedicated worker of a browser or of Node's worker_threads, which has `on` instead of `addEventListener`. */
export interface WorkerLike {
  postMessage(message: unknown): void;
  terminate(): unknown;
}

/** A WebGPU GPU object: `navigator.gpu`, or in Node the result of `create()` of the package `webgpu`. */
export interface GpuLike {
  requestAdapter(options?: { powerPreference?: 'high-performance' | undefined }): Promise<unknown>;
}

/** The second argument with which a custom `fetch` is called. */
export interface FetchInit {
  readonly method?: string | undefined;
  readonly headers?: object | undefined;
  readonly redirect?: string | undefined;
  readonly cache?: string | undefined;
  readonly signal?: object | null | undefined;
}

/** Declared as a method so that parameters are bivariant: a `fetch` that accepts wider arguments is assignable. */
interface Fetching {
  fetch(url: string, init: FetchInit): PromiseLike<ResponseLike>;
}
/** A function with the signature of `fetch`. It is called with the URL as a string. */
export type FetchLike = Fetching['fetch'];

/** A Response, to which `fetch` resolves. */
export interface ResponseLike {
  readonly ok: boolean;
  readonly status: number;
  readonly url: string;
  arrayBuffer(): Promise<ArrayBuffer>;
}

interface Process {
  versions?: { node?: string | undefined } | undefined;
  getBuiltinModule?: ((name: string) => unknown) | undefined;
}

/**
 * Returns a built-in module of Node, Deno or Bun; null elsewhere. Does not use `import()`, which bundlers for browsers
 * would try to resolve and service workers must not call.
 */
export function nodeModule<T>(name: string): T | null {
  const host = (globalThis as { process?: Process | undefined }).process;
  if (!host?.versions?.node || typeof host.getBuiltinModule !== 'function') return null;
  return (host.getBuiltinModule(`node:${name}`) as T | undefined) ?? null;
}
