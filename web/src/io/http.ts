/** Reads files from the network. */
import { HeedError, invalid, invalidFile } from '../base/error.js';
import { type FetchLike, ownOrigin, type SignalLike } from '../base/platform.js';
import { fromStream, type OpenFile, type Request, type Source } from './files.js';

/** Returns the URL of a file, or null if it has none. */
export type UrlOf = (path: string) => URL | null;

/** @internal Adds a query parameter to `url` and removes its hash. */
export function withParameter(url: string, name: string, value: string): string {
  const { href } = new URL(url);
  const at = href.indexOf('#');
  const whole = at < 0 ? href : href.slice(0, at);
  return `${whole}${whole.includes('?') ? '&' : '?'}${name}=${value}`;
}

/**
 * @internal The files of one folder. Status 404 or 410 means that a file is missing. So does 403, which hosts that do not list their files send for missing ones, and an HTML page
 * instead of the file, but only if other files of the folder are served: otherwise a host, or a network, denies access to all of them.
 */
export function httpSource(urlOf: UrlOf, fetcher: Fetcher): Source {
  const { request, refusal, hint } = fetcher;
  const responses: Promise<Response>[] = [];
  let served = false;
  let trial: Promise<unknown> | undefined;
  const requestFile = async (...given: Parameters<Request>) => {
    const response = await request(...given);
    served ||= isServed(response);
    return response;
  };
  /**
   * Whether any file of the folder is served: one of those requested so far, or config.json, which every folder has.
   */
  async function isFolderServed(path: string, signal?: SignalLike): Promise<boolean> {
    if (!served) await Promise.allSettled(responses);
    const config = urlOf('config.json');
    if (!served && config && path !== 'config.json') {
      trial ??= requestFile(config, signal).then(discard);
      await trial.catch(() => {});
    }
    signal?.throwIfAborted();
    return served;
  }
  return {
    async open(path, signal, tag) {
      const url = urlOf(path)!;
      const pending = tag ? requestFile(url, signal, conditionsOf(url, tag), 'no-cache') : requestFile(url, signal);
      responses.push(pending);
      let response: Response;
      try {
        response = await pending;
      } catch (error) {
        if (error instanceof HeedError) return { status: 'unreachable', error };
        throw error;
      }
      const isKept = tag !== undefined && (response.status === 304 || (isServed(response) && tagOf(response) === tag));
      if (isServed(response) && !isKept) return openResponse(url, response, fetcher, signal);
      await discard(response);
      const { ok, status } = response;
      if (isKept) return { status: 'unchanged', error: invalid(url.href, 'the file', `status ${status}`, 'NETWORK') };
      const isMissing =
        status === 404 || status === 410 || ((ok || status === 403) && (await isFolderServed(path, signal)));
      if (ok) return { status: isMissing ? 'missing' : 'unreachable', error: pageError(url, hint) };
      if (isMissing && status === 403)
        return { status: 'missing', error: invalid(url.href, 'the file', 'status 403', 'NOT_FOUND') };
      const refused = refusal(response);
      return isMissing
        ? { status: 'missing', error: invalid(url.href, 'the file', refused.got, 'NOT_FOUND', refused) }
        : { status: 'unreachable', error: invalid(url.href, 'status 200', refused.got, 'NETWORK', refused) };
    },
  };
}

/** @internal How files are fetched. */
export interface Fetcher {
  request: Request;
  /** Advice for the error message if a required file is missing. */
  hint?: string | undefined;
  /** Describes a response without the file for the error message. */
  refusal(response: Response): { got: string; hint: string | undefined };
}

