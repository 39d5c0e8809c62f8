/** Files whose SHA-256 the caller knows: what a host serves is then what was meant, or the load fails. */
import { describe, HeedError, invalid } from '../error.js';
import type { OpenFile } from './files.js';
import { sha256 } from './sha256.js';

/** By path below the model's folder: 'sha256-' and the digest in base64, as in a page's `integrity`, or in hex, as sha256sum and model hubs show it. */
export type IntegrityOption = Readonly<Record<string, string>>;

export class Integrity {
  /** Expected digests in hex. */
  private readonly expected: ReadonlyMap<string, string>;
  private readonly found = new Set<string>();

  constructor(option: IntegrityOption = {}) {
    this.expected = new Map(Object.entries(option).map(([path, text]) => [path, digestOf(path, text)]));
  }

  /** What distinguishes this file from others that may lie at the same place; null where any will do. */
  of(path: string): string | null {
    return this.expected.get(path) ?? null;
  }

  /** `file`, which fails at its end where its bytes are others. */
  checked(path: string, file: OpenFile): OpenFile {
    const expected = this.expected.get(path);
    if (expected === undefined) return file;
    this.found.add(path);
    return { ...file, chunks: () => checkedChunks(file, expected) };
  }

  /** A digest that was compared with nothing protects nobody: a path that is misspelt, or a file that heed does not read. */
  requireAllFound(): void {
    const missing = [...this.expected.keys()].filter((path) => !this.found.has(path));
    if (missing.length > 0)
      throw invalid(
        'integrity',
        missing.map((path) => `'${path}'`).join(', '),
        'paths of files that the model is read from',
      );
  }
}

function digestOf(path: string, text: unknown): string {
  const [, hex, base64] =
    /^sha256-(?:([\da-f]{64})|([\w+/-]{43}=?))$/i.exec(typeof text === 'string' ? text : '') ?? [];
  if (hex !== undefined) return hex.toLowerCase();
  if (base64 === undefined)
    throw invalid(
      `integrity['${path}']`,
      describe(text),
      "'sha256-' and the digest in 44 letters of base64 or 64 of hex",
    );
  const bytes = atob(base64.replaceAll('-', '+').replaceAll('_', '/'));
  return Array.from(bytes, (byte) => byte.charCodeAt(0).toString(16).padStart(2, '0')).join('');
}

async function* checkedChunks(file: OpenFile, expected: string): AsyncIterable<Uint8Array> {
  const hash = sha256();
  for await (const chunk of file.chunks()) {
    hash.update(chunk);
    yield chunk;
  }
  const got = hash.hex();
  if (got !== expected)
    throw new HeedError(
      'INVALID_FILE',
      `${file.name}: got SHA-256 ${got}; expected ${expected}, as \`integrity\` says`,
    );
}
