/**
 * Writes a model's folder with int8 matrices and int8 or 4-bit embedding tables, see docs/quantization.md. Weights are streamed: of the original file only some rows are in memory.
 * Loaded when it is used.
 */
import { invalid, invalidFile } from '../error.js';
import { type ModelFolder, readAll } from '../io/files.js';
import { type FileWriter, type FolderWriter, folderWriter, writeWhole } from '../io/folder-writer.js';
import { listFiles } from '../io/list-files.js';
import { brainFloats, int4Rows, int8Rows, quantizationConfig } from '../io/quantize-rows.js';
import { ByteReader } from '../io/reader.js';
import {
  DTYPE_BYTES,
  type Dtype,
  int4Scales,
  parseHeader,
  readableDtype,
  readHeader,
  safetensorsHeader,
  type TensorEntry,
  type TensorHeader,
  tensorOf,
  widen,
} from '../io/safetensors.js';
import { type ModelSource, openFolder } from '../io/source.js';
import { callback, listOf, oneOf, optional, readOptions, type Schema, signal, text } from '../options.js';
import type { Runtime } from '../owned.js';
import type { SignalLike } from '../platform.js';
import { Settings } from './config.js';
import { familyOf, parameterRowsOf } from './families.js';
import { loadPretrained } from './pretrained.js';
import { makeYield } from './run.js';
import { readSentenceConfig } from './sentence-transformers.js';
import { STATIC, tableSettings } from './static-embedding.js';
import { notAtRoot, openConfig } from './static-folder.js';
import { isHeadTensor } from './task-heads.js';
import { bareName, isScaleOf, openWeights, WORD_TABLE } from './weights.js';

/** Options of `quantize`. */
export interface QuantizeOptions {
  /** The form of the table of words: 'int8' (default), or 'int4', half of its bytes, for tables of an even width. Matrices are int8. */
  tables?: 'int8' | 'int4';
  /** Texts on which the vectors before and after are compared; the folder then needs a tokenizer. */
  texts?: readonly string[];
  /** In Node: a new folder, to which the files are written as they arise. Default: they are returned. */
  out?: string;
  /** Called with the bytes of weights read so far and in total. */
  onProgress?: (progress: { done: number; total: number }) => void;
  signal?: SignalLike;
}

/** Cosine similarity of vectors before and after. */
export interface Loss {
  mean: number;
  worst: number;
  /** The text with the worst. */
  text: string;
}

export interface QuantizeReport {
  /** Every file that was written: its bytes before (0: new) and after. */
  files: { path: string; before: number; after: number }[];
  bytesBefore: number;
  bytesAfter: number;
  /** Tensors in each form; the others are as they were. */
  int8: string[];
  int4: string[];
  /** Tensors that no encoder and no head reads, and weights of other programs: not written. */
  leftOut: string[];
  /** For the folder loaded as 'fp32', which is the loss of the weights, and as 'q8', to which int8 activations add. null without `texts`. */
  loss: { fp32: Loss; q8: Loss } | null;
}

export interface Quantized {
  /** The folder's files by path, which `fromPretrained` loads; none with `out`. */
  files: Record<string, Uint8Array>;
  report: QuantizeReport;
}

const schema = {
  tables: optional(oneOf(['int8', 'int4']), 'int8' as const),
  texts: optional(listOf(text, 'an array of strings'), null),
  out: optional(text, undefined),
  onProgress: callback<NonNullable<QuantizeOptions['onProgress']>>,
  signal,
} satisfies Schema<QuantizeOptions>;

const WEIGHTS = /^model(-\d+-of-\d+)?\.safetensors(\.index\.json)?$/;

/** As `Heed.quantize`. */
export async function quantize(runtime: Runtime, source: ModelSource, options?: QuantizeOptions): Promise<Quantized> {
  const { tables, texts, out, onProgress, signal } = readOptions('quantize', schema, options);
  if (texts?.length === 0) throw invalid('quantize.texts', 'at least one text', 'none');
  const yieldToEventLoop = makeYield(signal);
  const folder = await openFolder(source, { signal });
  const { configFile, within } = await openConfig(folder, () => readSentenceConfig(folder, signal), signal);
  if (!configFile || within !== '') throw notAtRoot('source');
  const settings = Settings.parse(await readAll(configFile), configFile.name);
  const planned = await planOf(folder, settings, tables, signal);
  const original = texts && (await embedded(runtime, source, 'fp32', texts, signal));
  const { paths, others } = await listFiles(source, folder);
  const writer = await folderWriter(out);
  try {
    const files: QuantizeReport['files'] = [];
    const after = await writeWeights(writer, folder, planned, { onProgress, signal, yieldToEventLoop });
    files.push({ path: 'model.safetensors', before: planned.bytes, after });
    for (const path of paths.filter((path) => !WEIGHTS.test(path))) {
      const file = await folder.open(path, { required: true, signal });
      const before = await readAll(file);
      const bytes = path === 'config.json' ? configOf(settings, tables, planned) : before;
      await writeWhole(writer, path, bytes);
      files.push({ path, before: before.length, after: bytes.length });
    }
    const loss = original && {
      fp32: lossOf(texts!, original, await embedded(runtime, writer.source, 'fp32', texts!, signal)),
      q8: lossOf(texts!, original, await embedded(runtime, writer.source, 'q8', texts!, signal)),
    };
    const sum = (key: 'before' | 'after') => files.reduce((total, file) => total + file[key], 0);
    const named = (form: Form) =>
      planned.tensors.flatMap((tensor) => (tensor.form === form ? [tensor.entry.name] : []));
    const report: QuantizeReport = {
      files,
      bytesBefore: sum('before'),
      bytesAfter: sum('after'),
      int8: named('int8'),
      int4: named('int4'),
      leftOut: [...named('none'), ...others],
      loss,
    };
    return { files: await writer.commit(), report };
  } catch (error) {
    await writer.abort();
    throw signal?.aborted ? signal.reason : error;
  }
}

