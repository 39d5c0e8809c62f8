/** The form in which a TextIndex stores vectors. vector-store.ts has the store. */
import { formatShape, guarded, invalid } from '../base/error.js';
import { kindOf, Tensor } from '../base/tensor.js';
import { concatenate } from '../io/files.js';
import type { writeSafetensors } from '../io/safetensors.js';
import { normsOf, quantized, type Rows, type VectorOutput } from '../models/quantized.js';
import { type Corpus, readCorpus, requireFinite } from './rows.js';

export const SIMILARITIES = ['cosine', 'dot'] as const;
export type Similarity = (typeof SIMILARITIES)[number];

/** The storage type of the vectors (null: int8, or bits if the first vectors are bits) and their similarity. */
export interface StoreOptions {
  storage: VectorOutput | null;
  similarity: Similarity;
}

/** The width D of the vectors. */
export const dimensionsOf = ({ width, bits }: { width: number; bits: boolean }): number => (bits ? 8 * width : width);

/** The vectors of some rows as they are stored. */
export interface StoredVectors {
  readonly options: StoreOptions;
  data: Rows['data'];
  count: number;
  width: number;
  bits: boolean;
  /** For fp32 and int8, the factor of each row; empty for bits. */
  factors: Float32Array;
}

/** The vectors as tensors of a safetensors file. */
export function vectorTensors(stored: StoredVectors): Parameters<typeof writeSafetensors>[0] {
  const { data, count, width, bits, options, factors } = stored;
  // A store without rows is written in the type that its first rows will have.
  const form = count > 0 ? (isFloat(data) ? 'float32' : bits ? 'binary' : 'int8') : (options.storage ?? 'int8');
  const dtype = { float32: 'F32', int8: 'I8', binary: 'U8' }[form];
  const vectors = { name: 'vectors', dtype, shape: [count, width], data };
  if (dtype !== 'I8') return [vectors];
  return [{ name: 'vectors_scale', dtype: 'F32', shape: [count, 1], data: factors }, vectors];
}

const isFloat = (data: Rows['data']): data is Float32Array => data.BYTES_PER_ELEMENT === 4;

/** The maximum norm of fp32 vectors and queries with the similarity 'dot': it keeps scores finite. */
const MAX_LENGTH = 1e18;

/** Checks the norms of fp32 vectors, or the scales of int8 vectors. */
export function requireLengths(
  name: string,
  lengths: Float64Array | Float32Array,
  similarity: Similarity,
  code: 'INVALID_ARGUMENT' | 'INVALID_FILE',
): void {
  const isDot = similarity === 'dot';
  const at = lengths.findIndex((length) => !(Math.abs(length) <= (isDot ? MAX_LENGTH : Number.MAX_VALUE)));
  const expected = `finite vectors${isDot ? ' with a norm of at most 1e18' : ''}`;
  if (at >= 0) throw invalid(name, expected, `${lengths[at]} in row ${at}`, code);
}

/** The number of rows to convert before yielding to the event loop: some milliseconds' work. */
const BLOCK = 4096;

/** Divides rows into blocks, which are views of them; no rows are one block. `first`: the number of a block's first row. */
export function* blocksOf(rows: Rows): Generator<{ block: Rows; first: number }, void> {
  const { data, count, width, scales } = rows;
  for (let first = 0; first === 0 || first < count; first += BLOCK) {
    const end = Math.min(first + BLOCK, count);
    const block = { ...rows, data: data.subarray(first * width, end * width), count: end - first };
    yield { block: scales ? { ...block, scales: scales.subarray(first, end) } : block, first };
  }
}

/**
 * Converts rows in blocks and joins the results. `first` is the number of a block's first row. Calls `pause` before
 * each block.
 */
export async function inBlocks(
  rows: Rows,
  convert: (block: Rows, first: number) => Rows,
  pause: () => Promise<void>,
): Promise<Rows> {
  const parts: Rows[] = [];
  for (const { block, first } of blocksOf(rows)) {
    await pause();
    parts.push(convert(block, first));
  }
  const [one] = parts as [Rows, ...Rows[]];
  if (parts.length === 1) return one;
  const joined = <A extends Rows['data']>(each: A[]) =>
    concatenate(each[0]!.constructor as new (length: number) => A, each);
  const whole = { ...one, count: rows.count, data: joined(parts.map((part) => part.data)) };
  return one.factors ? { ...whole, factors: joined(parts.map((part) => part.factors!)) } : whole;
}

