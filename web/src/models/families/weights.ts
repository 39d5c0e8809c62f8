/**
 * Writes a checkpoint's tensors to an encoder's parameters while their bytes are received. Rows are written as soon as
 * they are complete, so that peak memory stays near one copy of the model.
 */

import { formatShape, invalid, invalidFile } from '../../base/error.js';
import { append, minOf } from '../../base/lists.js';
import type { RawEncoderModel, RawEncoderModelConfig, RawModule, RawTensor } from '../../base/wasm/core.js';
import { viewBytes } from '../../io/bytes.js';
import { concatenate, type OpenFile } from '../../io/files.js';
import { ByteReader } from '../../io/reader.js';
import {
  DTYPE_BYTES,
  type Dtype,
  int4RowBytes,
  parseHeader,
  readableDtype,
  readHeader,
  type TensorEntry,
  tensorOf,
  trellisPlaneBytes,
  widen,
  widened,
} from '../../io/safetensors.js';
import { parameterRowsOf } from './families.js';
import type { Family, ParameterRows } from './family.js';
import { ROTATED_DTYPES, type Rotation } from './quantization.js';

export interface LoadedWeights {
  /** The tensors of poolers and task heads, by their names without the family's prefix. */
  heads: Map<string, RawTensor>;
  /** See `HeadContext`. */
  otherDecoder: string | null;
  /** Names of tensors that the model does not use. */
  unused: string[];
  /** The types in which the encoder's matrices are stored: 'F32', 'F16', ... */
  dtypes: string[];
  /** The names of all tensors in the file, by their names without the family's prefix. */
  names: Map<string, string>;
}

/** The name of the token embeddings in heed. */
export const WORD_TABLE = 'embeddings.word.weight';

/** Whether a parameter is a matrix, other than the token embeddings, that `dtype: 'q8'` multiplies in int8. */
export function isInt8Matrix(parameter: string): boolean {
  return /^(layer_inputs\.proj\.|output_projection\.|(vision\.)?(layers\.|embeddings\.projection\.).*(proj_|proj\.|linear\d\.|projection\.))weight$/.test(
    parameter,
  );
}

/** The parameter of the position embeddings. */
export const POSITION_TABLE = 'embeddings.position.weight';

/** Normalizes a tensor's name: removes the family's prefix and replaces other names of weights. */
export function bareName(name: string, prefix: string): string {
  return withoutStart(name, prefix)
    .replace('.parametrizations.weight.original', '.weight') // torch's name of a weight with adapters
    .replace(/\.gamma$/, '.weight')
    .replace(/\.beta$/, '.bias')
    .replace(/^embeddings(?=(_column)?_scale$|$)/, 'embedding.weight'); // model2vec
}

/** Longer names are not those of a model's tensors. */
const MAX_NAME = 1000;

/**
 * The prefix of the names of the encoder's tensors, such as `module.` or `0.auto_model.`: it names the modules around the
 * encoder, which DataParallel, torch.compile, SentenceTransformer or the author's own classes add. '' if there are none.
 * `tensorOf` returns the encoder's tensor with a name, or null. `file`: the file with the names; absent for names that may
 * repeat the model.
 * @throws HeedError UNSUPPORTED for the tensors of several models in one file
 */
export function wrapperOf(names: Iterable<string>, tensorOf: (name: string) => string | null, file?: string): string {
  const found = new Map<string, Set<string>>();
  for (const name of names) {
    if (name.length > MAX_NAME) continue;
    for (let at = 0; at >= 0; at = name.indexOf('.', at) + 1 || -1) {
      const bare = tensorOf(name.slice(at));
      if (bare === null) continue;
      const before = name.slice(0, at);
      found.set(before, (found.get(before) ?? new Set()).add(bare));
      break;
    }
  }
  const [first, ...others] = [...found].sort(([, a], [, b]) => b.size - a.size);
  if (!first) return '';
  const [wrapper, tensors] = first;
  // Modules inside the model, such as a decoder, may have some of the same names.
  const isOther = ([before, own]: [string, Set<string>]) =>
    !before.startsWith(wrapper) && 2 * own.size > tensors.size && [...own].some((bare) => tensors.has(bare));
  const other = others.find(isOther);
  if (other && file) {
    const got = `several, with names that begin with '${wrapper}' and '${other[0]}'`;
    throw invalid(file, 'one model', got, 'UNSUPPORTED');
  }
  return wrapper;
}

