/**
 * `model.save()`: writes a model's folder with its current weights, in the format of heed, transformers and
 * sentence-transformers.
 */

import { allocating, invalid } from '../../base/error.js';
import type { RuntimeHub } from '../../base/hub-options.js';
import { flag, oneOf, optional, readOptions, type Schema, signal } from '../../base/options.js';
import type { SignalLike } from '../../base/platform.js';
import type { Core, RawTensor } from '../../base/wasm/core.js';
import type { Parameter } from '../graph/parameters.js';
import {
  bareName,
  brainFloats,
  CLASSIFIER,
  DTYPE_BYTES,
  type Dtype,
  Integrity,
  int4Width,
  int8Rows,
  isScaleOf,
  type LocalModel,
  MODEL_FILES,
  type ModelFolder,
  type ModelSource,
  notAtRoot,
  openTable,
  openWeights,
  parameterRowsOf,
  parseJson,
  quantizationConfig,
  type RemoteOptions,
  readAll,
  readTensors,
  STATIC,
  tensorOf,
  textFamilyOf,
  WORD_TABLE,
  widened,
  withFolder,
  wordBiasNames,
  writeSafetensors,
} from '../inference.js';
import type { TrainableModel } from '../trainable/trainable-model.js';
import { adapterFiles, mergedWeights, type SavedFiles } from './adapter.js';
import { requireIdle } from './busy.js';
import { requireTrainable } from './encoder.js';
import { type Installed, installed } from './head.js';

/** Options of `save`. */
export interface SaveOptions {
  /**
   * The type of the stored weights. 'fp32': all in single precision. 'q8': matrices as int8 with one scale per row
   * (X.weight_scale), compressed-tensors' int-quantized layout. Default: unchanged tensors keep their type in the file,
   * and the others become single precision; if any tensor has changed, none is stored in int8. Unchanged 4-bit tables
   * keep 4 bits, except with 'fp32'.
   */
  dtype?: 'fp32' | 'q8';
  /**
   * true: save only the LoRA adapters and the classifier trained with them, in PEFT's format. Layers of a family's
   * classifier are listed in `modules_to_save`; a classifier on sentence vectors is saved as `classifier.weight` and
   * `classifier.bias`, which PEFT ignores. Default false: save the whole folder, with the adapters added to the
   * weights.
   */
  adapter?: boolean;
  signal?: SignalLike;
}

/** The source of a model. */
export interface Origin {
  readonly source: ModelSource;
  readonly hub: RuntimeHub;
  readonly options: RemoteOptions;
}

const schema = {
  dtype: optional(oneOf(['fp32', 'q8']), null),
  adapter: optional(flag, false),
  signal,
} satisfies Schema<SaveOptions>;

/** @internal See `Savable.save`. */
export async function save(
  model: LocalModel,
  { source, hub, options }: Origin,
  given?: SaveOptions,
): Promise<SavedFiles> {
  const { dtype, adapter, signal } = readOptions('save', schema, given);
  void model.raw; // throws after dispose()
  if (model.config.hasImageEncoder)
    throw invalid('save', 'a model of texts', `'${model.config.family}'`, 'UNSUPPORTED');
  requireIdle('save', model);
  if (adapter) return adapterFiles(requireTrainable('save.adapter', model));
  const { integrity, ...remote } = options;
  const from = { ...remote, hub, signal, integrity: new Integrity(integrity) };
  return withFolder(source, from, async (folder, signal) => {
    const files: SavedFiles = {};
    const copy = async (path: string) => {
      const file = await folder.open(path, { signal });
      if (file) files[path] = (await readAll(file)) as Uint8Array<ArrayBuffer>;
    };
    await Promise.all(MODEL_FILES.map(copy));
    const { isStatic, modelFolder } = model.sentence;
    const missing = ['config.json', 'tokenizer.json'].filter((name) => !files[name]);
    if ((isStatic || modelFolder) && missing.length > 0) throw notAtRoot('save', missing, modelFolder);
    const modules = files['modules.json'] ? modulesOf(files['modules.json']) : null;
    for (const { path } of modules ?? []) {
      if (path !== '' && path !== '.')
        await Promise.all(['config.json', 'model.safetensors'].map((file) => copy(`${path}/${file}`)));
    }
    const stored = await readStored(folder, model.config.family === STATIC, signal);
    await folder.complete?.(signal);
    // No await from here on, so that all weights are from the same moment.
    requireIdle('save', model);
    const writer = new WeightWriter(model, stored, dtype);
    files['model.safetensors'] = writer.bytes();
    writeLayers(files, writer);
    const head = installed.get(model);
    files['config.json'] = configOf(files['config.json']!, writer, head);
    if (head?.kind === 'sentence') addClassifier(files, modules, head);
    return files;
  });
}

