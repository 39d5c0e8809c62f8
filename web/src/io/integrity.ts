/** Verifies files against SHA-256 digests from the caller, so that a load fails if a host serves different bytes. */
import { describe, importing, invalid, invalidFile } from '../base/error.js';
import { isFile, type OpenFile, type Source } from './files.js';

/**
 * Expected SHA-256 digests by path below the model's folder: 'sha256-' followed by base64, as in HTML's `integrity`
 * attribute, or hex, as sha256sum and model hubs show it.
 */
export type IntegrityOption = Readonly<Record<string, string>>;

export class Integrity {
  /** Expected digests in hex. */
  readonly #expected: ReadonlyMap<string, string>;
  readonly #found = new Set<string>();

  constructor(option: IntegrityOption = {}) {
    this.#expected = new Map(Object.entries(option).map(([path, text]) => [path, digestOf(path, text)]));
  }

  /** The expected digest in hex, or null if none is specified. */
  of(path: string): string | null {
    return this.#expected.get(path) ?? null;
  }

  /** Wraps `file` so that reading it to its end fails if the digest differs. */
  checked(path: string, file: OpenFile): OpenFile {
    const expected = this.of(path);
    if (expected === null) return file;
    this.#found.add(path);
    return { ...file, isReadWhole: true, chunks: () => checkedChunks(file, expected) };
  }

  /** Wraps `source` so that all its files are checked. */
  checkedSource(source: Source): Source {
    const open: Source['open'] = async (path, signal, tag) => {
      const found = await source.open(path, signal, tag);
      return isFile(found) ? this.checked(path, found) : found;
    };
    return { ...source, open };
  }

  /**
   * Throws if a digest was not used, because its path is misspelt or heed does not read the file: it would give a false
   * sense of protection.
   */
  requireAllFound(): void {
    const unused = [...this.#expected.keys()].filter((path) => !this.#found.has(path));
    const got = unused.map((path) => `'${path}'`).join(', ');
    if (got !== '') throw invalid('integrity', 'paths of files that the model is read from', got);
  }
}

function digestOf(path: string, text: unknown): string {
  const [, hex, base64] =
    /^sha256-(?:([\da-f]{64})|([\w+/-]{43}=?))$/i.exec(typeof text === 'string' ? text : '') ?? [];
  if (hex !== undefined) return hex.toLowerCase();
  const expected = "'sha256-' and the digest in 44 characters of base64 or 64 of hex";
  if (base64 === undefined) throw invalid(`integrity['${path}']`, expected, describe(text));
  const bytes = atob(base64.replaceAll('-', '+').replaceAll('_', '/'));
  return Array.from(bytes, (byte) => byte.charCodeAt(0).toString(16).padStart(2, '0')).join('');
}

async function* checkedChunks(file: OpenFile, expected: string): AsyncIterable<Uint8Array> {
  const { sha256 } = await importing('sha256', () => import('./sha256.js'));
  const hash = sha256();
  for await (const chunk of file.chunks()) {
    hash.update(chunk);
    yield chunk;
  }
  const got = hash.hex();
  if (got !== expected) throw invalidFile(file.name, `SHA-256 ${expected}, as \`integrity\` says`, got);
}
