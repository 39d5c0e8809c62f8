/**
 * Reads and writes the file of a TextIndex. Format of `index.safetensors`, for N texts:
 * - `vectors`: I8 [N,D], F32 [N,D] or, for bits, U8 [N, D / 8]
 * - `vectors_scale`: F32 [N,1], for I8 only: value = int8 * scale; for the cosine, the values have unit norm
 * - with `components`, BF16 [C,D], orthonormal rows: `vectors` are the products of the vectors with these, in 3 or 4 bits:
 *   U8 [N, bits, C / 8, rounded up], with `vectors_scale`, BF16 [N,1], and `vectors_column_scale`, BF16 [1,C], as a
 *   token embedding table in a quantized folder (docs/quantization.md)
 * - `ids`: F64 [N], absent if they equal the row numbers; if some are strings, U8, a JSON value per text in UTF-8, each
 *   on a line
 * - `texts`: U8, all texts in UTF-8, concatenated; `text_lengths`: U32 [N], their lengths in UTF-16 units. Without
 *   these, the texts are in `words.txt`, one per line
 * - `surrogates`: U32 [K,3], for texts that UTF-8 cannot represent: a text, a position in it and the lone surrogate there,
 *   for which `texts` has U+FFFD. Absent if there are none
 * - `metadata`: U8, a JSON value per text in UTF-8, each on a line; absent if the index has none. A text without
 *   metadata has `null`, and is listed in `without_metadata`, U32 [K], which is absent if there are none
 * - `words`: U8, for indexes in which words have been searched for, a line of JSON for each word of the texts:
 *   [word, text, count, text, count, ...], with the number of times that each of these texts has the word
 * - metadata of the file: `heed_index`, the version of the format (1, also if absent; 2 with `similarity`, which is 'dot';
 *   3 with `components`);
 *   `next_id`, the next id to assign; `prompt`, the text before each text, if it is not the model's own
 * same-model.ts defines the data that identify the model.
 */
import { formatShape, guarded, type HeedError, importing, invalidFile } from '../base/error.js';
import { makeYield } from '../base/event-loop.js';
import type { SignalLike } from '../base/platform.js';
import { concatenate, type ModelFolder, readAll } from '../io/files.js';
import { readTensors, tensorOf, trellisPlaneBytes, widen } from '../io/safetensors.js';
import { decodeTrellisRows } from '../io/trellis.js';
import { normsOf, type Rows } from '../models/quantized.js';
import { knownProbe } from './index-embedding.js';
import { type IndexState, writtenModel } from './index-model.js';
import { Projection } from './projection.js';
import { readProbe } from './same-model.js';
import { inBlocks, int8Rows, requireLengths, type StoreOptions } from './stored-vectors.js';
import { isId, parsedMetadata, type TextId, TextRows } from './text-rows.js';
import type { Store } from './vector-store.js';
import type { WordIndex } from './word-index.js';

/** A file whose parts are read. */
interface IndexFile {
  name: string;
  tensors: Awaited<ReturnType<typeof readTensors>>;
  /** Yields to the event loop if it is time. */
  pause: () => Promise<void>;
  signal: SignalLike;
}

/** Makes the store for the vectors of a file. */
type NewStore = (options: StoreOptions) => Promise<Store>;

