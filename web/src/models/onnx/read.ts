/**
 * Reads the weights in an ONNX file. The graph only serves to name them: no operator is run. Values are passed on while
 * they are received, except for those that wait for their scales or are transposed.
 */
import type { OpenFile } from '../../io/files.js';
import { ByteReader } from '../../io/reader.js';
import { type Range, rangeOf, readRanges } from './external.js';
import { Graph } from './graph.js';
import { damaged, type Node, type TensorInfo, type TensorMessage, tensorInfo } from './messages.js';
import { type Assignment, assignedTensors, type Wanted } from './names.js';
import { joinedRows, passOn, type Receive, recover } from './recover.js';
import { readModel, type Visitor } from './stream.js';
import type { StoredTensor } from './values.js';

export type { Wanted } from './names.js';

export interface ReadOptions {
  wanted: Wanted;
  /** Whether tensors with a scale per row may be received as int8. Otherwise they are converted to fp32. */
  keepIntegers: boolean;
  receive: Receive;
  /** Opens a file by its path relative to the folder of the ONNX file. */
  open(path: string): Promise<OpenFile>;
  /** Lets the event loop run, if it is time; see `makeYield`. */
  pause(): Promise<void>;
  /** Returns the function to call with the length of each chunk of a file. */
  counter(file: OpenFile): (count: number) => void;
}

/**
 * Reads the tensors that a model needs from an ONNX file and its external data.
 * @throws HeedError INVALID_FILE, NOT_FOUND for external data that is missing, UNSUPPORTED
 */
export async function readOnnx(file: OpenFile, options: ReadOptions): Promise<void> {
  const reader = new ByteReader(file, options.counter(file));
  try {
    const weights = new Weights(reader, options);
    await readModel(reader, weights, options.pause);
    await weights.finish();
  } finally {
    await reader.close();
  }
}

class Weights implements Visitor {
  readonly #graph: Graph;
  /** Per stored tensor, the tensors of the state dict that need it; null until the graph is complete. */
  #users: Map<string, Set<Assignment>> | null = null;
  /** Tensors that stand before the nodes. */
  readonly #early: TensorMessage[] = [];
  /** Tensors that other tensors still need. */
  readonly #held = new Map<string, StoredTensor>();
  readonly #seen = new Set<string>();
  /** The values in other files, by the paths of the files. */
  readonly #external = new Map<string, Range[]>();

  readonly file: string;

  constructor(
    readonly reader: ByteReader,
    readonly options: ReadOptions,
  ) {
    this.file = reader.file.name;
    this.#graph = new Graph(this.file);
  }

