/** Chooses a build of the WebAssembly module, loads it and instantiates it. */
import { gc, simd } from 'wasm-feature-detect';
import type { Count } from '../cores.js';
import { describe, guarded, HeedError, invalid } from '../error.js';
import { enterCall, leaveCall } from '../in-progress.js';
import { nodeModule, type ResponseLike, type SignalLike, type UrlLike, type WorkerLike } from '../platform.js';
import type { Core } from './core.js';
import { obstacle, sharedMemory } from './shared-memory.js';
import type { Threads } from './threads.js';
import { version } from './version.js';

/** The two builds of the WebAssembly module: with relaxed SIMD, or with SIMD128 only. */
export type Build = 'relaxed-simd' | 'simd128';

/**
 * A compiled `WebAssembly.Module`, whose type in TypeScript's libraries is `{}`. The optional member makes TypeScript
 * reject objects that share no member with it.
 */
export interface WasmModule {
  readonly [Symbol.toStringTag]?: 'WebAssembly.Module' | undefined;
}

/**
 * The source of the WebAssembly module: a URL or its string (in Node also a path), bytes, a Response with the bytes, or
 * a compiled module.
 */
export type WasmSource = string | UrlLike | ArrayBufferLike | ArrayBufferView | ResponseLike | WasmModule;

/** @internal The function in Emscripten's generated JavaScript that makes an instance of the module. */
export type CreateModule = (options: {
  instantiateWasm(imports: WebAssembly.Imports, done: (instance: WebAssembly.Instance) => void): Record<string, never>;
  /** The memory, for a build with threads. */
  wasmMemory?: WebAssembly.Memory | undefined;
  /** The error class that the bindings throw. */
  HeedError: typeof HeedError;
}) => Promise<RawCore>;

/** @internal Emscripten's generated JavaScript for the builds of a variant. */
export interface Glue {
  readonly create: CreateModule;
  /** Imports the code for builds with threads; null if the variant has none. */
  readonly loadThreaded: (() => Promise<Threaded>) | null;
}

/**
 * @internal Emscripten's generated JavaScript for builds with threads, and the function that starts an instance's
 * threads.
 */
export interface Threaded {
  readonly create: CreateModule;
  readonly startThreads: typeof Threads.start;
}

/**
 * @internal A variant of the module, for inference or with training: its generated JavaScript and its files in the
 * package.
 */
export interface Variant extends Glue {
  readonly name: string;
  /** The part of the file names between `heed-` and the build. Builds with threads have `threads-` instead. */
  readonly prefix: string;
  /** The files of the builds without threads. */
  readonly files: Record<Build, () => URL>;
  /** The files of the builds with threads, if there are any. */
  readonly threadFiles: Record<Build, () => URL> | null;
  /** Starts a worker with the variant's script. */
  readonly startWorker: () => WorkerLike;
}

export interface Choice {
  build: Build;
  reason: string;
}

const ENGINES = 'an engine with WebAssembly SIMD (Chrome 95, Firefox 100, Safari 16.4, Node 20 or newer)';

/**
 * A module of one function with all relaxed instructions that heed's build uses: f32x4.relaxed_madd and relaxed_nmadd,
 * i32x4.relaxed_laneselect, i16x8.relaxed_dot_i8x16_i7x16_s and i32x4.relaxed_dot_i8x16_i7x16_add_s. Some versions of
 * JavaScriptCore support only some of them.
 */
const RELAXED =
  '0061736d0100000001060160017b017b030201000a27012500200020002000fd850220002000fd860220002000fd8b022000fd920220002000fd93020b';

const hasRelaxed = () =>
  WebAssembly.validate(Uint8Array.from(RELAXED.match(/../g)!, (byte) => Number.parseInt(byte, 16)));