/** Returns a function that fetches with `own`, or with the global `fetch`. */
export function requestBy(own: FetchLike | undefined) {
  return async (
    url: URL,
    signal: SignalLike | undefined,
    headers: Record<string, string> = {},
    cache: 'default' | 'no-cache' = 'default',
    redirect: 'follow' | 'manual' = 'follow',
  ): Promise<Response> => {
    // Browsers keep parts and the whole of a file in one entry of their cache. If a server compresses only the whole,
    // Chromium may later return the compressed bytes as the file, so parts are not kept.
    const mode = 'Range' in headers ? 'no-store' : cache;
    const init = { signal: signal ?? null, headers, redirect, cache: mode };
    try {
      const response = (await (own ? own(url.href, init) : fetch(url, init as RequestInit))) as Response;
      if (typeof response?.headers?.get === 'function' && typeof response.status === 'number') return response;
    } catch (cause) {
      signal?.throwIfAborted();
      throw new HeedError('NETWORK', `${url.href}: cannot be fetched (${messageOf(cause)})`, { cause });
    }
    throw invalid('fetch', 'a function that returns a promise of a Response', `another result for ${url.href}`);
  };
}

const messageOf = (cause: unknown) => (cause instanceof Error ? cause.message : String(cause));

/**
 * Headers with which the server answers 304 if the file still has this tag. A page's requests to other origins have
 * none, because these would require a preflight; the browser can still revalidate its own HTTP cache.
 */
function conditionsOf(url: URL, tag: string): Record<string, string> {
  if ((ownOrigin() ?? url.origin) !== url.origin) return {};
  return /^(W\/)?"/.test(tag) ? { 'If-None-Match': tag } : { 'If-Modified-Since': tag };
}

export async function discard({ body }: Response): Promise<void> {
  await body?.cancel().catch(() => {});
}

function isServed({ ok, headers }: Response): boolean {
  return ok && !/text\/html/i.test(headers.get('content-type') ?? '');
}

function pageError(url: URL, hint = 'Check the URL: servers may send a page in place of a missing file'): HeedError {
  return invalid(url.href, 'the file', 'an HTML page', 'NOT_FOUND', { hint });
}

/** Some servers send a page instead of a missing file without declaring it as HTML. */
function looksLikeHtml(bytes: Uint8Array): boolean {
  const start = new TextDecoder()
    .decode(bytes.subarray(0, 64))
    .replace(/^\uFEFF/, '')
    .trimStart();
  return /^<(!doctype|html|\?xml|head|body)/i.test(start);
}

function openResponse(url: URL, response: Response, fetcher: Fetcher, signal?: SignalLike): OpenFile {
  const header = response.headers.get('content-length') ?? '';
  const length = /^\d+$/.test(header) && !isEncoded(response) ? Number(header) : null;
  // Another origin's Content-Encoding is hidden from scripts, and its Content-Length counts the bytes as sent, which may be compressed.
  const size = response.type === 'cors' ? null : length;
  const chunks = () => chunksOf(url, response, size, fetcher, signal);
  return { name: url.href, size, expectedSize: length, tag: tagOf(response), chunks, close: () => discard(response) };
}

export function isEncoded({ headers }: Response): boolean {
  return !/^(identity)?$/i.test(headers.get('content-encoding') ?? '');
}

export function tagOf({ headers }: Response): string | null {
  return headers.get('etag') ?? headers.get('last-modified');
}

const RETRIES = 3;

/** Whether a status is temporary, so that the server may serve the file soon. */
export const isTemporary = (status: number) => status >= 500 || status === 408 || status === 429;

/**
 * The body's chunks. A broken connection is resumed where it broke, provided the file has not changed. Tags are
 * compared here, because `If-Range` would require a preflight for other origins, which many hosts refuse.
 */
