/**
 * Rewrites a folder's weights, tensor by tensor: rounded, with some of the rows, or unchanged. Weights are streamed:
 * only some rows of the original file are in memory at a time.
 */
import { invalidFile } from '../base/error.js';
import { callback, listOf, optional, type Schema, signal, text } from '../base/options.js';
import type { Runtime } from '../base/owned.js';
import type { SignalLike } from '../base/platform.js';
import type { Core } from '../base/wasm/core.js';
import { viewBytes } from '../io/bytes.js';
import { type ModelFolder, readAll } from '../io/files.js';
import { Integrity } from '../io/integrity.js';
import { ByteReader } from '../io/reader.js';
import {
  DTYPE_BYTES,
  type Dtype,
  parseHeader,
  readHeader,
  safetensorsHeader,
  type TensorEntry,
  type TensorHeader,
  type TrellisBits,
  tensorOf,
  trellisPlaneBytes,
  widen,
} from '../io/safetensors.js';
import { Settings } from '../io/settings.js';
import { type ModelSource, openFolder, type RemoteOptions } from '../io/source.js';
import { familyOf } from '../loading/family-of.js';
import { remoteSchema } from '../models/call-options.js';
import { parameterRowsOf } from '../models/families/families.js';
import { readSentenceConfig } from '../models/families/sentence-transformers.js';
import { bareName, WORD_TABLE } from '../models/families/weights.js';
import { tiedDecoderOf } from '../models/heads/task-heads.js';
import { notAtRoot, openModelFiles } from '../models/model-files.js';
import { STATIC } from '../models/static-embedding.js';
import type { Calibration } from './calibration.js';
import { type FileWriter, type FolderWriter, writeWhole } from './folder-writer.js';
import { openSafetensors } from './onnx-tensors.js';
import { brainFloats, int8Rows, roundedBrainFloats } from './quantize-rows.js';
import { outlierCount, trellisColumns, trellisRows } from './trellis.js';

/** The weight files, which are replaced by a single model.safetensors. */
const WEIGHTS = /^model(-\d+-of-\d+)?\.safetensors(\.index\.json)?$/;

/** Options of `quantize` and `prune`. */
export interface RewriteOptions extends RemoteOptions {
  /**
   * In Node: the path of a new folder, to which files are written while they are produced. Default: the files are
   * returned.
   */
  out?: string | undefined;
  /** Called with the number of weight bytes read so far and in total. */
  onProgress?: ((progress: { done: number; total: number }) => void) | undefined;
  signal?: SignalLike | undefined;
}

export const textList = listOf(text, 'an array of strings');
export const rewriteSchema = {
  texts: optional(textList, null),
  out: optional(text, undefined),
  onProgress: callback<NonNullable<RewriteOptions['onProgress']>>,
  signal,
  ...remoteSchema,
} satisfies Schema<RewriteOptions & { texts: unknown }>;

export interface RewriteReport {
  /** Every file that was written, with its size in bytes before (0 for a new file) and after. */
  files: { path: string; before: number; after: number }[];
  /** The size of all files before. */
  bytesBefore: number;
  /** The size of all files after. */
  bytesAfter: number;
}

/** A folder that was written. */
export interface Rewritten<Report extends RewriteReport> {
  /** The folder's files by path, as `fromPretrained` accepts them. Empty if `out` was given. */
  files: Record<string, Uint8Array>;
  report: Report;
}

/**
 * Opens the source of a rewritten folder. It is reopened for each pass, because a packed file can be read only once per
 * opening.
 */
export async function openOriginal(
  { hub }: Runtime,
  source: ModelSource,
  { integrity: digests, ...remote }: RemoteOptions,
  signal: SignalLike | undefined,
) {
  const integrity = new Integrity(digests);
  const open = () => openFolder(source, { ...remote, hub, signal, integrity });
  const folder = await open();
  const sentence = await readSentenceConfig(folder, signal);
  const { configFile, tokenizerFile, within } = await openModelFiles(folder, async () => sentence, signal);
  if (!configFile || within !== '') throw notAtRoot('source', ['config.json'], within);
  const settings = await untied(folder, await Settings.read(configFile), signal);
  return { integrity, open, folder, sentence, settings, tokenizerFile };
}