/** Chooses the build to run. @throws HeedError `UNSUPPORTED` if the engine lacks a feature that it needs */
export async function chooseBuild(asked: 'auto' | Build): Promise<Choice> {
  const hasWasm = typeof WebAssembly === 'object';
  const hasSimd = hasWasm && (await simd());
  if (!hasSimd) throw invalid('load', ENGINES, `an engine without WebAssembly${hasWasm ? ' SIMD' : ''}`, 'UNSUPPORTED');
  const isRelaxed = hasRelaxed();
  if (asked === 'relaxed-simd' && !isRelaxed) {
    const expected = "'auto' or 'simd128' in an engine without relaxed SIMD";
    throw invalid('load.build', expected, "'relaxed-simd'", 'UNSUPPORTED');
  }
  if (asked !== 'auto') return { build: asked, reason: 'asked for' };
  return {
    build: isRelaxed ? 'relaxed-simd' : 'simd128',
    reason: `the engine has ${isRelaxed ? '' : 'no '}relaxed SIMD`,
  };
}

/** Makes the error for a failed load. Messages call the module `wasm`, whatever its source. */
function failed(expected: string, got: string, cause?: unknown, hint?: string): HeedError {
  return invalid('wasm', expected, got, 'LOAD_FAILED', { cause, hint });
}

/** @internal The number of threads that an instance can have here, given the wanted number. */
export function possibleThreads({ loadThreaded }: Glue, wanted: Count): Count {
  if (wanted.count === 1) return wanted;
  const reason = loadThreaded ? obstacle() : 'heed/train has no builds with threads';
  return reason === null ? wanted : { count: 1, reason };
}

/**
 * @internal Makes a new instance of the module from `source`, which may depend on whether it will have threads, and
 * starts its threads. `wanted` must come from `possibleThreads`.
 */
export async function instantiate(
  { create, loadThreaded }: Glue,
  source: Located | ((threaded: boolean) => Located),
  wanted: Count = { count: 1, reason: '' },
  signal?: SignalLike,
): Promise<Core> {
  let alone: string | null = wanted.count > 1 ? null : wanted.reason;
  let memory = alone === null ? sharedMemory() : null;
  if (alone === null && !memory) alone = 'the engine does not allow shared memory';
  const loading = memory && loadThreaded?.(); // loads in parallel with the module
  loading?.catch(() => {}); // it is awaited below, but not if the module fails first
  const module = await (typeof source === 'function' ? source(memory !== null) : source).compile(signal);
  // A module that the caller gave determines whether the memory is shared.
  const isThreaded = WebAssembly.Module.imports(module).some(({ kind }) => kind === 'memory');
  if (isThreaded) {
    if (!loadThreaded) throw failed('a build without threads for heed/train', 'a build with threads');
    memory ??= sharedMemory();
    if (!memory) throw failed('an engine with shared memory for a build with threads', 'an engine without it');
  } else alone ??= 'the given module is a build without threads';
  const threaded = isThreaded ? await (loading ?? loadThreaded!()) : null;
  const core = await (threaded ? start(threaded.create, module, { wasmMemory: memory! }) : start(create, module, {}));
  // Detects JavaScriptCore: it has WebAssembly garbage collection but no relaxed SIMD. V8 got relaxed SIMD first; among
  // other engines, only Firefox 120 to 144 also matches.
  if (!hasRelaxed() && (await gc())) core.useTallRowBlocks();
  const threads = alone === null ? await threaded!.startThreads(core, module, memory!, wanted) : null;
  keepStack(core, threads);
  instances.set(core, { module, threads, alone: { count: 1, reason: alone ?? '' } });
  return core;
}

type RawCore = Core & { stackSave(): number; stackRestore(pointer: number): void };

/** Runs Emscripten's generated JavaScript on an instance of `module`. */
function start(
  createModule: CreateModule,
  module: WebAssembly.Module,
  options: { wasmMemory?: WebAssembly.Memory | undefined },
): Promise<RawCore> {
  return new Promise((resolve, reject) => {
    const fail = (cause: unknown) =>
      reject(
        cause instanceof RangeError
          ? new HeedError('OUT_OF_MEMORY', "load: out of memory for the module's initial memory", { cause })
          : failed(`heed's own module, of version ${version}`, 'a module that cannot be instantiated', cause),
      );
    createModule({
      ...options,
      HeedError,
      instantiateWasm(imports, done) {
        // If this fails, the promise of the generated JavaScript never settles.
        WebAssembly.instantiate(module, imports)
          .then((instance) => done(instance), fail)
          .catch(fail);
        return {};
      },
    }).then(resolve, fail);
  });
}