/** A tensor as stored in the file. */
interface Stored {
  readonly dtype: string;
  readonly shape: number[];
  readonly bytes: Uint8Array;
}

/** Reads the tensors of all weight files, by name. */
async function readStored(
  folder: ModelFolder,
  isStatic: boolean,
  signal: SignalLike | undefined,
): Promise<Map<string, Stored>> {
  const all = new Map<string, Stored>();
  for (const open of (await openWeights(folder, signal)).files) {
    const opened = await open();
    const file = isStatic ? (await openTable(opened, null)).file : opened;
    for (const [name, tensor] of await readTensors(file)) all.set(name, tensor);
    signal?.throwIfAborted();
  }
  return all;
}

type Module = { idx?: unknown; name?: unknown; path: string; type: string };

function modulesOf(bytes: Uint8Array): Module[] {
  return parseJson(bytes, 'modules.json') as Module[]; // validated when the model was loaded
}

const json = (value: unknown) => new TextEncoder().encode(`${JSON.stringify(value, null, 2)}\n`);

/** A tensor of the new file. */
interface Written {
  name: string;
  dtype: string;
  shape: number[];
  data: ArrayBufferView;
}

/** Decides how each tensor is stored. */
class WeightWriter {
  readonly #stored: ReadonlyMap<string, Stored>;
  readonly #dtype: 'fp32' | 'q8' | null;
  readonly #core: Core;
  /** Functions that return the current values, by the tensors' names in the file. */
  readonly values: ReadonlyMap<string, () => RawTensor>;
  /**
   * The matrices that 'q8' multiplies in int8, by their names in the file. The value is whether the matrix is the token
   * embeddings.
   */
  readonly #matrices: ReadonlyMap<string, boolean>;
  /** Values that differ from those of the file. */
  readonly #changed: Map<string, RawTensor>;
  #tensors: Written[] | null = null;

