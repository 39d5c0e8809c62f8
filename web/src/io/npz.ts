/** Reads .npz files: zip archives of arrays in NumPy's .npy format. */
import { formatShape, HeedError, invalidFile } from '../base/error.js';
import { elementCount, type TensorLike } from '../base/tensor.js';
import { widen } from './safetensors.js';

const FILE = 'npz';

/** An entry of a zip archive's central directory. */
interface Member {
  readonly name: string;
  readonly method: number;
  readonly crc: number;
  /** The bytes in the archive. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** The number of bytes after decompression. */
  readonly size: number;
}

const viewOf = ({ buffer, byteOffset, byteLength }: Uint8Array) => new DataView(buffer, byteOffset, byteLength);

const STORED = 0;
const DEFLATED = 8;
/** Sizes and offsets of archives above 4 GB are stored elsewhere. */
const ZIP64 = 0xffffffff;

/** Lists the members of an archive (APPNOTE.TXT of PKWARE, sections 4.3.7, 4.3.12 and 4.3.16). */
function membersOf(file: Uint8Array<ArrayBuffer>): Member[] {
  const view = viewOf(file);
  let end = file.length - 22;
  while (end >= 0 && view.getUint32(end, true) !== 0x06054b50) end--;
  if (end < 0) throw invalidFile(FILE, 'a zip archive', `${file.length} bytes without a directory`);
  const count = view.getUint16(end + 10, true);
  let at = view.getUint32(end + 16, true);
  return Array.from({ length: count }, () => {
    if (at + 46 > file.length || view.getUint32(at, true) !== 0x02014b50)
      throw invalidFile(FILE, 'a directory of all members', `a directory that ends at byte ${at}`);
    const [method, crc] = [view.getUint16(at + 10, true), view.getUint32(at + 16, true)];
    const [packed, size] = [view.getUint32(at + 20, true), view.getUint32(at + 24, true)];
    const nameLength = view.getUint16(at + 28, true);
    const others = view.getUint16(at + 30, true) + view.getUint16(at + 32, true); // extra fields and a comment
    const local = view.getUint32(at + 42, true);
    const name = new TextDecoder().decode(file.subarray(at + 46, at + 46 + nameLength));
    at += 46 + nameLength + others;
    if ([packed, size, local].includes(ZIP64)) throw invalidFile(name, 'an archive below 4 GB', 'a larger one');
    if (local + 30 > file.length || view.getUint32(local, true) !== 0x04034b50)
      throw invalidFile(name, 'a member in the archive', `none at byte ${local}`);
    const first = local + 30 + view.getUint16(local + 26, true) + view.getUint16(local + 28, true);
    if (first + packed > file.length) throw invalidFile(name, `${packed} bytes`, `${file.length - first}`);
    return { name, method, crc, bytes: file.subarray(first, first + packed), size };
  });
}

/** CRC-32 of the polynomial 0xedb88320, bit by bit: the archives here are small. */
function crcOf(bytes: Uint8Array): number {
  let crc = ~0;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}

/** Decompresses raw deflate to at most `size` bytes. */
async function inflated(name: string, bytes: Uint8Array<ArrayBuffer>, size: number): Promise<Uint8Array<ArrayBuffer>> {
  let stream: DecompressionStream;
  try {
    stream = new DecompressionStream('deflate-raw');
  } catch (cause) {
    const problem = 'this platform cannot decompress it. Save it with numpy.savez, without compression';
    throw new HeedError('UNSUPPORTED', `${name}: ${problem}`, { cause });
  }
  const result = new Uint8Array(size);
  let filled = 0;
  try {
    const reader = new Blob([bytes]).stream().pipeThrough(stream).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      if (filled + value.length > size) {
        await reader.cancel();
        throw invalidFile(name, `${size} bytes`, 'more');
      }
      result.set(value, filled);
      filled += value.length;
    }
  } catch (cause) {
    if (cause instanceof HeedError) throw cause;
    throw new HeedError('INVALID_FILE', `${name}: expected compressed data, got data that cannot be decompressed`, {
      cause,
    });
  }
  if (filled < size) throw invalidFile(name, `${size} bytes`, `${filled}`);
  return result;
}

