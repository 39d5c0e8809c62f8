/**
 * Vectors in fewer dimensions than those of the model: as their products with C orthonormal rows B [C, D], such as the
 * first principal components. With y = B v, a vector stands for B^T y, so its product with a query q is y . (B q).
 */
import { formatShape, invalidFile } from '../base/error.js';
import type { Hit } from '../base/scores.js';
import { Tensor } from '../base/tensor.js';
import { trellisPlaneBytes, widen } from '../io/safetensors.js';
import { decodeTrellisRows } from '../io/trellis.js';
import { dot, normsOf, quantized, type Rows } from '../models/quantized.js';
import { eachQuery, inBlocks, type StoreOptions, type StoreSearch, stored, type VectorStore } from './vector-store.js';

export class ProjectedStore implements VectorStore {
  /** Has the vectors y. */
  readonly #inner: VectorStore;
  /** [C, D]; null once all rows have been removed: the store is then like any empty one, with rows as they are given. */
  #components: Float32Array | null;
  /** D. */
  readonly #width: number;
  /** The rows B^T y, in int8, once they have been needed. */
  #whole: (Rows & { factors: Float32Array }) | null = null;

  constructor(inner: VectorStore, components: Float32Array, width: number) {
    this.#inner = inner;
    this.#components = components;
    this.#width = width;
  }

  get options() {
    return this.#inner.options;
  }

  get count(): number {
    return this.#inner.count;
  }

  get width(): number {
    if (!this.#components) return this.#inner.width;
    return this.count === 0 ? 0 : this.#width;
  }

  get bits(): boolean {
    return !this.#components && this.#inner.bits;
  }

  append(given: Rows): void {
    if (!this.#components) {
      this.#inner.append(given);
      return;
    }
    const { data, count } = given;
    const values = this.#projected(this.#components, Float32Array.from(data));
    const { data: codes, scales } = quantized(new Tensor(values, [count, values.length / (count || 1)]), 'int8');
    const rows = { data: codes, count, width: values.length / (count || 1), bits: false, scales };
    this.#inner.append(stored(rows, this.options));
    this.#whole = null;
  }

  keep(kept: Uint32Array): void {
    this.#inner.keep(kept);
    this.#whole = null;
    if (kept.length === 0) this.#components = null;
  }

  rows(): Rows['data'] {
    return this.#components ? this.#wholeRows(this.#components).data : this.#inner.rows();
  }

  factors(): Float32Array {
    return this.#components ? this.#wholeRows(this.#components).factors : this.#inner.factors();
  }

  search(queries: Float32Array, search: StoreSearch): Hit[][] {
    if (!this.#components) return this.#inner.search(queries, search);
    const { threshold, ...options } = search;
    const projected = this.#projected(this.#components, queries);
    const width = this.#components.length / this.#width;
    // The scores of `#inner` are cosines with the projections of the queries, which are shorter.
    const lengths = normsOf(queries, this.#width);
    const shares = normsOf(projected, width).map((length, n) => (lengths[n]! > 0 ? length / lengths[n]! : 0));
    const found = [...eachQuery(projected, width)].flatMap((query, n) => {
      const least = shares[n]! > 0 ? threshold / shares[n]! : -Infinity;
      return this.#inner.search(query, { ...options, threshold: least - 1e-6 * Math.abs(least) });
    });
    return found.map((hits, n) =>
      hits
        .map(({ index, score }) => ({ index, score: Math.fround(score * shares[n]!) }))
        .filter(({ score }) => score >= threshold),
    );
  }

  dispose(): void {
    this.#inner.dispose();
  }

  /** The products of vectors [N, D] with the components, [N, C]. */
  #projected(components: Float32Array, vectors: Float32Array): Float32Array {
    const width = this.#width;
    const count = components.length / width;
    const out = new Float32Array((vectors.length / width) * count);
    for (let n = 0, at = 0; n < vectors.length; n += width)
      for (let c = 0; c < components.length; c += width)
        out[at++] = dot(vectors, n / width, components, c / width, width);
    return out;
  }

  #wholeRows(components: Float32Array): Rows & { factors: Float32Array } {
    if (this.#whole) return this.#whole;
    const [codes, width, count] = [this.#inner.rows(), this.#width, this.count];
    const inner = components.length / width;
    const values = new Float32Array(count * width);
    for (let n = 0; n < count; n++) {
      const row = values.subarray(n * width, (n + 1) * width);
      for (let c = 0; c < inner; c++) {
        const factor = codes[n * inner + c]!;
        for (let k = 0; k < width; k++) row[k]! += factor * components[c * width + k]!;
      }
    }
    const { data, scales } = quantized(new Tensor(values, [count, width]), 'int8');
    this.#whole = stored({ data, count, width, bits: false, scales }, this.options);
    return this.#whole;
  }
}

interface StoredTensor {
  dtype: string;
  shape: number[];
  bytes: Uint8Array;
}

/**
 * Reads the vectors that `heed.quantizeIndex` wrote: `components`, BF16 [C, D], and the vectors y as rows in 3 or 4 bits,
 * with scales of rows and columns. text-index-file.ts describes the file.
 */
export async function readProjected(
  tensors: ReadonlyMap<string, StoredTensor>,
  count: number,
  file: string,
  newStore: (options: StoreOptions) => VectorStore,
  pause: () => Promise<void>,
): Promise<VectorStore> {
  const floats = (name: string, shape: readonly number[]) => {
    const tensor = tensors.get(name);
    const isSame = tensor?.dtype === 'BF16' && String(tensor.shape) === String(shape);
    const values = isSame ? widen(tensor.bytes, 'BF16') : new Float32Array();
    if (isSame && values.every(Number.isFinite)) return values;
    const got = !tensor ? 'none' : isSame ? 'other numbers' : `${tensor.dtype} ${formatShape(tensor.shape)}`;
    throw invalidFile(`${file}: tensor '${name}'`, `finite numbers, BF16 ${formatShape([...shape])}`, got);
  };
  const [components = 0, width = 0] = tensors.get('components')!.shape;
  const rows = floats('components', [components, width]);
  const codes = tensors.get('vectors');
  const bits = codes?.shape[1] === 4 ? 4 : 3;
  const shape = [count, bits, trellisPlaneBytes(components)];
  if (codes?.dtype !== 'U8' || String(codes.shape) !== String(shape) || components === 0 || components > width)
    throw invalidFile(
      `${file}: tensor 'vectors'`,
      `U8 ${formatShape([count, 3, trellisPlaneBytes(components)])} or 4 bits, for ${components} components of ${width} entries`,
      codes ? `${codes.dtype} ${formatShape(codes.shape)}` : 'none',
    );
  floats('vectors_scale', [count, 1]); // The cosine does not depend on the rows' scales.
  const columnScales = floats('vectors_column_scale', [1, components]);
  const store = newStore({ output: null, similarity: 'cosine' });
  const given = { data: codes.bytes, count, width: bits * trellisPlaneBytes(components), bits: false };
  const decoded = (block: Rows): Rows => {
    const values = new Tensor(decodeTrellisRows(block.data as Uint8Array, bits, columnScales), [
      block.count,
      components,
    ]);
    const { data, scales } = quantized(values, 'int8');
    return stored({ data, count: block.count, width: components, bits: false, scales }, store.options);
  };
  if (count > 0) store.append(await inBlocks(given, decoded, pause));
  return new ProjectedStore(store, rows, width);
}
