/** What went wrong, for programs to tell apart. The strings are stable. */
export type HeedErrorCode =
  /** a value of the wrong type or outside its legal range, an option that does not exist, or options that contradict each other */
  | 'INVALID_ARGUMENT'
  /** shapes that do not fit each other */
  | 'SHAPE_MISMATCH'
  /** the engine refused the memory, or a size exceeds what 32-bit memory can hold */
  | 'OUT_OF_MEMORY'
  /** a layer, model or runtime was used after `dispose()` */
  | 'DISPOSED'
  /** bytes that are not of the format that they should have */
  | 'INVALID_FILE'
  /** a file or URL that does not exist */
  | 'NOT_FOUND'
  /** a request that failed */
  | 'NETWORK'
  /** legal, but not something heed or this engine implements */
  | 'UNSUPPORTED'
  /** the WebAssembly module or a script of heed could not be loaded */
  | 'LOAD_FAILED'
  /** a text longer than the limit while truncation is off */
  | 'TOO_LONG'
  /** the worker died or could not start */
  | 'WORKER_FAILED'
  /** the GPU is missing, was lost, reported an error, or gave other vectors than WebAssembly */
  | 'GPU_FAILED'
  /** training: a loss or a gradient that is not finite; the parameters are unchanged */
  | 'DIVERGED'
  /** a bug in heed; please report it */
  | 'INTERNAL';

/**
 * The one error that heed throws. Its message reads `argument: expected Y, got X`, and may end with what to do.
 *
 * @example
 * try {
 *   heed.softmax('no numbers');
 * } catch (error) {
 *   error instanceof HeedError; // true
 *   error.code; // "INVALID_ARGUMENT"
 * }
 */
export class HeedError extends Error {
  // Minified classes keep this name in consoles, which print that of the class before the message.
  static {
    Object.defineProperty(HeedError, 'name', { value: 'HeedError' });
  }

  /** Stable; for programs to tell errors apart. */
  readonly code: HeedErrorCode;

  constructor(code: HeedErrorCode, message: string, options?: { cause?: unknown }) {
    super(message);
    this.name = 'HeedError';
    this.code = code;
    // Assigned rather than passed to super: `ErrorOptions` is not in every consumer's library types.
    if (options?.cause !== undefined)
      Object.defineProperty(this, 'cause', { value: options.cause, configurable: true });
  }
}

/** The error for a value that is not what it should be: an argument, or with another code a part of a file. `hint`: what to do. */
export function invalid(
  argument: string,
  expected: string,
  got: string,
  code: HeedErrorCode = 'INVALID_ARGUMENT',
  { hint, cause }: { hint?: string; cause?: unknown } = {},
): HeedError {
  return new HeedError(code, `${argument}: expected ${expected}, got ${got}${hint ? `. ${hint}` : ''}`, { cause });
}

/** The error for a part of a file. */
export function invalidFile(part: string, expected: string, got: string, hint?: string): HeedError {
  return invalid(part, expected, got, 'INVALID_FILE', { hint });
}

/** The error for what only heed/train offers. */
export function needsTraining(what: string): HeedError {
  return new HeedError('UNSUPPORTED', `${what}: import \`load\` from 'heed/train', which offers it`);
}

/** Modules that are in scripts of their own, by their names, if a script has imported them at once. */
export const linked: Record<string, object> = {};

/**
 * The module `name`, which `load` imports from a script of heed unless it is there; without a network, or after a newer version replaced the files on the server, there may be no such
 * script.
 */
export async function importing<T extends object>(name: string, load: () => Promise<T>): Promise<T> {
  if (name in linked) return linked[name] as T;
  try {
    return await load();
  } catch (cause) {
    const hint =
      'ServiceWorkerGlobalScope' in globalThis
        ? ". Service workers cannot load scripts later: import from 'heed/service-worker' instead of 'heed'"
        : '';
    const message = `a script of heed could not be loaded: ${cause instanceof Error ? cause.message : String(cause)}`;
    throw new HeedError('LOAD_FAILED', message + hint, { cause });
  }
}

/** Runs `body`, which reads values of a caller, and turns what their getters or proxies throw into a HeedError. */
export function guarded<T>(argument: string, body: () => T): T {
  try {
    return body();
  } catch (error) {
    throw asHeedError(argument, error, 'INVALID_ARGUMENT', 'reading it threw');
  }
}

/** Runs `body`, which calls the core, and turns a failed allocation or a trap into a HeedError. */
export function calling<T>(what: string, body: () => T): T {
  try {
    return body();
  } catch (error) {
    throw asHeedError(what, error, 'INTERNAL', 'the module failed with');
  }
}

/** Runs `body`, which allocates memory for a parameter; if that fails, the error names the parameter and its size. */
export function allocating<T>(parameter: string, shape: readonly number[], bytes: number, body: () => T): T {
  try {
    return body();
  } catch (cause) {
    const isRefused = cause instanceof RangeError || (cause instanceof HeedError && cause.code === 'OUT_OF_MEMORY');
    if (!isRefused) throw cause;
    const got = `shape ${formatShape(shape)}, which takes ${bytes} bytes`;
    throw invalid(parameter, 'a size that fits into memory', got, 'OUT_OF_MEMORY', { cause });
  }
}

/** An array for a result of this shape; `what` names the call. */
export function floatsOf(what: string, shape: readonly number[]): Float32Array<ArrayBuffer> {
  const length = shape.reduce((product, extent) => product * extent, 1);
  return allocating(what, shape, 4 * length, () => new Float32Array(length));
}

function asHeedError(what: string, error: unknown, code: HeedErrorCode, how: string): HeedError {
  if (error instanceof HeedError) return error;
  if (error instanceof RangeError && !/call stack/i.test(error.message)) {
    return new HeedError('OUT_OF_MEMORY', `${what}: out of memory (${error.message})`, {
      cause: error,
    });
  }
  return new HeedError(code, `${what}: ${how} ${describe(error)}`, { cause: error });
}

/** `value` in a few words, for a message; never throws. */
export function describe(value: unknown): string {
  try {
    if (typeof value === 'string') return `'${value.length > 40 ? `${value.slice(0, 40)}…` : value}'`;
    if (typeof value === 'bigint') return `${value}n`;
    if (typeof value === 'symbol' || typeof value === 'number' || typeof value === 'boolean') return String(value);
    if (value === null || value === undefined) return String(value);
    if (typeof value === 'function') return 'a function';
    if (Array.isArray(value)) return value.length === 0 ? 'an empty array' : `an array of ${value.length}`;
    if (value instanceof Error) return `${value.name}: ${value.message}`;
    const name = Object.getPrototypeOf(value)?.constructor?.name;
    return typeof name === 'string' && name !== '' && name !== 'Object'
      ? `${/^[AEIO]/.test(name) ? 'an' : 'a'} ${name}`
      : 'an object';
  } catch {
    return 'an object that throws when it is read';
  }
}

export function formatShape(shape: readonly unknown[]): string {
  return `[${shape.map((extent) => (typeof extent === 'number' ? extent : describe(extent))).join(', ')}]`;
}
