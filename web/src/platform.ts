/**
 * What differs between engines and hosts, and structural types for what the DOM library would name: the package's declarations compile without it.
 */

declare global {
  // As in TypeScript's lib.esnext.disposable, with which these merge, for consumers who do not have it.
  interface SymbolConstructor {
    readonly dispose: unique symbol;
  }
  interface Disposable {
    [Symbol.dispose](): void;
  }
}

/** The key of `using`'s method. Engines without it: the key that TypeScript's and esbuild's translation of `using` looks for. */
export const dispose: typeof Symbol.dispose = Symbol.dispose ?? (Symbol.for('Symbol.dispose') as typeof Symbol.dispose);

/** Calls `cleanup` for what the collector took; null in engines that do not say (some servers at the edge), where only `dispose()` frees. */
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

/** @internal A controller that `signal` aborts, too, until `unlink`. */
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

/** A dedicated worker: a browser's, or one of Node's worker_threads, which has `on` in the place of `addEventListener`. */
export interface WorkerLike {
  postMessage(message: unknown): void;
  terminate(): unknown;
}

/** What `fetch` resolves to. */
export interface ResponseLike {
  readonly ok: boolean;
  readonly status: number;
  readonly url: string;
  arrayBuffer(): Promise<ArrayBuffer>;
}

/**
 * A module of Node's (or Deno's, Bun's), or null elsewhere. Not `import()`: bundlers for the browser would stumble over it, and service workers may not call it.
 */
export function nodeModule<T>(name: string): T | null {
  const host = (
    globalThis as { process?: { versions?: { node?: string }; getBuiltinModule?: (name: string) => unknown } }
  ).process;
  if (!host?.versions?.node || typeof host.getBuiltinModule !== 'function') return null;
  return (host.getBuiltinModule(`node:${name}`) as T | undefined) ?? null;
}
