/**
 * Recovers tensors of the state dict from those that are stored: transposes them, takes their parts, and converts
 * quantized ones to int8 with a scale per row where that is exact, otherwise to fp32. Rows are computed when they are
 * read.
 */
import { invalid, invalidFile } from '../../base/error.js';
import { elementCount } from '../../base/tensor.js';
import { viewBytes } from '../../io/bytes.js';
import { concatenate } from '../../io/files.js';
import { ByteReader } from '../../io/reader.js';
import { DTYPE_BYTES, type Dtype, readableDtype, type TensorEntry, tensorOf } from '../../io/safetensors.js';
import type { Form, Stored } from './graph.js';
import { bitsOf } from './messages.js';
import { integersIn, type Parts, type Values, valuesOf } from './values.js';

/** A tensor of the state dict. */
export interface Recovered {
  dtype: Dtype;
  shape: number[];
  /** The scale of each row; null unless the type is I8. */
  scale: Float32Array | null;
  /**
   * Computes `count` rows from row `first` on, as little-endian bytes. `reuse`: the result of the last call is no longer
   * used, so its memory can be.
   */
  rows(first: number, count: number, reuse: boolean): Uint8Array;
}

/** Returns a function that makes arrays; with `reuse`, from the memory of the last one. */
function arraysOf<A extends Values>(Type: new (length: number) => A): (length: number, reuse: boolean) => A {
  let last: A | undefined;
  return (length, reuse) => {
    const fits = reuse && last !== undefined && last.length >= length;
    last = fits ? (last!.subarray(0, length) as A) : new Type(length);
    return last;
  };
}

/** Joins matrices of the same width and type along their rows. */
export function joinedRows(parts: readonly Recovered[]): Recovered {
  const [first] = parts as [Recovered, ...Recovered[]];
  if (parts.length === 1) return first;
  const rows = (from: number, count: number) => {
    let begin = 0;
    const blocks = parts.map(({ shape, rows }) => {
      const [low, high] = [Math.max(from, begin), Math.min(from + count, begin + shape[0]!)];
      const block = low < high ? rows(low - begin, high - low, true) : new Uint8Array();
      begin += shape[0]!;
      return block;
    });
    return concatenate(Uint8Array, blocks);
  };
  const height = parts.reduce((sum, { shape }) => sum + shape[0]!, 0);
  return { ...first, shape: [height, ...first.shape.slice(1)], rows };
}

/**
 * Receives the tensors of the state dict. Reads exactly the bytes of `entry`; the scales of an int8 tensor come first.
 * `wasQuantized`: whether the tensor is stored in another form than floats.
 */
export type Receive = (entry: TensorEntry, reader: ByteReader, wasQuantized?: boolean) => Promise<void>;

/** The number of values that are recovered at a time. */
const BLOCK = 1 << 16;

/** Passes a tensor on, whose rows are computed in blocks, with pauses between them. `file`: name for messages. */
export async function passOn(
  name: string,
  { scale, ...values }: Recovered,
  file: string,
  { receive, pause }: { receive: Receive; pause(): Promise<void> },
): Promise<void> {
  const pass = async (name: string, { dtype, shape, rows }: Omit<Recovered, 'scale'>) => {
    const count = shape[0] ?? 1;
    const length = elementCount(shape);
    const step = Math.max(1, Math.floor((BLOCK * count) / (length || 1)));
    async function* chunks(): AsyncGenerator<Uint8Array, void, boolean | undefined> {
      for (let row = 0, reuse = false; row < count; row += step) {
        await pause();
        reuse = (yield rows(row, Math.min(step, count - row), reuse)) === true;
      }
    }
    const size = length * DTYPE_BYTES[dtype];
    await receive({ name, dtype, shape, begin: 0, end: size }, new ByteReader({ name: file, size, chunks }));
  };
  if (scale) {
    const rows = (first: number, count: number) => new Uint8Array(scale.buffer, 4 * first, 4 * count);
    await pass(`${name}_scale`, { dtype: 'F32', shape: [scale.length, 1], rows });
  }
  await pass(name, values);
}

