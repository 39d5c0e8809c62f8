/**
 * Reads and writes the file of a TextIndex. Format of `index.safetensors`, for N texts:
 * - `vectors`: I8 [N,D], F32 [N,D] or, for bits, U8 [N, D / 8]
 * - `vectors_scale`: F32 [N,1], for I8 only: value = int8 * scale; for the cosine, the values have unit norm
 * - with `components`, BF16 [C,D], orthonormal rows: `vectors` are the products of the vectors with these, in 3 or 4 bits:
 *   U8 [N, bits, C / 8, rounded up], with `vectors_scale`, BF16 [N,1], and `vectors_column_scale`, BF16 [1,C], as a
 *   token embedding table in a quantized folder (docs/quantization.md)
 * - `ids`: F64 [N], absent if they equal the row numbers
 * - `texts`: U8, all texts in UTF-8, concatenated; `text_lengths`: U32 [N], their lengths in UTF-16 units. Without
 *   these, the texts are in `words.txt`, one per line
 * - `metadata`: U8, a JSON value per text in UTF-8, each on a line; absent if the index has none
 * - metadata of the file: `heed_index`, the version of the format (1, also if absent; 2 with `similarity`, which is 'dot';
 *   3 with `components`);
 *   `next_id`, the next id to assign; `prompt`, the text before each text, if it is not the model's own
 * same-model.ts defines the data that identify the model.
 */
import { formatShape, guarded, type HeedError, invalidFile } from '../base/error.js';
import { makeYield } from '../base/event-loop.js';
import type { SignalLike } from '../base/platform.js';
import { concatenate, type ModelFolder, readAll } from '../io/files.js';
import { readTensors, writeSafetensors } from '../io/safetensors.js';
import { normsOf, type Rows } from '../models/quantized.js';
import { rowIds, setIds } from './index-ids.js';
import { type IndexState, knownProbe, writtenModel } from './index-model.js';
import { readProjected } from './projected-store.js';
import { readProbe } from './same-model.js';
import {
  inBlocks,
  requireLengths,
  type StoreOptions,
  stored,
  type VectorStore,
  vectorTensors,
} from './vector-store.js';

interface StoredTensor {
  dtype: string;
  shape: number[];
  bytes: Uint8Array;
}

/** Reads the file of an index, with its vectors in a new store. */
export async function readState(
  folder: ModelFolder,
  path: string,
  newStore: (options: StoreOptions) => VectorStore,
  signal: SignalLike,
): Promise<IndexState> {
  const { name, metadata, tensors } = await readFile(folder, path, signal);
  const { heed_index: version = '1', prompt = null, next_id: next = '0', similarity = 'cosine' } = metadata;
  if (!['1', '2', '3'].includes(version))
    throw invalidFile(name, 'an index of version 1, 2 or 3', `version ${version.slice(0, 20)}`);
  if (similarity !== 'cosine' && similarity !== 'dot')
    throw invalidFile(name, "'cosine' or 'dot' in the metadata's similarity", `'${similarity.slice(0, 20)}'`);
  const texts = tensors.has('texts') ? storedTexts(tensors, name) : await linesOf(folder, signal);
  const count = texts.length;
  const ids = storedIds(tensors.get('ids'), count, name);
  if (!/^\d{1,16}$/.test(next) || Number(next) > 2 ** 53)
    throw invalidFile(name, "an integer from 0 to 2^53 in the metadata's next_id", next.slice(0, 20));
  const probe = readProbe(tensors.get('probe'), metadata, name);
  const pause = makeYield(signal);
  const store = tensors.has('components')
    ? await readProjected(tensors, count, name, newStore, pause)
    : await readVectors(tensors, count, similarity, name, newStore, pause);
  const state: IndexState = {
    texts,
    store,
    ids: null,
    nextId: count,
    embedder: null,
    dimensions: null,
    prompt,
    metadata: storedMetadata(tensors.get('metadata'), count, name),
    probe,
  };
  setIds(state, ids);
  state.nextId = Math.max(state.nextId, Number(next));
  return state;
}