/** The number of values by which `untied` compares two tensors. */
const COMPARED = 4096;

/**
 * These settings, with `tie_word_embeddings: false` if the folder has a decoder of words whose weights are not the token
 * embeddings: transformers then uses the decoder.
 */
async function untied(folder: ModelFolder, settings: Settings, signal: SignalLike | undefined): Promise<Settings> {
  if (settings.get('model_type') === STATIC) return settings;
  const { type, family, config } = await familyOf(settings);
  const decoder = tiedDecoderOf(type, settings);
  if (decoder === null) return settings;
  const rows = parameterRowsOf(family, config);
  const isCompared = ({ name, dtype }: TensorEntry) => {
    const bare = bareName(name, family.prefix);
    return (rows.get(bare)?.parameter === WORD_TABLE || bare === decoder) && ['F32', 'F16', 'BF16'].includes(dtype);
  };
  const own = settings.with({ tie_word_embeddings: false });
  const { files } = await openSafetensors(folder, own, signal);
  const compared: Float32Array[] = [];
  for (const open of files) {
    const reader = new ByteReader(await open());
    try {
      const [, json] = await readHeader(reader);
      const entries = parseHeader(json, reader.file.name, reader.file.size);
      const found = entries.filter(isCompared);
      if (files.length === 1 && found.length < 2) return settings;
      let at = 0;
      for (const { begin, end, dtype } of found) {
        await reader.skip(begin - at);
        at = Math.min(end, begin + COMPARED * DTYPE_BYTES[dtype as Dtype]);
        compared.push(widen(await reader.take(at - begin), dtype as Dtype));
      }
    } finally {
      await reader.close();
    }
  }
  const [a, b] = compared;
  return b && a!.some((value, i) => value !== b[i]) ? own : settings;
}

/** How a tensor is written: rounded (bf16: fp32 tensors only), copied byte for byte, or left out. */
export type Form = 'int8' | 'int4' | 'int3' | 'int2' | 'bf16' | 'copy' | 'none';

/** The number of bits of a form by trellis-coded quantization; null for other forms. */
export const trellisBits = (form: Form): TrellisBits | null =>
  /^int[234]$/.test(form) ? (Number(form.at(-1)) as TrellisBits) : null;

export interface PlannedTensor {
  entry: TensorEntry;
  form: Form;
  /** Whether the tensor is an embedding table, whose rows are looked up one by one. */
  table: boolean;
  /** Whether the rows are transformed by `rotate` before they are quantized. Default: false. */
  rotated?: boolean | undefined;
  /** The encoder's parameter that the tensor is a part of, by its name in heed; null for other tensors. */
  parameter: string | null;
  /** The rows to copy, in ascending order; null: all rows. */
  kept: readonly number[] | null;
}

export interface Plan {
  /** In the order of the files and of the tensors in them. */
  tensors: PlannedTensor[];
  /** The total size of the files in bytes. */
  bytes: number;
  /** Those of config.json. */
  settings: Settings;
}

/** Whether rows are looked up one by one, so that each of them is a sequence of its own in 2 to 4 bits. */
const isTable = ({ parameter }: PlannedTensor) => parameter === WORD_TABLE;

/**
 * The tensors of the new file that replace an old tensor. Scales come first, so that rows can be loaded while they are
 * received.
 */