/** The values of bitsandbytes' 4-bit types (Dettmers et al. 2023, arXiv:2305.14314): FP4 and NF4. */
const FP4 = [0, 0.00520833, 0.66666667, 1, 0.33333333, 0.5, 0.16666667, 0.25];
const TABLES = [
  [...FP4, ...FP4.map((value) => -value)],
  [
    -1, -0.6961928, -0.52507305, -0.39491749, -0.28444138, -0.18477343, -0.09105004, 0, 0.0795803, 0.1609302, 0.2461123,
    0.33791524, 0.44070983, 0.562617, 0.72295684, 1,
  ],
];

/** Scales or zero points, and the index of the one for an entry of the stored array. */
interface Factors {
  values: ArrayLike<number>;
  at(row: number, column: number): number;
}

/**
 * Recovers a tensor. `keepIntegers`: whether the result may be int8.
 * @throws HeedError INVALID_FILE for contradictory sizes, UNSUPPORTED for types that heed does not read
 */
export function recover(stored: Stored, parts: Parts, keepIntegers: boolean, file: string): Recovered {
  const { form, part, offset } = stored;
  const { info, bytes } = parts.tensor;
  const { type, shape } = info;
  const about = tensorOf(file, info.name);
  const require = (what: string, expected: number, got: number) => {
    if (expected !== got) throw invalidFile(about, `${expected} ${what}`, `${got}`);
  };
  // The stored array as a matrix.
  const isPacked = form.kind === 'blocks' || form.kind === 'bnb4';
  const { block = 0 } = form as { block?: number | undefined };
  const isTable = form.kind === 'blocks' && form.isTable;
  const bits = form.kind === 'blocks' ? form.bits : form.kind === 'bnb4' ? 4 : bitsOf(type);
  requireForm(form, shape, type, about);
  const isMatrix = isPacked || shape.length === 2;
  let [height, width] = [shape[0] ?? 1, elementCount(shape.slice(1))];
  if (isTable && type === 'U8') width *= 8 / bits;
  else if (isPacked && !isTable) [height, width] = [form.rows, form.columns];
  const blocks = Math.ceil(width / (block || 1));
  const stride = form.kind === 'blocks' && !isTable ? blocks * block : width; // with the padding of the last block
  if (isPacked) require(`bytes for [${height}, ${width}]`, Math.ceil((height * stride * bits) / 8), bytes.length);

  // The weight's rows in the stored array.
  const flipped = stored.transposed && isMatrix;
  if (flipped && isPacked) throw invalidFile(about, 'rows', 'columns');
  const [all, columns] = flipped ? [width, height] : [height, width];
  const rows = part ? all / part.of : all;
  if (!Number.isInteger(rows)) throw invalidFile(about, `a multiple of ${part!.of} rows`, `${all}`);
  const begin = part ? part.index * rows : 0;
  const whole = isMatrix ? [rows, columns] : shape.length > 0 ? [rows, ...shape.slice(1)] : [];
  /** Copies rows of the stored array to `out`, in the order in which they are stored. */
  const copied = <Out extends Values>(values: Values, out: Out, first: number): Out => {
    const from = begin + first;
    if (!flipped) out.set(values.subarray(from * stride, from * stride + out.length));
    else
      for (let column = 0, count = out.length / columns; column < columns; column++)
        for (let row = 0; row < count; row++) out[row * columns + column] = values[column * stride + from + row]!;
    return out;
  };

  if (form.kind === 'plain' && type === 'I8') throw invalidFile(about, 'a scale', 'none');
  if (form.kind === 'plain' && offset === 0 && type !== 'F64') {
    const dtype = readableDtype(type, about);
    const values = integersIn(bytes, DTYPE_BYTES[dtype] === 4 ? 'U32' : 'U16');
    const Type = values.constructor as Uint32ArrayConstructor;
    const array = arraysOf(Type);
    const copy = (first: number, count: number, reuse: boolean) =>
      viewBytes(copied(values, array(count * columns, reuse), first));
    return { dtype, shape: whole, scale: null, rows: copy };
  }

  let values = valuesOf(parts.tensor, about, bits, form.kind === 'bnb4');
  if (form.kind === 'bnb4') values = Float32Array.from(values, (index) => TABLES[form.type]?.[index] ?? NaN);
  const factors = parts.factor ? valuesOf(parts.factor, about) : [1];
  require('factors of the scales', 1, factors.length);
  const given = parts.scale ? valuesOf(parts.scale, about) : form.kind === 'plain' ? [1] : [];
  const scale = parts.factor ? Float32Array.from(given, (value) => value * factors[0]!) : given;
  const place = placeOf(form, shape.length, [height, width]);
  const isScalar = scale.length === 1 && !isPacked;
  if (!isScalar) require('scales', place.count, scale.length);
  const scales: Factors = { values: scale, at: isScalar ? () => 0 : place.at };
  const fallback = form.kind === 'blocks' && !(isTable && type !== 'U8') ? 2 ** (bits - 1) : offset;
  let zeros: Factors = { values: [fallback], at: () => 0 };
  if (parts.zero) {
    const zero = valuesOf(parts.zero, about, bits);
    const isPadded = form.kind === 'blocks' && parts.zero.info.type === 'U8'; // each row begins with a byte
    const perRow = isPadded ? (Math.ceil((blocks * bits) / 8) * 8) / bits : blocks;
    if (zero.length === 1 && !isPacked) zeros = { values: zero, at: () => 0 };
    else {
      require('zero points', form.kind === 'blocks' ? height * perRow : place.count, zero.length);
      const at = (row: number, column: number) => row * perRow + Math.floor(column / block);
      zeros = { values: zero, at: isPadded ? at : place.at };
    }
  }

  const isPerRow = form.kind === 'linear' && (isScalar || place.axis === (flipped ? 1 : 0));
  const isSmall = values.BYTES_PER_ELEMENT === 1;
  const zero = Array.from(zeros.values).every((each) => each === zeros.values[0]) ? zeros.values[0]! : null;
  if (keepIntegers && isMatrix && isPerRow && isSmall && zero !== null && fits(values, zero)) {
    const scaleOf = (row: number) => scale[flipped ? scales.at(0, begin + row) : scales.at(begin + row, 0)]!;
    const array = arraysOf(Int8Array);
    const integers = (first: number, count: number, reuse: boolean) => {
      const out = copied(values, array(count * columns, reuse), first); // modulo 256, as are the differences
      if (zero !== 0) for (let i = 0; i < out.length; i++) out[i] = out[i]! - zero;
      return viewBytes(out);
    };
    const ofRows = Float32Array.from({ length: rows }, (_, row) => scaleOf(row));
    return { dtype: 'I8', shape: whole, scale: ofRows, rows: integers };
  }
  const array = arraysOf(Float32Array);
  const floats = (first: number, count: number, reuse: boolean) => {
    const out = array(count * columns, reuse);
    if (isScalar && zero !== null) {
      const factor = scale[0]!;
      copied(values, out, first);
      for (let i = 0; i < out.length; i++) out[i] = (out[i]! - zero) * factor;
      return viewBytes(out);
    }
    for (let row = 0, to = 0; row < count; row++)
      for (let column = 0; column < columns; column++, to++) {
        const [i, j] = flipped ? [column, begin + first + row] : [begin + first + row, column];
        out[to] = (values[i * stride + j]! - zeros.values[zeros.at(i, j)]!) * scales.values[scales.at(i, j)]!;
      }
    return viewBytes(out);
  };
  return { dtype: 'F32', shape: whole, scale: null, rows: floats };
}

