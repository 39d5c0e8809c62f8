/**
 * Position tables for the kernels: rotary angles, attention biases and distance buckets, equal to those of the
 * WebAssembly module.
 */
import type { RawEncoderModelConfig, RawTensor } from '../base/wasm/core.js';
import { plainFrequencies } from '../models/families/family.js';

/** Cosines and sines, interleaved, of angles [rows, pairs]. */
function turnsOf(count: number, angle: (at: number) => number): Float32Array {
  const turns = new Float32Array(2 * count);
  for (let at = 0; at < count; at++) {
    turns[2 * at] = Math.cos(angle(at));
    turns[2 * at + 1] = Math.sin(angle(at));
  }
  return turns;
}

/**
 * Cosines and sines of the angles i base^(-2k / dim) scale, or of those that `given` has for each pair, at positions i,
 * times `factor`.
 */
export function rotaryTurns(
  { rotaryDim = 0, maxPositions, rotaryScale = 1 }: RawEncoderModelConfig,
  base: number,
  given: readonly number[] | undefined,
  factor = 1,
): Float32Array {
  const half = rotaryDim / 2;
  const frequencies = given ?? plainFrequencies(base, rotaryDim).map((w) => w * rotaryScale);
  const turns = turnsOf(maxPositions * half, (at) => Math.floor(at / half) * frequencies[at % half]!);
  return factor === 1 ? turns : turns.map((value) => value * factor);
}

/** Cosines and sines of given angles. */
export const givenTurns = ({ data }: RawTensor): Float32Array => turnsOf(data.length, (at) => data[at]!);

/**
 * ALiBi's biases [H, 2 most + 1]: -slope |distance|. If H is not a power of two, the slopes are those of the next
 * smaller power of two, followed by every other slope of the next larger one.
 */
export function alibiBias(heads: number, most: number): Float32Array {
  const slopes = (count: number) => Array.from({ length: count }, (_, h) => Math.fround(2 ** ((-8 * (h + 1)) / count)));
  const power = 2 ** Math.floor(Math.log2(heads));
  const all = [...slopes(power), ...slopes(2 * power).filter((_, h) => h % 2 === 0)];
  return biases(heads, most, (h, distance) => -all[h]! * Math.abs(distance));
}

function biases(heads: number, most: number, of: (h: number, distance: number) => number): Float32Array {
  const length = 2 * most + 1;
  return Float32Array.from({ length: heads * length }, (_, at) => of(Math.floor(at / length), (at % length) - most));
}

/** The biases [H, 2 most + 1] from a table [buckets, H] with T5's buckets of j - i, as in relativeBias() in C++. */
export function bucketBias(
  table: Float32Array,
  heads: number,
  buckets: number,
  farthest: number,
  most: number,
): Float32Array {
  const side = buckets / 2;
  const exact = side / 2;
  // In fp32, as in C++, because rounding matters at the boundaries of buckets.
  const whole = Math.fround(Math.log(farthest / exact));
  const bucket = (distance: number) => {
    const first = distance > 0 ? side : 0;
    const steps = Math.abs(distance);
    if (steps < exact) return first + steps;
    const log = Math.fround(Math.log(Math.fround(steps / exact)));
    const step = Math.fround(Math.fround(log / whole) * (side - exact));
    return first + Math.min(side - 1, exact + Math.trunc(step));
  };
  return biases(heads, most, (h, distance) => table[bucket(distance) * heads + h]!);
}

/**
 * DeBERTa: the row of the embeddings of distances for each distance i - j from -most to most, as in logBucket() in C++.
 */
export function distanceRows(buckets: number, farthest: number, most: number): Uint32Array {
  const middle = Math.floor(buckets / 2);
  const bucket = (distance: number) => {
    const steps = Math.abs(distance);
    if (farthest === 0 || steps <= middle) return distance;
    const log = Math.fround(Math.log(Math.fround(steps / middle)));
    const whole = Math.fround(Math.log(Math.fround((farthest - 1) / middle)));
    const step = Math.fround(Math.fround(log / whole) * (middle - 1));
    return Math.sign(distance) * (Math.ceil(step) + middle);
  };
  const row = (distance: number) => Math.min(2 * buckets - 1, Math.max(0, bucket(distance) + buckets));
  return Uint32Array.from({ length: 2 * most + 1 }, (_, at) => row(at - most));
}
