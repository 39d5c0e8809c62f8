/**
 * Where a model's files come from: a folder URL, a folder path in Node, bytes, or File objects. All four look the same from outside: a folder
 * whose files open into a stream of chunks of known size.
 */
import { describe, guarded, HeedError } from '../error.js';
import { type BlobLike, type FileLike, nodeModule, type SignalLike, type UrlLike } from '../platform.js';
import { type CacheOption, cachedFolder } from './cache.js';
import { Integrity, type IntegrityOption } from './integrity.js';
import { packedFolder } from './packed.js';

/** JSON files may be given as strings; a URL is fetched. */
export type FileBytes = ArrayBuffer | ArrayBufferView | BlobLike | UrlLike | string;

/**
 * A folder's URL or (in Node) path; that of one .safetensors file into which a folder was packed (packed.ts); or its files by name: bytes, Blobs or Files, URLs, JSON files also as strings. A list of `File`s (a dropped folder,
 * `<input webkitdirectory>`) counts too, each under its path below the folder.
 */
export type ModelSource = string | UrlLike | { readonly [name: string]: FileBytes } | Iterable<FileLike>;

/** An open file: its name as the user knows it, its size where the source tells, its bytes in order. */
export interface OpenFile {
  name: string;
  size: number | null;
  chunks(): AsyncIterable<Uint8Array>;
}

export interface OpenOptions {
  required?: boolean;
  signal?: SignalLike | undefined;
}

export interface ModelFolder {
  /** How messages name it. */
  label: string;
  /** null where the folder has no such file; an error that says how that was found out where it is `required`. */
  open(path: string, options: OpenOptions & { required: true }): Promise<OpenFile>;
  open(path: string, options: OpenOptions): Promise<OpenFile | null>;
  /** To be called where the load that opened it failed. */
  failed?(error: unknown): Promise<void>;
}

export interface RemoteOptions {
  /** The host against which a hub id ("org/name") resolves. */
  remoteHost?: string;
  revision?: string;
  /** Keeps what comes from the net: see CacheOption. Default false. */
  cache?: CacheOption;
  /** What files must be, wherever they come from; one that differs fails the load, and is not kept. */
  integrity?: IntegrityOption;
}

/** What opening a folder of any kind needs to know. */
export interface FolderContext {
  signal: SignalLike | undefined;
  cache: CacheOption;
  integrity: Integrity;
}

type Fs = typeof import('node:fs');

const fs = nodeModule<Fs>('fs')?.promises;

/** A copy of the source in a form that can be sent to a worker: a string, an absolute URL, or a record of files. Read once. */
function readSource(source: unknown): string | UrlLike | Record<string, FileBytes> {
  return guarded('source', () => {
    if (typeof source === 'string' && source !== '') return source;
    if (typeof source !== 'object' || source === null) throw wrongSource(describe(source));
    if (isUrl(source)) return plainUrl(source);
    if (Symbol.iterator in source) return namedFiles(source as Iterable<FileLike>);
    return Object.fromEntries(
      Object.entries(source).map(([name, file]) => [name, isUrl(file) ? plainUrl(file) : file]),
    );
  });
}

/** What `new URL('./file', import.meta.url)` becomes in some bundles is no more than a path. */
function plainUrl(source: UrlLike): UrlLike {
  const { href, protocol } = new URL(source.href, globalThis.location?.href);
  return { href, protocol };
}

