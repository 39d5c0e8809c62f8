/**
 * The safetensors container: 8 bytes of header length, a JSON header that names tensors, then their bytes.
 * A file comes from outside, so nothing in it is believed before it has been checked against the file's size.
 */
import { HeedError } from '../error.js';

/** Storage types that heed reads; the file may hold others in tensors that nobody asks for. */
export const DTYPE_BYTES = { F32: 4, F16: 2, BF16: 2, I8: 1 } as const;
export type Dtype = keyof typeof DTYPE_BYTES;

const OTHER_DTYPE_BYTES: Record<string, number> = {
  F64: 8,
  I64: 8,
  U64: 8,
  I32: 4,
  U32: 4,
  I16: 2,
  U16: 2,
  U8: 1,
  BOOL: 1,
  F8_E4M3: 1,
  F8_E5M2: 1,
};

export interface TensorEntry {
  name: string;
  dtype: string;
  shape: number[];
  /** Where its bytes lie, counted from the end of the header. */
  begin: number;
  end: number;
}

/** The format's own limit on the header. */
export const MAX_HEADER_BYTES = 100_000_000;

export function isDtype(dtype: string): dtype is Dtype {
  return Object.hasOwn(DTYPE_BYTES, dtype);
}

/** The header's length in bytes, from the first 8 bytes of the file. `size`: of the whole file, null where unknown. */
export function headerLength(prefix: Uint8Array, file: string, size: number | null): number {
  if (prefix.length < 8)
    throw invalid(file, `got ${prefix.length} bytes; expected at least 8, the length of the header`);
  const view = new DataView(prefix.buffer, prefix.byteOffset, 8);
  const length = view.getUint32(0, true) + view.getUint32(4, true) * 2 ** 32;
  const room = size === null ? MAX_HEADER_BYTES : Math.min(size - 8, MAX_HEADER_BYTES);
  if (length < 2 || length > room)
    throw invalid(
      file,
      `got a header of ${length} bytes; expected 2 to ${room}. The file is truncated or no safetensors file`,
    );
  return length;
}

/**
 * Tensors in the order of their bytes. Checked: names and shapes are what they should be, each range has exactly its tensor's size, the ranges
 * follow each other without gap or overlap and end where the file ends.
 */
export function parseHeader(json: Uint8Array, file: string, size: number | null): TensorEntry[] {
  const header = parseObject(json, file);
  const entries: TensorEntry[] = [];
  for (const [name, value] of Object.entries(header)) {
    if (name === '__metadata__') continue;
    entries.push(parseEntry(name, value, file));
  }
  entries.sort((a, b) => a.begin - b.begin || a.end - b.end);
  let at = 0;
  for (const { name, begin, end } of entries) {
    if (begin !== at)
      throw invalid(file, `tensor '${name}': got bytes from ${begin}; expected ${at}: tensors overlap or leave a gap`);
    at = end;
  }
  const data = size === null ? null : size - 8 - json.length;
  if (data !== null && at !== data) {
    throw invalid(
      file,
      `got ${data} bytes of tensors; expected ${at}, as the header says. The file is ${data < at ? 'truncated' : 'too long'}`,
    );
  }
  return entries;
}

/** The header's `__metadata__`: strings by name. */
export function parseMetadata(json: Uint8Array, file: string): Record<string, string> {
  const { __metadata__: metadata = {} } = parseObject(json, file);
  if (!isRecord(metadata) || Object.values(metadata).some((value) => typeof value !== 'string')) {
    throw invalid(file, 'got metadata that is no record of strings');
  }
  return metadata as Record<string, string>;
}

function parseObject(json: Uint8Array, file: string): Record<string, unknown> {
  let header: unknown;
  try {
    header = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(json));
  } catch (cause) {
    throw invalid(file, 'got a header that is no JSON', cause);
  }
  if (!isRecord(header)) throw invalid(file, 'got a header that is no JSON object');
  return header;
}

