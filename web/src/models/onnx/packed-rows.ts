/** Rows of onnxruntime's formats with fewer than 8 bits per weight. */
import { invalid, invalidFile } from '../../base/error.js';
import { tensorOf } from '../../io/safetensors.js';
import type { Form } from './graph.js';
import { floatsOf, type Parts, requireLength, type StoredTensor, zerosOf } from './values.js';

/** A matrix whose rows are computed when they are read. */
export interface FloatRows {
  rows: number;
  columns: number;
  compute(first: number, count: number): Float32Array;
}

type Blocks = Extract<Form, { kind: 'blocks' }>;
type Bnb4 = Extract<Form, { kind: 'bnb4' }>;

/** Requires bytes, as packed values are. */
function requireBytes({ info }: StoredTensor, about: string, types: readonly string[]): void {
  if (!types.includes(info.type)) throw invalid(about, types.join(' or '), info.type, 'UNSUPPORTED');
}

/** The value at `index` of values of `bits` bits, the lowest bits of a byte first. */
function packedAt(bytes: Uint8Array, index: number, bits: number): number {
  const bit = index * bits;
  return (bytes[bit >> 3]! >> (bit & 7)) & ((1 << bits) - 1);
}

/** W[n, k] = (q[n, k] - z[n, b]) s[n, b] with b = floor(k / block): MatMulNBits and GatherBlockQuantized. */
export function nBitRows(form: Blocks, { tensor, scale: scales, zero: zeros }: Parts, file: string): FloatRows {
  const { bits, block, isTable } = form;
  const about = tensorOf(file, tensor.info.name);
  const { type, shape } = tensor.info;
  requireBytes(tensor, about, isTable ? ['U8', 'U4', 'I4'] : ['U8']);
  if (![2, 4, 8].includes(bits)) throw invalid(about, '2, 4 or 8 bits', `${bits}`, 'UNSUPPORTED');
  if (!(block >= 1)) throw invalidFile(about, 'blocks of at least one column', `${block}`);
  const is4 = type !== 'U8';
  const width = is4 ? 4 : bits;
  const perByte = 8 / width;
  const rows = isTable ? (shape[0] ?? 0) : form.rows;
  const columns = isTable ? (shape[1] ?? 0) * (is4 ? 1 : perByte) : form.columns;
  if (isTable && shape.length !== 2) throw invalidFile(about, 'a matrix', `shape [${shape.join(', ')}]`);
  const blocks = Math.ceil(columns / block);
  const stride = isTable ? columns : blocks * block; // values per row, with the padding of the last block
  if (!(rows >= 0 && columns >= 0) || (rows * stride * width) / 8 !== tensor.bytes.length)
    throw invalidFile(
      about,
      `${(rows * stride * width) / 8} bytes for [${rows}, ${columns}]`,
      `${tensor.bytes.length}`,
    );
  const scale = floatsOf(scales!, file);
  requireLength(about, 'scales', scale, rows * blocks);
  const isSigned = type === 'I4';
  const zeroOf = zeroPoints(zeros, rows, blocks, width, isTable && is4 ? 0 : 2 ** (width - 1), about, file);
  const compute = (first: number, count: number) => {
    const out = new Float32Array(count * columns);
    for (let row = first, at = 0; row < first + count; row++)
      for (let b = 0; b < blocks; b++) {
        const [s, z] = [scale[row * blocks + b]!, zeroOf(row, b)];
        const end = Math.min(columns, (b + 1) * block);
        for (let column = b * block; column < end; column++, at++) {
          const q = packedAt(tensor.bytes, row * stride + column, width);
          out[at] = ((isSigned && q > 7 ? q - 16 : q) - z) * s;
        }
      }
    return out;
  };
  return { rows, columns, compute };
}

/** The zero point of a block: floats, or integers of `bits` bits that are packed like the weights. */
function zeroPoints(
  zeros: StoredTensor | null,
  rows: number,
  blocks: number,
  bits: number,
  fallback: number,
  about: string,
  file: string,
): (row: number, block: number) => number {
  if (!zeros) return () => fallback;
  const { type } = zeros.info;
  if (/^B?F/.test(type) || ((type === 'U4' || type === 'I4') && zeros.info.shape.length === 2)) {
    const values = zerosOf(zeros, file);
    requireLength(about, 'zero points', values, rows * blocks);
    return (row, block) => values[row * blocks + block]!;
  }
  requireBytes(zeros, about, ['U8']);
  const perRow = Math.ceil((blocks * bits) / 8);
  requireLength(about, 'bytes of zero points', zeros.bytes, rows * perRow);
  return (row, block) => packedAt(zeros.bytes.subarray(row * perRow, (row + 1) * perRow), block, bits);
}

/** The values of bitsandbytes' 4-bit types (Dettmers et al. 2023, arXiv:2305.14314). */
const NF4 = [
  -1, -0.6961928, -0.52507305, -0.39491749, -0.28444138, -0.18477343, -0.09105004, 0, 0.0795803, 0.1609302, 0.2461123,
  0.33791524, 0.44070983, 0.562617, 0.72295684, 1,
].map(Math.fround);
const FP4_POSITIVE = [0, 0.00520833, 0.66666667, 1, 0.33333333, 0.5, 0.16666667, 0.25];
const FP4 = [...FP4_POSITIVE, ...FP4_POSITIVE.map((value) => -value)].map(Math.fround);

/** W = table[q] absmax, over the flat array of W: MatMulBnb4. Blocks may cross rows. */
export function bnb4Rows({ type, block, rows, columns }: Bnb4, { tensor, scale }: Parts, file: string): FloatRows {
  const about = tensorOf(file, tensor.info.name);
  requireBytes(tensor, about, ['U8']);
  if (type !== 0 && type !== 1) throw invalid(about, 'quant_type 0 or 1', `${type}`, 'UNSUPPORTED');
  if (!(block >= 1)) throw invalidFile(about, 'blocks of at least one weight', `${block}`);
  const total = rows * columns;
  if (!(total >= 0) || Math.ceil(total / 2) !== tensor.bytes.length)
    throw invalidFile(about, `${Math.ceil(total / 2)} bytes for [${rows}, ${columns}]`, `${tensor.bytes.length}`);
  const largest = floatsOf(scale!, file);
  requireLength(about, 'scales', largest, Math.ceil(total / block));
  const table = type === 1 ? NF4 : FP4;
  const compute = (first: number, count: number) => {
    const out = new Float32Array(count * columns);
    for (let i = 0, from = first * columns; i < out.length; i++, from++) {
      const byte = tensor.bytes[from >> 1]!;
      out[i] = table[from & 1 ? byte & 15 : byte >> 4]! * largest[Math.floor(from / block)]!;
    }
    return out;
  };
  return { rows, columns, compute };
}