export async function openFolder(
  given: ModelSource,
  {
    remoteHost,
    revision = 'main',
    cache = false,
    signal,
    integrity = new Integrity(),
  }: Omit<RemoteOptions, 'integrity'> & { signal?: SignalLike; integrity?: Integrity } = {},
): Promise<ModelFolder> {
  const source = readSource(given);
  const context: FolderContext = { signal, cache, integrity };
  if (isUrl(source)) return urlFolder(new URL(source.href), context);
  if (typeof source === 'string') {
    if (/^(https?|file|blob|data|chrome-extension|moz-extension):/i.test(source))
      return urlFolder(
        guarded('source', () => new URL(source)),
        context,
      );
    const host = remoteHost ?? nodeModule<typeof import('node:process')>('process')?.env.HF_ENDPOINT;
    const isHubId = /^[\w.-]+\/[\w.-]+$/.test(source);
    if (fs) {
      const local = await pathFolder(source, context);
      if (local) return local;
      if (!isHubId || !host) {
        const hint = isHubId
          ? "; for a model of the Hub, name the host to ask in `remoteHost` or in the environment's HF_ENDPOINT"
          : '';
        throw new HeedError(
          'NOT_FOUND',
          `source: got '${source}', which is no folder here; expected a folder's path or URL, or its files' bytes${hint}`,
        );
      }
    }
    if (isHubId && host)
      return urlFolder(
        guarded(
          'remoteHost',
          () => new URL(`${source}/resolve/${encodeURIComponent(revision)}/`, host.endsWith('/') ? host : `${host}/`),
        ),
        context,
      );
    return urlFolder(
      guarded('source', () => new URL(source, globalThis.location?.href)),
      context,
    );
  }
  return memoryFolder(source, context);
}

function isUrl(value: unknown): value is UrlLike {
  return typeof (value as UrlLike | null)?.href === 'string';
}

/** The source as a worker can take it: relative URLs are made absolute here, where they are relative to. */
export function portable(given: ModelSource, remoteHost?: string): ModelSource {
  const source = readSource(given);
  const isHubId = remoteHost !== undefined && typeof source === 'string' && /^[\w.-]+\/[\w.-]+$/.test(source);
  if (typeof source !== 'string' || fs || isHubId) return source;
  return guarded('source', () => new URL(source, globalThis.location?.href).href);
}

function wrongSource(got: string): HeedError {
  return new HeedError(
    'INVALID_ARGUMENT',
    `source: got ${got}; expected a folder's URL or path, or { 'config.json': bytes, ... }`,
  );
}

/** A folder from `open`, which answers with the reason where a file is missing. */
export function openedFolder(
  label: string,
  integrity: Integrity,
  open: (path: string, signal?: SignalLike) => Promise<OpenFile | string>,
): ModelFolder {
  async function openFile(path: string, { required = false, signal }: OpenOptions): Promise<OpenFile | null> {
    signal?.throwIfAborted();
    const found = await open(path, signal);
    if (typeof found !== 'string') return integrity.checked(path, found);
    if (required) throw new HeedError('NOT_FOUND', found);
    return null;
  }
  return { label, open: openFile as ModelFolder['open'] };
}

/** All bytes of an open file. `onBytes` hears of each chunk. */
export async function readAll(file: OpenFile, onBytes?: (count: number) => void): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of file.chunks()) {
    chunks.push(chunk);
    onBytes?.(chunk.length);
  }
  return joined(chunks);
}

export function joined(chunks: Uint8Array[]): Uint8Array<ArrayBuffer> {
  if (chunks.length === 1) return chunks[0] as Uint8Array<ArrayBuffer>;
  const whole = new Uint8Array(chunks.reduce((sum, chunk) => sum + chunk.length, 0));
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.length;
  }
  return whole;
}

// Memory --------------------------------------------------------------------------------------------------------------------------------------------

function memoryFolder(files: Record<string, FileBytes>, { integrity }: FolderContext): ModelFolder {
  return openedFolder('source', integrity, async (path, signal) => {
    if (Object.hasOwn(files, path))
      return isUrl(files[path])
        ? openAny(new URL(files[path].href), signal)
        : guarded(`source['${path}']`, () => memoryFile(path, files[path]));
    return `source: got no '${path}' among ${
      Object.keys(files)
        .map((name) => `'${name}'`)
        .join(', ') || 'no files'
    }; expected one`;
  });
}

