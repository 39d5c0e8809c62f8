/** The door to the compiled module: chooses the build, finds its bytes, instantiates. Nothing else imports the generated glue. */
import createModule from 'heed-glue';
import { relaxedSimd, simd } from 'wasm-feature-detect';
import type { Core } from './core.js';
import { describe, guarded, HeedError, invalid } from './error.js';
import { nodeModule, type ResponseLike, type UrlLike } from './platform.js';
import { version } from './version.js';

/** The two builds of the one source. */
export type Build = 'relaxed-simd' | 'simd128';

/** A compiled `WebAssembly.Module`. (Modules have no members that a type could name.) */
export type WasmModule = object;

/** Where the WebAssembly module comes from: its URL (in Node also a path), its bytes, a response that carries them, or the compiled module. */
export type WasmSource = string | UrlLike | ArrayBuffer | ArrayBufferView | ResponseLike | WasmModule;

// Spelled out, one by one: bundlers look for exactly this form, and copy what it names.
const shipped: Record<Build, () => URL> = {
  'relaxed-simd': () => new URL('./heed-relaxed-simd.wasm', import.meta.url),
  simd128: () => new URL('./heed-simd128.wasm', import.meta.url),
};

export interface Choice {
  build: Build;
  reason: string;
}

/** The build to run here. @throws HeedError `UNSUPPORTED` where the engine lacks what it needs. */
export async function chooseBuild(asked: 'auto' | Build): Promise<Choice> {
  if (typeof WebAssembly !== 'object') {
    throw new HeedError(
      'UNSUPPORTED',
      'load: got an engine without WebAssembly; expected one with WebAssembly SIMD (all browsers since 2023)',
    );
  }
  const [hasSimd, hasRelaxed] = await Promise.all([simd(), relaxedSimd()]);
  if (!hasSimd) {
    throw new HeedError(
      'UNSUPPORTED',
      'load: got an engine without WebAssembly SIMD; expected one with it (Chrome 91, Firefox 89, Safari 16.4, Node 16.4 or newer)',
    );
  }
  if (asked === 'simd128') return { build: asked, reason: 'asked for' };
  if (asked === 'relaxed-simd') {
    if (!hasRelaxed) {
      throw new HeedError(
        'UNSUPPORTED',
        "load.build: got 'relaxed-simd' in an engine without relaxed SIMD; expected 'auto' or 'simd128' here",
      );
    }
    return { build: asked, reason: 'asked for' };
  }
  return hasRelaxed
    ? { build: 'relaxed-simd', reason: 'the engine has relaxed SIMD' }
    : { build: 'simd128', reason: 'the engine has no relaxed SIMD' };
}

/** Makes a fresh instance of the module from `source`, or from the package's own file. */
export async function instantiate(build: Build, source: WasmSource | undefined): Promise<Core> {
  const module = await compile(source ?? shipped[build]());
  return new Promise((resolve, reject) => {
    const fail = (cause: unknown) =>
      reject(
        cause instanceof RangeError
          ? new HeedError('OUT_OF_MEMORY', 'load: the engine refused the memory that the module starts with', { cause })
          : new HeedError(
              'LOAD_FAILED',
              `wasm: got a WebAssembly module that does not start; expected heed's own, of version ${version}`,
              { cause },
            ),
      );
    createModule({
      HeedError,
      instantiateWasm(imports, done) {
        // The glue's own promise would never settle where this fails.
        WebAssembly.instantiate(module, imports)
          .then((instance) => done(instance), fail)
          .catch(fail);
        return {};
      },
    })
      .then((core) => {
        keepStack(core);
        modules.set(core, module);
        resolve(core);
      })
      .catch(fail);
  });
}

// biome-ignore lint/complexity/noBannedTypes: functions and classes alike
type Callable = Function;

/**
 * Puts the module's stack pointer back whenever one of its functions throws: an exception of JavaScript's leaves wasm frames without doing so, and after some thousand
 * errors the stack would be used up. No wasm frame is alive then, as nothing that the module calls calls back into it.
 */
function keepStack(core: Core & { stackSave(): number; stackRestore(pointer: number): void }): void {
  const { stackRestore } = core;
  const base = core.stackSave();
  const restoring = <T>(body: () => T): T => {
    try {
      return body();
    } catch (error) {
      stackRestore(base);
      throw error;
    }
  };
  const handler: ProxyHandler<Callable> = {
    apply: (target, self, given) => restoring(() => Reflect.apply(target, self, given)),
    construct: (target, given, made) => restoring(() => Reflect.construct(target, given, made)),
  };
  const wrap = (owner: object): void => {
    for (const [name, { value, writable }] of Object.entries(Object.getOwnPropertyDescriptors(owner))) {
      if (typeof value !== 'function' || !writable || name === 'constructor' || value === HeedError) continue;
      if (value.prototype) wrap(value.prototype);
      (owner as Record<string, unknown>)[name] = new Proxy(value as Callable, handler);
    }
  };
  wrap(core);
}

