/**
 * Reads weights in the formats of compressed-tensors that have to be converted: with zero points, with scales per tensor,
 * group or block, packed in 32-bit integers, or as 8-bit floats. Definitions: compressed_tensors/compressors and
 * compressed_tensors/quantization/lifecycle/forward.py of https://github.com/vllm-project/compressed-tensors. Imported on
 * demand.
 */
import { invalid, invalidFile } from '../base/error.js';
import { elementCount } from '../base/tensor.js';
import { viewBytes } from '../io/bytes.js';
import type { OpenFile } from '../io/files.js';
import { ByteReader } from '../io/reader.js';
import { parseHeader, readHeader, readNumbers, tensorOf } from '../io/safetensors.js';
import type { Settings } from '../io/settings.js';
import type { ParameterRows } from './families/family.js';
import { bareName, unwrapped } from './families/weights.js';
import { plain } from './onnx/graph.js';
import { passOn, type Receive, recover } from './onnx/recover.js';
import type { StoredTensor } from './onnx/values.js';
import { schemesIn, type WeightScheme } from './quantization-schemes.js';

export interface CompressedOptions {
  /** The encoder's tensors, by their names without the prefix. */
  rows: ReadonlyMap<string, ParameterRows>;
  prefix: string;
  /** Whether a layer after the encoder may use a tensor, given by its name without the prefix. */
  isHead(name: string): boolean;
  /** Whether tensors with a scale per row may be received as int8. Otherwise they are converted to fp32. */
  keepIntegers: boolean;
  receive: Receive;
  /** Lets the event loop run, if it is time; see `makeYield`. */
  pause(): Promise<void>;
}

/** The name of a weight, and that of one of its parts. */
const PART = /^(.*\.weight)(|_packed|_scale|_zero_point|_shape|_g_idx)$/;

/** The stored tensors of a weight, by the ends of their names. */
type Parts = Map<string, StoredTensor>;

/** Opens the reader of a model's weights; null if none is quantized. @throws HeedError UNSUPPORTED, INVALID_FILE */
export function openCompressed(settings: Settings): ((options: CompressedOptions) => CompressedTensors) | null {
  const schemes = schemesIn(settings);
  return schemes.length > 0 ? (options) => new CompressedTensors(schemes, options) : null;
}

/** Reads a model's files one after the other. The parts of a weight may be in several of them. */
export class CompressedTensors {
  readonly #weights = new Map<string, Parts>();

  constructor(
    readonly schemes: readonly WeightScheme[],
    readonly options: CompressedOptions,
  ) {}

  /** Reads a file. @throws HeedError INVALID_FILE, UNSUPPORTED */
  async read(file: OpenFile, onBytes: (count: number) => void): Promise<void> {
    const { rows, prefix, isHead, receive } = this.options;
    const reader = new ByteReader(file, onBytes);
    try {
      const [, json] = await readHeader(reader);
      for (const entry of unwrapped(parseHeader(json, file.name, file.size), rows, prefix, file.name)) {
        const { name, dtype, shape, begin, end } = entry;
        const [, weight = '', part = ''] = PART.exec(name) ?? [];
        const bare = bareName(weight, prefix);
        const isPart = weight !== '' && (rows.has(bare) || isHead(bare)) && (part !== '' || /^(I8|F8)/.test(dtype));
        if (!isPart) {
          await receive(entry, reader);
          continue;
        }
        const parts: Parts = this.#weights.get(weight) ?? new Map();
        this.#weights.set(weight, parts);
        const info = { name, type: dtype, shape, byteLength: end - begin };
        parts.set(part, { info, bytes: await reader.copy(end - begin) });
        await this.#complete(weight, parts, file.name);
      }
      await reader.expectEnd();
    } finally {
      await reader.close();
    }
  }

  /** Requires that no weight lacks a part. `file`: name for the message. */
  finish(file: string): void {
    for (const [name, parts] of this.#weights) {
      const got = [...parts.values()].map(({ info }) => `'${info.name}'`).join(', ');
      throw invalidFile(tensorOf(file, name), 'its values, scales and, with symmetric: false, zero points', got);
    }
  }