/** Reads the file of an index, with its vectors in a new store. */
export async function readState(
  folder: ModelFolder,
  path: string,
  newStore: NewStore,
  signal: SignalLike,
): Promise<IndexState> {
  const opened = await folder.open(path, { required: true, signal });
  let metadata: Record<string, string> = {};
  const tensors = await readTensors(opened, (given) => {
    metadata = given;
  });
  const { name } = opened;
  const file: IndexFile = { name, tensors, pause: makeYield(signal), signal };
  const { heed_index: version = '1', prompt = null, next_id: next = '0', similarity = 'cosine' } = metadata;
  if (!['1', '2', '3'].includes(version))
    throw invalidFile(name, 'an index of version 1, 2 or 3', `version ${version.slice(0, 20)}`);
  if (similarity !== 'cosine' && similarity !== 'dot')
    throw invalidFile(name, "'cosine' or 'dot' in the metadata's similarity", `'${similarity.slice(0, 20)}'`);
  const texts = tensors.has('texts') ? await storedTexts(file) : await linesOf(folder, signal);
  const count = texts.length;
  const ids = await storedIds(file, count);
  if (!/^\d{1,16}$/.test(next) || Number(next) > 2 ** 53)
    throw invalidFile(name, "an integer from 0 to 2^53 in the metadata's next_id", next.slice(0, 20));
  const probe = readProbe(tensors.get('probe'), metadata, name);
  const stored = await storedMetadata(file, count);
  const store = tensors.has('components')
    ? await readProjected(file, count, newStore)
    : await readVectors(file, count, similarity, newStore);
  const rows = new TextRows(texts, ids, stored, ids ? Number(next) : Math.max(count, Number(next)));
  const words = tensors.has('words') ? await storedWords(file, rows) : undefined;
  return { rows, store, embedder: null, dimensions: null, prompt, probe, words };
}

/** Reads vectors in fp32, int8 or bits. */
async function readVectors(
  { name, tensors, signal }: IndexFile,
  count: number,
  similarity: StoreOptions['similarity'],
  newStore: NewStore,
): Promise<Store> {
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
  if (isFloat) requireLengths(tensorOf(name, 'vectors'), normsOf(data, rows.width), similarity, 'INVALID_FILE');
  if (!isFloat && scales && similarity === 'dot') {
    rows.scales = floatsOf(scales.bytes);
    requireLengths(tensorOf(name, 'vectors_scale'), rows.scales, similarity, 'INVALID_FILE');
  }
  const store = await newStore({ storage: isFloat ? 'float32' : bits ? 'binary' : null, similarity });
  if (count > 0) await (await store.prepare(rows, signal))();
  return store;
}

/**
 * Reads the vectors that `heed.quantizeIndex` wrote: `components`, BF16 [C, D], and the vectors y as rows in 3 or 4 bits,
 * with scales of rows and columns.
 */
async function readProjected(
  { name: file, tensors, pause, signal }: IndexFile,
  count: number,
  newStore: NewStore,
): Promise<Store> {
  const floats = (name: string, shape: readonly number[]) => {
    const tensor = tensors.get(name);
    const isSame = tensor?.dtype === 'BF16' && String(tensor.shape) === String(shape);
    const values = isSame ? widen(tensor.bytes, 'BF16') : new Float32Array();
    if (isSame && values.every(Number.isFinite)) return values;
    const got = !tensor ? 'none' : isSame ? 'other numbers' : `${tensor.dtype} ${formatShape(tensor.shape)}`;
    throw invalidFile(tensorOf(file, name), `finite numbers, BF16 ${formatShape([...shape])}`, got);
  };
  const [components = 0, width = 0] = tensors.get('components')!.shape;
  const rows = floats('components', [components, width]);
  const codes = tensors.get('vectors');
  const bits = codes?.shape[1] === 4 ? 4 : 3;
  const shape = [count, bits, trellisPlaneBytes(components)];
  if (codes?.dtype !== 'U8' || String(codes.shape) !== String(shape) || components === 0 || components > width)
    throw invalidFile(
      tensorOf(file, 'vectors'),
      `U8 ${formatShape([count, 3, trellisPlaneBytes(components)])} or 4 bits, for ${components} components of ${width} entries`,
      codes ? `${codes.dtype} ${formatShape(codes.shape)}` : 'none',
    );
  floats('vectors_scale', [count, 1]); // The cosine does not depend on the rows' scales.
  const columnScales = floats('vectors_column_scale', [1, components]);
  const store = await newStore({ storage: null, similarity: 'cosine' });
  const given = { data: codes.bytes, count, width: bits * trellisPlaneBytes(components), bits: false };
  const decoded = (block: Rows): Rows => {
    const values = decodeTrellisRows(block.data as Uint8Array, bits, columnScales);
    return { ...int8Rows(values, block.count, components), scales: undefined };
  };
  if (count > 0) await (await store.prepare(await inBlocks(given, decoded, pause), signal))();
  await store.project(new Projection(rows, width));
  return store;
}