/** How a tensor is written: rounded, byte for byte, or not at all. */
type Form = 'int8' | 'int4' | 'copy' | 'none';

interface PlannedTensor {
  entry: TensorEntry;
  form: Form;
  /** Rows of an embedding table, which are read one by one. */
  table: boolean;
}

interface Plan {
  /** In the order of the files and of their bytes. */
  tensors: PlannedTensor[];
  /** Bytes of all files. */
  bytes: number;
}

/** Matrices with fewer rows or columns than this keep their form: heads with few labels, tables of token types and of position buckets. */
const LEAST = 16;

async function planOf(
  folder: ModelFolder,
  settings: Settings,
  tables: 'int8' | 'int4',
  signal: SignalLike | undefined,
): Promise<Plan> {
  // Of a static embedding, only the tensors' names matter here.
  const isStatic = settings.get('model_type') === STATIC;
  const { family, config } = await familyOf(isStatic ? tableSettings(settings, 1, 2, '') : settings);
  const rows = parameterRowsOf(family, config);
  const tied = settings.flag('tie_word_embeddings', true);
  const { files } = await openWeights(folder, signal);
  const plan: Plan = { tensors: [], bytes: 0 };
  for (const open of files) {
    const file = await open();
    const reader = new ByteReader(file);
    const [, json] = await readHeader(reader);
    await reader.close();
    const entries = parseHeader(json, file.name, file.size);
    const names = new Set(entries.map(({ name }) => name));
    plan.bytes += 8 + json.length + (entries.at(-1)?.end ?? 0);
    for (const entry of entries) {
      const { name, shape, dtype } = entry;
      const tensor = tensorOf(file.name, name);
      const bare = bareName(name, family.prefix);
      const parameter = rows.get(bare)?.parameter;
      const isUsed = parameter !== undefined || isHeadTensor(bare, tied, family);
      const isScale = isScaleOf(name, names);
      if (isScale || (isUsed && ['I8', 'U8'].includes(dtype)))
        throw invalidFile(tensor, 'weights that are not quantized', isScale ? `${dtype} scales` : dtype);
      const isMatrix = shape.length === 2 && bare.endsWith('.weight') && shape.every((extent) => extent >= LEAST);
      const form = !isUsed ? 'none' : !isMatrix ? 'copy' : parameter === WORD_TABLE ? tables : 'int8';
      if (form === 'int4' && shape[1]! % 2 !== 0)
        throw invalidFile(tensor, "an even width for tables: 'int4'", `${shape[1]}`);
      if (form !== 'none') readableDtype(dtype, tensor);
      plan.tensors.push({
        entry,
        form,
        table: parameter?.startsWith('embeddings.') === true && parameter !== 'embeddings.projection.weight',
      });
    }
  }
  return plan;
}

/** The tensors of the new file that one of the old ones becomes: its scales first, so that rows can be loaded as they arrive. */
function headersOf({ entry, form, table }: PlannedTensor): TensorHeader[] {
  const { name, dtype, shape, begin, end } = entry;
  if (form === 'none') return [];
  if (form === 'copy') return [{ name, dtype, shape, byteLength: end - begin }];
  const [count, width] = shape as [number, number];
  const int4 = form === 'int4';
  const perRow = int4 ? int4Scales(width) : 1;
  // The scales of tables are rounded with them; those of matrices are as the core would have them.
  const scaleType = table ? 'BF16' : 'F32';
  const columns = int4 ? width / 2 : width;
  return [
    {
      name: `${name}_scale`,
      dtype: scaleType,
      shape: [count, perRow],
      byteLength: count * perRow * DTYPE_BYTES[scaleType],
    },
    { name, dtype: int4 ? 'U8' : 'I8', shape: [count, columns], byteLength: count * columns },
  ];
}

/** Bytes that are read at a time. */
const BLOCK = 1 << 20;

interface Run {
  onProgress: QuantizeOptions['onProgress'];
  signal: SignalLike | undefined;
  yieldToEventLoop: () => Promise<void>;
}

