/**
 * Writes a model's folder with matrices and embedding tables in int8 or 4 bits; see docs/quantization.md. Weights are
 * streamed: only some rows of the original file are in memory at a time. Imported on demand.
 */
import { invalid, invalidFile } from '../base/error.js';
import { makeYield } from '../base/event-loop.js';
import { callback, listOf, oneOf, optional, readOptions, type Schema, signal, text } from '../base/options.js';
import type { Runtime } from '../base/owned.js';
import type { SignalLike } from '../base/platform.js';
import { type ModelFolder, readAll } from '../io/files.js';
import { discard, listFiles } from '../io/list-files.js';
import { readableDtype, type TensorEntry, tensorOf } from '../io/safetensors.js';
import { Settings } from '../io/settings.js';
import type { ModelSource, RemoteOptions } from '../io/source.js';
import { remoteSchema } from '../models/call-options.js';
import { parameterRowsOf } from '../models/families/families.js';
import { familyOf } from '../models/families/family-of.js';
import { readSentenceConfig, type SentenceConfig } from '../models/families/sentence-transformers.js';
import { bareName, isInt8Matrix, isScaleOf, WORD_TABLE } from '../models/families/weights.js';
import { isHeadTensor } from '../models/heads/task-heads.js';
import { GLINER_CONFIG, notAtRoot, openModelFiles } from '../models/model-files.js';
import { STATIC, tableSettings } from '../models/static-embedding.js';
import { Calibration } from './calibration.js';
import { CALIBRATION_TEXTS } from './calibration-texts.js';
import { embedded, lossOf, type VectorSimilarity } from './folder-loss.js';
import { folderWriter } from './folder-writer.js';
import { quantizationConfig, rotationBlock, type StoredForm } from './quantize-rows.js';
import {
  type Form,
  type Plan,
  type PlannedTensor,
  plannedFile,
  planWeights,
  reopened,
  totalsOf,
  writeFolder,
} from './rewrite.js';

/** Options of `quantize`. */
export interface QuantizeOptions extends RemoteOptions {
  /**
   * The type of the token embeddings: 'int8' (default), 'int4' or 'int3', half or three eighths of the size. With 'int4'
   * and 'int3', fp32 biases and norms become bfloat16.
   */
  tables?: 'int8' | 'int4' | 'int3' | undefined;
  /**
   * The type of the layers' matrices in the file: 'int8' (default), 'int4' or 'int3', half or three eighths of the size.
   * Loading converts 'int4' and 'int3' to int8 or fp32.
   */
  matrices?: 'int8' | 'int4' | 'int3' | undefined;
  /**
   * Texts on which the report compares the vectors before and after. Needs a tokenizer in the folder. Matrices in 3 or 4
   * bits are fitted to these texts and to built-in English sentences. Default: none.
   */
  texts?: readonly string[] | undefined;
  /**
   * In Node: the path of a new folder, to which files are written while they are produced. Default: the files are
   * returned.
   */
  out?: string | undefined;
  /** Called with the number of weight bytes read so far and in total. */
  onProgress?: ((progress: { done: number; total: number }) => void) | undefined;
  signal?: SignalLike | undefined;
}

export interface QuantizeReport {
  /** Every file that was written, with its size in bytes before (0 for a new file) and after. */
  files: { path: string; before: number; after: number }[];
  bytesBefore: number;
  bytesAfter: number;
  /** The names of the tensors converted to each type. The others keep their type. */
  int8: string[];
  int4: string[];
  int3: string[];
  bf16: string[];
  /**
   * Not written: tensors that heed does not read, a pooler that neither the folder's pooling nor a classifier uses, and
   * weights in other formats.
   */
  leftOut: string[];
  /**
   * The similarity to the original vectors. `fp32`: loaded as 'fp32', which measures the error of the weights. `q8`:
   * loaded as 'q8', which adds the error of int8 activations. null if `texts` was not given.
   */
  loss: { fp32: VectorSimilarity; q8: VectorSimilarity } | null;
}

export interface Quantized {
  /** The folder's files by path, as `fromPretrained` accepts them. Empty if `out` was given. */
  files: Record<string, Uint8Array>;
  report: QuantizeReport;
}

