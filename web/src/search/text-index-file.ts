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
 * - `surrogates`: U32 [K,3], for texts that UTF-8 cannot represent: a text, a position in it and the lone surrogate there,
 *   for which `texts` has U+FFFD. Absent if there are none
 * - `metadata`: U8, a JSON value per text in UTF-8, each on a line; absent if the index has none. A text without
 *   metadata has `null`, and is listed in `without_metadata`, U32 [K], which is absent if there are none
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
import { type IndexState, knownProbe, usedVectors, writtenModel } from './index-model.js';
import { readProjected } from './projected-store.js';
import { readProbe } from './same-model.js';
import { parsedMetadata, TextRows } from './text-rows.js';
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
  const pause = makeYield(signal);
  const texts = tensors.has('texts') ? await storedTexts(tensors, name, pause) : await linesOf(folder, signal);
  const count = texts.length;
  const ids = await storedIds(tensors.get('ids'), count, name, pause);
  if (!/^\d{1,16}$/.test(next) || Number(next) > 2 ** 53)
    throw invalidFile(name, "an integer from 0 to 2^53 in the metadata's next_id", next.slice(0, 20));
  const probe = readProbe(tensors.get('probe'), metadata, name);
  const stored = await storedMetadata(tensors, count, name, pause);
  const store = tensors.has('components')
    ? await readProjected(tensors, count, name, newStore, pause)
    : await readVectors(tensors, count, similarity, name, newStore, pause);
  const rows = new TextRows(texts, ids, stored, Math.max(count, Number(next)));
  return { rows, store, embedder: null, dimensions: null, prompt, probe };
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

async function storedTexts(
  tensors: ReadonlyMap<string, StoredTensor>,
  file: string,
  pause: () => Promise<void>,
): Promise<string[]> {
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
  const texts: string[] = [];
  for (let n = 0; n < lengths.shape[0]!; n++) {
    if (n % BLOCK === 0) await pause();
    const length = view.getUint32(4 * n, true);
    while (text.length - used < length) {
      if (at === bytes.length) throw wrong(`too few bytes for text ${n}`);
      fill();
    }
    used += length;
    texts.push(text.slice(used - length, used));
  }
  if (used < text.length || at < bytes.length) throw wrong('more bytes than they take');
  return withSurrogates(texts, tensors.get('surrogates'), file);
}

/** Reads U32 [...shape] of integers; null if there are none. The first extent is arbitrary. */
function storedIntegers(tensor: StoredTensor | undefined, width: number, part: string): Uint32Array | null {
  if (!tensor) return null;
  const { dtype, shape, bytes } = tensor;
  const count = bytes.length / 4;
  if (dtype === 'U32' && String(shape) === String(width === 1 ? [count] : [count / width, width]))
    return new Uint32Array(bytes.slice().buffer);
  throw invalidFile(part, `integers, U32 [K${width === 1 ? '' : `, ${width}`}]`, `${dtype} ${formatShape(shape)}`);
}

const REPLACEMENT = '\uFFFD';
/** Matches lone surrogates only, as a pair is one character. */
const LONE = /\p{Surrogate}/gu;

/** Puts the lone surrogates back into texts. */
function withSurrogates(texts: string[], tensor: StoredTensor | undefined, file: string): string[] {
  const part = `${file}: tensor 'surrogates'`;
  const places = storedIntegers(tensor, 3, part) ?? [];
  for (let i = 0; i < places.length; ) {
    const row = places[i]!;
    const text = texts[row] ?? '';
    let whole = '';
    let used = 0;
    for (; i < places.length && places[i] === row; i += 3) {
      const [at, unit] = [places[i + 1]!, places[i + 2]!];
      if (at < used || text[at] !== REPLACEMENT || unit < 0xd800 || unit > 0xdfff)
        throw invalidFile(
          part,
          'surrogates in the order of their places in texts, where U+FFFD is',
          `text ${row}, position ${at}`,
        );
      whole += text.slice(used, at) + String.fromCharCode(unit);
      used = at + 1;
    }
    texts[row] = whole + text.slice(used);
  }
  return texts;
}

