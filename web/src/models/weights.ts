/**
 * A checkpoint's tensors into the core's parameters, as the bytes arrive: rows are handed over as soon as they are whole, so that the peak stays near one copy.
 */
import type { RawEncoderModel, RawEncoderModelConfig } from '../core.js';
import { allocating, HeedError } from '../error.js';
import { expectedSize, joined, type ModelFolder, type OpenFile, readAll } from '../io/files.js';
import type { SignalLike } from '../platform.js';
import { Settings } from './config.js';
import { type Family, type Place, placesOf } from './families.js';
import {
  DTYPE_BYTES,
  type Dtype,
  headerLength,
  isDtype,
  MAX_HEADER_BYTES,
  parseHeader,
  type TensorEntry,
  widen,
} from './safetensors.js';

/** A tensor that is not the encoder's: of a pooler or a task's head. */
export interface HeadTensor {
  shape: number[];
  data: Float32Array;
}

export interface LoadedWeights {
  /** By name, without the family's prefix. */
  heads: Map<string, HeadTensor>;
  /** Tensors in the file that nothing here uses. */
  unused: string[];
  /** How the encoder's matrices are stored in the file: 'F32', 'F16', ... */
  dtypes: string[];
}

/** What to do with one tensor of the file. */
type Task =
  | { kind: 'skip' }
  /** Write rows to a parameter as they come; `scale` names the tensor with the rows' scales. */
  | { kind: 'rows'; parameter: number; firstRow: number; rows: number; dtype: Dtype; scale: string | null }
  | { kind: 'keep'; name: string; dtype: Dtype };

/** The files that hold the weights: model.safetensors, or those that its index lists. */
export async function openWeights(
  folder: ModelFolder,
  signal?: SignalLike,
): Promise<{ files: (() => Promise<OpenFile>)[]; size: number | null }> {
  const single = await folder.open('model.safetensors', { signal });
  const index = single ? null : await folder.open('model.safetensors.index.json', { signal });
  if (!index) {
    const only = single ?? (await folder.open('model.safetensors', { required: true, signal }));
    return { files: [async () => only], size: expectedSize(only) };
  }
  const settings = Settings.parse(await readAll(index), index.name);
  const map = settings.record('weight_map')?.entries() ?? [];
  const names = [...new Set(map.map(([, file]) => file))];
  if (names.length === 0 || names.some((name) => typeof name !== 'string' || !/^[\w.-]+\.safetensors$/.test(name))) {
    throw settings.wrong('weight_map', names, "the shards' file names by tensor");
  }
  const total = settings.record('metadata')?.get('total_size');
  return {
    files: (names as string[]).map((name) => () => folder.open(name, { required: true, signal })),
    size: typeof total === 'number' ? total : null,
  };
}

export class WeightLoader {
  readonly heads = new Map<string, HeadTensor>();
  readonly unused: string[] = [];
  private readonly dtypes = new Set<string>();
  private readonly places: Map<string, Place>;
  private readonly parameters: { name: string; shape: number[] }[];
  private readonly indices: Map<string, number>;
  /** Ranges of rows that tensors fill, by parameter. */
  private readonly filled: [number, number][][];
  private readonly scales = new Map<string, Float32Array>();

  constructor(
    private readonly model: RawEncoderModel,
    private readonly family: Family,
    config: RawEncoderModelConfig,
    private readonly isHead: (name: string) => boolean,
  ) {
    this.places = placesOf(family, config);
    this.parameters = model.parameters();
    this.indices = new Map(this.parameters.map(({ name }, i) => [name, i]));
    this.filled = this.parameters.map(() => []);
  }

  /** All tensors of a small file that holds no encoder. */
  static async readAll(file: OpenFile): Promise<Map<string, HeadTensor>> {
    const reader = new ByteReader(file, () => {});
    try {
      const length = headerLength(await reader.take(8), file.name, file.size);
      const tensors = new Map<string, HeadTensor>();
      for (const { name, dtype, shape, begin, end } of parseHeader(await reader.take(length), file.name, file.size)) {
        if (!isDtype(dtype))
          throw new HeedError(
            'UNSUPPORTED',
            `${file.name}: tensor '${name}': got dtype ${dtype}; expected ${Object.keys(DTYPE_BYTES).join(', ')}`,
          );
        const bytes = await reader.take(end - begin, { name, shape });
        tensors.set(name, { shape, data: widened(bytes, dtype, { name, shape }) });
      }
      await reader.expectEnd();
      return tensors;
    } finally {
      await reader.close();
    }
  }

