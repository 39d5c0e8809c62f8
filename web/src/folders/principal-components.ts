/** Principal component analysis of vectors. */
import { generator } from '../base/random.js';

/** Sweeps of Jacobi's method, which converges quadratically after a few. */
const SWEEPS = 12;

/**
 * `count` orthonormal rows [count, width] that span the first principal components of the rows [N, width], without
 * subtracting their mean, so that dot products change least. The rows are a random rotation of these components: the
 * products with each of them have about the same variance, and so have the errors of quantization.
 */
export async function rotatedComponents(
  rows: Float32Array,
  width: number,
  count: number,
  pause: () => Promise<void>,
): Promise<Float32Array> {
  const { values, vectors } = await eigenvectors(await gramOf(rows, width, pause), width, pause);
  const order = values.map((_, k) => k).sort((a, b) => values[b]! - values[a]! || a - b);
  const rotation = randomRotation(count);
  const out = new Float32Array(count * width);
  for (let i = 0; i < count; i++) {
    await pause();
    for (let k = 0; k < width; k++) {
      let sum = 0;
      for (let j = 0; j < count; j++) sum += rotation[i]![j]! * vectors[order[j]!]![k]!;
      out[i * width + k] = sum;
    }
  }
  return out;
}

/** X^T X, row by row. */
async function gramOf(rows: Float32Array, width: number, pause: () => Promise<void>): Promise<Float64Array[]> {
  const gram = Array.from({ length: width }, () => new Float64Array(width));
  for (let n = 0; n < rows.length; n += width) {
    if (n % (1024 * width) === 0) await pause();
    for (let i = 0; i < width; i++) {
      const [own, factor] = [gram[i]!, rows[n + i]!];
      for (let j = i; j < width; j++) own[j]! += factor * rows[n + j]!;
    }
  }
  for (let i = 0; i < width; i++) for (let j = 0; j < i; j++) gram[i]![j] = gram[j]![i]!;
  return gram;
}

/**
 * The eigenvalues and eigenvectors of a symmetric matrix, which is overwritten, by Jacobi's cyclic method (Golub, Van
 * Loan 2013, section 8.5).
 */
async function eigenvectors(a: Float64Array[], width: number, pause: () => Promise<void>) {
  const vectors = Array.from({ length: width }, (_, i) => Float64Array.from({ length: width }, (_, j) => +(i === j)));
  const trace = a.reduce((sum, row, i) => sum + Math.abs(row[i]!), 0);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    let rotations = 0;
    for (let p = 0; p < width - 1; p++) {
      await pause();
      for (let q = p + 1; q < width; q++) {
        const entry = a[p]![q]!;
        if (Math.abs(entry) <= 1e-12 * trace) continue;
        rotations++;
        const tau = (a[q]![q]! - a[p]![p]!) / (2 * entry);
        const t = (tau < 0 ? -1 : 1) / (Math.abs(tau) + Math.sqrt(1 + tau * tau));
        const c = 1 / Math.sqrt(1 + t * t);
        for (let k = 0; k < width; k++) {
          const [x, y] = [a[k]![p]!, a[k]![q]!];
          a[k]![p] = c * x - t * c * y;
          a[k]![q] = t * c * x + c * y;
        }
        rotate(a[p]!, a[q]!, c, t * c);
        rotate(vectors[p]!, vectors[q]!, c, t * c);
      }
    }
    if (rotations === 0) break;
  }
  return { values: a.map((row, i) => row[i]!), vectors };
}

/** Replaces rows x and y by c x - s y and s x + c y. */
function rotate(x: Float64Array, y: Float64Array, c: number, s: number): void {
  for (let k = 0; k < x.length; k++) {
    const [u, v] = [x[k]!, y[k]!];
    x[k] = c * u - s * v;
    y[k] = s * u + c * v;
  }
}

/** Random orthonormal rows: the Gram-Schmidt process on normally distributed numbers with a fixed seed. */
function randomRotation(size: number): Float64Array[] {
  const random = generator(1, 0);
  const uniform = () => (random() + 0.5) / 2 ** 32;
  const normal = () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform()); // Box-Muller
  const rows: Float64Array[] = [];
  while (rows.length < size) {
    const row = Float64Array.from({ length: size }, normal);
    // Twice, against rounding errors.
    for (const other of [...rows, ...rows]) {
      const product = row.reduce((sum, v, k) => sum + v * other[k]!, 0);
      for (let k = 0; k < size; k++) row[k]! -= product * other[k]!;
    }
    const norm = Math.sqrt(row.reduce((sum, v) => sum + v * v, 0));
    rows.push(row.map((v) => v / norm));
  }
  return rows;
}
