/** The values of stored tensors, as numbers. */
import { invalid } from '../../base/error.js';
import { readableDtype, widen } from '../../io/safetensors.js';
import { bitsOf, type TensorInfo } from './messages.js';

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
  factor: StoredTensor | null;
}

export type Values = Int8Array | Uint8Array | Int16Array | Uint16Array | Int32Array | Uint32Array | Float32Array;

const TYPES = { I8: Int8Array, U8: Uint8Array, I16: Int16Array, U16: Uint16Array, I32: Int32Array, U32: Uint32Array };

/** Bytes as integers. */
export function integersIn(bytes: Uint8Array, type: keyof typeof TYPES): Values {
  const Type = TYPES[type];
  const width = Type.BYTES_PER_ELEMENT;
  const { buffer, byteOffset, byteLength } = bytes.byteOffset % width === 0 ? bytes : bytes.slice();
  return new Type(buffer as ArrayBuffer, byteOffset, byteLength / width);
}

/** Unpacks integers of fewer than 8 bits, the lowest bits of a byte first, or the highest. */
function unpacked(bytes: Uint8Array, bits: number, signed: boolean, highFirst = false): Int8Array {
  const perByte = 8 / bits;
  const half = signed ? 2 ** (bits - 1) : Infinity;
  const out = new Int8Array(bytes.length * perByte);
  for (let i = 0; i < out.length; i++) {
    const place = highFirst ? perByte - 1 - (i % perByte) : i % perByte;
    const value = (bytes[Math.floor(i / perByte)]! >> (bits * place)) & (2 ** bits - 1);
    out[i] = value < half ? value : value - 2 * half;
  }
  return out;
}

/**
 * A tensor's values: floats, or integers. `bits`: the number of bits of integers that are packed in bytes. `about`: name
 * for messages.
 */
export function valuesOf({ info: { type }, bytes }: StoredTensor, about: string, bits = 8, highFirst = false): Values {
  if (/F/.test(type)) return widen(bytes, readableDtype(type, about));
  const width = type === 'U8' ? bits : bitsOf(type);
  if (width < 8) return unpacked(bytes, width, type === 'I4', highFirst);
  if (Object.hasOwn(TYPES, type)) return integersIn(bytes, type as keyof typeof TYPES);
  throw invalid(about, 'floats or integers', type, 'UNSUPPORTED');
}
