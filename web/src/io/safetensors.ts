/**
 * The safetensors format: 8 bytes of header length, a JSON header that describes the tensors, then their bytes.
 * Files are untrusted: everything in them is checked before it is used.
 */
import { allocating, describe, formatShape, invalid, invalidFile } from '../base/error.js';
import { elementCount } from '../base/tensor.js';
import { viewBytes } from './bytes.js';
import { concatenate, type OpenFile, otherContent, parseJson } from './files.js';
import { ByteReader } from './reader.js';

/** Bytes per value of the types that heed reads. */
export const DTYPE_BYTES = { F64: 8, F32: 4, F16: 2, BF16: 2, I8: 1 } as const;
export type Dtype = keyof typeof DTYPE_BYTES;
const DTYPES = `one of ${Object.keys(DTYPE_BYTES).join(', ')}`;

/**
 * Number of bytes of a 4-bit row of even width, see docs/quantization.md. Per 128 columns, one byte has the factors of
 * two groups and 64 bytes have the indices.
 */
export const int4RowBytes = (width: number) => Math.ceil(width / 128) + width / 2;

/** Width of a 4-bit row of `bytes` bytes. */
export const int4Width = (bytes: number) => 2 * (bytes - Math.ceil(bytes / 65));

/** Bits per weight in rows of trellis-coded quantization, see docs/quantization.md. */
export type TrellisBits = 2 | 3 | 4;

/** Number of bytes of a bit plane of such a row, which has one bit per column. */
export const trellisPlaneBytes = (width: number) => Math.ceil(width / 8);

/**
 * The number of columns of a tensor of type U8 with weights in 2 to 4 bits; null for other tensors. The shape is
 * [rows, bytes] for rows of heed 0.2.0, which determines the number. Otherwise it is [rows, bits, bytes of a plane], and
 * the tensor with one scale per column has the number.
 */
export function codedWidth(
  { name, dtype, shape }: Pick<TensorEntry, 'name' | 'dtype' | 'shape'>,
  shapeOf: (name: string) => readonly number[] | undefined,
): number | null {
  if (dtype !== 'U8') return null;
  if (shape.length === 2) return int4Width(shape[1]!);
  return shape.length === 3 ? (shapeOf(`${name}_column_scale`)?.[1] ?? null) : null;
}

/** The bytes per value of all types, and readers of the numbers that do not occur in weights. */
const TYPES: Record<string, { bytes: number; read?: ((view: DataView, at: number) => number) | undefined }> = {
  F32: { bytes: 4 },
  F16: { bytes: 2 },
  BF16: { bytes: 2 },
  F64: { bytes: 8, read: (view, at) => view.getFloat64(at, true) },
  I64: { bytes: 8, read: (view, at) => Number(view.getBigInt64(at, true)) },
  U64: { bytes: 8, read: (view, at) => Number(view.getBigUint64(at, true)) },
  I32: { bytes: 4, read: (view, at) => view.getInt32(at, true) },
  U32: { bytes: 4, read: (view, at) => view.getUint32(at, true) },
  I16: { bytes: 2, read: (view, at) => view.getInt16(at, true) },
  U16: { bytes: 2, read: (view, at) => view.getUint16(at, true) },
  I8: { bytes: 1, read: (view, at) => view.getInt8(at) },
  U8: { bytes: 1, read: (view, at) => view.getUint8(at) },
  BOOL: { bytes: 1, read: (view, at) => view.getUint8(at) },
  F8_E4M3: { bytes: 1 },
  F8_E5M2: { bytes: 1 },
};

export interface TensorEntry {
  name: string;
  dtype: string;
  shape: number[];
  /** Range of the tensor's bytes, relative to the end of the header. */
  begin: number;
  end: number;
}

/** The format's limit on the length of the header. */
const MAX_HEADER_BYTES = 100_000_000;

/**
 * Offset of the end of the header, read from the first 8 bytes of the file. `size`: size of the file, or null if
 * unknown.
 */
export function headerEnd(prefix: Uint8Array, file: string, size: number | null): number {
  if (prefix.length < 8)
    throw invalidFile(file, 'at least 8 bytes, the length of the header', `${prefix.length}`, 'The file is truncated');
  const view = new DataView(prefix.buffer, prefix.byteOffset, 8);
  const length = view.getUint32(0, true) + view.getUint32(4, true) * 2 ** 32;
  const room = Math.min(size === null ? Infinity : size - 8, MAX_HEADER_BYTES);
  if (length < 2 || length > room) {
    // Only now, because the length of a valid file may have the bytes of a letter and of "<".
    const other = otherContent(prefix);
    if (other) throw invalidFile(file, 'a safetensors file', other.what, other.hint);
    const hint = 'The file is truncated or not a safetensors file';
    throw invalidFile(file, `a header of 2 to ${room} bytes`, `${length}`, hint);
  }
  return 8 + length;
}