/** A file's tensors by the names that they have without the wrapper, see `wrapperOf`. */
export function unwrapped(
  entries: readonly TensorEntry[],
  rows: ReadonlyMap<string, unknown>,
  prefix: string,
  file: string,
): TensorEntry[] {
  const tensorOf = (name: string) => {
    const bare = bareName(name, prefix);
    return rows.has(bare) ? bare : null;
  };
  const names = entries.map(({ name }) => name);
  const wrapper = wrapperOf(names, tensorOf, file);
  return entries.map((entry) => ({ ...entry, name: withoutStart(entry.name, wrapper) }));
}

const isFloat = (dtype: string): dtype is 'F32' | 'F16' | 'BF16' => ['F32', 'F16', 'BF16'].includes(dtype);

const withoutStart = (name: string, start: string) => (name.startsWith(start) ? name.slice(start.length) : name);

/**
 * Changes the rank of a shape by removing or adding leading axes of length 1, if possible: checkpoints store learned
 * rows with and without such axes.
 */
function withRank(shape: readonly number[], rank: number): number[] {
  const ones = shape.length - rank;
  if (ones < 0) return [...new Array<number>(-ones).fill(1), ...shape];
  return shape.slice(0, ones).every((extent) => extent === 1) ? shape.slice(ones) : [...shape];
}

/**
 * The name of the tensor to which `name` belongs: scales of its rows or columns, or its outliers. Other names are
 * unchanged.
 */
export const withoutScale = (name: string) => name.replace(/(_column)?_scale$|_outliers$/, '');

/** The end of the names of zero points. */
const ZERO_POINT = /_zero_point$/;

/** Whether tensor `name` holds the scales or the outliers of another tensor in `names`. */
export function isScaleOf(name: string, names: { has(name: string): boolean }): boolean {
  return withoutScale(name) !== name && names.has(withoutScale(name));
}

/** A type of rows that `writeParameter` takes. */
type RowType = Parameters<RawModule['writeParameter']>[3];

/** Plan to write a tensor's rows to a parameter. `scales`: the names of the tensors with the scales of rows and columns. */
interface RowsPlan {
  kind: 'rows';
  parameter: number;
  firstRow: number;
  rows: number;
  dtype: RowType;
  scales: string[];
  /** The name of the tensor with weights that are stored as they are: row, column and value of each. */
  outliers: string | null;
  /** Whether the whole tensor is written at once, because its rows depend on previous ones. */
  isWhole: boolean;
}

/**
 * The plan for a tensor of the file; null: skip it. 'zeros': require that all its bytes are zero. 'decoder': compare its
 * first values with those of the token embeddings.
 */
type Plan =
  | RowsPlan
  | { kind: 'keep'; name: string; dtype: Dtype }
  | { kind: 'zeros' }
  | { kind: 'decoder'; dtype: Dtype }
  | null;

/** The number of values that are compared. */
const COMPARED = 4096;

export class WeightLoader {
  /** The encoder's tensors, by their names without the family's prefix. */
  readonly rows: ReadonlyMap<string, ParameterRows>;
  readonly #parameters: { name: string; shape: number[] }[];
  readonly #indices: Map<string, number>;
  /** Per parameter, the ranges of rows that tensors fill. */
  readonly #filled: [number, number][][];
  readonly #heads = new Map<string, RawTensor>();
  readonly #unused: string[] = [];
  readonly #names = new Map<string, string>();
  readonly #dtypes = new Set<string>();
  readonly #scales = new Map<string, Float32Array>();
  /** The first values of the token embeddings and of the decoder that should be equal to them. */
  readonly #first: { words?: Float32Array | undefined; decoder?: Float32Array | undefined } = {};