const schema = {
  tables: optional(oneOf(['int8', 'int4', 'int3']), 'int8' as const),
  matrices: optional(oneOf(['int8', 'int4', 'int3']), 'int8' as const),
  texts: optional(listOf(text, 'an array of strings'), null),
  out: optional(text, undefined),
  onProgress: callback<NonNullable<QuantizeOptions['onProgress']>>,
  signal,
  ...remoteSchema,
} satisfies Schema<QuantizeOptions>;

/** Implements `Heed.quantize`. */
export async function quantize(runtime: Runtime, source: ModelSource, options?: QuantizeOptions): Promise<Quantized> {
  const { tables, matrices, texts, out, onProgress, signal, ...remote } = readOptions('quantize', schema, options);
  const forms = { tables, matrices };
  if (texts?.length === 0) throw invalid('quantize.texts', 'at least one text', 'none');
  const yieldToEventLoop = makeYield(signal);
  const { integrity, open } = reopened(runtime, source, remote, signal);
  const folder = await open();
  let sentence: Promise<SentenceConfig> | undefined;
  const readSentence = () => (sentence ??= readSentenceConfig(folder, signal));
  const { configFile, tokenizerFile, within } = await openModelFiles(folder, readSentence, signal);
  if (tokenizerFile) await discard(tokenizerFile);
  if (!configFile || within !== '') throw notAtRoot('source', ['config.json'], within);
  const settings = Settings.parse(await readAll(configFile), configFile.name);
  const { pools } = await readSentence();
  const planned = await planOf(folder, settings, forms, pools, signal);
  const { paths, others } = await listFiles(source, folder);
  const writer = await folderWriter(out);
  let calibration: Calibration | null = null;
  try {
    const fitted = planned.tensors.flatMap(({ form, parameter }) =>
      /int[34]/.test(form) && parameter && parameter !== WORD_TABLE ? [parameter] : [],
    );
    if (fitted.length > 0 && tokenizerFile) {
      const all = [...CALIBRATION_TEXTS, ...(texts ?? [])];
      calibration = await Calibration.open(runtime, source, await open(), fitted, all, signal);
    }
    const original = texts && (await embedded('quantize', runtime, source, 'fp32', texts, signal, await open()));
    const rewritten = (path: string, bytes: Uint8Array) =>
      isSettings(path) ? configOf(settings, forms, planned) : bytes;
    const files = await writeFolder(writer, folder, paths, planned, rewritten, {
      onProgress,
      signal,
      yieldToEventLoop,
      core: runtime.core,
      calibration,
    });
    integrity.requireAllFound();
    const loss = original && {
      fp32: lossOf(texts!, original, await embedded('quantize', runtime, writer.source, 'fp32', texts!, signal)),
      q8: lossOf(texts!, original, await embedded('quantize', runtime, writer.source, 'q8', texts!, signal)),
    };
    const named = (form: Form) =>
      planned.tensors.flatMap((tensor) => (tensor.form === form ? [tensor.entry.name] : []));
    const report: QuantizeReport = {
      files,
      ...totalsOf(files),
      int8: named('int8'),
      int4: named('int4'),
      int3: named('int3'),
      bf16: named('bf16'),
      leftOut: [...named('none'), ...others],
      loss,
    };
    await folder.complete?.(signal);
    return { files: await writer.commit(), report };
  } catch (error) {
    await writer.abort();
    if (await folder.failed?.(error)) return await quantize(runtime, source, { ...options, refresh: true });
    throw signal?.aborted ? signal.reason : error;
  } finally {
    calibration?.dispose();
  }
}

interface Forms {
  tables: 'int8' | 'int4' | 'int3';
  matrices: 'int8' | 'int4' | 'int3';
}

/** How the forms are stored. */
const STORED: Record<Forms['tables'], StoredForm> = { int8: 'int8', int4: 'trellis4', int3: 'trellis3' };

/** Whether the file is config.json or a GLiNER's configuration. */
export const isSettings = (path: string) => path === 'config.json' || path === GLINER_CONFIG;

/**
 * The minimum number of rows and columns of a quantized matrix. Excludes heads with few labels, token types and
 * position buckets.
 */
const LEAST = 16;

async function planOf(
  folder: ModelFolder,
  settings: Settings,
  forms: Forms,
  pools: boolean,
  signal: SignalLike | undefined,
): Promise<Plan> {
  const { formOf, leaveOut } = await formsIn(settings, forms, pools);
  const plan = await planWeights(folder, settings, signal, formOf);
  leaveOut(plan.tensors);
  return plan;
}