function parseEntry(name: string, value: unknown, file: string): TensorEntry {
  if (!isRecord(value))
    throw invalid(file, `tensor '${name}': got ${JSON.stringify(value)}; expected dtype, shape and data_offsets`);
  const { dtype, shape, data_offsets: offsets } = value;
  const bytes =
    typeof dtype === 'string' ? (isDtype(dtype) ? DTYPE_BYTES[dtype] : OTHER_DTYPE_BYTES[dtype]) : undefined;
  if (typeof dtype !== 'string' || bytes === undefined)
    throw invalid(
      file,
      `tensor '${name}': got dtype ${JSON.stringify(dtype)}; expected ${Object.keys(DTYPE_BYTES).join(', ')}`,
    );
  if (!isCounts(shape))
    throw invalid(file, `tensor '${name}': got shape ${JSON.stringify(shape)}; expected whole numbers`);
  if (!isCounts(offsets) || offsets.length !== 2)
    throw invalid(file, `tensor '${name}': got data_offsets ${JSON.stringify(offsets)}; expected two whole numbers`);
  const [begin, end] = offsets as [number, number];
  const expected = shape.reduce((product, extent) => product * extent, bytes);
  if (end - begin !== expected)
    throw invalid(
      file,
      `tensor '${name}': got ${end - begin} bytes; expected ${expected} for ${dtype} [${shape.join(', ')}]`,
    );
  return { name, dtype, shape, begin, end };
}

function isCounts(value: unknown): value is number[] {
  return Array.isArray(value) && value.length <= 16 && value.every((v) => Number.isSafeInteger(v) && v >= 0);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function invalid(file: string, message: string, cause?: unknown): HeedError {
  return new HeedError('INVALID_FILE', `${file}: ${message}`, { cause });
}

/** Values of a tensor as fp32; F16 and BF16 widen exactly. `bytes` little-endian, any alignment. */
export function widen(bytes: Uint8Array, dtype: Dtype): Float32Array {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const out = new Float32Array(bytes.byteLength / DTYPE_BYTES[dtype]);
  if (dtype === 'F32') for (let i = 0; i < out.length; i++) out[i] = view.getFloat32(4 * i, true);
  if (dtype === 'F16') for (let i = 0; i < out.length; i++) out[i] = halfToFloat(view.getUint16(2 * i, true));
  if (dtype === 'I8') for (let i = 0; i < out.length; i++) out[i] = view.getInt8(i);
  if (dtype === 'BF16') {
    const bits = new Uint32Array(out.buffer);
    for (let i = 0; i < bits.length; i++) bits[i] = view.getUint16(2 * i, true) << 16;
  }
  return out;
}

/** IEEE 754 binary16 -> number, exact. */
export function halfToFloat(half: number): number {
  const sign = half & 0x8000 ? -1 : 1;
  const exponent = (half >> 10) & 31;
  const fraction = half & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** A safetensors file of these tensors, in their order; `metadata` are the file's free notes. */
export function writeSafetensors(
  tensors: { name: string; dtype: Dtype; shape: number[]; data: ArrayBufferView }[],
  metadata: Record<string, string> = {},
): Uint8Array<ArrayBuffer> {
  const header: Record<string, unknown> = { __metadata__: metadata };
  let size = 0;
  for (const { name, dtype, shape, data } of tensors) {
    header[name] = { dtype, shape, data_offsets: [size, size + data.byteLength] };
    size += data.byteLength;
  }
  let text = JSON.stringify(header);
  text += ' '.repeat(-new TextEncoder().encode(text).length & 7); // the data starts at a multiple of 8
  const json = new TextEncoder().encode(text);
  const file = new Uint8Array(8 + json.length + size);
  new DataView(file.buffer).setBigUint64(0, BigInt(json.length), true);
  file.set(json, 8);
  let at = 8 + json.length;
  for (const { data } of tensors) {
    file.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), at);
    at += data.byteLength;
  }
  return file;
}