async function contentOf({ name, method, crc, bytes, size }: Member): Promise<Uint8Array<ArrayBuffer>> {
  if (method !== STORED && method !== DEFLATED)
    throw invalidFile(name, 'a stored or deflated member', `the compression method ${method}`);
  const content = method === STORED ? bytes.slice() : await inflated(name, bytes, size);
  if (crcOf(content) !== crc) throw invalidFile(name, 'the checksum in the directory', 'another: the file is damaged');
  return content;
}

/** The numbers of a .npy file, in row-major order (NumPy Enhancement Proposal 1). */
function parseNpy(name: string, file: Uint8Array<ArrayBuffer>): TensorLike {
  const isNpy = file.length >= 12 && file[0] === 0x93 && new TextDecoder().decode(file.subarray(1, 6)) === 'NUMPY';
  if (!isNpy) throw invalidFile(name, "an array in NumPy's .npy format", 'other bytes');
  const start = file[6]! > 1 ? 12 : 10;
  const length = start === 12 ? viewOf(file).getUint32(8, true) : viewOf(file).getUint16(8, true);
  const header = new TextDecoder('latin1').decode(file.subarray(start, start + length));
  const [, order, type] = /'descr':\s*'([<>|=]?)([^']*)'/.exec(header) ?? [];
  const [, extents] = /'shape':\s*\(([^)]*)\)/.exec(header) ?? [];
  const [, columnsFirst] = /'fortran_order':\s*(True|False)/.exec(header) ?? [];
  const bytesPer = { f2: 2, f4: 4, f8: 8 }[type ?? ''];
  if (extents === undefined || columnsFirst === undefined)
    throw invalidFile(name, 'a header with type, order and shape', header.slice(0, 80).trim() || 'none');
  if (!bytesPer) throw invalidFile(name, 'numbers of the type float16, float32 or float64', `'${order}${type}'`);
  const shape = extents.split(',').flatMap((extent) => (extent.trim() === '' ? [] : [Number(extent)]));
  const values = file.slice(start + length);
  if (values.length !== elementCount(shape) * bytesPer)
    throw invalidFile(name, `the values of an array ${formatShape(shape)}`, `${values.length} bytes`);
  if (order === '>') for (let i = 0; i < values.length; i += bytesPer) values.subarray(i, i + bytesPer).reverse();
  const data =
    bytesPer === 8 ? Float32Array.from(new Float64Array(values.buffer)) : widen(values, bytesPer === 2 ? 'F16' : 'F32');
  return { data: columnsFirst === 'True' ? rowsFirst(data, shape) : data, shape };
}

/** Reorders numbers from column-major (the first index changes fastest) to row-major order. */
function rowsFirst(data: Float32Array, shape: readonly number[]): Float32Array {
  return data.map((_, i) => {
    let [rest, from] = [i, 0];
    let stride = data.length;
    for (const extent of [...shape].reverse()) {
      stride /= extent;
      from += (rest % extent) * stride;
      rest = Math.floor(rest / extent);
    }
    return data[from]!;
  });
}

/**
 * Reads the arrays of a .npz file by name, as `numpy.savez` and `numpy.savez_compressed` write them.
 * @throws HeedError `INVALID_FILE`; `UNSUPPORTED` where the platform cannot decompress
 */
export async function readNpz(file: Uint8Array<ArrayBuffer>): Promise<Map<string, TensorLike>> {
  const arrays = new Map<string, TensorLike>();
  for (const member of membersOf(file)) {
    const name = member.name.replace(/\.npy$/, '');
    arrays.set(name, parseNpy(member.name, await contentOf(member)));
  }
  return arrays;
}

/** The names of an archive's members. */
export const npzNames = (file: Uint8Array<ArrayBuffer>): string[] => membersOf(file).map(({ name }) => name);