async function* chunksOf(
  url: URL,
  first: Response,
  size: number | null,
  { request, hint }: Fetcher,
  signal?: SignalLike,
): AsyncIterable<Uint8Array> {
  const tag = tagOf(first);
  let response = first;
  let at = 0;
  /** Number of bytes at the start of the current response that an earlier response has delivered. */
  let known = 0;
  // A weak tag does not identify bytes (RFC 9110, 13.1.5): servers give one to files that they compress while sending.
  const isStrong = tag?.startsWith('W/') === false;
  let ranged = isStrong;
  const isRest = (response: Response) => isRangeFrom(response, at, size) && tagOf(response) === tag;
  /** Requests the bytes from `at` on, or the whole file again if that is not possible. */
  async function reconnect(): Promise<Response> {
    let next: Response;
    try {
      next = await request(url, signal, ranged ? { Range: `bytes=${at}-` } : {});
    } catch (cause) {
      // In engines where `Range` requires a preflight, too, the reason for a failure is hidden, so alternate between
      // both.
      if (first.type === 'cors') ranged = isStrong && !ranged;
      throw cause;
    }
    // 416: the server counts different bytes from those received, for example those of a compressed file.
    if (isRest(next) || (next.status !== 206 && next.status !== 416)) return next;
    await discard(next);
    return request(url, signal);
  }
  let isWhole = false;
  const failed = (why: string, cause?: unknown) =>
    invalid(url.href, `${size ?? 'all'} bytes`, `${at} (${why})`, 'NETWORK', { cause });
  async function* rest(attempt: number): AsyncIterable<Uint8Array> {
    if (attempt > 0) {
      response = await reconnect();
      const resumes = isRest(response);
      known = resumes ? 0 : at;
      if (!resumes && (response.status !== 200 || tagOf(response) !== tag)) {
        await discard(response);
        const why = `and status ${response.status} for the rest`;
        throw isTemporary(response.status) ? new Error(why) : failed(why);
      }
    }
    if (response.body) {
      for await (const bytes of fromStream(response.body)) {
        const chunk = bytes.subarray(known);
        known -= bytes.length - chunk.length;
        if (chunk.length === 0) continue;
        if (at === 0 && looksLikeHtml(chunk)) throw pageError(url, hint);
        at += chunk.length;
        if (size !== null && at > size)
          throw invalidFile(url.href, `at most the ${size} bytes that Content-Length names`, `at least ${at}`);
        yield chunk;
      }
    }
    isWhole = known === 0 && (size === null || at === size);
  }
  const options = { isWhole: () => isWhole, failed, retries: tag ? RETRIES : 0, signal };
  yield* resumed(rest, options);
}

/**
 * Yields chunks that arrive over connections that may break: those of `rest`, which returns the bytes that have not been
 * yielded, until `isWhole`.
 * @throws HeedError the error of a wrong answer, which has no cause, or after `retries` broken connections what `failed`
 * returns
 */
export async function* resumed(
  rest: (attempt: number) => AsyncIterable<Uint8Array>,
  given: {
    isWhole(): boolean;
    failed(why: string, cause: Error): HeedError;
    retries?: number | undefined;
    signal: SignalLike | undefined;
  },
): AsyncIterable<Uint8Array> {
  const { isWhole, failed, retries = RETRIES, signal } = given;
  for (let attempt = 0; ; attempt++) {
    let broken = new Error('the connection ended early');
    try {
      yield* rest(attempt);
    } catch (cause) {
      if (cause instanceof HeedError && !cause.cause) throw cause;
      signal?.throwIfAborted();
      broken = (cause instanceof HeedError ? cause.cause : cause) as Error;
    }
    if (isWhole()) return;
    if (attempt === retries) throw failed(broken.message, broken);
    await new Promise((resolve) => setTimeout(resolve, 100 * 2 ** attempt));
  }
}

/** The range that a response declares. */
export function rangeOf({ headers }: Response): { begin: number; end: number; size: number | null } | null {
  const [, begin, last, size] = /^bytes (\d+)-(\d+)\/(\d+|\*)$/.exec(headers.get('content-range') ?? '') ?? [];
  if (begin === undefined) return null;
  return { begin: Number(begin), end: Number(last) + 1, size: size === '*' ? null : Number(size) };
}

/** Whether the response has the bytes from `at` on of a file of the given size. */
function isRangeFrom(response: Response, at: number, size: number | null): boolean {
  const range = rangeOf(response);
  const isSame = range?.begin === at && (range.size === null || size === null || range.size === size);
  return response.status === 206 && isSame && !isEncoded(response);
}