const modules = new WeakMap<Core, WasmModule>();

/** The compiled module that `core` is an instance of, for other threads to instantiate. */
export function moduleOf(core: Core): WasmModule {
  return modules.get(core)!;
}

async function compile(source: WasmSource): Promise<WebAssembly.Module> {
  const { bytes, label } = await read(source);
  if (!(bytes instanceof Uint8Array)) return bytes;
  checkMagic(bytes, label);
  try {
    return await WebAssembly.compile(bytes);
  } catch (cause) {
    throw new HeedError(
      'LOAD_FAILED',
      `wasm: got a broken or truncated module ${label} (${describe(cause)}); expected heed's own`,
      { cause },
    );
  }
}

interface Found {
  bytes: Uint8Array<ArrayBuffer> | WebAssembly.Module;
  /** Where they came from, for messages. */
  label: string;
}

async function read(source: WasmSource): Promise<Found> {
  const found = guarded('wasm', () => {
    const tag = Object.prototype.toString.call(source); // tells what comes from another realm, too
    if (tag === '[object WebAssembly.Module]') return { module: source as WebAssembly.Module };
    if (typeof source === 'string' && source !== '') return { url: asUrl(source) };
    if (ArrayBuffer.isView(source)) return { bytes: copyOf(source.buffer, source.byteOffset, source.byteLength) };
    if (/^\[object (Shared)?ArrayBuffer\]$/.test(tag)) return { bytes: copyOf(source as ArrayBuffer) };
    if (typeof source === 'object' && source !== null) {
      if (typeof (source as ResponseLike).arrayBuffer === 'function') return { response: source as ResponseLike };
      if (typeof (source as UrlLike).href === 'string') return { url: asUrl((source as UrlLike).href) }; // relative in Next's bundles
    }
    throw invalid('wasm', describe(source), 'a URL, its string, bytes, a Response or a WebAssembly.Module');
  });
  if (found.module) return { bytes: found.module, label: '' };
  if (found.bytes) return { bytes: found.bytes, label: 'in the given bytes' };
  if (found.response) {
    return { bytes: await bodyOf(found.response), label: `from ${found.response.url || 'the given Response'}` };
  }
  return { bytes: await fetchBytes(found.url), label: `from ${found.url.href}` };
}

// A copy: the caller may change or transfer the bytes while they compile.
function copyOf(buffer: ArrayBufferLike, offset?: number, length?: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array(new Uint8Array(buffer, offset, length));
}

function asUrl(text: string): URL {
  try {
    return new URL(text, (globalThis as { location?: { href?: string } }).location?.href);
  } catch {
    const url = nodeModule<typeof import('node:url')>('url');
    if (url) return url.pathToFileURL(text);
    throw invalid('wasm', describe(text), 'a URL');
  }
}

async function fetchBytes(url: URL): Promise<Uint8Array<ArrayBuffer>> {
  const fs = url.protocol === 'file:' ? nodeModule<typeof import('node:fs')>('fs') : null;
  let response: ResponseLike;
  try {
    // Node's fetch takes no file URLs.
    if (fs) return new Uint8Array(await fs.promises.readFile(url));
    response = await fetch(url);
  } catch (cause) {
    throw new HeedError(
      'LOAD_FAILED',
      `wasm: got no answer from ${url.href} (${describe(cause)}); expected heed's module there, or give its place as load({ wasm })`,
      { cause },
    );
  }
  return bodyOf(response, url.href);
}

async function bodyOf(response: ResponseLike, url: string = response.url): Promise<Uint8Array<ArrayBuffer>> {
  if (!response.ok) {
    throw new HeedError(
      'LOAD_FAILED',
      `wasm: got status ${response.status} from ${url || 'the given Response'}; expected heed's module there, or give its place as load({ wasm })`,
    );
  }
  try {
    return new Uint8Array(await response.arrayBuffer());
  } catch (cause) {
    throw new HeedError(
      'LOAD_FAILED',
      `wasm: the answer from ${url || 'the given Response'} broke off (${describe(cause)}); expected all of the module`,
      { cause },
    );
  }
}

/** Says what the bytes are when they are no module: most often a server's HTML page in the place of a missing file. */
function checkMagic(bytes: Uint8Array, label: string): void {
  if (bytes[0] === 0 && bytes[1] === 0x61 && bytes[2] === 0x73 && bytes[3] === 0x6d) return;
  const start = new TextDecoder().decode(bytes.subarray(0, 512)).trimStart().toLowerCase();
  const what =
    bytes.length === 0
      ? 'no bytes'
      : start.startsWith('<')
        ? 'an HTML page'
        : `${bytes.length} bytes that are no WebAssembly`;
  const hint =
    what === 'an HTML page'
      ? '; the server answers with a page where the file is missing: put the file there, or give its place as load({ wasm })'
      : '';
  throw new HeedError('LOAD_FAILED', `wasm: got ${what} ${label}; expected heed's WebAssembly module${hint}`);
}