/** Reads the start of a file: the header's length and the header. */
export async function readHeader(reader: ByteReader): Promise<[prefix: Uint8Array, json: Uint8Array]> {
  const { name, size } = reader.file;
  const prefix = await reader.take(8);
  return [prefix, await reader.take(headerEnd(prefix, name, size) - 8)];
}

/**
 * The tensors in the order of their bytes. Checks that names and shapes are valid, that each range has its tensor's
 * size, and that the ranges cover the file to its end without gaps or overlaps.
 */
export function parseHeader(json: Uint8Array, file: string, size: number | null): TensorEntry[] {
  const { __metadata__: _, ...header } = parseRecord(json, file);
  const entries = Object.entries(header).map(([name, value]) => parseEntry(name, value, file));
  entries.sort((a, b) => a.begin - b.begin || a.end - b.end);
  let at = 0;
  for (const { name, begin, end } of entries) {
    if (begin !== at)
      throw invalidFile(tensorOf(file, name), `bytes from ${at}`, `${begin}`, 'Tensors overlap or leave a gap');
    at = end;
  }
  const data = size === null ? at : size - 8 - json.length;
  if (at !== data) {
    const problem = data < at ? 'truncated' : 'too long';
    throw invalidFile(file, `${at} bytes of tensors, as the header says`, `${data}`, `The file is ${problem}`);
  }
  return entries;
}

/** The header's `__metadata__`, a record of strings. */
export function metadataOf(json: Uint8Array, file: string): Record<string, string> {
  const { __metadata__: metadata = {} } = parseRecord(json, file);
  if (isRecord(metadata) && Object.values(metadata).every((value) => typeof value === 'string'))
    return metadata as Record<string, string>;
  throw invalidFile(file, '__metadata__ with strings by name', JSON.stringify(metadata).slice(0, 80));
}

/** A tensor of a file in memory. */
export type StoredTensor = Pick<TensorEntry, 'dtype' | 'shape'> & { bytes: Uint8Array };

/** Reads all tensors of a file into memory. `note` receives the metadata. */
export async function readTensors(
  file: OpenFile,
  note?: (metadata: Record<string, string>) => void,
): Promise<Map<string, StoredTensor>> {
  const reader = new ByteReader(file);
  try {
    const [, json] = await readHeader(reader);
    note?.(metadataOf(json, file.name));
    const tensors = new Map<string, StoredTensor>();
    for (const entry of parseHeader(json, file.name, file.size)) {
      const { name, dtype, shape, begin, end } = entry;
      tensors.set(name, { dtype, shape, bytes: await reader.take(end - begin, entry) });
    }
    await reader.expectEnd();
    return tensors;
  } finally {
    await reader.close();
  }
}

/** Returns `dtype` if heed reads it, otherwise throws UNSUPPORTED. `tensor`: name for the message. */
export function readableDtype(dtype: string, tensor: string): Dtype {
  if (Object.hasOwn(DTYPE_BYTES, dtype)) return dtype as Dtype;
  throw invalid(tensor, DTYPES, `dtype ${dtype}`, 'UNSUPPORTED');
}

export function tensorOf(file: string, name: string): string {
  return `${file}: tensor '${name}'`;
}

function parseRecord(json: Uint8Array, file: string): Record<string, unknown> {
  const header = parseJson(json, file);
  if (isRecord(header)) return header;
  throw invalidFile(file, 'a header of tensors by name', describe(header));
}

function parseEntry(name: string, value: unknown, file: string): TensorEntry {
  const tensor = tensorOf(file, name);
  if (!isRecord(value)) throw invalidFile(tensor, 'dtype, shape and data_offsets', JSON.stringify(value));
  const { dtype, shape, data_offsets: offsets } = value;
  if (typeof dtype !== 'string' || !Object.hasOwn(TYPES, dtype))
    throw invalidFile(tensor, DTYPES, `dtype ${JSON.stringify(dtype)}`);
  if (!isCounts(shape)) throw invalidFile(tensor, 'a shape of whole numbers', JSON.stringify(shape));
  if (!isCounts(offsets) || offsets.length !== 2)
    throw invalidFile(tensor, 'two whole numbers as data_offsets', JSON.stringify(offsets));
  const [begin, end] = offsets as [number, number];
  const expected = elementCount(shape) * TYPES[dtype]!.bytes;
  if (end - begin !== expected)
    throw invalidFile(tensor, `${expected} bytes for ${dtype} ${formatShape(shape)}`, `${end - begin}`);
  return { name, dtype, shape, begin, end };
}

