/**
 * Writes a model's folder with matrices and embedding tables in int8 or 2 to 4 bits; see docs/quantization.md. Weights are
 * streamed: only some rows of the original file are in memory at a time. Imported on demand.
 */

import { invalid, invalidFile } from '../base/error.js';
import { makeYield } from '../base/event-loop.js';
import { oneOf, optional, type Reader, readOptions, type Schema } from '../base/options.js';
import type { Runtime } from '../base/owned.js';
import type { SignalLike } from '../base/platform.js';
import { discard, type ModelFolder } from '../io/files.js';
import { listFiles } from '../io/list-files.js';
import { readableDtype, type TensorEntry, tensorOf } from '../io/safetensors.js';
import type { Settings } from '../io/settings.js';
import type { ModelSource } from '../io/source.js';
import { familyOf } from '../loading/family-of.js';
import { parameterRowsOf } from '../models/families/families.js';
import { ROTATION } from '../models/families/quantization.js';
import { readsTokens } from '../models/families/steps.js';
import { bareName, isInt8Matrix, isScaleOf, WORD_TABLE } from '../models/families/weights.js';
import { isHeadTensor, isTied } from '../models/heads/task-heads.js';
import { GLINER_CONFIG } from '../models/model-files.js';
import { STATIC } from '../models/static-embedding.js';
import { tableSettings } from '../models/static-table.js';
import { Calibration } from './calibration.js';
import { CALIBRATION_TEXTS } from './calibration-texts.js';
import { embedded, lossOf, type VectorSimilarity } from './folder-loss.js';
import { folderWriter } from './folder-writer.js';
import { quantizationConfig, rotationBlock, type StoredForm } from './quantize-rows.js';
import {
  type Form,
  openOriginal,
  type Plan,
  type PlannedTensor,
  plannedFile,
  planWeights,
  type RewriteOptions,
  type RewriteReport,
  type Rewritten,
  rewriteSchema,
  trellisBits,
  writeFolder,
} from './rewrite.js';

const TYPES = ['int8', 'int4', 'int3', 'int2'] as const;
/** A type of quantized weights. */
type WeightType = (typeof TYPES)[number];

/** Options of `quantize`. */
export interface QuantizeOptions extends RewriteOptions {
  /**
   * The type of the token embeddings: 'int8' (default), or 'int4', 'int3' or 'int2': a half, three eighths or a quarter of
   * the size. With the latter three, fp32 biases and norms become bfloat16.
   */
  tables?: 'int8' | 'int4' | 'int3' | 'int2' | undefined;
  /**
   * The type of the layers' matrices in the file, or a function that returns it for the name of a tensor: 'int8'
   * (default), or 'int4', 'int3' or 'int2': a half, three eighths or a quarter of the size. Loading converts the latter
   * three to int8 or fp32.
   */
  matrices?: 'int8' | 'int4' | 'int3' | 'int2' | ((name: string) => 'int8' | 'int4' | 'int3' | 'int2') | undefined;
  /**
   * Texts on which the report compares the vectors before and after. Needs a tokenizer in the folder. Matrices in 2 to 4
   * bits are fitted to these texts and to built-in English sentences. Default: none.
   */
  texts?: readonly string[] | undefined;
}