  /** Passes a weight on if all its parts have been read. */
  async #complete(name: string, parts: Parts, file: string): Promise<void> {
    const about = tensorOf(file, name);
    if (parts.has('_g_idx')) throw invalid(about, 'columns in their order', `'${name}_g_idx'`, 'UNSUPPORTED');
    const scheme = this.#schemeOf(name, about);
    const stored = parts.has('_packed') ? parts.has('_shape') && parts.get('_packed') : parts.get('');
    const [scale, zero] = [parts.get('_scale'), parts.get('_zero_point')];
    if (!stored || !scale || !(zero || scheme.symmetric)) return;
    this.#weights.delete(name);
    const tensor = valuesOf(stored, parts.get('_shape'), scheme, about);
    const { shape } = tensor.info;
    if (shape.length !== 2) throw invalidFile(about, 'a matrix', `shape [${shape.join(', ')}]`);
    const places = placesOf(scheme, shape as [number, number], about);
    const zeros = zero && { ...zero, bytes: viewBytes(zeroPointsOf(zero, scheme, places, shape[0]!, about)) };
    const form = { kind: 'linear', axis: places.axis, block: places.block } as const;
    const weight = recover(
      { ...plain(name), form },
      {
        tensor,
        scale: asFloats(
          scale,
          places,
          readNumbers(scale.bytes, scale.info.type, tensorOf(file, scale.info.name)),
          about,
        ),
        factor: null,
        zero: zeros && !scheme.symmetric ? asFloats(zeros, places, floatsIn(zeros.bytes), about) : null,
      },
      this.options.keepIntegers,
      file,
    );
    await passOn(name, weight, file, this.options);
  }

  /** The scheme of a weight: that for its module's name, or for its class. */
  #schemeOf(name: string, about: string): WeightScheme {
    const { schemes } = this;
    const { rows, prefix } = this.options;
    const module = name.replace(/\.weight$/, '');
    const { parameter = '' } = rows.get(bareName(name, prefix)) ?? {};
    const isTable = parameter.startsWith('embeddings.') && !parameter.startsWith('embeddings.projection.');
    const [first, ...others] = schemes;
    const same = (scheme: WeightScheme) => JSON.stringify({ ...scheme, targets: [] });
    if (others.every((other) => same(other) === same(first!))) return first!;
    const named = (target: string) => schemes.filter(({ targets }) => targets.includes(target));
    const found = [...named(module), ...named(isTable ? 'Embedding' : 'Linear')][0];
    if (found) return found;
    const got = schemes.map(({ targets }) => targets.join(', ')).join('; ');
    throw invalid(about, 'a group in quantization_config with its name or its class as a target', got, 'UNSUPPORTED');
  }
}

/**
 * Where the scales of a matrix are: their shape, and the arguments of `recover`. `repeat`: the number of rows that share
 * scales.
 */
interface Places {
  shape: [number, number];
  axis: number;
  block: number;
  repeat: number;
  height: number;
}

function placesOf({ scales }: WeightScheme, [height, width]: [number, number], about: string): Places {
  if (scales === 'tensor') return { shape: [1, 1], axis: 0, block: 0, repeat: 1, height };
  if (scales === 'channel') return { shape: [height, 1], axis: 0, block: 0, repeat: 1, height };
  const { rows, columns } = scales;
  if (rows === 1 && width % columns !== 0)
    throw invalidFile(about, `a multiple of ${columns} columns, the group_size`, `${width}`);
  const shape: [number, number] = [Math.ceil(height / rows), Math.ceil(width / columns)];
  return { shape, axis: 1, block: columns, repeat: rows, height };
}

/** Scales or zero points, one per row of the matrix and block of columns. */
function asFloats(
  { info }: StoredTensor,
  { shape: [height, width], repeat, height: rows }: Places,
  given: ArrayLike<number>,
  about: string,
): StoredTensor {
  if (given.length !== height * width)
    throw invalidFile(about, `${height * width} values in '${info.name}', as config.json says`, `${given.length}`);
  const values = Float32Array.from(given);
  const count = repeat > 1 ? rows : height;
  const all = new Float32Array(count * width);
  for (let row = 0; row < count; row++) {
    const from = Math.floor(row / repeat) * width;
    all.set(values.subarray(from, from + width), row * width);
  }
  return { info: { ...info, type: 'F32', shape: [count, width] }, bytes: viewBytes(all) };
}

const floatsIn = (bytes: Uint8Array) => new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);

