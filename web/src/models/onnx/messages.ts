/**
 * The messages of the ONNX format that describe nodes and tensors: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto3.
 * Files are untrusted: everything in them is checked before it is used.
 */
import { PbfReader } from 'pbf';
import { type HeedError, invalid, invalidFile } from '../../base/error.js';
import { elementCount } from '../../base/tensor.js';
import { tensorOf } from '../../io/safetensors.js';

/** The types of tensors, at their numbers in `TensorProto.DataType`; '-' for those that cannot be read. */
const TYPES = '- F32 U8 I8 U16 I16 I32 I64 - BOOL F16 F64 - - - - BF16 - - - - U4 I4'.split(' ');

/** The number of bits per value. */
export const bitsOf = (type: string) => Number(/\d+/.exec(type) ?? 8);

/** The fields of a TensorProto. */
export interface TensorMessage {
  name: string;
  dims: number[];
  /** As in safetensors; U4 and I4 have two values per byte, the low half first. */
  type: string;
  /** The values as little-endian bytes; null if they are absent or in another file. */
  bytes: Uint8Array | null;
  /** The location, offset and length in `external_data`; null if the values are in this file. */
  external: Record<string, string> | null;
}

/** A tensor's name, type, shape and size in bytes. */
export interface TensorInfo {
  name: string;
  type: string;
  shape: number[];
  byteLength: number;
}

export interface Node {
  op: string;
  domain: string;
  name: string;
  /** Names of values. An omitted optional input is ''. */
  inputs: string[];
  outputs: string[];
  /** Attributes that are integers or lists of them. */
  ints: Map<string, number[]>;
  /** Attributes that are floats. */
  floats: Map<string, number>;
  /** The path of the module that the node belongs to, as PyTorch's dynamo exporter records it; '' if unknown. */
  scope: string;
  /** The tensor of a Constant node. */
  value: TensorMessage | null;
}

/** The error for a file that is not a valid model. */
export function damaged(file: string, got: string): HeedError {
  return invalidFile(file, 'a valid ONNX model', got, 'The file is damaged or truncated');
}

const decoder = new TextDecoder();
const textIn = (pbf: PbfReader) => decoder.decode(pbf.readBytes());

type Read = (field: number, pbf: PbfReader, end: number) => void;

/** Reads the fields of a message up to `end`. */
function fields(pbf: PbfReader, end: number, read: Read): void {
  pbf.readFields((field) => read(field, pbf, end), null, end);
  if (pbf.pos !== end) throw new Error();
}

/** Reads the fields of a message that is a field of another one, which ends at `end`. */
function nested(pbf: PbfReader, end: number, read: Read): void {
  const size = pbf.readVarint();
  if (size > end - pbf.pos) throw new Error();
  fields(pbf, pbf.pos + size, read);
}

/** Parses a message. Turns every failure into INVALID_FILE. */
function parse(bytes: Uint8Array, file: string, read: Read): void {
  try {
    fields(new PbfReader(bytes), bytes.length, read);
  } catch {
    throw damaged(file, `a message of ${bytes.length} bytes that cannot be parsed`);
  }
}

/** The key under which the dynamo exporter records the modules around a node, from the outside to the inside. */
const SCOPES = 'pkg.torch.onnx.name_scopes';

export function parseNode(bytes: Uint8Array, file: string): Node {
  const texts: Record<number, string[]> = { 1: [], 2: [], 3: [], 4: [], 7: [] };
  const [ints, floats] = [new Map<string, number[]>(), new Map<string, number>()];
  const node = { ints, floats, scope: '', value: null as TensorMessage | null };
  parse(bytes, file, (field, pbf, end) => {
    if (field === 5) {
      let name = '';
      nested(pbf, end, (field, pbf, end) => {
        if (field === 1) name = textIn(pbf);
        else if (field === 2) floats.set(name, pbf.readFloat());
        else if (field === 3 || field === 8) ints.set(name, pbf.readPackedVarint(ints.get(name), true));
        else if (field === 5) {
          const tensor = emptyTensor();
          nested(pbf, end, readTensorField(tensor));
          if (name === 'value') node.value = tensor;
        }
      });
    } else if (field === 9) {
      const [key, value] = readEntry(pbf, end);
      // A list in Python's notation, whose last entry is the operator: ['', 'encoder', 'encoder.dense', 'linear'].
      if (key === SCOPES) node.scope = value.split("'").at(-4) ?? '';
    } else texts[field]?.push(textIn(pbf));
  });
  const last = (field: number) => texts[field]!.at(-1) ?? '';
  return {
    ...node,
    inputs: texts[1]!,
    outputs: texts[2]!,
    name: last(3),
    op: last(4),
    domain: last(7).replace(/^ai\.onnx$/, ''),
  };
}