  node(node: Node): void {
    if (this.#users) throw damaged(this.file, 'nodes between tensors');
    this.#graph.add(node);
  }

  /** The tensors that need a stored tensor. The first call ends the graph. */
  #usersOf(tensor: string): ReadonlySet<Assignment> {
    if (!this.#users) {
      this.#users = new Map();
      for (const assignment of assignedTensors(this.#graph, this.options.wanted, this.file))
        for (const part of partsOf(assignment)) {
          const users = this.#users.get(part) ?? new Set();
          this.#users.set(part, users.add(assignment));
        }
    }
    return this.#users.get(tensor) ?? NONE;
  }

  get #hasGraph(): boolean {
    return this.#graph.nodes.length > 0;
  }

  isUsed(name: string): boolean {
    return !this.#hasGraph || this.#usersOf(name).size > 0;
  }

  values({ name, type, shape, byteLength: end }: TensorInfo): ((reader: ByteReader) => Promise<void>) | null {
    const [user, ...others] = this.#hasGraph ? this.#usersOf(name) : [];
    if (!user || others.length > 0 || !isStreamed(user) || !/F(16|32)/.test(type)) return null;
    this.#note(name);
    return (reader) => this.options.receive({ name: user.name, dtype: type, shape, begin: 0, end }, reader);
  }

  #note(name: string): void {
    if (this.#seen.has(name)) throw damaged(this.file, `two tensors '${name}'`);
    this.#seen.add(name);
  }

  async tensor(message: TensorMessage): Promise<void> {
    if (!this.#hasGraph) {
      this.#early.push(message);
      return;
    }
    const { bytes, external } = message;
    const info = tensorInfo(message, external ? null : (bytes?.length ?? 0), this.file);
    if (!external) return this.#hold({ info, bytes: bytes ?? new Uint8Array() });
    const [location, range] = rangeOf(info, external, this.file);
    const ranges = this.#external.get(location);
    if (ranges) ranges.push(range);
    else this.#external.set(location, [range]);
  }

  /** Keeps a tensor, and passes on the tensors of the state dict that are now complete. */
  async #hold(tensor: StoredTensor): Promise<void> {
    const { name } = tensor.info;
    this.#note(name);
    this.#held.set(name, tensor);
    for (const user of [...this.#usersOf(name)]) {
      const parts = partsOf(user);
      if (!parts.every((part) => this.#held.has(part))) continue;
      await this.#complete(user);
      for (const part of parts) {
        const users = this.#users!.get(part)!;
        users.delete(user);
        if (users.size > 0) continue;
        this.reader.release(this.#held.get(part)!.bytes);
        this.#held.delete(part);
      }
    }
  }

  async #complete({ name, parts }: Assignment): Promise<void> {
    const { keepIntegers, pause } = this.options;
    const isWhole = parts.length === 1;
    const held = (part: string | null) => (part === null ? null : this.#held.get(part)!);
    const recovered = parts.map((stored) => {
      const tensor = held(stored.tensor)!;
      const found = {
        tensor: isWhole ? tensor : squeezed(tensor),
        scale: held(stored.scale),
        zero: held(stored.zero),
        factor: held(stored.factor),
      };
      return recover(stored, found, keepIntegers && isWhole, this.file);
    });
    const wasQuantized = parts.some(({ form }) => form.kind !== 'plain');
    const receive: Receive = (entry, reader) => this.options.receive(entry, reader, wasQuantized);
    await passOn(name, joinedRows(recovered), this.file, { receive, pause });
  }

  /** Completes tensors that wait for values in nodes or in other files. */
  async finish(): Promise<void> {
    const { open, counter } = this.options;
    const constants = this.#graph.nodes.flatMap(({ value, outputs }) =>
      value ? { ...value, name: outputs[0] ?? '' } : [],
    );
    for (const message of [...this.#early.splice(0), ...constants])
      if (this.#usersOf(message.name).size > 0) await this.tensor(message);
    for (const [location, ranges] of this.#external) {
      const file = await open(location);
      await readRanges(file, ranges, counter(file), async (info, reader) => {
        const read = this.values(info);
        if (read) await read(reader);
        else await this.#hold({ info, bytes: await reader.copy(info.byteLength) });
      });
    }
    for (const [part, users] of this.#users ?? [])
      for (const { name, parts } of users)
        if (!this.#seen.has(part) && parts.some(({ tensor }) => this.#seen.has(tensor)))
          throw damaged(this.file, `'${name}' without '${part}'`);
  }
}

const NONE: ReadonlySet<Assignment> = new Set();

/** The names of the stored tensors that a tensor of the state dict needs. */
function partsOf({ parts }: Assignment): string[] {
  const names = parts.flatMap(({ tensor, scale, zero, factor }) => [tensor, scale, zero, factor]);
  return [...new Set(names.filter((name) => name !== null))];
}

/** Whether a tensor has the same bytes in the state dict. */
function isStreamed({ parts: [first, ...others] }: Assignment): boolean {
  const { form, transposed, part, offset } = first!;
  return others.length === 0 && form.kind === 'plain' && !transposed && !part && offset === 0;
}

/** Without leading axes of length 1, which position embeddings have. */
function squeezed({ info, bytes }: StoredTensor): StoredTensor {
  const shape = info.shape.slice();
  while (shape.length > 2 && shape[0] === 1) shape.shift();
  return { info: { ...info, shape }, bytes };
}
