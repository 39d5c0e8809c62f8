/**
 * The messages of the ONNX format that describe nodes and tensors: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto3.
 * Files are untrusted: everything in them is checked before it is used.
 */
import { PbfReader } from 'pbf';
import { HeedError, invalid, invalidFile } from '../../base/error.js';
import { elementCount } from '../../base/tensor.js';
import { tensorOf } from '../../io/safetensors.js';

/** The types of tensors, at their numbers in `TensorProto.DataType`; '-' for those that cannot be read. */
const TYPES = '- F32 U8 I8 U16 I16 I32 I64 - BOOL F16 F64 - - - - BF16 - - - - U4 I4'.split(' ');

/** The number of bits per value. */
const bitsOf = (type: string | undefined) => Number(/\d+/.exec(type ?? '') ?? 8);

/** The fields of a TensorProto. */
export interface TensorMessage {
  name: string;
  dims: number[];
  dataType: number;
  /** The values as little-endian bytes; null if they are absent or in another file. */
  bytes: Uint8Array | null;
  /** The keys and values of `external_data`; null if the values are in this file. */
  external: Map<string, string> | null;
}

/** A tensor's name, type, shape and size in bytes. */
export interface TensorInfo {
  name: string;
  /** As in safetensors; U4 and I4 have two values per byte, the low half first. */
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
  /** The path of the module that the node belongs to, as PyTorch's dynamo exporter records it; '' if unknown. */
  scope: string;
  /** The tensor of a Constant node. */
  value: TensorMessage | null;
}

/** Runs `body`, which parses a message. Turns every failure into INVALID_FILE. */
function parsing<T>(file: string, what: string, bytes: Uint8Array, body: (pbf: PbfReader) => T): T {
  const pbf = new PbfReader(bytes);
  try {
    const result = body(pbf);
    if (pbf.pos === bytes.length) return result;
  } catch (error) {
    if (error instanceof HeedError || (error instanceof RangeError && /memory|allocat/i.test(error.message)))
      throw error;
  }
  throw invalidFile(file, `a valid ${what}`, `${bytes.length} bytes that cannot be parsed`, 'The file is damaged');
}

/** Reads the fields of a message that is a field of another one. `end`: the end of the outer message. */
function nested(pbf: PbfReader, end: number, read: (field: number, end: number) => void): void {
  const own = pbf.readVarint() + pbf.pos;
  if (own > end) throw new RangeError('a message exceeds the one that contains it');
  fields(pbf, own, read);
}

function fields(pbf: PbfReader, end: number, read: (field: number, end: number) => void): void {
  pbf.readFields((field) => read(field, end), null, end);
  if (pbf.pos !== end) throw new RangeError('a field exceeds its message');
}

export function parseNode(bytes: Uint8Array, file: string): Node {
  const node: Node = {
    op: '',
    domain: '',
    name: '',
    inputs: [],
    outputs: [],
    ints: new Map(),
    scope: '',
    value: null,
  };
  return parsing(file, 'node', bytes, (pbf) => {
    fields(pbf, bytes.length, (field, end) => {
      if (field === 1) node.inputs.push(pbf.readString());
      else if (field === 2) node.outputs.push(pbf.readString());
      else if (field === 3) node.name = pbf.readString();
      else if (field === 4) node.op = pbf.readString();
      else if (field === 5) readAttribute(pbf, end, node);
      else if (field === 7) node.domain = pbf.readString();
      else if (field === 9) readMetadata(pbf, end, node);
    });
    if (node.domain === 'ai.onnx') node.domain = '';
    return node;
  });
}

function readAttribute(pbf: PbfReader, end: number, node: Node): void {
  let name = '';
  let ints: number[] = [];
  let value: TensorMessage | null = null;
  nested(pbf, end, (field, end) => {
    if (field === 1) name = pbf.readString();
    else if (field === 3) ints = [pbf.readVarint(true)];
    else if (field === 5) {
      value = emptyTensor();
      nested(pbf, end, (field) => readTensorField(pbf, field, value!));
    } else if (field === 8) pbf.readPackedVarint(ints, true);
  });
  if (ints.length > 0) node.ints.set(name, ints);
  if (node.op !== 'Constant' && node.op !== '') return;
  if (name === 'value' && value) node.value = value;
}

/** The key under which the dynamo exporter records the modules around a node, from the outside to the inside. */
const SCOPES = 'pkg.torch.onnx.name_scopes';

