/** Writes a TextIndex with fewer components and bits; see docs/search.md. Imported on demand. */
import { describe, invalid } from '../base/error.js';
import { makeYield } from '../base/event-loop.js';
import { flag, optional, readOptions, type Schema, signal, size } from '../base/options.js';
import type { Runtime } from '../base/owned.js';
import type { SignalLike } from '../base/platform.js';
import { readTensors, type TrellisBits, writeSafetensors } from '../io/safetensors.js';
import { dot } from '../models/quantized.js';
import { TextIndex } from '../search/text-index.js';
import { rotatedComponents } from './principal-components.js';
import { brainFloats, roundedBrainFloats } from './quantize-rows.js';
import { trellisRows } from './trellis.js';

/** Options of `quantizeIndex`. */
export interface QuantizeIndexOptions {
  /** The number of principal components to keep. Default: half of the vectors' width, rounded up. */
  components?: number | undefined;
  /** The number of bits per component. Default 3. */
  bits?: 3 | 4 | undefined;
  /** Whether the file contains the texts. Without them, `load` reads them from `words.txt`. Default true. */
  texts?: boolean | undefined;
  /** An `AbortSignal` that stops the call, which then rejects with the reason of the signal. */
  signal?: SignalLike | undefined;
}

const bitsOption = (value: unknown, name: string): TrellisBits => {
  if (value === 3 || value === 4) return value;
  throw invalid(name, '3 or 4', String(value));
};

const schema = {
  components: optional(size, null),
  bits: optional(bitsOption, 3 as const),
  texts: optional(flag, true),
  signal,
} satisfies Schema<QuantizeIndexOptions>;

/** Implements `Heed.quantizeIndex`. */
export async function quantizeIndex(
  { core }: Runtime,
  index: TextIndex<unknown, boolean>,
  options?: QuantizeIndexOptions,
): Promise<Uint8Array<ArrayBuffer>> {
  const { components: wanted, bits, texts, signal } = readOptions('quantizeIndex', schema, options);
  if (!(index instanceof TextIndex)) throw invalid('index', 'a TextIndex', describe(index));
  const pause = makeYield(signal);
  const { file, vectors } = await index.snapshot();
  const { data, shape } = vectors;
  const [count, width] = shape as [number, number];
  if (count === 0) throw invalid('index', 'an index with texts', 'an empty one');
  const components = wanted ?? Math.ceil(width / 2);
  if (components > width)
    throw invalid('quantizeIndex.components', `at most ${width}, the vectors' width`, `${components}`);
  const chunks = async function* () {
    yield file;
  };
  let metadata: Record<string, string> = {};
  const tensors = await readTensors({ name: 'index.safetensors', size: file.length, chunks }, (given) => {
    metadata = given;
  });
  if (metadata.similarity === 'dot')
    throw invalid('index', "an index with the similarity 'cosine'", "'dot'", 'UNSUPPORTED');
  const replaced = new Set(texts ? [] : ['texts', 'text_lengths', 'surrogates']);
  const kept = () =>
    [...tensors].flatMap(([name, { bytes, ...rest }]) => (replaced.has(name) ? [] : { name, data: bytes, ...rest }));
  // A few vectors take fewer bytes than the components.
  const planes = Math.ceil(components / 8);
  const sizes = [2 * components * width, 2 * count, 2 * components, count * bits * planes];
  const stored = ['vectors', 'vectors_scale'].map((name) => tensors.get(name)?.bytes.length ?? 0);
  if (sum(sizes) >= sum(stored)) return texts ? file : writeSafetensors(kept(), metadata);
  for (const name of ['vectors', 'vectors_scale']) replaced.add(name);

  const rows = await rotatedComponents(data, width, components, pause);
  const products = new Float32Array(count * components);
  for (let n = 0; n < count; n++) {
    await pause();
    for (let c = 0; c < components; c++) products[n * components + c] = dot(data, n, rows, c, width);
  }
  const tensor = "tensor 'vectors'";
  const coded = await trellisRows(products, components, { core, bits, tensor, pause });
  const quantized = [
    { name: 'components', dtype: 'BF16', shape: [components, width], data: roundedBrainFloats(rows, tensor) },
    { name: 'vectors_scale', dtype: 'BF16', shape: [count, 1], data: brainFloats(coded.scales) },
    { name: 'vectors_column_scale', dtype: 'BF16', shape: [1, components], data: brainFloats(coded.columnScales) },
    { name: 'vectors', dtype: 'U8', shape: [count, bits, planes], data: coded.data },
  ];
  // Sorted by decreasing alignment.
  const [wide, narrow] = [true, false].map((isWide) => kept().filter(({ dtype }) => (dtype !== 'U8') === isWide));
  return writeSafetensors([...wide!, ...quantized, ...narrow!], { ...metadata, heed_index: '3' });
}

const sum = (numbers: number[]) => numbers.reduce((a, b) => a + b, 0);