  constructor(
    readonly model: RawEncoderModel,
    readonly family: Family,
    config: RawEncoderModelConfig,
    /** Whether a layer after the encoder may use a tensor, given by its name without the prefix. */
    readonly isHead: (name: string) => boolean,
    /** The modules with rotated matrices, see `rotatedModules`. */
    readonly rotated: ReadonlyMap<string, Rotation>,
    /** Whether the encoder lacks layers of the checkpoint, so that the end of a file may hold nothing that is needed. */
    readonly isPartial = false,
    /** The decoder of words whose weights are the token embeddings, by its name without the prefix. */
    readonly tiedDecoder: string | null = null,
  ) {
    this.#parameters = model.parameters();
    this.#indices = new Map(this.#parameters.map(({ name }, i) => [name, i]));
    const all = [...parameterRowsOf(family, config)];
    this.rows = new Map(all.filter(([, { parameter }]) => this.#indices.has(parameter)));
    this.#filled = this.#parameters.map(() => []);
  }

  /**
   * Loads one file. Writes nothing before the whole header has been checked; with `last`, also checks first that no
   * tensor is missing.
   */
  async load(file: OpenFile, last: boolean, onBytes: (count: number) => void): Promise<void> {
    let received = 0;
    const reader = new ByteReader(file, (count) => {
      received += count;
      onBytes(count);
    });
    try {
      const [prefix, json] = await readHeader(reader);
      const listed = parseHeader(json, file.name, file.size);
      const entries = unwrapped(listed, this.rows, this.family.prefix, file.name);
      const names = new Set(entries.map(({ name }) => name));
      const plans = entries.map((entry) => this.#plan(entry, names, file.name));
      if (last) this.#requireComplete(file.name);
      const deferred: (() => void)[] = [];
      const isTable = (plan: Plan) => plan?.kind === 'rows' && this.#parameters[plan.parameter]!.name === WORD_TABLE;
      const left = file.leaveOut ? plans.findIndex(isTable) : -1;
      const canStop = this.isPartial && !file.isReadWhole;
      const lastNeeded = plans.reduce((last, plan, i) => (plan ? i : last), -1);
      const count = canStop ? lastNeeded + 1 : entries.length;
      const end = entries[count - 1]?.end ?? 0;
      if (canStop) {
        const table = left >= 0 ? entries[left]!.end - entries[left]!.begin : 0;
        file.expectedSize = prefix.length + json.length + end - table;
      }
      if (left >= 0) {
        const plan = plans[left] as RowsPlan;
        file.leaveOut!(entries[left]!, plan.rows, this.#writer(plan, entries[left]!, file.name), end);
      }
      for (const [i, entry] of entries.slice(0, count).entries())
        if (i !== left) await this.#execute(plans[i]!, entry, reader, deferred);
      for (const write of deferred) write();
      if (count === entries.length) return await reader.expectEnd();
      file.expectedSize = received; // the last chunk may have had more than was needed
      onBytes(0);
    } finally {
      await reader.close();
    }
  }

  /**
   * Loads one tensor, whose bytes `reader` reads next. The scales of an int8 tensor must come before it. Call `complete`
   * after the last tensor. `wasQuantized`: whether the tensor is stored in another form than floats.
   */
  async loadTensor(entry: TensorEntry, reader: ByteReader, wasQuantized = false): Promise<void> {
    const name = withoutScale(entry.name);
    const plan = this.#plan(entry, new Set([name, `${name}_scale`]), reader.file.name, wasQuantized);
    await this.#execute(plan, entry, reader, []);
  }

  /** Requires that no tensor is missing. `file`: name for the message. */
  complete(file: string): void {
    this.#requireComplete(file);
  }

  result(): LoadedWeights {
    for (const [name, { shape, data }] of this.#heads) {
      const scale = `${name}_scale`;
      if (!this.#scales.has(scale)) continue;
      const [rows = 1] = shape;
      const scales = this.#scalesOf(scale, rows, `tensor '${scale}'`, 'row');
      for (let i = 0; i < data.length; i++) data[i]! *= scales[Math.floor((i * rows) / data.length)]!;
    }
    const { words, decoder } = this.#first;
    const isOther = words !== undefined && decoder?.some((value, i) => i < words.length && value !== words[i]);
    const otherDecoder = isOther ? this.tiedDecoder : null;
    return { heads: this.#heads, unused: this.#unused, dtypes: [...this.#dtypes], names: this.#names, otherDecoder };
  }

  #scalesOf(name: string, count: number, tensor: string, of: 'row' | 'column'): Float32Array {
    const scales = this.#scales.get(name)!;
    if (scales.length === count) return scales;
    throw invalidFile(tensor, `${count} scales, one per ${of}`, `${scales.length}`);
  }

  /** Plans a tensor. `names`: the names of all tensors in the file. */
  #plan({ name, dtype, shape }: TensorEntry, names: Set<string>, file: string, wasQuantized = false): Plan {
    const tensor = tensorOf(file, name);
    const bare = bareName(name, this.family.prefix);
    this.#names.set(bare, name);
    const isScale = isScaleOf(name, names);
    const copied = this.family.copies?.[isScale ? withoutScale(bare) : bare];
    const isCopy = copied !== undefined && names.has(name.slice(0, name.length - bare.length) + copied);
    const target = isCopy || this.family.withoutBiases?.test(bare) ? undefined : this.rows.get(bare);
    const rotation = name.endsWith('.weight') ? this.rotated.get(name.slice(0, -'.weight'.length)) : undefined;
    if (rotation && (dtype !== 'I8' || !target || !isInt8Matrix(target.parameter)))
      throw invalidFile(tensor, "int8 rows of a layer's matrix, because config.json says that it is rotated", dtype);
    if (isScale || !target) {
      const owner = isScale ? withoutScale(bare) : bare;
      if (bare === this.tiedDecoder && isFloat(dtype) && !wasQuantized) {
        // Exporters to ONNX write a copy of the embeddings.
        if (!this.isHead(bare)) this.#unused.push(name);
        return { kind: 'decoder', dtype };
      }
      if (this.isHead(owner) || (isScale && !isCopy && this.rows.has(owner)))
        return { kind: 'keep', name: bare, dtype: readableDtype(dtype, tensor) };
      const quantized = bare.replace(ZERO_POINT, '');
      if (
        quantized !== bare &&
        names.has(name.replace(ZERO_POINT, '')) &&
        (this.isHead(quantized) || this.rows.has(quantized))
      )
        return { kind: 'zeros' };
      if (!isScale) this.#unused.push(name);
      return null;
    }
    const { firstRow } = target;
    const parameter = this.#indices.get(target.parameter)!;
    const [height, ...width] = this.#parameters[parameter]!.shape as [number, ...number[]];
    const [rows = 1, ...given] = withRank(shape, width.length + 1);
    const [columns = 1] = width;
    const isCoded = dtype === 'U8' && width.length === 1;
    const [planes] = given;
    const bits = isCoded && (planes === 2 || planes === 3 || planes === 4) && given.length === 2 ? planes : null;
    if (bits) width.splice(0, 1, bits, trellisPlaneBytes(columns));
    else if (isCoded) {
      if (columns % 2 !== 0) throw invalidFile(tensor, 'other than 4-bit rows for an odd width', `width ${columns}`);
      width[0] = int4RowBytes(columns);
    }
    // Rows of a table are looked up one by one; the sequences of matrices run along the columns.
    const isWhole = bits !== null && target.parameter !== WORD_TABLE;
    const code = bits ? (`trellis${bits}` as const) : 'int4';
    const known = isCoded ? (isWhole ? (`${code}columns` as const) : code) : readableDtype(dtype, tensor);
    if (shape.length > 1) this.#dtypes.add(dtype);
    const starts = () => [...this.rows.values()].filter((r) => r.parameter === target.parameter).map((r) => r.firstRow);
    // In families without images, all missing rows are reported in one error.
    const fits = this.family.images ? [...starts(), height].includes(firstRow + rows) : firstRow + rows <= height;
    if (given.length !== width.length || String(given) !== String(width) || !fits) {
      const end = minOf([height, ...starts().filter((row) => row > firstRow)]);
      const expected = `${formatShape([end - firstRow, ...width])}${isCoded ? ` bytes of ${bits ?? 4}-bit rows` : ''}, as config.json says`;
      throw invalidFile(tensor, expected, `shape ${formatShape(shape)}`);
    }
    this.#filled[parameter]!.push([firstRow, firstRow + rows]);
    const scales = isCoded || known === 'I8' ? ['_scale', ...(bits ? ['_column_scale'] : [])] : [];
    const outliers = isWhole && names.has(`${name}_outliers`) ? `${bare}_outliers` : null;
    for (const scale of scales) {
      const of = scale === '_scale' ? 'rows' : 'columns';
      if (!names.has(name + scale))
        throw invalidFile(tensor, `the scales of its ${of} in '${name}${scale}'`, `${dtype} without them`);
    }
    return {
      kind: 'rows',
      parameter,
      firstRow,
      rows,
      dtype: rotation ? ROTATED_DTYPES[rotation] : known === 'F64' ? 'F32' : known,
      scales: scales.map((end) => bare + end),
      outliers,
      isWhole,
    };
  }

  /** Executes a plan. `deferred` collects writes that must wait for later tensors. */
  async #execute(plan: Plan, entry: TensorEntry, reader: ByteReader, deferred: (() => void)[]): Promise<void> {
    const size = entry.end - entry.begin;
    if (!plan) return reader.skip(size);
    if (plan.kind === 'zeros') {
      const bytes = await reader.take(size, entry, true);
      const other = bytes.find((byte) => byte !== 0);
      if (other === undefined) return;
      const tensor = tensorOf(reader.file.name, entry.name);
      throw invalidFile(tensor, 'zeros, because config.json does not say symmetric: false', `a byte ${other}`);
    }
    if (plan.kind === 'decoder') {
      const first = Math.min(size, COMPARED * DTYPE_BYTES[plan.dtype]);
      this.#first.decoder = widen(await reader.take(first, undefined, true), plan.dtype);
      return reader.skip(size - first);
    }
    if (plan.kind === 'keep') {
      const { name, dtype } = plan;
      const data = widened(await reader.take(size, entry, true), dtype, entry);
      if (withoutScale(name) !== name) this.#scales.set(name, data);
      else this.#heads.set(name, { shape: entry.shape, data });
      return;
    }
    if (size === 0) return;
    const writeRows = this.#writer(plan, entry, reader.file.name);
    const isTable = this.tiedDecoder !== null && this.#parameters[plan.parameter]!.name === WORD_TABLE;
    const write = (bytes: Uint8Array, row: number) => {
      const { dtype } = entry;
      if (isTable && row === 0 && isFloat(dtype))
        this.#first.words = widen(bytes.subarray(0, COMPARED * DTYPE_BYTES[dtype]), dtype);
      writeRows(bytes, row);
    };
    const { scales, outliers, rows, isWhole } = plan;
    const isReady = [...scales, ...(outliers ? [outliers] : [])].every((each) => this.#scales.has(each));
    if (isReady && !isWhole) return reader.rows(size / rows, rows, write);
    const bytes = await reader.take(size, entry, isReady);
    if (isReady) write(bytes, 0);
    else deferred.push(() => write(bytes, 0));
  }

  /** Returns a function that writes rows of a tensor. Their scales must have been read before it is called. */
  #writer(plan: RowsPlan, entry: TensorEntry, file: string): (bytes: Uint8Array, row: number) => void {
    const { name, begin, end } = entry;
    const { parameter, firstRow, rows, dtype, scales, outliers } = plan;
    const rowBytes = (end - begin) / rows;
    const width = this.#parameters[parameter]!.shape[1]!;
    const [ofRows, ofColumns] = scales;
    return (bytes, row) => {
      const parts: Float32Array[] = [];
      if (ofRows) {
        const all = this.#scalesOf(ofRows, rows, tensorOf(file, `${name}_scale`), 'row');
        parts.push(all.subarray(row, row + bytes.length / rowBytes));
      }
      if (ofColumns) parts.push(this.#scalesOf(ofColumns, width, tensorOf(file, `${name}_column_scale`), 'column'));
      const values = entry.dtype === 'F64' ? viewBytes(widen(bytes, 'F64')) : bytes;
      if (outliers)
        parts.push(outliersOf(this.#scales.get(outliers)!, rows, width, tensorOf(file, `${name}_outliers`)));
      const some = parts.length > 0 ? concatenate(Float32Array, parts) : null;
      this.model.writeParameter(parameter, firstRow + row, values, dtype, some);
    };
  }

  /**
   * Skips rows of optional tensors, which may be missing (they are initially zero), from `at` up to `end`. Returns the
   * end of these rows, or `at` if there are none.
   */
  #endOfOptional(parameter: string, at: number, end: number): number {
    const { optionalBiases, withoutBiases } = this.family;
    const isOptional = (name: string) => optionalBiases?.test(name) || withoutBiases?.test(name);
    const hasAny = optionalBiases ?? withoutBiases;
    const tensors = hasAny ? [...this.rows].filter(([, rows]) => rows.parameter === parameter) : [];
    while (at < end) {
      const here = tensors.filter(([, { firstRow }]) => firstRow === at);
      if (here.length === 0 || !here.every(([name]) => isOptional(name))) break;
      at = minOf([end, ...tensors.map(([, { firstRow }]) => firstRow).filter((row) => row > at)]);
    }
    return at;
  }

  /** Requires that every row of every parameter is filled exactly once. */
  #requireComplete(file: string): void {
    const missing: string[] = [];
    this.#parameters.forEach(({ name, shape }, index) => {
      const tensors = () => [...this.rows].flatMap(([tensor, { parameter }]) => (parameter === name ? [tensor] : []));
      let at = 0;
      for (const [begin, end] of this.#filled[index]!.sort((a, b) => a[0] - b[0])) {
        at = this.#endOfOptional(name, at, begin);
        if (begin < at)
          throw invalidFile(file, `one tensor for rows ${begin} to ${at} of ${name}`, tensors().join(', '));
        if (begin > at) break;
        at = end;
      }
      at = this.#endOfOptional(name, at, shape[0]!);
      if (at < shape[0]!)
        append(
          missing,
          tensors().map((tensor) => `'${tensor}'`),
        );
    });
    const got = `no or too few rows of ${missing.length}, among them ${missing.slice(0, 4).join(', ')}`;
    if (missing.length === 0) return;
    throw invalidFile(file, "all tensors that config.json's sizes require", got);
  }
}

/** Requires that each outlier is a row, a column and a value. */
function outliersOf(given: Float32Array, rows: number, columns: number, tensor: string): Float32Array {
  const isIndex = (i: number, limit: number) => Number.isInteger(given[i]) && given[i]! >= 0 && given[i]! < limit;
  for (let i = 0; i < given.length; i += 3) {
    if (isIndex(i, rows) && isIndex(i + 1, columns) && i + 2 < given.length) continue;
    throw invalidFile(tensor, `rows below ${rows}, columns below ${columns} and values`, `${given.slice(i, i + 3)}`);
  }
  return given;
}