/** Converts rows to the form of those in a store. `first`: the number of the first row, for messages. */
export function inForm(store: Omit<StoredVectors, 'data' | 'factors'>, given: Rows, first = 0): Rows {
  const { data, count, width, bits, scales } = given;
  if (isFloat(data)) requireFinite('vectors', data, first * width);
  const { storage, similarity } = store.options;
  const dimensions = dimensionsOf(store) || dimensionsOf(given);
  if (count > 0 && dimensionsOf(given) !== dimensions)
    throw invalid(
      'vectors',
      `${dimensions} entries per row, as in the index`,
      `shape ${formatShape([count, width])}`,
      'SHAPE_MISMATCH',
    );
  const keepsBits = store.count > 0 ? store.bits : (storage ?? (bits ? 'binary' : 'int8')) === 'binary';
  if (keepsBits && !bits && width % 8 > 0)
    throw invalid('vectors', "a multiple of 8 entries per row for storage 'binary'", `${width}`, 'SHAPE_MISMATCH', {
      hint: "Leave out the last entries, or use storage 'int8'",
    });
  if (bits && !keepsBits) throw invalid('vectors', 'fp32 or int8 vectors, like those of the index', 'binary vectors');
  if (keepsBits && similarity === 'dot')
    throw invalid('vectors', "fp32 or int8 vectors for similarity 'dot'", 'binary vectors');
  if (!bits && !isFloat(data) && similarity === 'dot' && scales?.length !== count)
    throw invalid('vectors', "int8 vectors with their scales for similarity 'dot'", 'int8 vectors without scales');
  if (keepsBits) {
    if (bits) return { data, count, width, bits };
    const { data: codes } = quantized(new Tensor(data as Float32Array, [count, width]), 'binary');
    return { data: codes, count, width: width / 8, bits: true };
  }
  if (isFloat(data) && similarity === 'dot')
    requireLengths('vectors', normsOf(data, width), similarity, 'INVALID_ARGUMENT');
  if (storage !== 'float32') return stored(isFloat(data) ? int8Rows(data, count, width) : given, store.options);
  if (isFloat(data)) return stored(given, store.options);
  const floats = Float32Array.from(data);
  if (scales) for (let i = 0; i < floats.length; i++) floats[i]! *= scales[Math.floor(i / width)]!;
  return stored({ ...given, data: floats }, store.options);
}

/** Rounds vectors to int8. */
export function int8Rows(values: Float32Array, count: number, width: number): Rows {
  const { data, scales } = quantized(new Tensor(values, [count, width]), 'int8');
  return { data, count, width, bits: false, scales };
}

/** Norms between which fp32 arithmetic neither overflows nor loses precision, in squares and in products with int8. */
const [SHORTEST, LONGEST] = [2 ** -40, 2 ** 40];

/**
 * The power of two by which to multiply a vector of this norm before computing its cosines in fp32, which does not
 * change them. 1 unless the norm is extreme.
 */
export function powerFor(length: number): number {
  return length >= SHORTEST && length <= LONGEST ? 1 : 2 ** -Math.floor(Math.log2(length));
}

export type FactoredRows = Rows & { factors: Float32Array };

/** Adds the factors of rows. For the cosine, also scales fp32 rows of extreme norms. */
export function stored(rows: Rows, { similarity }: StoreOptions): FactoredRows {
  const { data, count, width, bits, factors } = rows;
  if (factors) return rows as FactoredRows;
  if (bits) return { ...rows, factors: new Float32Array() };
  if (similarity === 'dot')
    return { ...rows, factors: isFloat(data) ? new Float32Array(count).fill(1) : rows.scales!.slice(0, count) };
  const lengths = normsOf(data.subarray(0, count * width), width);
  if (!isFloat(data) || lengths.every((length) => powerFor(length) === 1))
    return { ...rows, factors: Float32Array.from(lengths, (length) => 1 / length) };
  const powers = lengths.map(powerFor);
  return {
    ...rows,
    data: data.map((v, i) => v * powers[Math.floor(i / width)]!),
    factors: Float32Array.from(lengths, (length, n) => 1 / (length * powers[n]!)),
  };
}

/** The vectors [N,D] as numbers: rounded and, for the cosine, scaled to unit norm. */
export function vectorTensor(stored: StoredVectors): Tensor {
  const { data, factors, count, bits } = stored;
  const width = count === 0 ? 0 : dimensionsOf(stored);
  const bit = (i: number) => (data[i >> 3]! & (128 >> (i & 7)) ? 1 : -1) / Math.sqrt(width);
  const values = Float32Array.from({ length: count * width }, (_, i) =>
    bits ? bit(i) : data[i]! * factors[Math.floor(i / width)]!,
  );
  return new Tensor(values, [count, width]);
}

/** Checks the vectors of texts. */
export function readVectors(texts: string[], vectors: Corpus): Rows {
  const rows = readCorpus('vectors', vectors);
  const scales = guarded('vectors', () => (vectors as { scales?: unknown }).scales);
  if (kindOf(scales) === 'Float32Array') rows.scales = scales as Float32Array;
  const { count, width } = rows;
  if (count !== texts.length)
    throw invalid(
      'vectors',
      `[${texts.length}, width], one row per text`,
      `shape ${formatShape([count, width])}`,
      'SHAPE_MISMATCH',
    );
  return rows;
}

/** Copies vectors and their scales. */
export function copiedRows({ data, scales, ...rest }: Rows): Rows {
  return guarded('vectors', () => ({ ...rest, data: data.slice(), ...(scales && { scales: scales.slice() }) }));
}