/** Reads the value of each text, undefined for texts without one; null if there are none. */
async function storedMetadata(
  tensors: ReadonlyMap<string, StoredTensor>,
  count: number,
  file: string,
  pause: () => Promise<void>,
): Promise<unknown[] | null> {
  const tensor = tensors.get('metadata');
  if (!tensor) return null;
  const wrong = (got: string) => invalidFile(`${file}: tensor 'metadata'`, `${count} lines of JSON in UTF-8`, got);
  if (tensor.dtype !== 'U8') throw wrong(`${tensor.dtype} ${formatShape(tensor.shape)}`);
  const { bytes } = tensor;
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  const values: unknown[] = [];
  for (let at = 0; at < bytes.length; ) {
    if (values.length % BLOCK === 0) await pause();
    const end = bytes.indexOf(10, at); // a line feed, which JSON escapes in texts
    if (end < 0) throw wrong('an incomplete line');
    try {
      values.push(parsedMetadata(decoder.decode(bytes.subarray(at, end))));
    } catch {
      throw wrong(`invalid JSON in line ${values.length}`);
    }
    at = end + 1;
  }
  if (values.length !== count) throw wrong(`${values.length}`);
  const part = `${file}: tensor 'without_metadata'`;
  for (const row of storedIntegers(tensors.get('without_metadata'), 1, part) ?? []) {
    if (values[row] !== null) throw invalidFile(part, "texts for which 'metadata' has null", `text ${row}`);
    values[row] = undefined;
  }
  return values;
}

/** Reads the ids; null if they equal the row numbers. */
async function storedIds(
  tensor: StoredTensor | undefined,
  count: number,
  file: string,
  pause: () => Promise<void>,
): Promise<number[] | null> {
  if (!tensor) return null;
  const { dtype, bytes } = tensor;
  const wrong = (got: string) =>
    invalidFile(`${file}: tensor 'ids'`, `${count} different integers from 0 to 2^53 - 1`, got);
  if (dtype !== 'F64' || bytes.length !== 8 * count) throw wrong(`${dtype} ${formatShape(tensor.shape)}`);
  const ids: number[] = [];
  const seen = new Set<number>();
  for (const id of new Float64Array(bytes.slice().buffer)) {
    if (ids.length % BLOCK === 0) await pause();
    if (!Number.isSafeInteger(id) || id < 0) throw wrong('other or repeated numbers');
    seen.add(id);
    ids.push(id);
  }
  if (seen.size < count) throw wrong('other or repeated numbers');
  return ids;
}

/** The number of texts to read or write before yielding to the event loop: at most some milliseconds' work. */
const BLOCK = 1024;

/** The file of an index; see `TextIndex.save`. Must not run while the index changes. */
export async function saveIndex(state: IndexState): Promise<Uint8Array<ArrayBuffer>> {
  await knownProbe(state);
  const { rows } = state;
  const { texts } = rows;
  const [ids, values] = [rows.ids(), rows.metadata()];
  const vectors = vectorTensors(usedVectors(state));
  const pause = makeYield(undefined);
  const lengths = new Uint32Array(texts.length);
  const surrogates: number[] = [];
  const bytes = await encoded(texts.length, pause, (n) => {
    const text = texts[n]!;
    lengths[n] = text.length;
    return text.replace(LONE, (unit, at: number) => {
      surrogates.push(n, at, unit.charCodeAt(0));
      return REPLACEMENT;
    });
  });
  const without: number[] = [];
  const lines =
    values &&
    (await encoded(values.length, pause, (n) => {
      if (values[n] === undefined) without.push(n);
      return `${JSON.stringify(values[n] ?? null)}\n`;
    }));
  return guarded('save', () => {
    const model = writtenModel(state);
    const integers = (name: string, data: Uint32Array, shape: number[]) =>
      data.length > 0 ? [{ name, dtype: 'U32', shape, data: data as ArrayBufferView }] : [];
    // Sorted by decreasing alignment.
    const tensors = [
      ...(ids ? [{ name: 'ids', dtype: 'F64', shape: [ids.length], data: Float64Array.from(ids) }] : []),
      ...model.tensors,
      { name: 'text_lengths', dtype: 'U32', shape: [texts.length], data: lengths as ArrayBufferView },
      ...integers('surrogates', Uint32Array.from(surrogates), [surrogates.length / 3, 3]),
      ...integers('without_metadata', Uint32Array.from(without), [without.length]),
      ...vectors,
      { name: 'texts', dtype: 'U8', shape: [bytes.length], data: bytes },
      ...(lines ? [{ name: 'metadata', dtype: 'U8', shape: [lines.length], data: lines }] : []),
    ];
    return writeSafetensors(tensors, { next_id: `${rows.nextId}`, ...model.metadata });
  });
}

/** Encodes `count` strings in UTF-8, concatenated, in blocks, because a single string cannot hold all of them. */
async function encoded(
  count: number,
  pause: () => Promise<void>,
  stringOf: (n: number) => string,
): Promise<Uint8Array> {
  const encoder = new TextEncoder();
  const blocks: Uint8Array[] = [];
  for (let first = 0; first < count; first += BLOCK) {
    await pause();
    let block = '';
    for (let n = first; n < Math.min(first + BLOCK, count); n++) block += stringOf(n);
    blocks.push(encoder.encode(block));
  }
  return concatenate(Uint8Array, blocks);
}
