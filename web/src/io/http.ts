/** Files of the network. */
import { HeedError } from '../error.js';
import type { SignalLike } from '../platform.js';
import { type Found, fromStream, missing, type OpenFile } from './files.js';

/**
 * Opens the files of one folder. 404 and 410 say that a file is missing. So do 403, which hosts that list nothing answer for what is not there, and an HTML page in the
 * file's place, but only where other files of the folder are served: else they are the answer of a host, or of a network, that lets nobody through.
 */
export function httpFiles(): (url: URL, path: string, signal?: SignalLike) => Promise<Found> {
  const answers: Promise<Response>[] = [];
  let served = false;
  const note = (response: Response) => {
    if (isServed(response)) served = true;
    return response;
  };
  let trial: Promise<unknown> | undefined;
  /** Whether a file of the folder is served: one of those requested so far, or config.json, which every folder has. */
  async function isFolderServed(url: URL, path: string, signal?: SignalLike): Promise<boolean> {
    if (!served) await Promise.allSettled(answers);
    const config = configBeside(url, path);
    if (!served && config) {
      trial ??= request(config, signal).then(note).then(discard);
      await trial.catch(() => {});
    }
    signal?.throwIfAborted();
    return served;
  }
  return async (url, path, signal) => {
    const answer = request(url, signal).then(note);
    answers.push(answer);
    let response: Response;
    try {
      response = await answer;
    } catch (error) {
      if (error instanceof HeedError) return { status: 'unreachable', error };
      throw error;
    }
    if (isServed(response)) return openResponse(url, response, signal);
    await discard(response);
    const { ok, status, statusText } = response;
    const isMissing =
      status === 404 || status === 410 || ((ok || status === 403) && (await isFolderServed(url, path, signal)));
    if (ok) return { status: isMissing ? 'missing' : 'unreachable', error: pageError(url) };
    if (isMissing) return missing(`${url.href}: got status ${status}; expected the file`);
    const message = `${url.href}: got status ${status} ${statusText}; expected 200`;
    return { status: 'unreachable', error: new HeedError('NETWORK', message) };
  };
}

/** The address of config.json in the folder in which `url` is `path`; null where that cannot be told, or is `url`. */
function configBeside(url: URL, path: string): URL | null {
  if (path === 'config.json' || !url.pathname.endsWith(new URL(path, 'http://x').pathname)) return null;
  return new URL(`${'../'.repeat(path.split('/').length - 1)}config.json${url.search}`, url);
}

async function request(
  url: URL,
  signal: SignalLike | undefined,
  headers: Record<string, string> = {},
): Promise<Response> {
  try {
    return await fetch(url, { signal: (signal as AbortSignal | undefined) ?? null, headers });
  } catch (cause) {
    signal?.throwIfAborted();
    throw new HeedError('NETWORK', `${url.href}: cannot be fetched (${(cause as Error).message})`, { cause });
  }
}

async function discard({ body }: Response): Promise<void> {
  await body?.cancel().catch(() => {});
}

function isServed({ ok, headers }: Response): boolean {
  return ok && !/text\/html/i.test(headers.get('content-type') ?? '');
}

function pageError(url: URL): HeedError {
  return new HeedError(
    'NOT_FOUND',
    `${url.href}: got an HTML page; expected the file. The server answers a missing file with a page, or the URL is wrong`,
  );
}

/** A wrong or missing file may be answered by a page that does not say that it is one. */
function looksLikeHtml(bytes: Uint8Array): boolean {
  const start = new TextDecoder()
    .decode(bytes.subarray(0, 64))
    .replace(/^\uFEFF/, '')
    .trimStart();
  return /^<(!doctype|html|\?xml|head|body)/i.test(start);
}

function openResponse(url: URL, response: Response, signal?: SignalLike): OpenFile {
  const told = response.headers.get('content-length') ?? '';
  const length = /^\d+$/.test(told) && !isEncoded(response) ? Number(told) : null;
  // Another origin's Content-Encoding is hidden from scripts, and its Content-Length counts the bytes as they were sent, compressed or not.
  const size = response.type === 'cors' ? null : length;
  return { name: url.href, size, expectedSize: length, chunks: () => chunksOf(url, response, size, signal) };
}

function isEncoded({ headers }: Response): boolean {
  return !/^(identity)?$/i.test(headers.get('content-encoding') ?? '');
}

function tagOf({ headers }: Response): string | null {
  return headers.get('etag') ?? headers.get('last-modified');
}

const RETRIES = 3;

/** The body's chunks; a connection that breaks is taken up again where it broke, as long as the file is still the same one. */
async function* chunksOf(
  url: URL,
  first: Response,
  size: number | null,
  signal?: SignalLike,
): AsyncIterable<Uint8Array> {
  const tag = tagOf(first);
  let response = first;
  let at = 0;
  /** Bytes to come that have been passed on already. */
  let known = 0;
  for (let attempt = 0; ; attempt++) {
    let broken: unknown;
    try {
      if (response.body) {
        for await (const bytes of fromStream(response.body)) {
          const chunk = bytes.subarray(known);
          known -= bytes.length - chunk.length;
          if (chunk.length === 0) continue;
          if (at === 0 && looksLikeHtml(chunk)) throw pageError(url);
          at += chunk.length;
          if (size !== null && at > size)
            throw new HeedError(
              'INVALID_FILE',
              `${url.href}: got more than the ${size} bytes that its Content-Length names`,
            );
          yield chunk;
        }
      }
      if (known === 0 && (size === null || at === size)) return;
      broken = new Error('the connection ended early');
    } catch (cause) {
      if (cause instanceof HeedError) throw cause;
      signal?.throwIfAborted();
      broken = cause;
    }
    const failed = (why: string) =>
      new HeedError('NETWORK', `${url.href}: got ${at} of ${size ?? 'an unknown number of'} bytes (${why})`, {
        cause: broken,
      });
    if (attempt === RETRIES || !tag) throw failed((broken as Error).message);
    await new Promise((resolve) => setTimeout(resolve, 100 * 2 ** attempt));
    response = await request(url, signal, { Range: `bytes=${at}-`, 'If-Range': tag });
    const resumes = isRest(response, at, size);
    if (response.status === 206 && !resumes) {
      await discard(response);
      response = await request(url, signal); // from the start, then
    }
    if (!resumes && (response.status !== 200 || tagOf(response) !== tag)) {
      await discard(response);
      throw failed(`and status ${response.status} when asked for the rest`);
    }
    known = resumes ? 0 : at;
  }
}

/** Whether it says to carry the bytes from `at` on, of a file of that size. */
function isRest(response: Response, at: number, size: number | null): boolean {
  const [, start, total] = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(response.headers.get('content-range') ?? '') ?? [];
  const isSame = Number(start) === at && (total === '*' || size === null || Number(total) === size);
  return response.status === 206 && isSame && !isEncoded(response);
}