  constructor(model: LocalModel, stored: ReadonlyMap<string, Stored>, dtype: 'fp32' | 'q8' | null) {
    this.#stored = stored;
    this.#dtype = dtype;
    this.#core = model.headContext.core;
    const { family, config } = textFamilyOf(model.headContext.settings);
    const bareOf = (name: string) => bareName(name, family.prefix);
    const rows = parameterRowsOf(family, config);
    const matrices = [...stored].flatMap(([name, { shape }]): [string, boolean][] => {
      const parameter = rows.get(bareOf(name))?.parameter ?? '';
      const isWords = parameter === WORD_TABLE;
      const isLinear = /^(layers\.|embeddings\.projection\.).*(proj_|proj\.|linear\d\.|projection\.)weight$/.test(
        parameter,
      );
      return shape.length === 2 && (isWords || isLinear) ? [[name, isWords]] : [];
    });
    this.#matrices = new Map(matrices);
    this.values = valuesOf(model, new Map([...stored.keys()].map((name) => [bareOf(name), name])));
    const changed = [...stored].map(([name, tensor]) => [name, this.#changeOf(name, tensor)] as const);
    this.#changed = new Map(changed.filter((entry): entry is [string, RawTensor] => entry[1] !== null));
    // A bias with two names is read under the first one, so write it under both.
    const [read, ...others] = wordBiasNames(model.headContext.type).flatMap((bias) =>
      [...stored.keys()].filter((name) => bareOf(name) === bias),
    );
    const bias = this.#changed.get(read ?? '');
    if (bias) for (const name of others) this.#changed.set(name, bias);
  }

  /** Whether the matrices are stored in int8. */
  get isQuantized(): boolean {
    if (this.#dtype !== null) return this.#dtype === 'q8';
    return (
      this.#changed.size === 0 && [...this.#stored].some(([name, { dtype }]) => dtype === 'I8' && this.#scales(name))
    );
  }

  /** The settings in config.json that describe the weights; undefined if all weights are unchanged. */
  get quantization(): { config: object | null } | undefined {
    const all = this.#all();
    if (all.every(({ name, data }) => this.#stored.get(name)?.bytes === data)) return undefined;
    const int4 = all.filter(({ name, dtype }) => dtype === 'U8' && this.#matrices.has(name));
    if (!this.isQuantized && int4.length === 0) return { config: null };
    const formOf = (words: boolean) => (int4.some(({ name }) => this.#matrices.get(name) === words) ? 'int4' : 'int8');
    return { config: quantizationConfig(formOf(true), formOf(false), this.#ignored) };
  }

  /** The modules with a matrix that is not in int8. */
  get #ignored(): string[] {
    return this.#all()
      .filter(({ name, dtype, shape }) => shape.length === 2 && !/^[IU]8$/.test(dtype) && name.endsWith('.weight'))
      .map(({ name }) => name.slice(0, -'.weight'.length));
  }

  bytes(): Uint8Array<ArrayBuffer> {
    return writeSafetensors(this.#all(), { format: 'pt' });
  }

  #all(): Written[] {
    this.#tensors ??= [...this.#stored]
      .filter(([name]) => !isScaleOf(name, this.#stored))
      .flatMap(([name, tensor]) => this.#write(name, tensor));
    return this.#tensors;
  }

  #write(name: string, tensor: Stored): Written[] {
    const current = this.#changed.get(name);
    const scale = `${name}_scale`;
    const scales = this.#scales(name);
    if (!current && this.#keeps(name, tensor)) {
      // Scales come first, so that rows can be loaded while they are received.
      return [...(scales ? [written(scale, scales)] : []), written(name, tensor)];
    }
    const value = current ?? this.#file(name, tensor);
    if (!this.isQuantized || !this.#matrices.has(name)) return [{ name, dtype: 'F32', ...value }];
    const { shape } = value;
    const [count = 1, width = 1] = shape;
    const table = this.#matrices.get(name)!;
    const rows = int8Rows(value.data, width, { table, tensor: tensorOf('model.safetensors', name) });
    const scaleShape = [count, 1];
    return [
      table
        ? { name: scale, dtype: 'BF16', shape: scaleShape, data: brainFloats(rows.scales) }
        : { name: scale, dtype: 'F32', shape: scaleShape, data: rows.scales },
      { name, dtype: 'I8', shape, data: rows.data },
    ];
  }

  /** Whether an unchanged tensor is stored as it was. */
  #keeps(name: string, { dtype }: Stored): boolean {
    if (this.#isInt4(name)) return this.#dtype !== 'fp32';
    if (dtype === 'I8' && this.#scales(name)) return this.isQuantized;
    // Tensors of types that heed does not read are unused, such as `position_ids`.
    return (
      this.#dtype === null ||
      !Object.hasOwn(DTYPE_BYTES, dtype) ||
      dtype === 'I8' ||
      (this.#dtype === 'fp32' && dtype === 'F32')
    );
  }

  #scales(name: string): Stored | undefined {
    return this.#stored.get(`${name}_scale`);
  }

  #isInt4(name: string): boolean {
    return this.#matrices.has(name) && this.#stored.get(name)!.dtype === 'U8';
  }

  /** The current value of a tensor, or null if it equals that of the file. */
  #changeOf(name: string, tensor: Stored): RawTensor | null {
    const value = this.values.get(name)?.();
    if (!value) return null;
    const before = this.#file(name, tensor);
    if (String(value.shape) !== String(before.shape)) return value;
    return value.data.every((entry, i) => Object.is(entry, before.data[i])) ? null : value;
  }

  /** The value of a tensor in the file. */
  #file(name: string, { bytes, dtype, shape }: Stored): RawTensor {
    const scale = this.#scales(name);
    const scales = scale ? widened(scale.bytes, scale.dtype as Dtype, { name, shape: scale.shape }) : null;
    if (scales && this.#isInt4(name)) {
      const [rows = 0, rowBytes = 0] = shape;
      const width = int4Width(rowBytes);
      return { shape: [rows, width], data: int4Values(this.#core, bytes, scales, width) };
    }
    const data = widened(bytes, dtype as Dtype, { name, shape });
    if (dtype !== 'I8' || !scales) return { shape, data };
    const width = data.length / scales.length;
    return { shape, data: data.map((value, i) => value * scales[Math.floor(i / width)]!) };
  }
}

/** Decodes 4-bit rows, using the WebAssembly module. */
function int4Values(core: Core, bytes: Uint8Array, scales: Float32Array, width: number): Float32Array {
  const options = { inFeatures: width, outFeatures: scales.length, bias: false, activation: 'identity', name: '' };
  const layer = allocating('weight', [scales.length, width], 4 * scales.length * width, () => new core.Linear(options));
  try {
    layer.writeParameter(0, 0, bytes, 'U8', scales);
    return layer.readParameter(0);
  } finally {
    layer.delete();
  }
}

const written = (name: string, { dtype, shape, bytes: data }: Stored): Written => ({ name, dtype, shape, data });

/**
 * The values that may have changed: those of parameters and of a trained head. `names`: the names of tensors in the
 * file, by their names without the family's prefix.
 */
function valuesOf(model: LocalModel, names: ReadonlyMap<string, string>): Map<string, () => RawTensor> {
  const values = new Map<string, () => RawTensor>();
  for (const parameter of (model as { parameters?(): Parameter[] }).parameters?.() ?? []) {
    values.set(parameter.name, () => {
      const { data, shape } = parameter.value;
      return { data, shape: [...shape] };
    });
  }
  if ('sentenceVectors' in model)
    for (const [name, value] of mergedWeights(model as unknown as TrainableModel)) values.set(name, value);
  const head = installed.get(model);
  for (const { name, weight, bias } of head?.kind === 'family' ? head.layers : []) {
    for (const [part, tensor] of Object.entries({ weight, bias }))
      if (tensor) values.set(names.get(`${name}.${part}`) ?? `${name}.${part}`, () => tensor);
  }
  return values;
}

/** Writes the layers after the pooling, if they are among the model's parameters. */
function writeLayers(files: SavedFiles, { values }: WeightWriter): void {
  for (const path of Object.keys(files)) {
    const folder = /^(.+)\/model\.safetensors$/.exec(path)?.[1];
    if (folder === undefined) continue;
    const tensors = ['linear', 'norm'].flatMap((layer) =>
      ['weight', 'bias'].flatMap((part): Written[] => {
        const value = values.get(`${folder.replaceAll('/', '.')}.${layer}.${part}`)?.();
        return value ? [{ name: `${layer}.${part}`, dtype: 'F32', ...value }] : [];
      }),
    );
    if (tensors.length > 0) files[path] = writeSafetensors(tensors, { format: 'pt' });
  }
}

/** Returns config.json, unchanged unless the labels or the storage have changed. */
function configOf(bytes: Uint8Array<ArrayBuffer>, writer: WeightWriter, head: Installed | undefined) {
  const config = parseJson(bytes, 'config.json') as Record<string, unknown>;
  const changes: Record<string, unknown> = {};
  const { quantization } = writer;
  if (quantization && (quantization.config || config.quantization_config !== undefined))
    changes.quantization_config = quantization.config ?? undefined;
  if (head) {
    changes.id2label = Object.fromEntries(head.labels.map((label, i) => [i, label]));
    changes.label2id = Object.fromEntries(head.labels.map((label, i) => [label, i]));
    changes.problem_type = head.problemType;
  }
  return Object.keys(changes).length === 0 ? bytes : json({ ...config, ...changes });
}

const modulePath = (type: string) => `sentence_transformers.models.${type}`;

/** Adds the classifier as the last module: a Dense layer without activation, so that sentence-transformers' `encode` returns the logits. */
function addClassifier(files: SavedFiles, given: Module[] | null, { layers }: Installed): void {
  const [{ weight, bias }] = layers as [Installed['layers'][number]];
  const [outFeatures, inFeatures] = weight.shape as [number, number];
  const modules = given ?? [
    { idx: 0, name: '0', path: '', type: modulePath('Transformer') },
    { idx: 1, name: '1', path: '1_Pooling', type: modulePath('Pooling') },
  ];
  files['1_Pooling/config.json'] ??= json({ word_embedding_dimension: inFeatures, pooling_mode_mean_tokens: true });
  const others = modules.filter(({ name }) => name !== CLASSIFIER);
  const old = modules.find(({ name }) => name === CLASSIFIER);
  const path = old?.path ?? `${others.length}_Dense`;
  const module = { idx: others.length, name: CLASSIFIER, path, type: modulePath('Dense') };
  files['modules.json'] = json([...others, module]);
  files[`${path}/config.json`] = json({
    in_features: inFeatures,
    out_features: outFeatures,
    bias: true,
    activation_function: 'torch.nn.modules.linear.Identity',
  });
  const tensors = Object.entries({ weight, bias: bias! }).map(
    ([part, { shape, data }]): Written => ({ name: `linear.${part}`, dtype: 'F32', shape, data }),
  );
  files[`${path}/model.safetensors`] = writeSafetensors(tensors, { format: 'pt' });
}