/**
 * Checks the attributes of the operator that reads a weight.
 * @throws HeedError UNSUPPORTED for forms that heed does not read
 */
function requireForm(form: Form, shape: readonly number[], type: string, about: string): void {
  const require = (isValid: boolean, expected: string, got: string) => {
    if (!isValid) throw invalid(about, expected, got, 'UNSUPPORTED');
  };
  if (form.kind === 'plain') return;
  const { block } = form;
  if (form.kind === 'linear') {
    const { axis } = form;
    const rank = shape.length;
    // One scale for the whole tensor needs no axis: DequantizeLinear's default is 1 for vectors, too.
    const isValid = Number.isInteger(axis) && axis >= -Math.max(rank, 1) && axis < Math.max(rank, 2);
    require(isValid, `an axis of [${shape.join(', ')}]`, `${axis}`);
    const isBlock = block === 0 || (Number.isInteger(block) && block > 0 && rank === 2);
    require(isBlock, 'blocks of a matrix, or none', `block_size ${block} in [${shape.join(', ')}]`);
    return;
  }
  const isSize = Number.isInteger(Math.log2(block)) && block >= 16;
  require(isSize, 'blocks of 16, 32, 64, ... values along the rows', `block_size ${block}`);
  if (form.kind === 'bnb4') require([0, 1].includes(form.type), 'quant_type 0 (FP4) or 1 (NF4)', `${form.type}`);
  else {
    const stored = type === 'U8' ? form.bits : bitsOf(type);
    const isPacked = [2, 4, 8].includes(form.bits) && stored === form.bits;
    require(isPacked, 'integers of 2, 4 or 8 bits', `${form.bits} bits in ${type}`);
  }
  require(/^[UI]\d$/.test(type), 'packed integers', type);
  if (form.kind === 'blocks' && form.isTable) return;
  const { rows, columns } = form;
  const areSizes = [rows, columns].every((size) => Number.isSafeInteger(size) && size > 0);
  require(areSizes, 'sizes N and K', `${rows} and ${columns}`);
}