// biome-ignore lint/complexity/noBannedTypes: functions and classes alike
type Callable = Function;

/** The maximum depth of nested calls, each of which uses some of the module's stack. */
const MAX_CALLS = 16;

/**
 * Tracks the calls of the module's functions. Calls may be nested: a caller's function that edits activations can call
 * the module. When a call throws, restores the stack pointer to its value before the call: JavaScript exceptions unwind
 * wasm frames without doing so, and some thousand errors would exhaust the stack. After a trap or the loss of a thread,
 * other threads may still be working on the call, so they are replaced.
 */
function keepStack(core: RawCore, threads: Threads | null): void {
  const { stackSave, stackRestore, abandonCalls } = core;
  let depth = 0;
  let isTrapped = false;
  const tracked =
    (call: (...given: [Callable, never, never]) => unknown) =>
    (...given: [Callable, never, never]): never => {
      if (depth === MAX_CALLS)
        throw new HeedError('INVALID_ARGUMENT', `heed: calls within calls are nested more than ${MAX_CALLS} deep`);
      const pointer = stackSave();
      depth++;
      enterCall();
      try {
        return call(...given) as never;
      } catch (error) {
        stackRestore(pointer);
        isTrapped ||= !(error instanceof HeedError);
        if (!(error instanceof HeedError) || error.code === 'WORKER_FAILED') threads?.restart();
        throw error;
      } finally {
        leaveCall();
        if (--depth === 0 && isTrapped) {
          isTrapped = false;
          abandonCalls();
        }
      }
    };
  const handler: ProxyHandler<Callable> = {
    apply: tracked(Reflect.apply),
    construct: tracked(Reflect.construct),
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

const instances = new WeakMap<Core, { module: WasmModule; threads: Threads | null; alone: Count }>();

/** The compiled module of `core`, for instantiation in other threads. */
export function moduleOf(core: Core): WasmModule {
  return instances.get(core)!.module;
}

/** The number of threads that run the calls of `core`, and the reason for it. */
export function threadsOf(core: Core): Count {
  const { threads, alone } = instances.get(core)!;
  return threads?.count ?? alone;
}

/** Ends the threads of `core`. */
export function endThreads(core: Core): void {
  instances.get(core)!.threads?.dispose();
}

/**
 * @internal A module's source, read from the caller's value. Equal sources have the same `key`, so that they can share
 * an instance.
 */
export interface Located {
  key: string | object;
  compile(signal?: SignalLike): Promise<WebAssembly.Module>;
}

/**
 * @internal Reads a `WasmSource`. Bytes are copied immediately, because the caller may change or transfer them
 * afterwards.
 */
export function locate(value: unknown, name: string): Located {
  return guarded(name, () => {
    const tag = Object.prototype.toString.call(value); // also correct for objects of other realms
    if (typeof value === 'object' && value !== null) {
      if (tag === '[object WebAssembly.Module]')
        return { key: value, compile: async () => value as WebAssembly.Module };
      const { buffer, byteOffset, byteLength } = value as Uint8Array;
      const isView = ArrayBuffer.isView(value);
      if (isView || /^\[object (Shared)?ArrayBuffer\]$/.test(tag)) {
        const bytes = new Uint8Array(
          isView ? new Uint8Array(buffer, byteOffset, byteLength) : new Uint8Array(value as ArrayBuffer),
        );
        return { key: value, compile: () => compile(bytes, 'in the given bytes') };
      }
      const { arrayBuffer, href } = value as Partial<ResponseLike & UrlLike>;
      if (typeof arrayBuffer === 'function') {
        const response = value as ResponseLike;
        return {
          key: value,
          compile: async () => compile(await bodyOf(response), `from ${response.url || 'the given Response'}`),
        };
      }
      if (typeof href === 'string') return fromUrl(href, name);
    } else if (typeof value === 'string' && value !== '') return fromUrl(value, name);
    throw invalid(name, 'a URL, its string, bytes, a Response or a WebAssembly.Module', describe(value));
  });
}

function fromUrl(text: string, name: string): Located {
  return {
    key: text,
    async compile(signal) {
      const url = asUrl(text, name);
      return compile(await fetchBytes(url, signal), `from ${url.href}`);
    },
  };
}

/** Compiles the bytes. `label`: where they came from, for messages. */
async function compile(bytes: Uint8Array<ArrayBuffer>, label: string): Promise<WebAssembly.Module> {
  checkMagic(bytes, label);
  try {
    return await WebAssembly.compile(bytes);
  } catch (cause) {
    // A content security policy without the directive makes compilation fail, whatever the bytes are. Firefox says "blocked by CSP".
    const message = String((cause as Error | null)?.message);
    if (/content security policy|unsafe-eval|\bCSP\b/i.test(message)) {
      const text =
        "wasm: the page's Content-Security-Policy forbids WebAssembly. Add 'wasm-unsafe-eval' to its script-src";
      throw new HeedError('LOAD_FAILED', `${text} (${message})`, { cause });
    }
    throw failed("heed's own module", `a broken or truncated module ${label} (${describe(cause)})`, cause);
  }
}

// Bundlers may turn the URLs of the package's files into relative ones.
function asUrl(text: string, name: string): URL {
  try {
    return new URL(text, (globalThis as { location?: { href?: string | undefined } | undefined }).location?.href);
  } catch {
    const url = nodeModule<typeof import('node:url')>('url');
    if (url) return url.pathToFileURL(text);
    throw invalid(name, 'a URL', describe(text));
  }
}

/** Advice if the module's file is not found. */
export const HINT = "Give the URL of the module as load({ wasm }), or see the page on bundlers in heed's documentation";

async function fetchBytes(url: URL, signal: SignalLike | undefined): Promise<Uint8Array<ArrayBuffer>> {
  const fs = url.protocol === 'file:' ? nodeModule<typeof import('node:fs')>('fs') : null;
  let response: ResponseLike;
  try {
    // Node's fetch does not support file URLs.
    if (fs) return new Uint8Array(await fs.promises.readFile(url));
    response = await fetch(url, { signal: (signal as AbortSignal | undefined) ?? null });
  } catch (cause) {
    throw failed(`heed's module at ${url.href}`, `no answer (${describe(cause)})`, cause, HINT);
  }
  return bodyOf(response, url.href);
}

async function bodyOf(response: ResponseLike, url = response.url): Promise<Uint8Array<ArrayBuffer>> {
  const from = url || 'the given Response';
  if (!response.ok) throw failed(`heed's module from ${from}`, `status ${response.status}`, undefined, HINT);
  try {
    return new Uint8Array(await response.arrayBuffer());
  } catch (cause) {
    throw failed(`the whole module from ${from}`, `a part of it (${describe(cause)})`, cause);
  }
}

/**
 * Throws unless the bytes are a WebAssembly module, and describes them: most often they are the HTML page that a server
 * sends for a missing file.
 */
function checkMagic(bytes: Uint8Array, label: string): void {
  if (bytes[0] === 0 && bytes[1] === 0x61 && bytes[2] === 0x73 && bytes[3] === 0x6d) return;
  const isPage = new TextDecoder().decode(bytes.subarray(0, 512)).trimStart().startsWith('<');
  const what = isPage
    ? 'an HTML page'
    : bytes.length === 0
      ? 'no bytes'
      : `${bytes.length} bytes that are not WebAssembly`;
  const hint = isPage ? `Servers may send a page in place of a missing file. ${HINT}` : '';
  throw failed("heed's WebAssembly module", `${what} ${label}`, undefined, hint);
}