/** A dropped folder's files by their paths below the folder that holds config.json. */
function namedFiles(list: Iterable<FileLike>): Record<string, Blob> {
  const paths: [string, Blob][] = [];
  for (const file of list) {
    if (!(file instanceof Blob)) throw wrongSource(`a list with ${describe(file)} in it`);
    paths.push([(file as File).webkitRelativePath || (file as File).name, file]);
  }
  const config = paths
    .map(([path]) => path)
    .filter((path) => /(^|\/)config\.json$/.test(path))
    .sort((a, b) => a.split('/').length - b.split('/').length)[0];
  const root = config === undefined ? '' : config.slice(0, -'config.json'.length);
  return Object.fromEntries(
    paths.filter(([path]) => path.startsWith(root)).map(([path, file]) => [path.slice(root.length), file]),
  );
}

export function memoryFile(name: string, content: unknown): OpenFile {
  if (content instanceof Blob) {
    return { name, size: content.size, chunks: () => fromStream(content.stream()) };
  }
  let bytes: Uint8Array;
  if (typeof content === 'string') bytes = new TextEncoder().encode(content);
  else if (
    content instanceof ArrayBuffer ||
    (typeof SharedArrayBuffer !== 'undefined' && content instanceof SharedArrayBuffer)
  )
    bytes = new Uint8Array(content);
  else if (ArrayBuffer.isView(content)) bytes = new Uint8Array(content.buffer, content.byteOffset, content.byteLength);
  else
    throw new HeedError(
      'INVALID_ARGUMENT',
      `source['${name}']: got ${content === null ? 'null' : typeof content}; expected a Uint8Array, an ArrayBuffer or a Blob`,
    );
  // Decoders of text refuse shared memory, which moreover may change while it is read.
  if (!(bytes.buffer instanceof ArrayBuffer)) bytes = bytes.slice();
  return {
    name,
    size: bytes.length,
    async *chunks() {
      const step = 1 << 20;
      for (let at = 0; at < bytes.length; at += step) yield bytes.subarray(at, at + step);
    },
  };
}

// Node ----------------------------------------------------------------------------------------------------------------------------------------------

async function pathFolder(path: string, { signal, integrity }: FolderContext): Promise<ModelFolder | null> {
  if (path.endsWith('.safetensors')) {
    const file = await openPath(path, signal);
    return typeof file === 'string' ? null : packedFolder(file, integrity);
  }
  const isFolder = await fs!.stat(path).then(
    (s) => s.isDirectory(),
    () => false,
  );
  if (!isFolder) return null;
  const { join } = nodeModule<typeof import('node:path')>('path')!;
  return openedFolder(path, integrity, (name, signal) => openPath(join(path, name), signal));
}

export async function openPath(path: string, signal?: SignalLike): Promise<OpenFile | string> {
  const size = await fs!.stat(path).then(
    (s) => (s.isFile() ? s.size : null),
    () => null,
  );
  return size === null
    ? `${path}: got no such file; expected one`
    : { name: path, size, chunks: () => nodeChunks(path, signal) };
}

async function* nodeChunks(path: string, signal?: SignalLike): AsyncIterable<Uint8Array> {
  let handle: Awaited<ReturnType<typeof import('node:fs/promises').open>> | undefined;
  try {
    handle = await fs!.open(path);
    for (;;) {
      signal?.throwIfAborted();
      const buffer = new Uint8Array(1 << 20);
      const { bytesRead } = await handle.read(buffer, 0, buffer.length);
      if (bytesRead === 0) return;
      yield buffer.subarray(0, bytesRead);
    }
  } catch (cause) {
    if (cause instanceof HeedError || signal?.aborted) throw cause;
    throw new HeedError('NOT_FOUND', `${path}: cannot be read (${(cause as Error).message})`, { cause });
  } finally {
    await handle?.close();
  }
}

// URLs ----------------------------------------------------------------------------------------------------------------------------------------------