/** Where the scales of a stored array are: their number, the axis that they belong to, and the index of an entry's. */
function placeOf(
  form: Form,
  rank: number,
  [height, width]: [number, number],
): { count: number; axis: number; at(row: number, column: number): number } {
  const { block = 0 } = form as { block?: number | undefined };
  if (form.kind === 'bnb4')
    return {
      count: Math.ceil((height * width) / block),
      axis: -1,
      at: (row, column) => Math.floor((row * width + column) / block),
    };
  const given = form.kind === 'linear' ? form.axis : 1;
  const axis = given < 0 ? given + Math.max(1, rank) : given;
  const [extent, other] = axis === 0 ? [height, width] : [width, height];
  if (!block) return { count: extent, axis, at: axis === 0 ? (row) => row : (_, column) => column };
  const blocks = Math.ceil(extent / block);
  const at = (row: number, column: number) =>
    axis === 0 ? Math.floor(row / block) * width + column : row * blocks + Math.floor(column / block);
  return { count: blocks * other, axis: -1, at };
}

/** Whether all integers, of 8 bits, are between -127 and 127 after the subtraction of a zero point. */
function fits(values: Values, zero: number): boolean {
  if (!Number.isInteger(zero)) return false;
  const bytes = viewBytes(values); // an array of one type, because engines compile loops over several types slowly
  const integerOf = (byte: number) => (values instanceof Int8Array ? (byte << 24) >> 24 : byte);
  const isOutside = (byte: number) => Math.abs(integerOf(byte) - zero) > 127;
  const outside = Array.from({ length: 256 }, (_, byte) => byte).filter(isOutside);
  if (outside.length === 1) return !bytes.includes(outside[0]!); // symmetric quantization
  const occurs = new Uint8Array(256);
  for (let i = 0; i < bytes.length; i++) occurs[bytes[i]!] = 1;
  return outside.every((byte) => !occurs[byte]);
}