const floatsOf = (bytes: Uint8Array) => new Float32Array(bytes.slice().buffer);

async function linesOf(folder: ModelFolder, signal: SignalLike): Promise<string[]> {
  const words = await readAll(await folder.open('words.txt', { required: true, signal }));
  const texts = new TextDecoder().decode(words).split(/\r?\n/);
  if (texts.at(-1) === '') texts.pop();
  return texts;
}

async function storedTexts(file: IndexFile): Promise<string[]> {
  const { name, tensors, pause } = file;
  const { bytes } = tensors.get('texts')!;
  const lengths = tensors.get('text_lengths');
  if (lengths?.dtype !== 'U32' || lengths.shape.length !== 1)
    throw invalidFile(
      name,
      "the lengths of its texts, U32 [N], in 'text_lengths'",
      lengths ? `${lengths.dtype} ${formatShape(lengths.shape)}` : 'none',
    );
  const view = new DataView(lengths.bytes.buffer, lengths.bytes.byteOffset);
  const wrong = (got: string): HeedError =>
    invalidFile(tensorOf(name, 'texts'), 'texts in UTF-8 of the given lengths', got);
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
  return withSurrogates(texts, file);
}

/** Reads U32 [...shape] of integers; null if there are none. The first extent is arbitrary. */
function storedIntegers({ name, tensors }: IndexFile, tensorName: string, width: number): Uint32Array | null {
  const tensor = tensors.get(tensorName);
  if (!tensor) return null;
  const { dtype, shape, bytes } = tensor;
  const count = bytes.length / 4;
  if (dtype === 'U32' && String(shape) === String(width === 1 ? [count] : [count / width, width]))
    return new Uint32Array(bytes.slice().buffer);
  throw invalidFile(
    tensorOf(name, tensorName),
    `integers, U32 [K${width === 1 ? '' : `, ${width}`}]`,
    `${dtype} ${formatShape(shape)}`,
  );
}

const REPLACEMENT = '\uFFFD';
/** Matches lone surrogates only, as a pair is one character. */
const LONE = /\p{Surrogate}/gu;

