/**
 * Reads an ONNX file in the order of its bytes. Only nodes and small fields are kept; the values of tensors are passed on
 * while they are received.
 */
import { concatenate } from '../../io/files.js';
import type { ByteReader } from '../../io/reader.js';
import {
  damaged,
  type Node,
  parseNode,
  parseTensor,
  type TensorInfo,
  type TensorMessage,
  tensorInfo,
} from './messages.js';

/** Receives the parts of a file. */
export interface Visitor {
  node(node: Node): void;
  /** Whether a tensor is used. The values of others are skipped. */
  isUsed(name: string): boolean;
  /**
   * Called before the values of a tensor are read. Returns a function that reads exactly `byteLength` bytes, or null to
   * receive the values through `tensor`.
   */
  values(info: TensorInfo): ((reader: ByteReader) => Promise<void>) | null;
  /** A used tensor whose values were not read before. */
  tensor(tensor: TensorMessage): Promise<void>;
}

/** A field of a message: its number, its wire type, and the size of its content in bytes. */
interface Field {
  number: number;
  type: number;
  size: number;
  /** The bytes of its tag and its size or, for a varint, the whole field. */
  head: number[];
}

/** The numbers of the fields that are read. */
const GRAPH = 7;
const NODE = 1;
const INITIALIZER = 5;
const RAW_DATA = 9;
/** The fields of a tensor that say what its values are, and the values. */
const DESCRIPTION = [1, 2, 4, 5, 7, 8, RAW_DATA];

/** The sizes of fields by wire type. Varints and lengths follow the tag. */
const SIZES = [0, 8, 0, NaN, NaN, 4];

/** The position in a file. */
class Cursor {
  at = 0;

  constructor(readonly reader: ByteReader) {}

  /** Counts bytes that are about to be read. */
  #advance(count: number, end: number): void {
    this.at += count;
    if (!(this.at <= end)) throw damaged(this.reader.file.name, 'a field that exceeds its message');
  }

  async #varint(head: number[], end: number): Promise<number> {
    for (let value = 0, scale = 1; ; scale *= 128) {
      this.#advance(1, scale < 2 ** 64 ? end : -1);
      const byte = (await this.reader.take(1, undefined, true))[0]!;
      head.push(byte);
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  }

  /** Reads the fields of a message that ends at `end`. `visit` returns false for a field whose content it has not read. */
  async fields(end: number, visit: (field: Field) => Promise<unknown>): Promise<void> {
    while (this.at < end && !(end === Infinity && (await this.reader.isAtEnd()))) {
      const head: number[] = [];
      const tag = await this.#varint(head, end);
      const type = tag % 8;
      let size = SIZES[type] ?? NaN;
      if (type === 0 || type === 2) {
        const value = await this.#varint(head, end);
        if (type === 2) size = value;
      }
      this.#advance(size, end);
      if ((await visit({ number: Math.floor(tag / 8), type, size, head })) === false) await this.reader.skip(size);
    }
  }

  /** Reads the fields of a message that is the content of a field. */
  async inner({ size }: Field, visit: (field: Field) => Promise<unknown>): Promise<void> {
    const end = this.at;
    this.at -= size;
    await this.fields(end, visit);
  }
}

/**
 * Reads a whole file. `pause` is called between nodes and tensors, because a file in memory is read without waiting.
 * @throws HeedError INVALID_FILE
 */
export async function readModel(reader: ByteReader, visitor: Visitor, pause: () => Promise<void>): Promise<void> {
  const { name, size } = reader.file;
  const cursor = new Cursor(reader);
  let hasGraph = false;
  await cursor.fields(size ?? Infinity, async (field) => {
    if (field.number !== GRAPH || field.type !== 2) return false;
    hasGraph = true;
    await cursor.inner(field, async (part) => {
      await pause();
      if (part.type === 2 && part.number === NODE)
        visitor.node(parseNode(await reader.take(part.size, undefined, true), name));
      else if (part.type === 2 && part.number === INITIALIZER) await readTensor(cursor, part, visitor);
      else return false;
    });
  });
  await reader.expectEnd();
  if (!hasGraph) throw damaged(name, 'a file without a graph');
}

async function readTensor(cursor: Cursor, tensor: Field, visitor: Visitor): Promise<void> {
  const { reader } = cursor;
  const { name } = reader.file;
  /** The fields other than values that have been read or skipped. */
  const heads: Uint8Array[] = [];
  const parsed = () => parseTensor(concatenate(Uint8Array, [new Uint8Array(), ...heads]), name);
  let bytes: Uint8Array | null = null;
  /** Whether the values have been read or skipped. */
  let isDone = false;
  await cursor.inner(tensor, async ({ number, type, size, head }) => {
    const isRaw = number === RAW_DATA && type === 2 && size > 0;
    if ((isDone && DESCRIPTION.includes(number)) || (isRaw && bytes)) throw damaged(name, 'fields after their values');
    if (!isRaw) {
      heads.push(Uint8Array.from(head));
      if (size > 0) heads.push((await reader.take(size, undefined, true)).slice());
      return;
    }
    const about = parsed();
    const isKnown = about.name !== '' && !about.bytes;
    const isUsed = !isKnown || visitor.isUsed(about.name);
    const read = isKnown && isUsed && visitor.values(tensorInfo(about, size, name));
    isDone = !isUsed || !!read;
    if (read) await read(reader);
    else if (isUsed) bytes = await reader.copy(size);
    else return false;
  });
  const about = parsed();
  if ((bytes || isDone) && (about.bytes || about.external))
    throw damaged(name, `values of '${about.name}' in two places`);
  if (!isDone && visitor.isUsed(about.name)) await visitor.tensor({ ...about, bytes: bytes ?? about.bytes });
}
