/** State dicts as safetensors files. */
import { allocating, describe, formatShape, guarded, invalid, invalidFile } from '../base/error.js';
import { optional, readOptions, type Schema } from '../base/options.js';
import { MAX_SIZE, Tensor, type TensorInput } from '../base/tensor.js';
import { bytesOf } from '../io/bytes.js';
import { headerEnd, parseHeader, readNumbers, tensorOf, writeSafetensors } from '../io/safetensors.js';
import { readState, type StateDict } from './state-dict.js';

/** Options of `saveSafetensors`. */
export interface SaveSafetensorsOptions {
  /** Arbitrary strings by name. Default: { format: 'pt' }, as in files of safetensors.torch. */
  metadata?: Readonly<Record<string, string>> | undefined;
}

const FILE = 'loadSafetensors';

/**
 * Reads the tensors of a safetensors file as a state dict, as `safetensors.torch.load` in Python. Values are converted
 * to float32: F16, BF16, booleans and integers up to 2^24 exactly, F64 with rounding.
 *
 * @example
 * const bytes = saveSafetensors({ weight: [[1, 2]], bias: [3] }); // or from a file, which PyTorch may have written
 * const state = loadSafetensors(bytes);
 * state.weight.shape; // [1, 2]
 * new heed.Linear({ inFeatures: 2, outFeatures: 1 }).loadStateDict(state);
 * @throws HeedError `INVALID_FILE` for bytes that are not a safetensors file, `UNSUPPORTED` for integers beyond 2^24 and for other types
 */
export function loadSafetensors(bytes: ArrayBufferLike | ArrayBufferView): StateDict {
  const file = guarded(`${FILE}: bytes`, () => bytesOf(bytes));
  if (!file) throw invalid(`${FILE}: bytes`, 'a Uint8Array or an ArrayBuffer', describe(bytes));
  const start = headerEnd(file, FILE, file.length);
  const entries = parseHeader(file.subarray(8, start), FILE, file.length).map(({ name, dtype, shape, begin, end }) => {
    const tensor = tensorOf(FILE, name);
    if (shape.some((extent) => extent > MAX_SIZE))
      throw invalidFile(tensor, `extents up to ${MAX_SIZE}`, formatShape(shape));
    const part = file.subarray(start + begin, start + end);
    const data = allocating(tensor, shape, part.length, () =>
      toFloat32(readNumbers(part, dtype, tensor), dtype, tensor),
    );
    return [name, new Tensor(data, shape)] as const;
  });
  return Object.fromEntries(entries);
}

function toFloat32(values: Float32Array | Float64Array, dtype: string, tensor: string): Float32Array {
  if (values instanceof Float32Array) return values;
  const wrong = dtype === 'F64' ? undefined : values.find((value) => Math.abs(value) > 2 ** 24);
  if (wrong === undefined) return Float32Array.from(values);
  throw invalid(tensor, 'integers up to 2^24, which float32 holds exactly', `${wrong}`, 'UNSUPPORTED');
}

const metadata = (value: unknown, name: string): Record<string, string> => {
  const isRecord = typeof value === 'object' && value !== null && !Array.isArray(value);
  const entries = isRecord ? Object.entries(value) : [];
  if (isRecord && entries.every(([, text]) => typeof text === 'string')) return Object.fromEntries(entries);
  throw invalid(name, 'strings by name', describe(value));
};

const schema = { metadata: optional(metadata, { format: 'pt' }) } satisfies Schema<SaveSafetensorsOptions>;

/**
 * Writes a state dict to a safetensors file, as `safetensors.torch.save` in Python: its tensors in order, as float32.
 *
 * @example
 * const layer = new heed.Linear({ inFeatures: 2, outFeatures: 1 });
 * const bytes = saveSafetensors(layer.stateDict(), { metadata: { format: 'pt', epoch: '3' } });
 * @throws HeedError `INVALID_ARGUMENT` for values that are not tensors
 */
export function saveSafetensors(
  state: Readonly<Record<string, TensorInput>>,
  options?: SaveSafetensorsOptions,
): Uint8Array<ArrayBuffer> {
  const owner = 'saveSafetensors';
  const read = readOptions(owner, schema, options);
  const tensors = readState(`${owner}: state`, owner, state).map(([name, tensor]) => ({
    name,
    dtype: 'F32',
    ...tensor,
  }));
  if (tensors.some(({ name }) => name === '__metadata__'))
    throw invalid(`${owner}: state`, 'names of tensors', "'__metadata__', the name of the file's metadata");
  const bytes = tensors.reduce((sum, { data }) => sum + data.byteLength, 0);
  return allocating(owner, [bytes], bytes, () => writeSafetensors(tensors, read.metadata));
}