/** Puts the lone surrogates back into texts. */
function withSurrogates(texts: string[], file: IndexFile): string[] {
  const places = storedIntegers(file, 'surrogates', 3) ?? [];
  for (let i = 0; i < places.length; ) {
    const row = places[i]!;
    const text = texts[row] ?? '';
    let whole = '';
    let used = 0;
    for (; i < places.length && places[i] === row; i += 3) {
      const [at, unit] = [places[i + 1]!, places[i + 2]!];
      if (at < used || text[at] !== REPLACEMENT || unit < 0xd800 || unit > 0xdfff)
        throw invalidFile(
          tensorOf(file.name, 'surrogates'),
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

/** Reads JSON values, each on a line; null if there are none. `count`: how many there must be; null: any number. */
async function storedLines(
  { name, tensors, pause }: IndexFile,
  part: 'ids' | 'metadata' | 'words',
  count: number | null,
): Promise<unknown[] | null> {
  const tensor = tensors.get(part);
  if (!tensor) return null;
  const wrong = (got: string) =>
    invalidFile(tensorOf(name, part), `${count ?? 'any number of'} lines of JSON in UTF-8`, got);
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
  if (count !== null && values.length !== count) throw wrong(`${values.length}`);
  return values;
}

async function storedWords(file: IndexFile, rows: TextRows): Promise<WordIndex> {
  const lines = (await storedLines(file, 'words', null))!;
  const { WordIndex } = await importing('hybrid-search', () => import('./hybrid-search.js'));
  const words = await WordIndex.from(lines, rows);
  if (words) return words;
  throw invalidFile(tensorOf(file.name, 'words'), 'words, each with texts and its numbers there', 'another list');
}

/** Reads the value of each text, undefined for texts without one; null if there are none. */
async function storedMetadata(file: IndexFile, count: number): Promise<unknown[] | null> {
  const values = await storedLines(file, 'metadata', count);
  if (!values) return null;
  for (const row of storedIntegers(file, 'without_metadata', 1) ?? []) {
    if (values[row] !== null)
      throw invalidFile(tensorOf(file.name, 'without_metadata'), "texts for which 'metadata' has null", `text ${row}`);
    values[row] = undefined;
  }
  return values;
}

/** Reads the ids; null if they equal the row numbers. */
async function storedIds(file: IndexFile, count: number): Promise<TextId[] | null> {
  const { name, tensors, pause } = file;
  const tensor = tensors.get('ids');
  if (!tensor) return null;
  const { dtype, bytes } = tensor;
  const wrong = (got: string) =>
    invalidFile(tensorOf(name, 'ids'), `${count} different integers from 0 to 2^53 - 1, or strings`, got);
  if (dtype !== 'U8' && (dtype !== 'F64' || bytes.length !== 8 * count))
    throw wrong(`${dtype} ${formatShape(tensor.shape)}`);
  const given = dtype === 'U8' ? (await storedLines(file, 'ids', count))! : new Float64Array(bytes.slice().buffer);
  const ids = new Set<TextId>();
  for (const id of given) {
    if (ids.size % BLOCK === 0) await pause();
    if (!isId(id) || ids.has(id)) throw wrong('other or repeated ones');
    ids.add(id);
  }
  return [...ids];
}

/** The number of texts to read or write before yielding to the event loop: at most some milliseconds' work. */
const BLOCK = 1024;

/** The file of an index; see `TextIndex.save`. Must not run while the index changes. */
export async function saveIndex(state: IndexState): Promise<Uint8Array<ArrayBuffer>> {
  await knownProbe(state);
  const { rows, store } = state;
  const { texts } = rows;
  const [ids, values] = [rows.ids(), rows.metadata()];
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
  const named = ids?.some((id) => typeof id === 'string')
    ? await encoded(ids.length, pause, (n) => `${JSON.stringify(ids[n])}\n`)
    : null;
  const without: number[] = [];
  const lines =
    values &&
    (await encoded(values.length, pause, (n) => {
      if (values[n] === undefined) without.push(n);
      return `${JSON.stringify(values[n] ?? null)}\n`;
    }));
  const postings = await storedPostings(state, pause);
  const model = writtenModel(state);
  const integers = (name: string, data: Uint32Array, shape: number[]) =>
    data.length > 0 ? [{ name, dtype: 'U32', shape, data: data as ArrayBufferView }] : [];
  // Sorted by decreasing alignment; the vectors come between both lists.
  const wide = guarded('save', () => [
    ...(ids && !named
      ? [{ name: 'ids', dtype: 'F64', shape: [ids.length], data: Float64Array.from(ids as number[]) }]
      : []),
    ...model.tensors,
    { name: 'text_lengths', dtype: 'U32', shape: [texts.length], data: lengths as ArrayBufferView },
    ...integers('surrogates', Uint32Array.from(surrogates), [surrogates.length / 3, 3]),
    ...integers('without_metadata', Uint32Array.from(without), [without.length]),
  ]);
  const narrow = [
    ...(named ? [{ name: 'ids', dtype: 'U8', shape: [named.length], data: named }] : []),
    { name: 'texts', dtype: 'U8', shape: [bytes.length], data: bytes },
    ...(lines ? [{ name: 'metadata', dtype: 'U8', shape: [lines.length], data: lines }] : []),
    ...(postings ? [{ name: 'words', dtype: 'U8', shape: [postings.length], data: postings }] : []),
  ];
  return store.inTurn(() =>
    store.write(rows.usedRows(), wide, narrow, { next_id: `${rows.nextId}`, ...model.metadata }),
  );
}

/** The words of the texts for the file; null if the index has none. */
async function storedPostings({ words, rows }: IndexState, pause: () => Promise<void>): Promise<Uint8Array | null> {
  if (!words) return null;
  await words.update(rows, pause);
  const postings = words.postings(rows);
  return encoded(postings.count, pause, (n) => `${JSON.stringify(postings.at(n))}\n`);
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
