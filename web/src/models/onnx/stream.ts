/**
 * Reads an ONNX file in the order of its bytes. Only nodes and small fields are kept; the values of tensors are passed on
 * while they are received.
 */
import { invalidFile } from '../../base/error.js';
import { concatenate } from '../../io/files.js';
import type { ByteReader } from '../../io/reader.js';
import {
  emptyTensor,
  type Node,
  parseNode,
  parseTensorField,
  setBytes,
  type TensorInfo,
  type TensorMessage,
  tensorInfo,
} from './messages.js';

/** Receives the parts of a file. */
export interface Visitor {
  node(node: Node): void;
  /**
   * Called before the values of a tensor are read. Returns a function that reads exactly `byteLength` bytes, or null to
   * receive the values through `tensor`.
   */
  values(info: TensorInfo): ((reader: ByteReader) => Promise<void>) | null;
  /** A tensor whose values were not read before. */
  tensor(tensor: TensorMessage): Promise<void>;
  /** Whether a tensor is used. The values of others are skipped. */
  isUsed(name: string): boolean;
}

/** The numbers of the fields that are read. */
const GRAPH = 7;
const NODE = 1;
const INITIALIZER = 5;
const RAW_DATA = 9;

/** A reader of one message. Its end is known except for the file itself. */
class Message {
  /** The bytes of the tag, and of the length if there is one, that were read last. */
  tag: number[] = [];
  wireType = 0;
  /** The number of bytes of the current field's content; null for a varint. */
  size: number | null = null;
  /** The number of bytes left. */
  #left: number;

  constructor(
    readonly reader: ByteReader,
    left: number,
    readonly outer: Message | null = null,
  ) {
    this.#left = left;
  }

  get file(): string {
    return this.reader.file.name;
  }

  damaged(expected: string, got: string): Error {
    return invalidFile(this.file, expected, got, 'The file is damaged or not an ONNX file');
  }

  /** Counts bytes that are read, in this message and in those around it. */
  #spend(count: number): void {
    if (count > this.#left)
      throw this.damaged(`a field of at most ${this.#left} bytes, which its message still has`, `${count}`);
    this.#left -= count;
    this.outer?.spent(count);
  }

  spent(count: number): void {
    this.#left -= count;
    this.outer?.spent(count);
  }

  async #varint(): Promise<number> {
    let value = 0;
    for (let i = 0; i < 10; i++) {
      this.#spend(1);
      const byte = (await this.reader.take(1, undefined, true))[0]!;
      this.tag.push(byte);
      value += (byte & 127) * 2 ** (7 * i);
      if (byte < 128) return value;
    }
    throw this.damaged('numbers of at most 10 bytes', 'a longer one');
  }

  /** Reads the next field's tag and size. Returns the field's number, or 0 at the end of the message. */
  async next(): Promise<number> {
    if (this.#left === 0 || (this.#left === Infinity && (await this.reader.isAtEnd()))) return 0;
    this.tag = [];
    const tag = await this.#varint();
    this.wireType = tag % 8;
    const field = Math.floor(tag / 8);
    const fixed: Record<number, number | null> = { 0: null, 1: 8, 2: null, 5: 4 };
    if (!(this.wireType in fixed) || field < 1 || field >= 2 ** 29)
      throw this.damaged('fields of the types 0, 1, 2 and 5', `field ${field} of type ${this.wireType}`);
    this.size = this.wireType === 2 ? await this.#varint() : fixed[this.wireType]!;
    if (this.size !== null && this.size > this.#left)
      throw this.damaged(`a field of at most ${this.#left} bytes, which its message still has`, `${this.size}`);
    return field;
  }

  /** The content of the current field, as a message. */
  inner(): Message {
    return new Message(this.reader, this.size!, this);
  }

  /** Reads the content of the current field. With `borrowed`, it is valid until the next read. */
  async bytes(borrowed: boolean): Promise<Uint8Array> {
    this.#spend(this.size!);
    return this.reader.take(this.size!, undefined, borrowed);
  }

  /** Passes the content of the current field to `read`, which reads all of it. */
  async pass(read: (reader: ByteReader) => Promise<void>): Promise<void> {
    this.#spend(this.size!);
    await read(this.reader);
  }

  /** Reads the current field with its tag, as bytes that can be parsed. */
  async whole(): Promise<Uint8Array> {
    if (this.size === null) await this.#varint();
    const tag = Uint8Array.from(this.tag);
    return this.size ? concatenate(Uint8Array, [tag, await this.bytes(true)]) : tag;
  }

  async skip(): Promise<void> {
    if (this.size === null) await this.#varint();
    else await this.pass((reader) => reader.skip(this.size!));
  }
}

/**
 * Reads a whole file.
 * @throws HeedError INVALID_FILE
 */
export async function readModel(reader: ByteReader, visitor: Visitor): Promise<void> {
  const model = new Message(reader, reader.file.size ?? Infinity);
  let hasGraph = false;
  for (let field = await model.next(); field !== 0; field = await model.next()) {
    if (field === GRAPH && model.wireType === 2) {
      hasGraph = true;
      await readGraph(model.inner(), visitor);
    } else await model.skip();
  }
  await reader.expectEnd();
  if (!hasGraph) throw model.damaged('an ONNX model', 'a file without a graph');
}

async function readGraph(graph: Message, visitor: Visitor): Promise<void> {
  for (let field = await graph.next(); field !== 0; field = await graph.next()) {
    if (field === NODE && graph.wireType === 2) visitor.node(parseNode(await graph.bytes(true), graph.file));
    else if (field === INITIALIZER && graph.wireType === 2) await readTensor(graph.inner(), visitor);
    else await graph.skip();
  }
}

async function readTensor(message: Message, visitor: Visitor): Promise<void> {
  const tensor = emptyTensor();
  let isRead: TensorInfo | null = null;
  let isSkipped = false;
  for (let field = await message.next(); field !== 0; field = await message.next()) {
    if (field !== RAW_DATA || message.wireType !== 2) {
      parseTensorField(await message.whole(), tensor, message.file);
      continue;
    }
    const isKnown: boolean =
      tensor.name !== '' && tensor.dataType !== 0 && tensor.bytes === null && !isRead && message.size! > 0;
    if (isKnown && !visitor.isUsed(tensor.name)) {
      isSkipped = true;
      await message.skip();
      continue;
    }
    const info: TensorInfo | null = isKnown ? tensorInfo(tensor, message.size, message.file) : null;
    const read = info && visitor.values(info);
    if (read) {
      isRead = { ...info, shape: [...info.shape] };
      await message.pass(read);
    } else {
      const given = tensor;
      const bytes = await message.bytes(false);
      if (isRead || given.bytes?.length) throw message.damaged(`one list of values of '${tensor.name}'`, 'two');
      setBytes(tensor, field, bytes);
    }
  }
  if (isSkipped) return;
  if (!isRead) return visitor.tensor(tensor);
  const same =
    isRead.name === tensor.name && String(isRead.shape) === String(tensor.dims) && !tensor.bytes && !tensor.external;
  if (!same) throw message.damaged(`one description of tensor '${isRead.name}'`, 'two');
}
