/** Describes a model's folder, and what loading it would download, without reading its weights. Imported on demand. */

import { HeedError, invalidFile } from '../base/error.js';
import type { HubOptions } from '../base/hub-options.js';
import { append } from '../base/lists.js';
import { readOptions, type Schema, signal } from '../base/options.js';
import type { SignalLike } from '../base/platform.js';
import { elementCount } from '../base/tensor.js';
import { expectedSize, type ModelFolder, type OpenFile, readAll } from '../io/files.js';
import { ByteReader } from '../io/reader.js';
import { codedWidth, parseHeader, readHeader, type TensorEntry } from '../io/safetensors.js';
import { Settings, SettingsRecord } from '../io/settings.js';
import { type ModelSource, type RemoteOptions, withFolder } from '../io/source.js';
import { familyOf } from '../loading/family-of.js';
import { openTokenizer } from '../loading/load-model.js';
import { unreadIn } from '../loading/load-pretrained.js';
import { remoteSchema } from '../models/call-options.js';
import { parameterRowsOf } from '../models/families/families.js';
import { outputWidth } from '../models/families/family.js';
import { scoreActivationIn, taskSettings } from '../models/families/model-config.js';
import { rotatedModules, tableCodeIn } from '../models/families/quantization.js';
import type { SentenceConfig } from '../models/families/sentence-config.js';
import { readSentenceConfig } from '../models/families/sentence-transformers.js';
import {
  addLastToken,
  finalNormalize,
  isStaticIn,
  layersIn,
  poolingName,
  readsTokens,
  vectorSteps,
  weightsOf,
} from '../models/families/steps.js';
import { bareName, isScaleOf, WORD_TABLE } from '../models/families/weights.js';
import { isHeadTensor, isTied } from '../models/heads/task-heads.js';
import type { ModelConfig } from '../models/model.js';
import { openModelFiles, peek } from '../models/model-files.js';
import { STATIC, specialTokensOf } from '../models/static-embedding.js';
import { staticTensors, tableSettings } from '../models/static-table.js';
import { openSafetensors } from './onnx-tensors.js';
import { isSettings, quantizedBytes } from './quantize.js';

/** Options of `inspect`. */
export interface InspectOptions extends Omit<RemoteOptions, 'integrity'> {
  /** An `AbortSignal` that stops the call, which then rejects with the reason of the signal. */
  signal?: SignalLike | undefined;
}

/** What `inspect` reports about a folder. */
export interface Inspection
  extends Omit<ModelConfig, 'dimensions' | 'dtype' | 'problemType' | 'hasTokenizer' | 'maskToken' | 'subwordPrefix'> {
  /** Why `fromPretrained` would reject the folder; null if no reason was found. */
  problem: string | null;
  /** The architecture's maximum number of tokens per text. */
  maxLength: number;
  /** The number of parameters in the tensors that the model uses, heads included. */
  parameterCount: number;
  /** The types of the encoder's matrices in the files: 'F32', 'F16', 'BF16', 'I8', 'U8' (2 to 4 bits). */
  storage: string[];
  /** The files that `fromPretrained` reads, with their sizes in bytes; null if the server does not report the size. */
  files: { path: string; bytes: number | null }[];
  /**
   * `fp32`: the size of all these files in bytes, for any dtype they are loaded as. `q8`: the size after `quantize`
   * with default options; equal to `fp32` if the folder is already quantized or cannot be. null if the server does not
   * report every size. A decoder of words counts as tied if `tie_word_embeddings` says so, because no values are read.
   */
  download: { fp32: number | null; q8: number | null };
  /** The size of the encoder's weights in memory, in bytes. */
  memory: { fp32: number; q8: number };
  /** Missing files, each with the feature that does not work without it. */
  missing: string[];
}

const { integrity: _, ...schema } = { ...remoteSchema, signal } satisfies Schema<InspectOptions & RemoteOptions>;

/** Implements `Heed.inspect`. */
export async function inspect(
  source: ModelSource,
  options: InspectOptions | undefined,
  hub: HubOptions,
): Promise<Inspection> {
  const read = readOptions('inspect', schema, options);
  return withFolder(source, { ...read, hub }, inspected);
}