/** Reads a StringStringEntryProto. */
function readEntry(pbf: PbfReader, end: number): string[] {
  const entry = ['', ''];
  nested(pbf, end, (field) => {
    if (field === 1 || field === 2) entry[field - 1] = textIn(pbf);
  });
  return entry;
}

const emptyTensor = (): TensorMessage => ({ name: '', dims: [], type: '-', bytes: null, external: null });

export function parseTensor(bytes: Uint8Array, file: string): TensorMessage {
  const tensor = emptyTensor();
  parse(bytes, file, readTensorField(tensor));
  return tensor;
}

/** The fields with a tensor's values, each with the types that it may have. */
const VALUES: Record<number, RegExp> = { 4: /^F32/, 5: /16|8|4$|BOOL|I32/, 7: /I64/, 9: /./ };

/** The keys of `external_data` that are read. */
const EXTERNAL = ['location', 'offset', 'length'];

function readTensorField(tensor: TensorMessage): Read {
  return (field, pbf, end) => {
    if (field === 1) pbf.readPackedVarint(tensor.dims, true);
    else if (field === 2) tensor.type = TYPES[pbf.readVarint()] ?? '-';
    else if (field === 8) tensor.name = textIn(pbf);
    else if (field === 13) {
      const [key, value] = readEntry(pbf, end);
      tensor.external ??= {};
      if (EXTERNAL.includes(key!)) tensor.external[key!] = value!;
    } else if (field === 14 && pbf.readVarint() === 1) tensor.external ??= {};
    else if (field in VALUES) {
      if (pbf.type !== 2 || !VALUES[field]!.test(tensor.type)) throw new Error();
      const bytes = pbf.readBytes();
      if (bytes.length === 0) return;
      if (tensor.bytes) throw new Error();
      // Packed floats are little-endian.
      tensor.bytes = field === 5 || field === 7 ? integerBytes(bytes, tensor.type) : bytes.slice();
    }
  };
}

/** The little-endian bytes of integers, which `int32_data` and `int64_data` contain as varints. */
function integerBytes(varints: Uint8Array, type: string): Uint8Array {
  const pbf = new PbfReader(varints);
  const width = Math.ceil(bitsOf(type) / 8);
  // Each varint ends with a byte below 128.
  const bytes = new Uint8Array(width * varints.reduce((sum, byte) => sum + (byte < 128 ? 1 : 0), 0));
  for (let i = 0; pbf.pos < varints.length; i += width) {
    let rest = pbf.readVarint(true);
    for (let at = 0; at < width; at++, rest = Math.floor(rest / 256)) bytes[i + at] = rest & 255;
  }
  return bytes;
}

/**
 * Checks a tensor's shape and type, and that its size is `given` bytes.
 * @throws HeedError INVALID_FILE
 */
export function tensorInfo({ name, dims, type }: TensorMessage, given: number | null, file: string): TensorInfo {
  const tensor = tensorOf(file, name);
  const byteLength = Math.ceil((elementCount(dims) * bitsOf(type)) / 8);
  if (dims.length > 16 || dims.some((extent) => extent < 0) || !Number.isSafeInteger(byteLength))
    throw invalidFile(tensor, 'a shape of at most 16 whole numbers', `[${dims.join(', ')}]`);
  if (type === '-') throw invalid(tensor, 'numbers', 'another type', 'UNSUPPORTED');
  if (given !== null && given !== byteLength)
    throw invalidFile(tensor, `${byteLength} bytes for ${type} [${dims.join(', ')}]`, `${given}`);
  return { name, type, shape: dims, byteLength };
}