function isCounts(value: unknown): value is number[] {
  return Array.isArray(value) && value.length <= 16 && value.every((v) => Number.isSafeInteger(v) && v >= 0);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Converts a tensor's values to fp32. Throws OUT_OF_MEMORY if they cannot be allocated. */
export function widened(bytes: Uint8Array, dtype: Dtype, { name, shape }: Pick<TensorEntry, 'name' | 'shape'>) {
  return allocating(name, shape, (4 * bytes.length) / DTYPE_BYTES[dtype], () => widen(bytes, dtype));
}

/** Converts values to fp32, exactly except for F64. `bytes`: little-endian, with any alignment. */
export function widen(bytes: Uint8Array, dtype: Dtype): Float32Array {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const width = DTYPE_BYTES[dtype];
  const out = new Float32Array(bytes.byteLength / width);
  const bits = new Uint32Array(out.buffer);
  for (let i = 0, at = 0; i < out.length; i++, at += width) {
    if (dtype === 'F32') out[i] = view.getFloat32(at, true);
    else if (dtype === 'F16') out[i] = halfToFloat(view.getUint16(at, true));
    else if (dtype === 'F64') out[i] = view.getFloat64(at, true);
    else if (dtype === 'I8') out[i] = view.getInt8(at);
    else bits[i] = view.getUint16(at, true) << 16;
  }
  return out;
}

/**
 * Reads values of any number type. Integers beyond 2^53 are rounded. `tensor`: name for the message.
 * @throws HeedError UNSUPPORTED for other types
 */
export function readNumbers(bytes: Uint8Array, dtype: string, tensor: string): Float32Array | Float64Array {
  if (dtype === 'F32' || dtype === 'F16' || dtype === 'BF16') return widen(bytes, dtype);
  const { bytes: width, read } = TYPES[dtype]!;
  const known = Object.keys(TYPES).filter((name) => !name.startsWith('F8'));
  if (!read) throw invalid(tensor, `one of ${known.join(', ')}`, `dtype ${dtype}`, 'UNSUPPORTED');
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Float64Array.from({ length: bytes.length / width }, (_, i) => read(view, i * width));
}

/** Converts IEEE 754 binary16 to a number, exactly. */
function halfToFloat(half: number): number {
  const sign = half & 0x8000 ? -1 : 1;
  const exponent = (half >> 10) & 31;
  const fraction = half & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** A tensor to write. dtype `U8` is used for bits and for weights in 2 to 4 bits. */
export interface TensorHeader {
  name: string;
  dtype: string;
  shape: number[];
  /** Size of the tensor's values in bytes. */
  byteLength: number;
}

/** The start of a safetensors file with these tensors in this order, up to the first byte of tensor data. */
export function safetensorsHeader(
  tensors: readonly TensorHeader[],
  metadata: Record<string, string> = {},
): Uint8Array<ArrayBuffer> {
  const header: [string, unknown][] = [['__metadata__', metadata]];
  let size = 0;
  for (const { name, dtype, shape, byteLength } of tensors) {
    header.push([name, { dtype, shape, data_offsets: [size, size + byteLength] }]);
    size += byteLength;
  }
  let text = JSON.stringify(Object.fromEntries(header)); // entries rather than assignments, for names such as __proto__
  text += ' '.repeat(-new TextEncoder().encode(text).length & 7); // data starts at a multiple of 8
  const json = new TextEncoder().encode(text);
  const prefix = new Uint8Array(8);
  new DataView(prefix.buffer).setBigUint64(0, BigInt(json.length), true);
  return concatenate(Uint8Array, [prefix, json]) as Uint8Array<ArrayBuffer>;
}

/** Returns a safetensors file with these tensors in this order. `metadata`: strings for any purpose. */
export function writeSafetensors(
  tensors: { name: string; dtype: string; shape: number[]; data: ArrayBufferView }[],
  metadata: Record<string, string> = {},
): Uint8Array<ArrayBuffer> {
  const sizes = tensors.map(({ data, ...tensor }) => ({ ...tensor, byteLength: data.byteLength }));
  const bytes = tensors.map(({ data }) => viewBytes(data));
  return concatenate(Uint8Array, [safetensorsHeader(sizes, metadata), ...bytes]) as Uint8Array<ArrayBuffer>;
}