function readMetadata(pbf: PbfReader, end: number, node: Node): void {
  const [key, value] = readEntry(pbf, end);
  if (key !== SCOPES) return;
  // A list in Python's notation, whose last entry is the operator: ['', 'encoder', 'encoder.dense', 'linear'].
  const scopes = [...value.matchAll(/'([^']*)'/g)].map(([, scope]) => scope!);
  node.scope = scopes.at(-2) ?? '';
}

/** Reads a StringStringEntryProto. */
function readEntry(pbf: PbfReader, end: number): [key: string, value: string] {
  const entry: [string, string] = ['', ''];
  nested(pbf, end, (field) => {
    if (field === 1 || field === 2) entry[field - 1] = pbf.readString();
  });
  return entry;
}

export function emptyTensor(): TensorMessage {
  return { name: '', dims: [], dataType: 0, bytes: null, external: null };
}

/** Parses one field of a TensorProto, given with its tag. */
export function parseTensorField(bytes: Uint8Array, tensor: TensorMessage, file: string): void {
  parsing(file, 'tensor', bytes, (pbf) => fields(pbf, bytes.length, (field) => readTensorField(pbf, field, tensor)));
}

function readTensorField(pbf: PbfReader, field: number, tensor: TensorMessage): void {
  if (field === 1) pbf.readPackedVarint(tensor.dims, true);
  else if (field === 2) tensor.dataType = pbf.readVarint();
  else if (field in VALUES) setBytes(tensor, field, valuesIn(pbf, field, tensor.dataType));
  else if (field === 8) tensor.name = pbf.readString();
  else if (field === 13) {
    const [key, value] = readEntry(pbf, pbf.length);
    tensor.external ??= new Map();
    tensor.external.set(key, value);
  } else if (field === 14 && pbf.readVarint() === 1) tensor.external ??= new Map();
}

/** The fields with a tensor's values, each with the types that it may have; null: all types. */
const VALUES: Record<number, readonly string[] | null> = {
  4: ['F32'],
  5: ['U8', 'I8', 'U16', 'I16', 'I32', 'BOOL', 'F16', 'BF16', 'U4', 'I4'],
  7: ['I64'],
  9: null,
};

/** Sets a tensor's values, which may be given only once. `field`: the field that they come from. */
export function setBytes(tensor: TensorMessage, field: number, bytes: Uint8Array): void {
  const types = VALUES[field];
  if (bytes.length === 0) return;
  if (tensor.bytes) throw new RangeError('values are given twice');
  if (types && !types.includes(TYPES[tensor.dataType]!)) throw new RangeError('values of another type');
  tensor.bytes = bytes;
}

function valuesIn(pbf: PbfReader, field: number, dataType: number): Uint8Array {
  if (pbf.type !== 2) throw new RangeError('values are not packed');
  if (field === 9 || field === 4) return pbf.readBytes().slice(); // packed floats are little-endian
  // Varints, each of which ends with a byte below 128.
  const length = pbf.readVarint();
  const end = pbf.pos + length;
  const width = Math.max(1, bitsOf(TYPES[dataType]) / 8);
  const count = pbf.buf.subarray(pbf.pos, end).reduce((sum, byte) => sum + (byte < 128 ? 1 : 0), 0);
  const bytes = new Uint8Array(count * width);
  for (let i = 0; pbf.pos < end; i += width) {
    let rest = pbf.readVarint(true);
    for (let at = 0; at < width; at++, rest = Math.floor(rest / 256)) bytes[i + at] = rest & 255;
  }
  return bytes;
}

/**
 * Checks a tensor's shape and type, and that its size is `given` bytes.
 * @throws HeedError INVALID_FILE
 */
export function tensorInfo({ name, dims, dataType }: TensorMessage, given: number | null, file: string): TensorInfo {
  const tensor = tensorOf(file, name);
  if (dims.length > 16 || !dims.every((extent) => Number.isSafeInteger(extent) && extent >= 0))
    throw invalidFile(tensor, 'at most 16 whole numbers as its shape', JSON.stringify(dims));
  const type = TYPES[dataType] ?? '-';
  if (type === '-') throw invalid(tensor, 'numbers of a type that heed reads', `data_type ${dataType}`, 'UNSUPPORTED');
  const byteLength = Math.ceil((elementCount(dims) * bitsOf(type)) / 8);
  const got = given ?? byteLength;
  if (!Number.isSafeInteger(byteLength) || got !== byteLength)
    throw invalidFile(tensor, `${byteLength} bytes for ${type} [${dims.join(', ')}]`, `${got}`);
  return { name, type, shape: dims, byteLength };
}