async function inspected(opened: ModelFolder, signal: SignalLike): Promise<Inspection> {
  const files: Inspection['files'] = [];
  const sizes: (number | null)[] = [];
  const absent: string[] = []; // files of the weights
  async function open(path: string, how: Parameters<ModelFolder['open']>[1]): Promise<OpenFile | null> {
    const file = await opened.open(path, how).catch((error: unknown) => {
      if (error instanceof HeedError && error.code === 'NOT_FOUND') absent.push(path);
      throw error;
    });
    if (!file) return null;
    const bytes = expectedSize(file);
    files.push({ path, bytes });
    if (!file.name.includes('.safetensors: ')) sizes.push(bytes); // files in a packed file are counted once, with it
    return file;
  }
  const record = new SettingsRecord();
  const folder = record.recording({ open } as ModelFolder);
  let problem: string | null = null;
  const attempt = async <T>(body: () => T | Promise<T>, fallback: T): Promise<T> => {
    try {
      return await body();
    } catch (error) {
      if (!(error instanceof HeedError) || !['INVALID_FILE', 'UNSUPPORTED', 'NOT_FOUND'].includes(error.code))
        throw error;
      problem ??= error.message;
      return fallback;
    }
  };
  let reading: Promise<SentenceConfig | null> | undefined;
  const readSentence = () => (reading ??= attempt(() => readSentenceConfig(folder, signal), null));
  const { configFile, tokenizerFile, within } = await openModelFiles(folder, readSentence, signal);
  const tokenizerJson = tokenizerFile && Settings.parse(await readAll(tokenizerFile), tokenizerFile.name);
  const sentence = await readSentence();
  let settings = configFile && (await Settings.read(configFile));
  if (sentence && settings) addLastToken(sentence, settings);
  const vectors = sentence && vectorSteps(sentence.steps);
  const fileSettings = settings;
  const isStatic = settings?.get('model_type') === STATIC || isStaticIn(sentence);
  const sentenceProblem = problem;
  problem = null; // when loading, a problem of config.json takes precedence
  let known = isStatic ? null : await attempt(() => familyOf(settings!), null);
  problem ??= sentenceProblem;
  const tokenizerConfig = await Settings.in(folder, `${within}tokenizer_config.json`, signal);
  const hasImageEncoder = known?.family.images !== undefined;
  await attempt(() => known?.family.preprocessing?.(folder, within, signal), null);
  for (const step of layersIn(sentence?.steps ?? [])) await peek(folder, weightsOf(step), signal);
  const entries: TensorEntry[] = [];
  const firstOfWeights = files.length;
  const weights = await attempt(() => openSafetensors(folder, settings, signal, within), null);
  for (const openFile of weights?.files ?? []) append(entries, await attempt(() => tensorsOf(openFile), []));
  const weightFiles = files.slice(firstOfWeights);
  const names = new Set(entries.map(({ name }) => name));
  const isScale = ({ name }: TensorEntry) => isScaleOf(name, names);

  const found = isStatic ? staticTensors(entries) : null;
  if (isStatic) {
    const { vocabSize = 1, width = 2 } = found ?? {};
    const sizes = tableSettings(settings, vocabSize, width, '');
    settings = sizes;
    known = await attempt(() => familyOf(sizes), null);
  }
  const config = known?.config;
  const rows = known && parameterRowsOf(known.family, known.config);
  const tied = isTied(known?.type ?? '', settings!);
  const prefix = known?.family.prefix ?? '';
  const parameterOf = (entry: TensorEntry) => rows?.get(bareName(entry.name, prefix))?.parameter;
  const isUsed = (entry: TensorEntry) =>
    parameterOf(entry) !== undefined ||
    entry === found?.mapping ||
    entry === found?.weights ||
    isHeadTensor(bareName(entry.name, prefix), tied, known?.family);
  const used = entries.filter((entry) => isUsed(entry) && !isScale(entry));
  const shapes = new Map(entries.map(({ name, shape }) => [name, shape]));
  const count = (entry: TensorEntry) => {
    const width = codedWidth(entry, (name) => shapes.get(name));
    return width === null ? elementCount(entry.shape) : entry.shape[0]! * width;
  };
  const encoder = used.filter((entry) => parameterOf(entry) !== undefined);
  const isMatrix = (entry: TensorEntry) =>
    (entry.shape.length === 2 || entry.dtype === 'U8') &&
    (!/^(vision\.)?embeddings\./.test(parameterOf(entry)!) || parameterOf(entry) === WORD_TABLE);
  /** The bytes of token embeddings that stay in 2 to 4 bits; null for other tensors. */
  const codedBytes = (entry: TensorEntry) =>
    entry.dtype === 'U8' && parameterOf(entry) === WORD_TABLE ? elementCount(entry.shape) + 4 * entry.shape[0]! : null;
  const memoryOf = (bytes: (entry: TensorEntry) => number) => encoder.reduce((sum, entry) => sum + bytes(entry), 0);
  const download = sizes.some((bytes) => bytes === null) ? null : sizes.reduce<number>((sum, bytes) => sum + bytes!, 0);
  const quantizedDownload = async () => {
    const ofSettings = files.filter(({ path }) => isSettings(path));
    const replaced = [...ofSettings, ...weightFiles].reduce((sum, { bytes }) => sum + (bytes ?? 0), 0);
    const isWhole = download !== null && fileSettings && within === '' && entries.length > 0;
    if (!isWhole || files.length !== sizes.length) return download; // packed files cannot be quantized
    const bytes = await quantizedBytes(fileSettings, entries, readsTokens(sentence?.steps ?? [])).catch(
      (error: unknown) => {
        if (error instanceof HeedError) return replaced;
        throw error;
      },
    );
    return download - replaced + bytes;
  };
  const missing = [
    ...(tokenizerFile || config?.vocabSize === 0 ? [] : ['tokenizer.json: only token ids can be given']),
    ...(hasImageEncoder || files.some(({ path }) => path === 'modules.json' || path === '1_Pooling/config.json')
      ? []
      : ['modules.json: the mean is used, and vectors are not normalized']),
    ...absent.map((path) => `${path}: ${weights ? 'a part of ' : ''}the weights`),
  ];
  // The tokenizer is made for the settings that it reads, and for its errors.
  await attempt(async () => {
    if (!tokenizerJson || !sentence) return void tokenizerConfig?.entries();
    const special = specialTokensOf(sentence, isStatic && !isStaticIn(sentence));
    await openTokenizer(tokenizerJson, special, sentence, config?.vocabSize ?? Infinity, {
      settings: tokenizerConfig ?? undefined,
      config: known?.gliner ? undefined : settings!,
      read: (name) => Settings.in(folder, within + name, signal),
    });
  }, undefined);
  const task = await attempt(() => taskSettings(known?.type ?? '', settings!, config ?? { positionOffset: 0 }), null);
  await attempt(() => [tableCodeIn(settings!), rotatedModules(settings!)], null);
  const general = sentence?.general ?? null;
  const scoreActivation = await attempt(() => sentence && scoreActivationIn(settings!, sentence), null);
  const unread = await unreadIn(record, { type: known?.type ?? '', settings: settings!, sentence: { general } });
  await opened.complete?.(signal);
  return {
    family: known?.type ?? String(settings!.get('model_type') ?? 'none'),
    problem,
    vocabSize: config?.vocabSize ?? 0,
    embedDim: config ? outputWidth(config) : 0,
    numLayers: config?.numLayers ?? 0,
    numHeads: config?.numHeads ?? 0,
    feedForwardDim: config?.feedForwardDim ?? 0,
    maxLength: config ? config.maxPositions - config.positionOffset : 0,
    parameterCount: used.reduce((sum, entry) => sum + count(entry), 0),
    storage: [...new Set(encoder.filter(({ shape }) => shape.length > 1).map(({ dtype }) => dtype))],
    pooling: known?.family.pooling ?? (vectors ? poolingName(vectors) : 'mean'),
    normalize: vectors ? finalNormalize(vectors) >= 0 : false,
    prompts: sentence?.prompts ?? {},
    similarity: sentence?.similarity ?? 'cosine',
    labels: task?.labels ?? [],
    scoreActivation,
    hasImageEncoder,
    files,
    download: { fp32: download, q8: await quantizedDownload() },
    memory: {
      fp32: memoryOf((entry) => codedBytes(entry) ?? 4 * count(entry)),
      q8: memoryOf((entry) => codedBytes(entry) ?? (isMatrix(entry) ? 1 : 4) * count(entry)),
    },
    missing,
    unread,
    unusedTensors: entries.filter((entry) => !isUsed(entry) && !isScale(entry)).map(({ name }) => name),
  };
}

/** The tensors listed in a file's header. */
async function tensorsOf(openFile: () => Promise<OpenFile>): Promise<TensorEntry[]> {
  const reader = new ByteReader(await openFile());
  try {
    const [, json] = await readHeader(reader);
    const entries = parseHeader(json, reader.file.name, reader.file.size);
    if (entries.length === 0) throw invalidFile(reader.file.name, 'tensors', 'none');
    return entries;
  } finally {
    await reader.close();
  }
}