  /** One file. Nothing is written before its whole header has been checked; for the `last` file, also that no tensor is missing. */
  async load(file: OpenFile, last: boolean, onBytes: (count: number) => void): Promise<void> {
    const reader = new ByteReader(file, onBytes);
    try {
      const length = headerLength(await reader.take(8), file.name, file.size);
      const entries = parseHeader(await reader.take(Math.min(length, MAX_HEADER_BYTES)), file.name, file.size);
      const tasks = this.plan(entries, file.name);
      if (last) this.requireComplete(file.name);
      const deferred: (() => void)[] = [];
      for (const [i, entry] of entries.entries()) await this.execute(tasks[i]!, entry, reader, deferred, file.name);
      for (const write of deferred) write();
      await reader.expectEnd();
    } finally {
      await reader.close();
    }
  }

  result(): LoadedWeights {
    for (const [name, { shape, data }] of this.heads) {
      const scales = this.scales.get(`${name}_scale`);
      if (!scales) continue;
      const width = data.length / Math.max(shape[0] ?? 1, 1);
      if (scales.length !== shape[0])
        throw new HeedError(
          'INVALID_FILE',
          `tensor '${name}_scale': got ${scales.length} scales; expected ${shape[0]}, one a row`,
        );
      for (let i = 0; i < data.length; i++) data[i] = data[i]! * scales[Math.floor(i / width)]!;
    }
    return { heads: this.heads, unused: this.unused, dtypes: [...this.dtypes] };
  }

  private plan(entries: TensorEntry[], file: string): Task[] {
    const names = new Set(entries.map(({ name }) => name));
    return entries.map((entry) => {
      const { name, dtype, shape } = entry;
      const bare = this.bareName(name);
      const isScale = bare.endsWith('_scale') && names.has(name.slice(0, -'_scale'.length));
      const place = this.places.get(bare);
      const index = place && this.indices.get(place.parameter);
      if (isScale || index === undefined) {
        if (isScale || this.isHead(bare)) return { kind: 'keep', name: bare, dtype: this.known(dtype, name, file) };
        this.unused.push(name);
        return { kind: 'skip' };
      }
      const known = this.known(dtype, name, file);
      if (shape.length > 1) this.dtypes.add(dtype);
      const target = this.parameters[index]!.shape;
      const rows = shape[0] ?? 1;
      const fits =
        shape.length === target.length &&
        shape.slice(1).every((extent, axis) => extent === target[axis + 1]) &&
        place!.firstRow + rows <= target[0]!;
      if (!fits) throw this.misshapen(name, shape, index, place!, file);
      const ranges = this.filled[index]!;
      ranges.push([place!.firstRow, place!.firstRow + rows]);
      const scale = `${bare}_scale`;
      if (known === 'I8' && !names.has(`${name}_scale`))
        throw new HeedError(
          'INVALID_FILE',
          `${file}: tensor '${name}': got I8 without '${name}_scale'; expected the scales of its rows beside it`,
        );
      return {
        kind: 'rows',
        parameter: index,
        firstRow: place!.firstRow,
        rows,
        dtype: known,
        scale: known === 'I8' ? scale : null,
      };
    });
  }

  private async execute(
    task: Task,
    entry: TensorEntry,
    reader: ByteReader,
    deferred: (() => void)[],
    file: string,
  ): Promise<void> {
    const size = entry.end - entry.begin;
    if (task.kind === 'skip') return reader.skip(size);
    if (task.kind === 'keep') {
      const data = widened(await reader.take(size, entry), task.dtype, entry);
      if (task.name.endsWith('_scale')) this.scales.set(task.name, data);
      else this.heads.set(task.name, { shape: entry.shape, data });
      return;
    }
    const { parameter, firstRow, rows, dtype, scale } = task;
    if (size === 0) return;
    const rowBytes = size / rows;
    if (scale === null) {
      await reader.rows(rowBytes, rows, (bytes, row) =>
        this.model.writeParameter(parameter, firstRow + row, bytes, dtype, null),
      );
      return;
    }
    // The scales may come before or after what they scale.
    const bytes = await reader.take(size, entry);
    const write = () => {
      const scales = this.scales.get(scale)!;
      if (scales.length !== rows)
        throw new HeedError(
          'INVALID_FILE',
          `${file}: tensor '${entry.name}_scale': got ${scales.length} scales; expected ${rows}, one a row`,
        );
      this.model.writeParameter(parameter, firstRow, bytes, dtype, scales);
    };
    if (this.scales.has(scale)) write();
    else deferred.push(write);
  }

  /** The tensor's name without the family's prefix, in today's spelling. */
  private bareName(name: string): string {
    const bare = name.startsWith(this.family.prefix) ? name.slice(this.family.prefix.length) : name;
    return bare.replace(/\.gamma$/, '.weight').replace(/\.beta$/, '.bias');
  }

  private known(dtype: string, name: string, file: string): Dtype {
    if (isDtype(dtype)) return dtype;
    throw new HeedError(
      'UNSUPPORTED',
      `${file}: tensor '${name}': got dtype ${dtype}; expected ${Object.keys(DTYPE_BYTES).join(', ')}`,
    );
  }