function headersOf(planned: PlannedTensor): TensorHeader[] {
  const { entry, form, table, kept } = planned;
  const { name, dtype, shape, begin, end } = entry;
  if (form === 'none') return [];
  if (kept) {
    const byteLength = ((end - begin) / shape[0]!) * kept.length;
    return [{ name, dtype, shape: [kept.length, ...shape.slice(1)], byteLength }];
  }
  if (form === 'copy') return [{ name, dtype, shape, byteLength: end - begin }];
  if (form === 'bf16') return [{ name, dtype: 'BF16', shape, byteLength: (end - begin) / 2 }];
  const [count, width] = shape as [number, number];
  const bits = trellisBits(form);
  const outliers = isTable(planned) ? 0 : outlierCount(count, width);
  // The scales of tables and trellises are chosen as BF16 numbers. Those of int8 matrices are F32, as when loading as
  // 'q8'.
  const scaleType = table || bits ? 'BF16' : 'F32';
  const scales = {
    name: `${name}_scale`,
    dtype: scaleType,
    shape: [count, 1],
    byteLength: count * DTYPE_BYTES[scaleType],
  };
  if (!bits) return [scales, { name, dtype: 'I8', shape, byteLength: count * width }];
  const plane = trellisPlaneBytes(width);
  return [
    scales,
    { name: `${name}_column_scale`, dtype: 'BF16', shape: [1, width], byteLength: 2 * width },
    ...(outliers > 0
      ? [{ name: `${name}_outliers`, dtype: 'F32', shape: [outliers, 3], byteLength: 12 * outliers }]
      : []),
    { name, dtype: 'U8', shape: [count, bits, plane], byteLength: count * bits * plane },
  ];
}

/** The number of bytes to read at a time. */
const BLOCK = 1 << 20;

export interface Run extends Pick<RewriteOptions, 'onProgress' | 'signal'> {
  yieldToEventLoop: () => Promise<void>;
  /** Needed for int2, int3 and int4. */
  core?: Core | undefined;
  /** The inputs of matrices in 2 to 4 bits; null: their errors are not fed back. */
  calibration?: Calibration | null | undefined;
}

/**
 * Plans the new weights. `planned` returns the plan for a tensor, given its file and the names of all tensors in that
 * file.
 */
export async function planWeights(
  folder: ModelFolder,
  settings: Settings,
  signal: SignalLike | undefined,
  planned: (entry: TensorEntry, file: string, names: Set<string>) => PlannedTensor,
): Promise<Plan> {
  const { files } = await openSafetensors(folder, settings, signal);
  const plan: Plan = { tensors: [], bytes: 0, settings };
  for (const open of files) {
    const file = await open();
    const reader = new ByteReader(file);
    const [, json] = await readHeader(reader);
    await reader.close();
    const entries = parseHeader(json, file.name, file.size);
    const names = new Set(entries.map(({ name }) => name));
    plan.bytes += 8 + json.length + (entries.at(-1)?.end ?? 0);
    for (const entry of entries) plan.tensors.push(planned(entry, file.name, names));
  }
  return plan;
}

/** Writes the weights as planned, and every other file as `rewritten` returns it; null: the file is left out. */
export async function writeFolder(
  writer: FolderWriter,
  folder: ModelFolder,
  paths: string[],
  plan: Plan,
  rewritten: (path: string, bytes: Uint8Array) => Uint8Array | null,
  run: Run,
): Promise<RewriteReport> {
  const after = await writeWeights(writer, folder, plan, run);
  const files = [{ path: 'model.safetensors', before: plan.bytes, after }];
  for (const path of paths.filter((path) => !WEIGHTS.test(path))) {
    const file = await folder.open(path, { required: true, signal: run.signal });
    const before = await readAll(file);
    const bytes = rewritten(path, before);
    if (!bytes) continue;
    await writeWhole(writer, path, bytes);
    files.push({ path, before: before.length, after: bytes.length });
  }
  const sum = (key: 'before' | 'after') => files.reduce((total, file) => total + file[key], 0);
  return { files, bytesBefore: sum('before'), bytesAfter: sum('after') };
}

/** The header of the new model.safetensors and the size of the whole file in bytes. */
export function plannedFile(tensors: readonly PlannedTensor[]): { start: Uint8Array<ArrayBuffer>; size: number } {
  const headers = tensors.flatMap(headersOf);
  const start = safetensorsHeader(headers, { format: 'pt' });
  return { start, size: headers.reduce((sum, { byteLength }) => sum + byteLength, start.length) };
}

