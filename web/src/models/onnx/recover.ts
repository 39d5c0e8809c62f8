/**
 * Recovers tensors of the state dict from those that are stored: transposes them, takes their parts, and converts
 * quantized ones to int8 with a scale per row where that is exact, otherwise to fp32. Rows are computed when they are
 * read.
 */
import { invalid, invalidFile } from '../../base/error.js';
import { concatenate } from '../../io/files.js';
import { DTYPE_BYTES, type Dtype, readableDtype, tensorOf } from '../../io/safetensors.js';
import type { Stored } from './graph.js';
import { bnb4Rows, nBitRows } from './packed-rows.js';
import {
  aligned,
  floatsOf,
  type Integers,
  integersOf,
  type Parts,
  requireLength,
  type StoredTensor,
  zerosOf,
} from './values.js';

/** A tensor of the state dict. */
export interface Recovered {
  dtype: Dtype;
  shape: number[];
  /** The scale of each row; null unless the type is I8. */
  scale: Float32Array | null;
  /** Computes `count` rows from row `first` on, as little-endian bytes. */
  rows(first: number, count: number): Uint8Array;
}

/** Joins matrices along their rows. They must have the same width and type. */
export function joined(parts: readonly Recovered[], about: string): Recovered {
  const [first] = parts as [Recovered, ...Recovered[]];
  if (parts.length === 1) return first;
  const isLike = ({ dtype, shape }: Recovered) =>
    dtype === first.dtype &&
    shape.length === first.shape.length &&
    String(shape.slice(1)) === String(first.shape.slice(1));
  if (!parts.every(isLike))
    throw invalidFile(about, 'parts of the same width and type', parts.map(({ shape }) => `[${shape}]`).join(' and '));
  const rows = (from: number, count: number) => {
    const blocks: Uint8Array[] = [];
    let begin = 0;
    for (const { shape, rows } of parts) {
      const end = begin + shape[0]!;
      const [low, high] = [Math.max(from, begin), Math.min(from + count, end)];
      if (low < high) blocks.push(rows(low - begin, high - low));
      begin = end;
    }
    return concatenate(Uint8Array, blocks);
  };
  const scales = parts.flatMap(({ scale }) => (scale ? [scale] : []));
  const height = parts.reduce((sum, { shape }) => sum + shape[0]!, 0);
  const scale = scales.length > 0 ? concatenate(Float32Array, scales) : null;
  return { dtype: first.dtype, shape: [height, ...first.shape.slice(1)], scale, rows };
}

/**
 * Recovers a tensor. `keepIntegers`: whether the result may be int8.
 * @throws HeedError INVALID_FILE for contradictory sizes, UNSUPPORTED for types that heed does not read
 */
export function recover(stored: Stored, parts: Parts, keepIntegers: boolean, file: string): Recovered {
  const { form } = stored;
  const about = tensorOf(file, stored.tensor);
  if (form.kind === 'plain') return plainRows(stored, parts.tensor, about);
  if (form.kind === 'linear') return linearRows(stored, parts, form, keepIntegers, file);
  if (stored.transposed || stored.part) throw invalid(about, 'an array of rows', 'a transposed one', 'UNSUPPORTED');
  if (!parts.scale) throw invalidFile(about, 'scales', 'none');
  const floats = form.kind === 'blocks' ? nBitRows(form, parts, file) : bnb4Rows(form, parts, file);
  return {
    dtype: 'F32',
    shape: [floats.rows, floats.columns],
    scale: null,
    rows: (first, count) => bytesOf(floats.compute(first, count)),
  };
}

const bytesOf = ({ buffer, byteOffset, byteLength }: ArrayBufferView) => new Uint8Array(buffer, byteOffset, byteLength);

/** How a weight's rows lie in a stored array. */
interface Layout {
  /** The weight's shape. */
  shape: number[];
  rows: number;
  /** The number of values per row. */
  width: number;
  /** The number of values between the starts of two rows, and between two values of a row. */
  rowStride: number;
  columnStride: number;
  /** The first row of a part. */
  begin: number;
  /** The shape of the stored array as a matrix. */
  stored: [rows: number, columns: number];
}

function layoutOf({ transposed, part }: Stored, shape: readonly number[], about: string): Layout {
  const isMatrix = shape.length === 2;
  const isFlipped = transposed && isMatrix;
  const count = shape.reduce((product, extent) => product * extent, 1);
  const [height, width] = isMatrix ? (shape as [number, number]) : [shape[0] ?? 1, count / (shape[0] || 1) || 0];
  if (transposed && shape.length > 2) throw invalid(about, 'a matrix', `shape [${shape.join(', ')}]`, 'UNSUPPORTED');
  const all = isFlipped ? width : height;
  const columns = isFlipped ? height : width;
  const rows = part ? all / part.of : all;
  if (!Number.isInteger(rows)) throw invalidFile(about, `a multiple of ${part!.of} rows`, `${all}`);
  return {
    shape: isMatrix ? [rows, columns] : [rows, ...shape.slice(1)].slice(0, shape.length),
    rows,
    width: columns,
    rowStride: isFlipped ? 1 : width,
    columnStride: isFlipped ? width : 1,
    begin: part ? part.index * rows : 0,
    stored: [height, width],
  };
}

