/** The cases that tests/fixtures/layers/generate.py wrote: what to call with what, and what PyTorch gives. write.py describes the format. */
import { readFileSync } from 'node:fs';

const folder = new URL('../../fixtures/layers/', import.meta.url);
const bytes = readFileSync(new URL('layers.bin', folder));
const values = new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));

export interface Case {
  name: string;
  /** A function, possibly of a namespace: 'attention', 'masks.causal'. */
  call?: string;
  /** Or a layer with its options and state. */
  layer?: string;
  options?: Record<string, unknown>;
  state?: Record<string, unknown>;
  arguments: unknown[];
  expected: unknown;
}

export const cases = (JSON.parse(readFileSync(new URL('layers.json', folder), 'utf8')) as unknown[]).map(
  decode,
) as Case[];

/** Puts the tensors in place of what stands for them. */
function decode(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(decode);
  if (typeof value !== 'object' || value === null) return value;
  if ('float' in value) {
    const [offset, ...shape] = value.float as number[];
    return { data: values.slice(offset, offset! + shape.reduce((a, b) => a * b, 1)), shape };
  }
  if ('byte' in value && 'shape' in value) return { data: Uint8Array.from(value.byte as number[]), shape: value.shape };
  return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, decode(entry)]));
}

/** The largest |actual - expected| / (1e-5 + 1e-4 |expected|) over all numbers: at most 1 passes. Throws where structure or shapes differ. */
export function worstError(actual: unknown, expected: unknown, path = 'result'): number {
  if (isTensor(expected)) {
    if (!isTensor(actual)) throw new Error(`${path}: no tensor, but ${String(actual)}`);
    if (String(actual.shape) !== String(expected.shape))
      throw new Error(`${path}: shape [${actual.shape}] instead of [${expected.shape}]`);
    let worst = 0;
    expected.data.forEach((value, i) => {
      const difference = Math.abs(actual.data[i]! - value);
      const ratio = difference / (1e-5 + 1e-4 * Math.abs(value));
      worst = ratio <= worst ? worst : Number.isNaN(ratio) ? Infinity : ratio;
    });
    return worst;
  }
  if (typeof expected === 'number') {
    if (Number(actual) !== expected) throw new Error(`${path}: ${String(actual)} instead of ${expected}`);
    return 0;
  }
  // Boolean masks are written as nested arrays.
  const given =
    Array.isArray(expected) && isTensor(actual) ? (actual as unknown as { toArray(): unknown }).toArray() : actual;
  if (typeof given !== 'object' || given === null) throw new Error(`${path}: nothing there`);
  const found = given as Record<string, unknown>;
  const parts = Object.entries(expected as Record<string, unknown>);
  if (Array.isArray(expected) && Object.keys(found).length !== parts.length)
    throw new Error(`${path}: ${Object.keys(found).length} entries instead of ${parts.length}`);
  if (!('weights' in (expected as object)) && found.weights !== undefined)
    throw new Error(`${path}: weights that were not asked for`);
  return Math.max(0, ...parts.map(([key, part]) => worstError(found[key], part, `${path}.${key}`)));
}

function isTensor(value: unknown): value is { data: Float32Array; shape: number[] } {
  return typeof value === 'object' && value !== null && 'data' in value && 'shape' in value;
}