/** Writes model.safetensors and resolves to its size. */
async function writeWeights(
  writer: FolderWriter,
  folder: ModelFolder,
  { tensors, bytes, settings }: Plan,
  run: Run,
): Promise<number> {
  const headers = tensors.map(headersOf);
  const { start, size } = plannedFile(tensors);
  const out = await writer.file('model.safetensors', size);
  await out.write(start, 0);
  let at = start.length;
  let next = 0;
  let done = 0;
  const onBytes = (count: number) => {
    done += count;
    run.onProgress?.({ done, total: Math.max(done, bytes) });
  };
  const { files } = await openSafetensors(folder, settings, run.signal); // a server's response can be read only once
  for (const open of files) {
    const reader = new ByteReader(await open(), onBytes);
    try {
      const [, json] = await readHeader(reader);
      for (const { name } of parseHeader(json, reader.file.name, reader.file.size)) {
        const tensor = tensors[next]!;
        if (tensor.entry.name !== name)
          throw invalidFile(
            reader.file.name,
            `tensor '${tensor.entry.name}'`,
            `'${name}'`,
            'The file changed while it was read',
          );
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
  planned: PlannedTensor,
  headers: TensorHeader[],
  reader: ByteReader,
  run: Run,
): Promise<void> {
  const { entry, form, table, rotated = false, kept } = planned;
  const { signal, yieldToEventLoop } = run;
  const size = entry.end - entry.begin;
  if (form === 'none') return reader.skip(size);
  if (trellisBits(form)) return writeTrellis(out, begin, planned, reader, run);
  const isRows = kept !== null || form === 'int8';
  const itemBytes = form === 'bf16' ? 4 : 1;
  const [count, width] = isRows ? (entry.shape as [number, number]) : [size / itemBytes, 1];
  const rowBytes = size / count || itemBytes;
  const block = Math.max(1, Math.floor(BLOCK / rowBytes));
  let [scalesAt, at] = [begin, headers.length === 1 ? begin : begin + headers[0]!.byteLength];
  for (let row = 0; row < count; row += block) {
    signal?.throwIfAborted();
    await yieldToEventLoop();
    const bytes = await reader.take(Math.min(block, count - row) * rowBytes, entry);
    let data: ArrayBufferView = kept ? selected(bytes, rowBytes, row, kept) : bytes;
    const tensor = tensorOf(reader.file.name, entry.name);
    if (form === 'bf16') data = roundedBrainFloats(widen(bytes, 'F32'), tensor);
    if (form === 'int8') {
      const rows = int8Rows(widen(bytes, entry.dtype as Dtype), width, { table, rotated, tensor, firstRow: row });
      const scales = viewBytes(headers[0]!.dtype === 'BF16' ? brainFloats(rows.scales) : rows.scales);
      await out.write(scales, scalesAt);
      scalesAt += scales.length;
      data = rows.data;
    }
    await out.write(viewBytes(data), at);
    at += data.byteLength;
  }
}

/** Writes a tensor in 2 to 4 bits. All of it is in memory, because the scales of its columns depend on all rows. */
async function writeTrellis(
  out: FileWriter,
  begin: number,
  planned: PlannedTensor,
  reader: ByteReader,
  { core, calibration, signal, yieldToEventLoop }: Run,
): Promise<void> {
  const { entry, form, parameter } = planned;
  const width = entry.shape[1]!;
  const tensor = tensorOf(reader.file.name, entry.name);
  const values = widen(await reader.take(entry.end - entry.begin, entry), entry.dtype as Dtype);
  const pause = () => {
    signal?.throwIfAborted();
    return yieldToEventLoop();
  };
  const about = { core: core!, bits: trellisBits(form)!, tensor, pause };
  const { scales, columnScales, outliers, data } = isTable(planned)
    ? await trellisRows(values, width, about)
    : await trellisColumns(values, width, (await calibration?.feedbackOf(parameter!)) ?? null, about);
  let at = begin;
  for (const part of [brainFloats(scales), brainFloats(columnScales), outliers, data]) {
    await out.write(viewBytes(part), at);
    at += part.byteLength;
  }
}

/** The rows to keep among the rows of `bytes`, which begin at row `first`. */
function selected(bytes: Uint8Array, rowBytes: number, first: number, kept: readonly number[]): Uint8Array {
  const rows = kept.filter((row) => row >= first && row < first + bytes.length / rowBytes);
  const out = new Uint8Array(rows.length * rowBytes);
  rows.forEach((row, i) => {
    out.set(bytes.subarray((row - first) * rowBytes, (row - first + 1) * rowBytes), i * rowBytes);
  });
  return out;
}
