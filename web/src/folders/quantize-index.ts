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
  index: TextIndex,
  options?: QuantizeIndexOptions,
): Promise<Uint8Array<ArrayBuffer>> {
  const { components: wanted, bits, texts, signal } = readOptions('quantizeIndex', schema, options);
  if (!(index instanceof TextIndex)) throw invalid('index', 'a TextIndex', describe(index));
  const pause = makeYield(signal);
  const { data: vectors, shape } = index.toTensor();
  const [count, width] = shape as [number, number];
  if (count === 0) throw invalid('index', 'an index with texts', 'an empty one');
  const components = wanted ?? Math.ceil(width / 2);
  if (components > width)
    throw invalid('quantizeIndex.components', `at most ${width}, the vectors' width`, `${components}`);
  const bytes = await index.save();
  const chunks = async function* () {
    yield bytes;
  };
  let metadata: Record<string, string> = {};
  const tensors = await readTensors({ name: 'index.safetensors', size: bytes.length, chunks }, (given) => {
    metadata = given;
  });
  if (metadata.similarity === 'dot')
    throw invalid('index', "an index with the similarity 'cosine'", "'dot'", 'UNSUPPORTED');

  const rows = await rotatedComponents(vectors, width, components, pause);
  const products = new Float32Array(count * components);
  for (let n = 0; n < count; n++) {
    await pause();
    for (let c = 0; c < components; c++) products[n * components + c] = dot(vectors, n, rows, c, width);
  }
  const tensor = "tensor 'vectors'";
  const coded = await trellisRows(products, components, { core, bits, tensor, pause });
  const quantized = [
    { name: 'components', dtype: 'BF16', shape: [components, width], data: roundedBrainFloats(rows, tensor) },
    { name: 'vectors_scale', dtype: 'BF16', shape: [count, 1], data: brainFloats(coded.scales) },
    { name: 'vectors_column_scale', dtype: 'BF16', shape: [1, components], data: brainFloats(coded.columnScales) },
    { name: 'vectors', dtype: 'U8', shape: [count, bits, Math.ceil(components / 8)], data: coded.data },
  ];
  const replaced = new Set(['vectors', 'vectors_scale', ...(texts ? [] : ['texts', 'text_lengths'])]);
  const others = [...tensors].flatMap(([name, { bytes: data, ...rest }]) =>
    replaced.has(name) ? [] : { name, data, ...rest },
  );
  // Sorted by decreasing alignment.
  const [wide, narrow] = [true, false].map((isWide) => others.filter(({ dtype }) => (dtype !== 'U8') === isWide));
  return writeSafetensors([...wide!, ...quantized, ...narrow!], { ...metadata, heed_index: '3' });
}
