/** Reads the files written by the scripts in tests/fixtures/, and compares results with them. */
import { readFileSync } from 'node:fs';
import { draw, scaled } from './numbers.js';

/** The entries of tests/fixtures/FOLDER/NAME.json, with their placeholders replaced by tensors. */
export function readFixtures(folder: string, name: string): unknown[] {
  const path = (extension: string) => new URL(`../../fixtures/${folder}/${name}.${extension}`, import.meta.url);
  const { buffer, byteOffset, byteLength } = readFileSync(path('bin'));
  const values = new Float32Array(buffer.slice(byteOffset, byteOffset + byteLength));
  return JSON.parse(readFileSync(path('json'), 'utf8')).map((entry: unknown) => decode(entry, values));
}

function decode(value: unknown, values: Float32Array): unknown {
  if (Array.isArray(value)) return value.map((entry) => decode(entry, values));
  if (typeof value !== 'object' || value === null) return value;
  if ('float' in value) {
    const [offset, ...shape] = value.float as number[];
    return { data: values.slice(offset, offset! + shape.reduce((a, b) => a * b, 1)), shape };
  }
  if ('values' in value && Array.isArray(value.values)) {
    const [offset, length] = value.values as [number, number];
    return { data: values.slice(offset, offset + length), shape: [length] };
  }
  if ('draw' in value) {
    const { draw: seedAndShape, scale = 1, offset = 0 } = value as { draw: [number]; scale?: number; offset?: number };
    return scaled(draw(...seedAndShape), scale, offset);
  }
  if ('byte' in value && 'shape' in value) return { data: Uint8Array.from(value.byte as number[]), shape: value.shape };
  return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, decode(entry, values)]));
}

/**
 * The largest |actual - expected| / (1e-5 + 1e-4 |expected|) over all numbers, which must be at most 1. Throws if
 * structure or shapes differ.
 */
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
