/** The tensors of a saved model: the current values, in the types in which they are stored. */
import { allocating } from '../../base/error.js';
import type { Core, RawTensor, RowCode } from '../../base/wasm/core.js';
import { brainFloats, int8Rows, quantizationConfig, rotateBack, rotationBlock } from '../../folders/quantize-rows.js';
import { concatenate } from '../../io/files.js';
import { codedWidth, DTYPE_BYTES, type Dtype, tensorOf, widened, writeSafetensors } from '../../io/safetensors.js';
import type { Settings } from '../../io/settings.js';
import { type FamilyConfig, parameterRowsOf } from '../../models/families/families.js';
import { ROTATION, type Rotation, rotatedModules } from '../../models/families/quantization.js';
import { bareName, isInt8Matrix, isScaleOf, WORD_TABLE } from '../../models/families/weights.js';
import { tiedDecoderOf, wordBiasNames } from '../../models/heads/task-heads.js';
import type { LocalModel } from '../../models/pretrained.js';
import type { Parameter } from '../graph/parameters.js';
import type { TrainableModel } from '../trainable/trainable-model.js';
import { mergedWeights } from './adapter.js';
import { installed } from './head.js';

/** A tensor as stored in the file. */
export interface Stored {
  readonly dtype: string;
  readonly shape: number[];
  readonly bytes: Uint8Array;
}

/** A tensor of the new file. */
export interface Written {
  name: string;
  dtype: string;
  shape: number[];
  data: ArrayBufferView;
}

/** Decides how each tensor is stored. */
export class WeightWriter {
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
  /** The modules whose matrices are rotated in the file. */
  readonly #rotated: ReadonlyMap<string, Rotation>;
  /** Values that differ from those of the file. */
  readonly #changed: Map<string, RawTensor>;
  #tensors: Written[] | null = null;