async function urlFolder(url: URL, context: FolderContext): Promise<ModelFolder> {
  const { signal, cache, integrity } = context;
  if (url.pathname.endsWith('.safetensors')) {
    const file = await openAny(url, signal);
    if (typeof file === 'string') throw new HeedError('NOT_FOUND', file);
    return packedFolder(file, integrity);
  }
  if (url.protocol === 'file:' && fs) {
    const { fileURLToPath } = nodeModule<typeof import('node:url')>('url')!;
    const local = await pathFolder(
      guarded('source', () => fileURLToPath(url)),
      context,
    );
    if (!local)
      throw new HeedError('NOT_FOUND', `source: got ${url.href}, which is no folder; expected a folder's URL`);
    return local;
  }
  const base = new URL(url.href);
  if (!base.pathname.endsWith('/')) base.pathname += '/';
  const folder = openedFolder(base.href, integrity, (path, signal) =>
    openUrl(
      guarded('source', () => new URL(path + base.search, base)),
      signal,
    ),
  );
  return cache === false ? folder : cachedFolder(folder, cache, integrity);
}

/** A wrong or missing file is often answered by a page: "200 OK", text/html. */
function looksLikeHtml(bytes: Uint8Array): boolean {
  const start = new TextDecoder()
    .decode(bytes.subarray(0, 64))
    .replace(/^\uFEFF/, '')
    .trimStart();
  return /^<(!doctype|html|\?xml|head|body)/i.test(start);
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

function openAny(url: URL, signal?: SignalLike): Promise<OpenFile | string> {
  if (url.protocol !== 'file:' || !fs) return openUrl(url, signal);
  const { fileURLToPath } = nodeModule<typeof import('node:url')>('url')!;
  return openPath(
    guarded('source', () => fileURLToPath(url)),
    signal,
  );
}

async function openUrl(url: URL, signal?: SignalLike): Promise<OpenFile | string> {
  const response = await request(url, signal);
  const isPage = /text\/html/i.test(response.headers.get('content-type') ?? '');
  if (!response.ok || isPage) await response.body?.cancel();
  if (response.ok && isPage) return htmlMessage(url);
  if ([403, 404, 410].includes(response.status)) return `${url.href}: got status ${response.status}; expected the file`;
  if (!response.ok)
    throw new HeedError('NETWORK', `${url.href}: got status ${response.status} ${response.statusText}; expected 200`);
  const encoded = response.headers.get('content-encoding');
  const length = response.headers.get('content-length');
  const size = length !== null && (!encoded || encoded === 'identity') ? Number(length) : null;
  return { name: url.href, size, chunks: () => resumable(url, response, size, signal) };
}

const htmlMessage = (url: URL) =>
  `${url.href}: got an HTML page; expected the file. The server answers a missing file with a page, or the URL is wrong`;

const RETRIES = 3;

/** The body's chunks; a connection that breaks is taken up again where it broke, as long as the file is still the same one. */
async function* resumable(
  url: URL,
  first: Response,
  size: number | null,
  signal?: SignalLike,
): AsyncIterable<Uint8Array> {
  const tagOf = ({ headers }: Response) => headers.get('etag') ?? headers.get('last-modified');
  const tag = tagOf(first);
  let response = first;
  let at = 0;
  for (let attempt = 0; ; attempt++) {
    let broken: unknown;
    try {
      if (response.body) {
        for await (const chunk of fromStream(response.body)) {
          if (at === 0 && looksLikeHtml(chunk)) throw new HeedError('NOT_FOUND', htmlMessage(url));
          at += chunk.length;
          if (size !== null && at > size)
            throw new HeedError(
              'INVALID_FILE',
              `${url.href}: got more than the ${size} bytes that its Content-Length names`,
            );
          yield chunk;
        }
      }
      if (size === null || at === size) return;
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
    // Where nothing had come yet, the rest is the whole.
    const isRest = response.status === 206 || (at === 0 && response.status === 200 && tagOf(response) === tag);
    if (!isRest) {
      await response.body?.cancel();
      throw failed(`and status ${response.status} when asked for the rest`);
    }
  }
}

/** @internal Safari's ReadableStream is no async iterable. */
export async function* fromStream(stream: ReadableStream<Uint8Array>): AsyncIterable<Uint8Array> {
  const reader = stream.getReader();
  let done = false;
  try {
    for (;;) {
      const next = await reader.read();
      if (next.done) {
        done = true;
        return;
      }
      yield next.value;
    }
  } finally {
    if (!done) await reader.cancel().catch(() => {});
  }
}
