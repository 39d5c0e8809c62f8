/** The kind of error, for programs. The strings are stable. */
export type HeedErrorCode =
  /** a value of the wrong type or outside its valid range, an option that does not exist, or contradictory options */
  | 'INVALID_ARGUMENT'
  /** shapes that do not match */
  | 'SHAPE_MISMATCH'
  /** the engine could not allocate the memory, or a size exceeds 32-bit memory */
  | 'OUT_OF_MEMORY'
  /** a layer, model or runtime was used after `dispose()` */
  | 'DISPOSED'
  /** bytes that are not in the expected format */
  | 'INVALID_FILE'
  /** a file or URL that does not exist */
  | 'NOT_FOUND'
  /** a request that failed */
  | 'NETWORK'
  /** valid, but not supported by heed or by this engine */
  | 'UNSUPPORTED'
  /** the WebAssembly module or a script of heed could not be loaded */
  | 'LOAD_FAILED'
  /** a text longer than the limit while truncation is off */
  | 'TOO_LONG'
  /** the worker died or could not start */
  | 'WORKER_FAILED'
  /** the GPU is missing, was lost, reported an error, or returned vectors that differ from WebAssembly's */
  | 'GPU_FAILED'
  /** training: a loss or a gradient that is not finite; the parameters are unchanged */
  | 'DIVERGED'
  /** a bug in heed; please report it */
  | 'INTERNAL';

/**
 * The only error class that heed throws. Its message usually has the form `argument: expected Y, got X`; otherwise
 * a sentence after the argument or the call says what is wrong. It may end with a hint.
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
  /** @internal For messages and consoles, as minification renames classes. */
  static override readonly name: string = 'HeedError';

  /** The kind of error, for programs. Stable. */
  readonly code: HeedErrorCode;

  constructor(code: HeedErrorCode, message: string, options?: { cause?: unknown }) {
    super(message);
    this.name = 'HeedError';
    this.code = code;
    // Not passed to super, because not every consumer's library types have `ErrorOptions`.
    if (options?.cause !== undefined)
      Object.defineProperty(this, 'cause', { value: options.cause, configurable: true });
  }
}

/**
 * Makes the error for an invalid value: an argument or, with another `code`, a part of a file. `hint`: what to do about
 * it.
 */
export function invalid(
  argument: string,
  expected: string,
  got: string,
  code: HeedErrorCode = 'INVALID_ARGUMENT',
  { hint, cause }: { hint?: string | undefined; cause?: unknown } = {},
): HeedError {
  return new HeedError(code, `${argument}: expected ${expected}, got ${got}${hint ? `. ${hint}` : ''}`, { cause });
}

/** Makes the error for an invalid part of a file. */
export function invalidFile(part: string, expected: string, got: string, hint?: string): HeedError {
  return invalid(part, expected, got, 'INVALID_FILE', { hint });
}

/** Makes the error for a tensor of a wrong shape. */
export function misshapen(argument: string, expected: string, shape: readonly unknown[]): HeedError {
  return invalid(argument, expected, formatShape(shape), 'SHAPE_MISMATCH');
}

/** Makes the error for features of heed/train. */
export function needsTraining(what: string): HeedError {
  return new HeedError('UNSUPPORTED', `${what}: requires heed/train. Import \`load\` from 'heed/train'`);
}

/** Modules by name that a script has imported statically although heed usually imports them on demand. */
export const linked: Record<string, object> = {};

/** For scripts that import all other modules at once: `link` adds them to `linked`. */
export const others: { link?: (() => Promise<unknown>) | undefined } = {};

/**
 * Returns the module `name`, importing it by `load` if it is not linked statically. Turns a failed import into a
 * HeedError: there may be no network, or a newer version may have replaced the files on the server.
 */
export async function importing<T extends object>(name: string, load: () => Promise<T>): Promise<T> {
  if (name in linked) return linked[name] as T;
  try {
    if (!others.link) return await load();
    await others.link();
    return linked[name] as T;
  } catch (cause) {
    const hint =
      'ServiceWorkerGlobalScope' in globalThis
        ? ". Service workers cannot load scripts later: import from 'heed/service-worker' instead of 'heed'"
        : '';
    const message = `a script of heed could not be loaded: ${cause instanceof Error ? cause.message : String(cause)}`;
    throw new HeedError('LOAD_FAILED', message + hint, { cause });
  }
}

/** Runs `body`, which reads values of the caller. Turns errors of their getters or proxies into a HeedError. */
export function guarded<T>(argument: string, body: () => T): T {
  try {
    return body();
  } catch (error) {
    throw asHeedError(argument, error, 'INVALID_ARGUMENT', 'reading it threw');
  }
}

/** Runs `body`, which calls the WebAssembly module. Turns a failed allocation or a trap into a HeedError. */
export function calling<T>(what: string, body: () => T): T {
  try {
    return body();
  } catch (error) {
    throw asHeedError(what, error, 'INTERNAL', 'the module failed with');
  }
}

/** Runs `body`, which allocates memory for a parameter. If that fails, the error names the parameter and its size. */
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

/** Allocates an array for a result of this shape. `what`: the name of the call. */
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

/** Describes `value` briefly, for a message. Never throws. */
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