/** Writes model.safetensors; resolves to its size. */
async function writeWeights(
  writer: FolderWriter,
  folder: ModelFolder,
  { tensors, bytes }: Plan,
  run: Run,
): Promise<number> {
  const headers = tensors.map(headersOf);
  const start = safetensorsHeader(headers.flat(), { format: 'pt' });
  const size = headers.flat().reduce((sum, { byteLength }) => sum + byteLength, start.length);
  const out = await writer.file('model.safetensors', size);
  await out.write(start, 0);
  let at = start.length;
  let next = 0;
  let done = 0;
  const onBytes = (count: number) => {
    done += count;
    run.onProgress?.({ done, total: Math.max(done, bytes) });
  };
  const { files } = await openWeights(folder, run.signal); // again: a server's answer can be read once
  for (const open of files) {
    const reader = new ByteReader(await open(), onBytes);
    try {
      const [, json] = await readHeader(reader);
      for (const { name } of parseHeader(json, reader.file.name, reader.file.size)) {
        const tensor = tensors[next]!;
        if (tensor.entry.name !== name)
          throw invalidFile(reader.file.name, 'the tensors that it had a moment ago', `'${name}'`);
        await writeTensor(out, at, tensor, headers[next]!, reader, run);
        at = headers[next]!.reduce((sum, { byteLength }) => sum + byteLength, at);
        next++;
      }
      await reader.expectEnd();
    } finally {
      await reader.close();
    }
  }
  await out.close();
  return size;
}

async function writeTensor(
  out: FileWriter,
  begin: number,
  { entry, form, table }: PlannedTensor,
  headers: TensorHeader[],
  reader: ByteReader,
  { signal, yieldToEventLoop }: Run,
): Promise<void> {
  const size = entry.end - entry.begin;
  if (form === 'none') return reader.skip(size);
  const [count, width] = form === 'copy' ? [size, 1] : (entry.shape as [number, number]);
  const rowBytes = size / count || 1;
  const block = Math.max(1, Math.floor(BLOCK / rowBytes));
  let [scalesAt, at] = [begin, form === 'copy' ? begin : begin + headers[0]!.byteLength];
  for (let row = 0; row < count; row += block) {
    signal?.throwIfAborted();
    await yieldToEventLoop();
    const bytes = await reader.take(Math.min(block, count - row) * rowBytes, entry);
    let data: ArrayBufferView = bytes;
    if (form !== 'copy') {
      const about = { table, tensor: tensorOf(reader.file.name, entry.name), firstRow: row };
      const values = widen(bytes, entry.dtype as Dtype);
      const rows = form === 'int8' ? int8Rows(values, width, about) : int4Rows(values, width, about);
      const scales = bytesOf(table ? brainFloats(rows.scales) : rows.scales);
      await out.write(scales, scalesAt);
      scalesAt += scales.length;
      data = rows.data;
    }
    await out.write(bytesOf(data), at);
    at += data.byteLength;
  }
}

function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

function configOf(settings: Settings, tables: 'int8' | 'int4', { tensors }: Plan): Uint8Array {
  const floats = tensors.flatMap(({ entry: { name, shape }, form }) =>
    form === 'copy' && shape.length === 2 && name.endsWith('.weight') ? [name.slice(0, -'.weight'.length)] : [],
  );
  const config = { ...Object.fromEntries(settings.entries()), quantization_config: quantizationConfig(tables, floats) };
  return new TextEncoder().encode(`${JSON.stringify(config, null, 2)}\n`);
}

async function embedded(
  runtime: Runtime,
  source: ModelSource,
  dtype: 'fp32' | 'q8',
  texts: readonly string[],
  signal: SignalLike | undefined,
) {
  const model = await loadPretrained(runtime, source, { dtype, signal });
  try {
    if (!model.config.hasTokenizer)
      throw invalid('quantize.texts', 'none for a folder without tokenizer.json', `${texts.length}`, 'UNSUPPORTED');
    return await model.embed(texts, { signal });
  } finally {
    model.dispose();
  }
}

type Vectors = Awaited<ReturnType<typeof embedded>>;

function lossOf(texts: readonly string[], before: Vectors, after: Vectors): Loss {
  const width = before.shape[1]!;
  const cosines = texts.map((_, n) => cosineOf(before.data, after.data, n * width, width));
  const worst = cosines.reduce((least, cosine, n) => (cosine < cosines[least]! ? n : least), 0);
  return {
    mean: cosines.reduce((sum, cosine) => sum + cosine, 0) / cosines.length,
    worst: cosines[worst]!,
    text: texts[worst]!,
  };
}

/** Of the `width` entries from `at` on; own code, as that of similarity() would have to be a chunk of its own. */
function cosineOf(a: Float32Array, b: Float32Array, at: number, width: number): number {
  let [product, aa, bb] = [0, 0, 0];
  for (let i = at; i < at + width; i++) {
    product += a[i]! * b[i]!;
    aa += a[i]! ** 2;
    bb += b[i]! ** 2;
  }
  return product / (Math.sqrt(aa * bb) || 1);
}
