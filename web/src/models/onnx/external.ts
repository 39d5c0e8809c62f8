/** Values of tensors in other files, which an ONNX file refers to by location, offset and length. */
import { invalidFile } from '../../base/error.js';
import type { OpenFile } from '../../io/files.js';
import { ByteReader } from '../../io/reader.js';
import { tensorOf } from '../../io/safetensors.js';
import type { TensorInfo } from './messages.js';
import type { StoredTensor } from './values.js';

interface Range {
  info: TensorInfo;
  begin: number;
  end: number;
  /** Whether the range ends with the file. */
  isLast: boolean;
}

export class External {
  readonly #files = new Map<string, Range[]>();

  constructor(readonly file: string) {}

  /** Adds a tensor with the keys and values of its `external_data`. */
  add(info: TensorInfo, keys: ReadonlyMap<string, string>): void {
    const tensor = tensorOf(this.file, info.name);
    const given = keys.get('location') ?? '';
    const location = given.replace(/^(\.\/)+/, '');
    const isInside = location !== '' && !/[\\:?#\0]/.test(location) && !location.split('/').some(isOutside);
    if (!isInside) throw invalidFile(tensor, "a file's name in the folder of the ONNX file", `'${given}'`);
    const begin = numberOf(keys.get('offset') ?? '0', tensor, 'offset');
    const length = keys.get('length');
    const size = length === undefined ? info.byteLength : numberOf(length, tensor, 'length');
    if (size !== info.byteLength)
      throw invalidFile(tensor, `${info.byteLength} bytes for ${info.type} [${info.shape.join(', ')}]`, `${size}`);
    const ranges = this.#files.get(location) ?? [];
    ranges.push({ info, begin, end: begin + size, isLast: length === undefined });
    this.#files.set(location, ranges);
  }

  /**
   * Reads all files. `stream` returns a function that reads a tensor's values while they are received, or null if `hold`
   * should receive them.
   */
  async read(
    { open, counter }: { open(path: string): Promise<OpenFile>; counter(file: OpenFile): (count: number) => void },
    stream: (info: TensorInfo) => ((reader: ByteReader) => Promise<void>) | null,
    hold: (tensor: StoredTensor) => Promise<void>,
  ): Promise<void> {
    for (const [location, ranges] of this.#files) {
      const file = await open(location);
      const reader = new ByteReader(file, counter(file));
      try {
        await readRanges(reader, ranges, stream, hold);
      } finally {
        await reader.close();
      }
    }
  }
}

async function readRanges(
  reader: ByteReader,
  ranges: Range[],
  stream: (info: TensorInfo) => ((reader: ByteReader) => Promise<void>) | null,
  hold: (tensor: StoredTensor) => Promise<void>,
): Promise<void> {
  const { name, size } = reader.file;
  ranges.sort((a, b) => a.begin - b.begin || a.end - b.end);
  let at = 0;
  let before: { range: Range; bytes: Uint8Array | null } | null = null;
  for (const [i, range] of ranges.entries()) {
    const { info, begin, end, isLast } = range;
    const tensor = tensorOf(name, info.name);
    if (size !== null && (end > size || (isLast && end !== size)))
      throw invalidFile(tensor, `bytes ${begin} to ${end}`, `a file of ${size} bytes`, 'The file is truncated');
    const isShared = (other: Range | undefined) => other?.begin === begin && other.end === end;
    if (before?.bytes && isShared(before.range)) {
      await hold({ info, bytes: before.bytes });
      continue;
    }
    if (begin < at) throw invalidFile(tensor, `bytes from ${at}`, `${begin}`, 'Tensors overlap');
    await reader.skip(begin - at);
    at = end;
    const read = isShared(ranges[i + 1]) ? null : stream(info);
    if (read) {
      before = null;
      await read(reader);
    } else {
      const bytes = await reader.take(info.byteLength, info);
      before = { range, bytes };
      await hold({ info, bytes });
    }
  }
  for await (const _ of reader.rest()); // a file is only cached if all of it has been read
}

const isOutside = (part: string) => part === '' || part === '.' || part === '..';

function numberOf(text: string, tensor: string, key: string): number {
  const number = /^\d+$/.test(text) ? Number(text) : NaN;
  if (Number.isSafeInteger(number)) return number;
  throw invalidFile(tensor, `a whole number as ${key}`, `'${text}'`);
}
