/** Downloads the bundled model while the WebAssembly module is downloaded: `load({ prefetch: true })`. */
import { abortable } from '../base/event-loop.js';
import type { FetchLike, ResponseLike, SignalLike } from '../base/platform.js';
import { shippedModel } from '../base/wasm/shipped.js';

interface Prefetched {
  readonly href: string;
  readonly response: PromiseLike<ResponseLike>;
  readonly stop: AbortController;
}

/** The download that the next `fromPretrained` without a source takes. */
let prefetched: Prefetched | null = null;

/** The global `fetch`, or a function given in its place. */
const fetching =
  (own: FetchLike | undefined): FetchLike =>
  (url, init) =>
    own ? own(url, init) : (fetch(url, init as RequestInit) as Promise<ResponseLike>);

/** null where the model is not downloaded: in Node, and where scripts do not know where they are. */
function urlOfModel(): string | null {
  try {
    const { protocol, href } = shippedModel();
    return /^https?:$/.test(protocol) ? href : null;
  } catch {
    return null;
  }
}

/** Begins the download. `own`: called instead of `fetch`. */
export function prefetchModel(own: FetchLike | undefined): void {
  const href = urlOfModel();
  if (href === null || prefetched?.href === href) return;
  const stop = new AbortController();
  const init = { signal: stop.signal, headers: {}, redirect: 'follow', cache: 'default' };
  const response = Promise.resolve(fetching(own)(href, init as never));
  response.catch(() => {}); // the request that takes it is made again
  prefetched = { href, response, stop };
}

/**
 * Returns a function to fetch the bundled model with, whose first request takes the download that has begun. undefined
 * if none has. `own`: called instead of `fetch`.
 */
export function takePrefetched(own: FetchLike | undefined): FetchLike | undefined {
  let taken = prefetched;
  if (!taken) return undefined;
  prefetched = null;
  const request = fetching(own);
  return async (url, init) => {
    const { headers = {} } = init;
    const signal = (init.signal ?? undefined) as SignalLike | undefined;
    // Requests with headers ask for a part, or whether the file has changed.
    if (url !== taken?.href || Object.keys(headers).length > 0) return request(url, init);
    const { response, stop } = taken;
    taken = null;
    signal?.addEventListener('abort', () => stop.abort(signal.reason));
    try {
      return await abortable(response, signal);
    } catch {
      signal?.throwIfAborted();
      return request(url, init);
    }
  };
}