  private misshapen(name: string, shape: number[], index: number, place: Place, file: string): HeedError {
    const target = this.parameters[index]!.shape;
    const starts = [...this.places.values()].filter((p) => p.parameter === place.parameter).map((p) => p.firstRow);
    const next = Math.min(target[0]!, ...starts.filter((row) => row > place.firstRow));
    return new HeedError(
      'INVALID_FILE',
      `${file}: tensor '${name}': got shape [${shape.join(', ')}]; expected [${[next - place.firstRow, ...target.slice(1)].join(', ')}], as config.json says`,
    );
  }

  /** Every row of every parameter is filled exactly once. */
  private requireComplete(file: string): void {
    const missing: string[] = [];
    this.parameters.forEach(({ name, shape }, index) => {
      let at = 0;
      for (const [begin, end] of this.filled[index]!.sort((a, b) => a[0] - b[0])) {
        if (begin < at)
          throw new HeedError(
            'INVALID_FILE',
            `${file}: got two tensors for rows ${begin} to ${at} of ${name} (${this.namesOf(name).join(', ')})`,
          );
        if (begin > at) break;
        at = end;
      }
      if (at < shape[0]!) missing.push(...this.namesOf(name));
    });
    if (missing.length === 0) return;
    const shown = missing
      .slice(0, 4)
      .map((name) => `'${name}'`)
      .join(', ');
    throw new HeedError(
      'INVALID_FILE',
      `${file}: lacks rows of ${missing.length} tensors, among them ${shown}; expected all that config.json's sizes call for`,
    );
  }

  private namesOf(parameter: string): string[] {
    return [...this.places].filter(([, place]) => place.parameter === parameter).map(([name]) => name);
  }
}

type Named = Pick<TensorEntry, 'name' | 'shape'>;

function widened(bytes: Uint8Array, dtype: Dtype, { name, shape }: Named): Float32Array {
  return allocating(name, shape, (4 * bytes.length) / DTYPE_BYTES[dtype], () => widen(bytes, dtype));
}

/** Takes a stream of chunks apart into pieces of wanted sizes. */
class ByteReader {
  private readonly iterator: AsyncIterator<Uint8Array>;
  private chunk = new Uint8Array();

  constructor(
    private readonly file: OpenFile,
    private readonly onBytes: (count: number) => void,
  ) {
    this.iterator = file.chunks()[Symbol.asyncIterator]();
  }

  /** At least one more byte in `chunk`; false at the end. */
  private async fill(): Promise<boolean> {
    while (this.chunk.length === 0) {
      const next = await this.iterator.next();
      if (next.done) return false;
      this.onBytes(next.value.length);
      this.chunk = next.value as Uint8Array<ArrayBuffer>;
    }
    return true;
  }

  private ended(missing: number): HeedError {
    return new HeedError(
      'INVALID_FILE',
      `${this.file.name}: ended ${missing} bytes before the end of a tensor or of the header. The file is truncated`,
    );
  }

  /** `of`: the tensor whose bytes they are. */
  async take(size: number, of?: Named): Promise<Uint8Array> {
    if (this.chunk.length >= size) {
      const whole = this.chunk.subarray(0, size);
      this.chunk = this.chunk.subarray(size);
      return whole;
    }
    // Grown as bytes arrive: a lying header costs no memory.
    const parts: Uint8Array[] = [];
    let missing = size;
    while (missing > 0) {
      if (!(await this.fill())) throw this.ended(missing);
      const part = this.chunk.subarray(0, missing);
      parts.push(part);
      missing -= part.length;
      this.chunk = this.chunk.subarray(part.length);
    }
    return of ? allocating(of.name, of.shape, size, () => joined(parts)) : joined(parts);
  }

  /** `count` rows, handed on in as large groups as the chunks allow. */
  async rows(rowBytes: number, count: number, write: (bytes: Uint8Array, firstRow: number) => void): Promise<void> {
    let row = 0;
    while (row < count) {
      if (!(await this.fill())) throw this.ended((count - row) * rowBytes);
      const whole = Math.min(Math.floor(this.chunk.length / rowBytes), count - row);
      const bytes = whole > 0 ? this.chunk.subarray(0, whole * rowBytes) : await this.take(rowBytes);
      if (whole > 0) this.chunk = this.chunk.subarray(whole * rowBytes);
      write(bytes, row);
      row += Math.max(whole, 1);
    }
  }

  async skip(size: number): Promise<void> {
    while (size > 0) {
      if (!(await this.fill())) throw this.ended(size);
      const step = Math.min(size, this.chunk.length);
      this.chunk = this.chunk.subarray(step);
      size -= step;
    }
  }

  async expectEnd(): Promise<void> {
    if (await this.fill())
      throw new HeedError(
        'INVALID_FILE',
        `${this.file.name}: got bytes after the last tensor; expected the end of the file`,
      );
  }

  async close(): Promise<void> {
    await this.iterator.return?.();
  }
}