/** What `quantize` has changed. */
export interface QuantizeReport extends RewriteReport {
  /** The names of the tensors converted to each type. The others keep their type. */
  int8: string[];
  /** The names of the tensors in 4 bits. */
  int4: string[];
  /** The names of the tensors in 3 bits. */
  int3: string[];
  /** The names of the tensors in 2 bits. */
  int2: string[];
  /** The names of the tensors in bfloat16. */
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

/** What `quantize` returns. */
export type Quantized = Rewritten<QuantizeReport>;

const weightType = oneOf(TYPES);

const matrixTypes: Reader<Forms['matrices']> = (value, name) =>
  typeof value === 'function'
    ? (tensor: string) => weightType(value(tensor), `${name}('${tensor}')`)
    : weightType(value, name);

const schema = {
  tables: optional(weightType, 'int8' as const),
  matrices: optional(matrixTypes, 'int8' as const),
  ...rewriteSchema,
} satisfies Schema<QuantizeOptions>;

/** Implements `Heed.quantize`. */
export async function quantize(runtime: Runtime, source: ModelSource, options?: QuantizeOptions): Promise<Quantized> {
  const { tables, matrices, texts, out, onProgress, signal, ...remote } = readOptions('quantize', schema, options);
  const forms = { tables, matrices };
  if (texts?.length === 0) throw invalid('quantize.texts', 'at least one text', 'none');
  const yieldToEventLoop = makeYield(signal);
  const original = await openOriginal(runtime, source, remote, signal);
  const { integrity, open, folder, settings, tokenizerFile } = original;
  if (tokenizerFile) await discard(tokenizerFile);
  const planned = await planOf(folder, settings, forms, readsTokens(original.sentence.steps), signal);
  const { paths, others } = await listFiles(source, folder);
  const writer = await folderWriter(out);
  let calibration: Calibration | null = null;
  try {
    const fitted = planned.tensors.flatMap(({ form, parameter }) =>
      trellisBits(form) && parameter && parameter !== WORD_TABLE ? [parameter] : [],
    );
    if (fitted.length > 0 && tokenizerFile) {
      const all = [...CALIBRATION_TEXTS, ...(texts ?? [])];
      calibration = await Calibration.open(runtime, source, await open(), fitted, all, signal);
    }
    const before = texts && (await embedded('quantize', runtime, source, 'fp32', texts, signal, await open()));
    const rewritten = (path: string, bytes: Uint8Array) =>
      isSettings(path) ? configOf(settings, forms, planned) : bytes;
    const written = await writeFolder(writer, folder, paths, planned, rewritten, {
      onProgress,
      signal,
      yieldToEventLoop,
      core: runtime.core,
      calibration,
    });
    integrity.requireAllFound();
    const loss = before && {
      fp32: lossOf(texts!, before, await embedded('quantize', runtime, writer.source, 'fp32', texts!, signal)),
      q8: lossOf(texts!, before, await embedded('quantize', runtime, writer.source, 'q8', texts!, signal)),
    };
    const named = (form: Form) =>
      planned.tensors.flatMap((tensor) => (tensor.form === form ? [tensor.entry.name] : []));
    const report: QuantizeReport = {
      ...written,
      int8: named('int8'),
      int4: named('int4'),
      int3: named('int3'),
      int2: named('int2'),
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
  tables: WeightType;
  matrices: WeightType | ((name: string) => WeightType);
}

/** How the forms are stored. */
const STORED: Record<WeightType, StoredForm> = {
  int8: 'int8',
  int4: 'trellis4',
  int3: 'trellis3',
  int2: 'trellis2',
};

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
  const { type, family, config } = await familyOf(isStatic ? tableSettings(settings, 1, 2, '') : settings);
  const rows = parameterRowsOf(family, config);
  const tied = isTied(type, settings);
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
    const ofMatrix = typeof forms.matrices === 'function' ? forms.matrices : () => forms.matrices as WeightType;
    const chosen = () => (parameter === WORD_TABLE ? forms.tables : isInLayers ? ofMatrix(name) : 'int8');
    const form: Form = !isUsed ? 'none' : isMatrix ? chosen() : small;
    if (form !== 'none') readableDtype(dtype, tensor);
    const isNamed = name.endsWith('.weight'); // as the lists of quantization_config name modules
    const rotated = form === 'int8' && isNamed && isInt8Matrix(parameter ?? '') && rotationBlock(shape[1]!) > 1;
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
  const rotated = new Map(modulesOf(tensors.filter((each) => each.rotated)).map((module) => [module, ROTATION]));
  // With types by name, the groups list the modules of each type.
  const ofType = (type: WeightType) =>
    modulesOf(tensors.filter(({ form, parameter }) => form === type && parameter !== WORD_TABLE));
  const linear: [StoredForm, string[]][] =
    typeof matrices === 'function'
      ? TYPES.map((type): [StoredForm, string[]] => [STORED[type], ofType(type)]).filter(([, of]) => of.length > 0)
      : [[STORED[matrices], ['Linear']]];
  const quantization = quantizationConfig(STORED[tables], linear, floats, rotated);
  const config = { ...Object.fromEntries(settings.entries()), quantization_config: quantization };
  return new TextEncoder().encode(`${JSON.stringify(config, null, 2)}\n`);
}
