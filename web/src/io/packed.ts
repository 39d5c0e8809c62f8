/**
 * A model's folder packed into one file: model.safetensors, with the folder's small files by path in the header's
 * `__metadata__`, whose content the format does not define. Loading takes one request, and bundlers do not alter the
 * files: some turn JSON files into modules or inline small files as data: URLs.
 */
import { invalid } from '../base/error.js';
import { concatenate, isFile, missing, type Source } from './files.js';
import type { Integrity } from './integrity.js';
import { memoryFile } from './memory.js';
import { ByteReader } from './reader.js';
import { metadataOf, readHeader } from './safetensors.js';

/**
 * Opens the files packed into `outer`'s model.safetensors. Reads only the header; the rest is read with the weights,
 * which is possible only once.
 */
export async function packedSource(
  outer: Source,
  integrity: Integrity,
  signal: Parameters<Source['open']>[1],
): Promise<Source> {
  const file = await outer.open('model.safetensors', signal);
  if (!isFile(file)) throw file.error;
  const { name } = file;
  const reader = new ByteReader(file);
  const failed = async (error: unknown) => {
    await reader.close();
    return (await outer.failed?.(error)) ?? false;
  };
  try {
    const [prefix, json] = await readHeader(reader);
    const files = metadataOf(json, name);
    const has = (path: string) => Object.hasOwn(files, path);
    if (!has('config.json'))
      throw invalid(name, 'a model packed into one file', "no 'config.json' in the header's metadata", 'INVALID_FILE', {
        hint: "Give the model's folder instead",
      });
    async function* chunks(): AsyncIterable<Uint8Array> {
      try {
        yield prefix;
        yield json;
        yield* reader.rest();
      } finally {
        await reader.close();
      }
    }
    const isOuter = (path: string) => path === 'model.safetensors';
    let isEnded = false;
    const startOf = async (path: string) => {
      if (!isOuter(path)) return null;
      isEnded = true;
      await reader.close();
      return { bytes: concatenate(Uint8Array, [prefix, json]), tag: file.tag ?? null };
    };
    const open: Source['open'] = async (path) => {
      if (isOuter(path)) return isEnded ? outer.open(path, signal) : { ...file, chunks, close: () => reader.close() };
      const label = `${name}: ${path}`;
      return has(path) ? integrity.checked(path, memoryFile(label, files[path])) : missing(label);
    };
    return {
      ...outer,
      open,
      failed,
      urlOf: (path) => (isOuter(path) ? (outer.urlOf?.(path) ?? null) : null),
      startOf,
    };
  } catch (error) {
    await failed(error);
    throw error;
  }
}
