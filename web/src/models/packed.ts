/**
 * A model folder in one file: model.safetensors with the folder's small files, by their paths, in the header's `__metadata__`, which the format leaves
 * free. One request, and nothing that a bundler could mistake for its own: some make modules of JSON files, some inline small ones as data: URLs.
 */
import { HeedError } from '../error.js';
import { folderOf, joined, type ModelFolder, missing, type OpenFile } from '../io/files.js';
import type { Integrity } from '../io/integrity.js';
import { memoryFile } from '../io/memory.js';
import { headerLength, parseMetadata } from './safetensors.js';

/** Reads the header, and no more than the chunk in which it ends; the rest follows when the weights are read, once. `onFailure` is called where the load fails. */
export async function packedFolder(
  file: OpenFile,
  integrity: Integrity,
  onFailure?: (error: unknown) => Promise<void>,
): Promise<ModelFolder> {
  const chunks = file.chunks()[Symbol.asyncIterator]();
  let start = new Uint8Array(0);
  const readTo = async (length: number) => {
    while (start.length < length) {
      const next = await chunks.next();
      if (next.done) return;
      start = joined([start, next.value]);
    }
  };
  const readFiles = async () => {
    await readTo(8);
    const end = 8 + headerLength(start, file.name, file.size);
    await readTo(end);
    const files = parseMetadata(start.subarray(8, end), file.name);
    if (Object.hasOwn(files, 'config.json')) return files;
    throw new HeedError(
      'INVALID_FILE',
      `${file.name}: got no 'config.json' in the header's metadata; expected a model packed into one file, or give the model's folder`,
    );
  };
  const failed = async (error: unknown) => {
    await chunks.return?.();
    await onFailure?.(error);
  };
  const files = await readFiles().catch(async (error) => {
    await failed(error);
    throw error;
  });
  async function* all(): AsyncIterable<Uint8Array> {
    yield start;
    for (let next = await chunks.next(); !next.done; next = await chunks.next()) yield next.value;
  }
  const find: Parameters<typeof folderOf>[1] = async (path) => {
    if (path === 'model.safetensors') return { ...file, chunks: all };
    if (Object.hasOwn(files, path)) return integrity.checked(path, memoryFile(`${file.name}: ${path}`, files[path]!));
    return missing(`${file.name}: got no '${path}' in the header's metadata`);
  };
  return folderOf(file.name, find, failed);
}