/**
 * The size in bytes of config.json and the weights after `quantize` with default options, for a folder with these
 * settings and tensors.
 */
export async function quantizedBytes(settings: Settings, entries: TensorEntry[], pools: boolean): Promise<number> {
  const forms: Forms = { tables: 'int8', matrices: 'int8' };
  const { formOf, leaveOut } = await formsIn(settings, forms, pools);
  const names = new Set(entries.map(({ name }) => name));
  const tensors = entries.map((entry) => formOf(entry, 'model.safetensors', names));
  leaveOut(tensors);
  return plannedFile(tensors).size + configOf(settings, forms, { tensors }).length;
}

/**
 * Returns `formOf`, which decides the form of a tensor, and `leaveOut`, which then drops tensors that depend on others.
 */
async function formsIn(settings: Settings, forms: Forms, pools: boolean) {
  // For a static embedding, only the tensors' names matter here, so the sizes are arbitrary.
  const isStatic = settings.get('model_type') === STATIC;
  const { family, config } = await familyOf(isStatic ? tableSettings(settings, 1, 2, '') : settings);
  const rows = parameterRowsOf(family, config);
  const tied = settings.flag('tie_word_embeddings', true);
  const formOf = (entry: TensorEntry, file: string, names: Set<string>): PlannedTensor => {
    const { name, shape, dtype } = entry;
    if (isStatic && (name === 'mapping' || name === 'weights'))
      return { entry, form: 'copy', table: false, parameter: null, kept: null };
    const tensor = tensorOf(file, name);
    const bare = bareName(name, family.prefix);
    const parameter = rows.get(bare)?.parameter;
    const isUsed = parameter !== undefined || isHeadTensor(bare, tied, family);
    const isScale = isScaleOf(name, names);
    if (isScale || (isUsed && ['I8', 'U8'].includes(dtype)))
      throw invalidFile(tensor, 'weights that are not quantized', isScale ? `${dtype} scales` : dtype);
    const isMatrix = shape.length === 2 && bare.endsWith('.weight') && shape.every((extent) => extent >= LEAST);
    const table = parameter?.startsWith('embeddings.') === true && parameter !== 'embeddings.projection.weight';
    const isInLayers = parameter !== undefined && /^(layers\.|embeddings\.projection\.)/.test(parameter);
    const small = forms.tables !== 'int8' && parameter !== undefined && dtype === 'F32' ? 'bf16' : 'copy';
    const option = parameter === WORD_TABLE ? 'tables' : isInLayers ? 'matrices' : null;
    const form: Form = !isUsed ? 'none' : !isMatrix ? small : option ? forms[option] : 'int8';
    if (form !== 'none') readableDtype(dtype, tensor);
    const rotated = form === 'int8' && isInt8Matrix(parameter ?? '') && rotationBlock(shape[1]!) > 1;
    return { entry, form, table, rotated, parameter: parameter ?? null, kept: null };
  };
  // The pooler's output is unused if the folder pools otherwise, unless a classifier reads it.
  const { pooler } = family;
  const isOf = (module: string) => (tensor: PlannedTensor) =>
    bareName(tensor.entry.name, family.prefix).startsWith(`${module}.`);
  const leaveOut = (tensors: readonly PlannedTensor[]) => {
    if (pools && pooler && !tensors.some(isOf('classifier')))
      for (const tensor of tensors.filter(isOf(pooler))) tensor.form = 'none';
  };
  return { formOf, leaveOut };
}

function configOf(settings: Settings, { tables, matrices }: Forms, { tensors }: Pick<Plan, 'tensors'>): Uint8Array {
  const modulesOf = (some: readonly PlannedTensor[]) =>
    some.flatMap(({ entry: { name, shape } }) =>
      shape.length === 2 && name.endsWith('.weight') ? [name.slice(0, -'.weight'.length)] : [],
    );
  const floats = modulesOf(tensors.filter(({ form }) => ['copy', 'bf16'].includes(form)));
  const rotated = modulesOf(tensors.filter((each) => each.rotated));
  const quantization = quantizationConfig(STORED[tables], STORED[matrices], floats, rotated);
  const config = { ...Object.fromEntries(settings.entries()), quantization_config: quantization };
  return new TextEncoder().encode(`${JSON.stringify(config, null, 2)}\n`);
}