  /** `encoder`: the model's family. `settings`: those of the file's config.json. */
  constructor(
    model: LocalModel,
    encoder: FamilyConfig,
    stored: ReadonlyMap<string, Stored>,
    settings: Settings,
    dtype: 'fp32' | 'q8' | null,
  ) {
    this.#stored = stored;
    this.#rotated = rotatedModules(settings);
    this.#dtype = dtype;
    this.#core = model.headContext.core;
    const { family, config } = encoder;
    const bareOf = (name: string) => bareName(name, family.prefix);
    const rows = parameterRowsOf(family, config);
    const matrices = [...stored].flatMap(([name, { dtype, shape }]): [string, boolean][] => {
      const parameter = rows.get(bareOf(name))?.parameter ?? '';
      const isWords = parameter === WORD_TABLE;
      return (shape.length === 2 || dtype === 'U8') && (isWords || isInt8Matrix(parameter)) ? [[name, isWords]] : [];
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
    // A decoder that is the token embeddings has their values.
    const { type, settings: own, otherDecoder } = model.headContext;
    const decoder = otherDecoder === null ? tiedDecoderOf(type, own) : null;
    const namesOf = (is: (bare: string) => boolean) => [...stored.keys()].filter((name) => is(bareOf(name)));
    const [table] = namesOf((bare) => rows.get(bare)?.parameter === WORD_TABLE);
    const words = this.#changed.get(table ?? '');
    if (words) for (const name of namesOf((bare) => bare === decoder)) this.#changed.set(name, words);
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
    const coded = all.filter(({ name, dtype }) => dtype === 'U8' && this.#matrices.has(name));
    if (!this.isQuantized && coded.length === 0) return { config: null };
    const formOf = (words: boolean) => {
      const tensor = coded.find(({ name }) => this.#matrices.get(name) === words);
      return tensor ? rowCodeOf(tensor.shape) : 'int8';
    };
    return { config: quantizationConfig(formOf(true), [[formOf(false), ['Linear']]], this.#ignored, this.#rotatedNow) };
  }

  /** The modules whose matrices are rotated in the new file: those of the old one, and those that it quantizes. */
  get #rotatedNow(): ReadonlyMap<string, Rotation> {
    const modules = this.#all().flatMap(({ name, dtype, shape, data }): [string, Rotation][] => {
      if (dtype !== 'I8' || this.#matrices.get(name) !== false) return [];
      const module = moduleOf(name);
      const isKept = this.#stored.get(name)?.bytes === data;
      const rotation = isKept ? this.#rotated.get(module) : rotationBlock(shape[1]!) > 1 ? ROTATION : undefined;
      return rotation ? [[module, rotation]] : [];
    });
    return new Map(modules);
  }

  /** The modules with a matrix that is not in int8. */
  get #ignored(): string[] {
    return this.#all()
      .filter(({ name, dtype, shape }) => shape.length === 2 && !/^[IU]8$/.test(dtype) && name.endsWith('.weight'))
      .map(({ name }) => moduleOf(name));
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
    // Scales come first, so that rows can be loaded while they are received.
    if (!current && this.#keeps(name, tensor))
      return [...this.#partsOf(name), [name, tensor] as const].map(([name, { bytes: data, ...about }]) => ({
        name,
        ...about,
        data,
      }));
    const value = current ?? this.#file(name, tensor);
    if (!this.isQuantized || !this.#matrices.has(name)) return [{ name, dtype: 'F32', ...value }];
    const { shape } = value;
    const [count = 1, width = 1] = shape;
    const table = this.#matrices.get(name)!;
    const about = { table, rotated: !table, tensor: tensorOf('model.safetensors', name) };
    const rows = int8Rows(value.data, width, about);
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
    if (this.#isCoded(name)) return this.#dtype !== 'fp32';
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

  /** The tensors that belong to a quantized one, in the order in which the module decodes them. */
  #partsOf(name: string): [string, Stored][] {
    return ['scale', 'column_scale', 'outliers'].flatMap((part): [string, Stored][] => {
      const found = this.#stored.get(`${name}_${part}`);
      return found ? [[`${name}_${part}`, found]] : [];
    });
  }

  #isCoded(name: string): boolean {
    return this.#matrices.has(name) && this.#stored.get(name)!.dtype === 'U8';
  }

  /** The current value of a tensor, or null if it equals that of the file. */
  #changeOf(name: string, tensor: Stored): RawTensor | null {
    const value = this.values.get(name)?.();
    if (!value) return null;
    const before = this.#file(name, tensor);
    if (String(value.shape) !== String(before.shape)) return value;
    return haveSameBits(value.data, before.data) ? null : value;
  }

  /** The value of a tensor in the file. */
  #file(name: string, { bytes, dtype, shape }: Stored): RawTensor {
    const scale = this.#scales(name);
    const numbersOf = (from: Stored) => widened(from.bytes, from.dtype as Dtype, { name, shape: from.shape });
    const scales = scale ? numbersOf(scale) : null;
    const width = codedWidth({ name, dtype, shape }, (other) => this.#stored.get(other)?.shape);
    if (scales && width !== null && this.#isCoded(name)) {
      const code = rowCodeOf(shape);
      const parts = this.#partsOf(name).map(([, part]) => numbersOf(part));
      const all = concatenate(Float32Array, parts);
      const hasColumns = this.#stored.has(`${name}_column_scale`);
      const type = hasColumns && !this.#matrices.get(name) ? (`${code}columns` as const) : code;
      return { shape: [shape[0]!, width], data: codedValues(this.#core, bytes, type, all, [shape[0]!, width]) };
    }
    const data = widened(bytes, dtype as Dtype, { name, shape });
    if (dtype !== 'I8' || !scales) return { shape, data };
    const columns = data.length / scales.length;
    const values = data.map((value, i) => value * scales[Math.floor(i / columns)]!);
    const rotation = this.#rotated.get(moduleOf(name));
    for (let at = 0; rotation && at < values.length; at += columns)
      values.set(rotateBack(values.subarray(at, at + columns), rotation), at);
    return { shape, data: values };
  }
}

function haveSameBits(a: Float32Array, b: Float32Array): boolean {
  const [first, second] = [a, b].map(({ buffer, byteOffset, length }) => new Int32Array(buffer, byteOffset, length));
  for (let i = 0; i < a.length; i++) if (first![i] !== second![i]) return false;
  return true;
}

/** The format of a tensor with 2 to 4 bits per weight. */
const rowCodeOf = ({ length, 1: bits }: readonly number[]): RowCode =>
  length === 2 ? 'int4' : (`trellis${bits}` as RowCode);

/** Decodes such a tensor, using the WebAssembly module. */
function codedValues(
  core: Core,
  bytes: Uint8Array,
  type: RowCode | `${RowCode}columns`,
  scales: Float32Array,
  [rows, width]: [number, number],
): Float32Array {
  const options = { inFeatures: width, outFeatures: rows, bias: false, activation: 'identity', name: '' };
  const layer = allocating('weight', [rows, width], 4 * rows * width, () => new core.Linear(options));
  try {
    layer.writeParameter(0, 0, bytes, type, scales);
    return layer.readParameter(0);
  } finally {
    layer.delete();
  }
}

const moduleOf = (tensor: string) => tensor.slice(0, -'.weight'.length);

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
