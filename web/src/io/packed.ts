/**
 * A model's folder in one file: model.safetensors with the folder's small files, by their paths, in the header's `__metadata__`, which the format leaves free. This takes one
 * request, and no bundler changes the files: some turn JSON files into modules, some inline small files as data: URLs.
 */
import { invalid } from '../base/error.js';
import { isFile, missing, type Source } from './files.js';
import type { Integrity } from './integrity.js';
import { memoryFile } from './memory.js';
import { ByteReader } from './reader.js';
import { metadataOf, readHeader } from './safetensors.js';

/** The files in `outer`'s model.safetensors. Only the header is read at once; the rest follows when the weights are read, which is possible once. */
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
      yield prefix;
      yield json;
      yield* reader.rest();
    }
    const open: Source['open'] = async (path) => {
      if (path === 'model.safetensors') return { ...file, chunks };
      const label = `${name}: ${path}`;
      return has(path) ? integrity.checked(path, memoryFile(label, files[path])) : missing(label);
    };
    return { open, failed, complete: outer.complete };
  } catch (error) {
    await failed(error);
    throw error;
  }
}
