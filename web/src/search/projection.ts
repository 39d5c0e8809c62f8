/**
 * C orthonormal rows B [C, D], such as the first principal components of vectors. A row y stands for the vector B^T y,
 * whose product with a query q is y . (B q). Imported on demand, with the files that have such rows.
 */
import { dot, type Rows } from '../models/quantized.js';
import { int8Rows } from './stored-vectors.js';

export class Projection {
  /** B. */
  readonly components: Float32Array;
  /** D. */
  readonly width: number;

  constructor(components: Float32Array, width: number) {
    this.components = components;
    this.width = width;
  }

  /** The products of vectors [N, D] with the components, [N, C]. */
  project(vectors: Float32Array): Float32Array {
    const width = this.width;
    const out = new Float32Array((vectors.length / width) * (this.components.length / width));
    for (let n = 0, at = 0; n < vectors.length; n += width)
      for (let c = 0; c < this.components.length; c += width)
        out[at++] = dot(vectors, n / width, this.components, c / width, width);
    return out;
  }

  /** The vectors B^T y of `count` rows y, rounded to int8. */
  restore(rows: Rows['data'], count: number): Rows {
    const [components, width] = [this.components, this.width];
    const inner = components.length / width;
    const values = new Float32Array(count * width);
    for (let n = 0; n < count; n++) {
      const row = values.subarray(n * width, (n + 1) * width);
      for (let c = 0; c < inner; c++) {
        const factor = rows[n * inner + c]!;
        for (let k = 0; k < width; k++) row[k]! += factor * components[c * width + k]!;
      }
    }
    return int8Rows(values, count, width);
  }
}