/** Reads vectors in fp32, int8 or bits. */
async function readVectors(
  tensors: ReadonlyMap<string, StoredTensor>,
  count: number,
  similarity: StoreOptions['similarity'],
  name: string,
  newStore: (options: StoreOptions) => VectorStore,
  pause: () => Promise<void>,
): Promise<VectorStore> {
  const vectors = tensors.get('vectors');
  const scales = tensors.get('vectors_scale');
  const bits = vectors?.dtype === 'U8';
  const isFloat = vectors?.dtype === 'F32';
  const fits =
    vectors?.shape.length === 2 &&
    vectors.shape[0] === count &&
    (count === 0 || vectors.shape[1]! > 0) &&
    (isFloat ||
      (bits && similarity === 'cosine') ||
      (vectors.dtype === 'I8' && scales?.dtype === 'F32' && scales.bytes.length === 4 * count));
  if (!fits) {
    const expected = `int8 'vectors' [${count}, width] with 'vectors_scale' [${count}, 1], one row per text`;
    const got = [vectors, scales].map((tensor) => (tensor ? `${tensor.dtype} ${formatShape(tensor.shape)}` : 'none'));
    throw invalidFile(name, expected, got.join(' and '));
  }
  const { bytes } = vectors;
  const data = bits ? bytes : isFloat ? floatsOf(bytes) : new Int8Array(bytes.buffer, bytes.byteOffset, bytes.length);
  const rows: Rows = { data, count, width: count > 0 ? vectors.shape[1]! : 0, bits };
  if (isFloat) requireLengths(`${name}: tensor 'vectors'`, normsOf(data, rows.width), similarity, 'INVALID_FILE');
  if (!isFloat && scales && similarity === 'dot') {
    rows.scales = floatsOf(scales.bytes);
    requireLengths(`${name}: tensor 'vectors_scale'`, rows.scales, similarity, 'INVALID_FILE');
  }
  const store = newStore({ output: isFloat ? 'float32' : bits ? 'binary' : null, similarity });
  if (count > 0) store.append(await inBlocks(rows, (block) => stored(block, store.options), pause));
  return store;
}

const floatsOf = (bytes: Uint8Array) => new Float32Array(bytes.slice().buffer);

async function readFile(folder: ModelFolder, path: string, signal: SignalLike) {
  const file = await folder.open(path, { required: true, signal });
  let metadata: Record<string, string> = {};
  const tensors = await readTensors(file, (given) => {
    metadata = given;
  });
  return { name: file.name, metadata, tensors };
}

async function linesOf(folder: ModelFolder, signal: SignalLike): Promise<string[]> {
  const words = await readAll(await folder.open('words.txt', { required: true, signal }));
  const texts = new TextDecoder().decode(words).split(/\r?\n/);
  if (texts.at(-1) === '') texts.pop();
  return texts;
}

function storedTexts(tensors: Map<string, StoredTensor>, file: string): string[] {
  const { bytes } = tensors.get('texts')!;
  const lengths = tensors.get('text_lengths');
  if (lengths?.dtype !== 'U32' || lengths.shape.length !== 1)
    throw invalidFile(
      file,
      "the lengths of its texts, U32 [N], in 'text_lengths'",
      lengths ? `${lengths.dtype} ${formatShape(lengths.shape)}` : 'none',
    );
  const view = new DataView(lengths.bytes.buffer, lengths.bytes.byteOffset);
  const wrong = (got: string): HeedError =>
    invalidFile(`${file}: tensor 'texts'`, 'texts in UTF-8 of the given lengths', got);
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  let text = '';
  let used = 0; // units of `text` consumed
  let at = 0;
  // Decode in blocks, because a single string cannot hold all texts.
  const fill = () => {
    const block = bytes.subarray(at, at + 65536);
    at += block.length;
    try {
      text = text.slice(used) + decoder.decode(block, { stream: at < bytes.length });
    } catch {
      throw wrong('invalid bytes');
    }
    used = 0;
  };
  const texts = Array.from({ length: lengths.shape[0]! }, (_, n) => {
    const length = view.getUint32(4 * n, true);
    while (text.length - used < length) {
      if (at === bytes.length) throw wrong(`too few bytes for text ${n}`);
      fill();
    }
    used += length;
    return text.slice(used - length, used);
  });
  if (used < text.length || at < bytes.length) throw wrong('more bytes than they take');
  return texts;
}