function plainRows(stored: Stored, { info, bytes }: StoredTensor, about: string): Recovered {
  const dtype = readableDtype(info.type, about);
  if (dtype === 'I8') throw invalidFile(about, 'floats, or integers with a scale', 'I8 without one');
  const layout = layoutOf(stored, info.shape, about);
  if (stored.offset !== 0) {
    const { begin, width } = layout;
    const values = floatsOf({ info, bytes }, about).map((value) => value - stored.offset);
    const rows = (first: number, count: number) =>
      bytesOf(values.subarray((begin + first) * width, (begin + first + count) * width));
    return { dtype: 'F32', shape: layout.shape, scale: null, rows };
  }
  const width = DTYPE_BYTES[dtype];
  const Type = width === 4 ? Uint32Array : Uint16Array;
  const { buffer, byteOffset, byteLength } = aligned(bytes, width);
  const values = new Type(buffer as ArrayBuffer, byteOffset, byteLength / width);
  return {
    dtype,
    shape: layout.shape,
    scale: null,
    rows: (first, count) => bytesOf(copied(values, new Type(count * layout.width), first, count, layout)),
  };
}

type Numbers = Uint32Array | Uint16Array | Integers;

/** Copies rows to `out`. Reads in the order of the stored array. */
function copied<Out extends Numbers>(values: Numbers, out: Out, first: number, count: number, layout: Layout): Out {
  const { width, rowStride, columnStride, begin } = layout;
  const start = (begin + first) * rowStride;
  if (columnStride === 1) {
    out.set(values.subarray(start, start + count * width));
    return out;
  }
  for (let column = 0; column < width; column++) {
    const from = start + column * columnStride;
    for (let row = 0; row < count; row++) out[row * width + column] = values[from + row]!;
  }
  return out;
}

function linearRows(
  stored: Stored,
  { tensor, scale: scaleTensor, zero: zeroTensor }: Parts,
  { axis: given, block }: { axis: number; block: number },
  keepIntegers: boolean,
  file: string,
): Recovered {
  const { name, shape } = tensor.info;
  const about = tensorOf(file, name);
  if (!scaleTensor) throw invalidFile(about, 'a scale', 'none');
  const layout = layoutOf(stored, shape, about);
  const { rows, width, begin } = layout;
  const q = integersOf(tensor, file);
  const scale = floatsOf(scaleTensor, file);
  const zero = zeroTensor ? zerosOf(zeroTensor, file) : [0];
  const axis = given < 0 ? given + Math.max(1, shape.length) : given;
  const isMatrix = shape.length === 2;
  const isScalar = scale.length === 1 && zero.length === 1;
  // The number of scales along the stored rows and columns.
  const [height, columns] = layout.stored;
  const along = Math.ceil((axis === 0 ? height : columns) / (block || 1));
  const other = block ? (axis === 0 ? columns : height) : 1;
  if (!isScalar) {
    if (axis > 1 || axis < 0 || (axis === 1 && !isMatrix) || block < 0)
      throw invalid(about, 'scales of rows or columns', `axis ${given}`, 'UNSUPPORTED');
    requireLength(about, 'scales', scale, along * other);
    if (zero.length !== 1) requireLength(about, 'zero points', zero, along * other);
  }
  const isPerRow = isScalar || (!block && axis === (isMatrix && stored.transposed ? 1 : 0));
  const scaleOf = (row: number) => scale[scale.length === 1 ? 0 : begin + row]!;
  const zeroOf = (row: number) => zero[zero.length === 1 ? 0 : begin + row]!;
  if (keepIntegers && isMatrix && isPerRow && q.BYTES_PER_ELEMENT === 1 && fits(q, zero, layout)) {
    const integers = (first: number, count: number) => {
      const out = copied(
        q,
        q instanceof Int8Array ? new Int8Array(count * width) : new Int16Array(count * width),
        first,
        count,
        layout,
      );
      const int8 = out instanceof Int8Array ? out : new Int8Array(out.length);
      for (let row = 0, at = 0; row < count; row++) {
        const z = zeroOf(first + row);
        if (z === 0 && int8 === out) at += width;
        else for (const end = at + width; at < end; at++) int8[at] = out[at]! - z;
      }
      return bytesOf(int8);
    };
    return {
      dtype: 'I8',
      shape: layout.shape,
      scale: Float32Array.from({ length: rows }, (_, row) => scaleOf(row)),
      rows: integers,
    };
  }
  const { rowStride, columnStride } = layout;
  /** The index of the scale of a stored entry. */
  const indexOf = (row: number, column: number) => {
    const [i, j] = columnStride === 1 ? [row, column] : [column, row]; // in the stored array
    if (axis === 0) return block ? Math.floor(i / block) * columns + j : i;
    return block ? i * along + Math.floor(j / block) : j;
  };
  const floats = (first: number, count: number) => {
    const out = new Float32Array(count * width);
    for (let row = 0, at = 0; row < count; row++) {
      const r = begin + first + row;
      const [s, z] = isPerRow ? [scaleOf(first + row), zeroOf(first + row)] : [0, 0];
      for (let column = 0; column < width; column++, at++) {
        const value = q[r * rowStride + column * columnStride]!;
        if (isPerRow) out[at] = (value - z) * s;
        else {
          const index = indexOf(r, column);
          out[at] = (value - (zero.length === 1 ? zero[0]! : zero[index]!)) * scale[scale.length === 1 ? 0 : index]!;
        }
      }
    }
    return bytesOf(out);
  };
  return { dtype: 'F32', shape: layout.shape, scale: null, rows: floats };
}

/** Whether all q - z are between -127 and 127, so that they can be kept as int8. */
function fits(q: Integers, zero: ArrayLike<number>, { stored: [, columns], columnStride }: Layout): boolean {
  if (!Array.from(zero).every(Number.isInteger)) return false;
  if (zero.length !== 1)
    return q.every((value, i) => {
      const z = zero[columnStride === 1 ? Math.floor(i / columns) : i % columns]!;
      return value - z >= -127 && value - z <= 127;
    });
  const z = zero[0]!;
  for (let i = 0; i < q.length; i++) if (q[i]! - z < -127 || q[i]! - z > 127) return false;
  return true;
}