/** The values of a matrix: int8, or fp32 for 8-bit floats. */
function valuesOf(
  { info, bytes }: StoredTensor,
  shape: StoredTensor | undefined,
  { type, bits }: WeightScheme,
  about: string,
): StoredTensor {
  const expected = type === 'float' ? 'F8_E4M3' : shape ? 'I32' : 'I8';
  if (info.type !== expected) throw invalidFile(about, `${expected}, as config.json says`, info.type);
  if (type === 'float') {
    const values = Float32Array.from(bytes, (byte) => FLOATS[byte]!);
    return { info: { ...info, type: 'F32', byteLength: values.byteLength }, bytes: viewBytes(values) };
  }
  if (!shape) return { info, bytes };
  const sizes = /^I(32|64)$/.test(shape.info.type) ? [...readNumbers(shape.bytes, shape.info.type, about)] : [];
  const [rows = 0, columns = 0] = sizes;
  const words = Math.ceil((columns * bits) / 32);
  const isRight = sizes.length === 2 && sizes.every((size) => Number.isSafeInteger(size) && size > 0);
  if (!isRight || String(info.shape) !== `${rows},${words}`)
    throw invalidFile(
      about,
      `[${sizes.join(', ')}] in ${bits} bits, [${rows}, ${words}] words`,
      `[${info.shape.join(', ')}]`,
    );
  const out = new Int8Array(rows * columns);
  const packed = wordsIn(bytes);
  for (let row = 0; row < rows; row++) {
    const at = row * words;
    unpack((i) => packed[at + i]!, bits, out.subarray(row * columns, (row + 1) * columns));
  }
  return { info: { ...info, type: 'I8', shape: [rows, columns], byteLength: out.length }, bytes: viewBytes(out) };
}

/** Zero points, one per scale. Those of packed weights with scales per row or group are packed along the rows. */
function zeroPointsOf(
  { info, bytes }: StoredTensor,
  { bits, symmetric }: WeightScheme,
  { shape: [height, width] }: Places,
  rows: number,
  about: string,
): Float32Array {
  const isPacked = info.type === 'I32';
  let values: Float32Array;
  if (isPacked) {
    const words = Math.ceil((height * bits) / 32);
    if (height !== rows || elementCount(info.shape) !== words * width)
      throw invalidFile(about, `${words * width} words of zero points`, `${elementCount(info.shape)}`);
    const packed = wordsIn(bytes);
    values = new Float32Array(height * width);
    const column = new Int8Array(height);
    for (let i = 0; i < width; i++) {
      unpack((word) => packed[word * width + i]!, bits, column);
      for (let row = 0; row < height; row++) values[row * width + i] = column[row]!;
    }
  } else values = Float32Array.from(readNumbers(bytes, info.type, about));
  const other = symmetric ? values.find((value) => value !== 0) : undefined;
  if (other !== undefined)
    throw invalidFile(about, 'zero points of 0, because config.json says symmetric: true', `${other}`);
  return values;
}

function wordsIn(bytes: Uint8Array): Uint32Array {
  const { buffer, byteOffset, byteLength } = bytes.byteOffset % 4 === 0 ? bytes : bytes.slice();
  return new Uint32Array(buffer, byteOffset, byteLength / 4);
}

/** Unpacks integers that are stored without gaps, lowest bits first, plus 2^(bits - 1). `wordOf` returns a word. */
function unpack(wordOf: (index: number) => number, bits: number, out: Int8Array): void {
  const half = 2 ** (bits - 1);
  for (let i = 0, at = 0; i < out.length; i++, at += bits) {
    const [word, shift] = [Math.floor(at / 32), at % 32];
    let value = wordOf(word) >>> shift;
    if (shift + bits > 32) value |= wordOf(word + 1) << (32 - shift);
    out[i] = (value & (2 * half - 1)) - half;
  }
}

/**
 * The values of the type float8_e4m3fn, with 4 bits of exponent and 3 of fraction (Micikevicius et al. 2022,
 * arXiv:2209.05433).
 */
const FLOATS = Float32Array.from({ length: 256 }, (_, byte) => {
  const [sign, exponent, fraction] = [byte & 128 ? -1 : 1, (byte >> 3) & 15, byte & 7];
  if (exponent === 15 && fraction === 7) return NaN;
  return sign * (exponent === 0 ? fraction * 2 ** -9 : (1 + fraction / 8) * 2 ** (exponent - 7));
});