/** Reads the value of each text; null if there are none. */
function storedMetadata(tensor: StoredTensor | undefined, count: number, file: string): unknown[] | null {
  if (!tensor) return null;
  const wrong = (got: string) => invalidFile(`${file}: tensor 'metadata'`, `${count} lines of JSON in UTF-8`, got);
  if (tensor.dtype !== 'U8') throw wrong(`${tensor.dtype} ${formatShape(tensor.shape)}`);
  const { bytes } = tensor;
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  const values: unknown[] = [];
  for (let at = 0; at < bytes.length; ) {
    const end = bytes.indexOf(10, at); // a line feed, which JSON escapes in texts
    if (end < 0) throw wrong('an incomplete line');
    try {
      values.push(JSON.parse(decoder.decode(bytes.subarray(at, end))));
    } catch {
      throw wrong(`invalid JSON in line ${values.length}`);
    }
    at = end + 1;
  }
  if (values.length !== count) throw wrong(`${values.length}`);
  return values;
}

/** Reads the ids; null if they equal the row numbers. */
function storedIds(tensor: StoredTensor | undefined, count: number, file: string): Float64Array | null {
  if (!tensor) return null;
  const { dtype, bytes } = tensor;
  const fits = dtype === 'F64' && bytes.length === 8 * count;
  const ids = fits ? new Float64Array(bytes.slice().buffer) : new Float64Array();
  if (fits && ids.every((id) => Number.isSafeInteger(id) && id >= 0) && new Set(ids).size === count) return ids;
  throw invalidFile(
    `${file}: tensor 'ids'`,
    `${count} different integers from 0 to 2^53 - 1`,
    fits ? 'other or repeated numbers' : `${dtype} ${formatShape(tensor.shape)}`,
  );
}

/** The file of an index; see `TextIndex.save`. */
export async function saveIndex(state: IndexState): Promise<Uint8Array<ArrayBuffer>> {
  await knownProbe(state);
  const { texts, store, ids, nextId, metadata } = state;
  const count = texts.length;
  return guarded('save', () => {
    const bytes = encoded(texts);
    const values = metadata && encoded(metadata.map((value) => `${JSON.stringify(value)}\n`));
    const lengths = Uint32Array.from(texts, ({ length }) => length);
    const model = writtenModel(state);
    // Sorted by decreasing alignment.
    const tensors = [
      ...(ids ? [{ name: 'ids', dtype: 'F64', shape: [count], data: rowIds(state) }] : []),
      ...model.tensors,
      { name: 'text_lengths', dtype: 'U32', shape: [count], data: lengths as ArrayBufferView },
      ...vectorTensors(store),
      { name: 'texts', dtype: 'U8', shape: [bytes.length], data: bytes },
      ...(values ? [{ name: 'metadata', dtype: 'U8', shape: [values.length], data: values }] : []),
    ];
    return writeSafetensors(tensors, { next_id: `${nextId}`, ...model.metadata });
  });
}

/** Encodes the texts in UTF-8, concatenated, in blocks, because a single string cannot hold all of them. */
function encoded(texts: readonly string[]): Uint8Array {
  const blocks: Uint8Array[] = [];
  for (let at = 0; at < texts.length; at += 1024)
    blocks.push(new TextEncoder().encode(texts.slice(at, at + 1024).join('')));
  return concatenate(Uint8Array, blocks);
}
