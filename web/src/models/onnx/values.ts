/** The values of stored tensors, as numbers. */
import { invalid, invalidFile } from '../../base/error.js';
import { type Dtype, readableDtype, tensorOf, widen } from '../../io/safetensors.js';
import type { TensorInfo } from './messages.js';

/** A tensor with its values as little-endian bytes. */
export interface StoredTensor {
  info: TensorInfo;
  bytes: Uint8Array;
}

/** The stored tensors that a weight consists of. */
export interface Parts {
  tensor: StoredTensor;
  scale: StoredTensor | null;
  zero: StoredTensor | null;
}

export type Integers = Int8Array | Uint8Array | Int16Array | Int32Array;

/** The types of integers that weights are quantized to. */
const INTEGERS = { I8: Int8Array, U8: Uint8Array, I16: Int16Array, I32: Int32Array } as const;

/** Copies bytes whose offset is not a multiple of the width of a value. */
export function aligned(bytes: Uint8Array, width: number): Uint8Array {
  return bytes.byteOffset % width === 0 ? bytes : bytes.slice();
}

/** The integers of a tensor; those of 4 bits are unpacked. */
export function integersOf({ info, bytes }: StoredTensor, file: string): Integers {
  const { type, name, shape } = info;
  if (type === 'U4' || type === 'I4') {
    const count = shape.reduce((product, extent) => product * extent, 1);
    const signed = type === 'I4';
    const out = signed ? new Int8Array(count) : new Uint8Array(count);
    for (let i = 0; i < count; i++) {
      const nibble = (bytes[i >> 1]! >> (4 * (i & 1))) & 15;
      out[i] = signed && nibble > 7 ? nibble - 16 : nibble;
    }
    return out;
  }
  if (!Object.hasOwn(INTEGERS, type))
    throw invalid(tensorOf(file, name), 'integers of 4, 8, 16 or 32 bits', type, 'UNSUPPORTED');
  const Type = INTEGERS[type as keyof typeof INTEGERS];
  const { buffer, byteOffset, byteLength } = aligned(bytes, Type.BYTES_PER_ELEMENT);
  return new Type(buffer as ArrayBuffer, byteOffset, byteLength / Type.BYTES_PER_ELEMENT);
}

/** The floats of a tensor. */
export function floatsOf({ info, bytes }: StoredTensor, file: string): Float32Array {
  return widen(bytes, readableDtype(info.type, tensorOf(file, info.name)) as Dtype);
}

/** Zero points, which may be integers or floats. */
export function zerosOf(tensor: StoredTensor, file: string): ArrayLike<number> {
  return /^B?F/.test(tensor.info.type) ? floatsOf(tensor, file) : integersOf(tensor, file);
}

export function requireLength(tensor: string, what: string, values: ArrayLike<number>, expected: number): void {
  if (values.length !== expected) throw invalidFile(tensor, `${expected} ${what}`, `${values.length}`);
}
