/**
 * Which heads matter, and doing without the others (Michel et al. 2019, arXiv:1905.10650; Voita et al. 2019, arXiv:1905.09418).
 * Letters: E width, H heads, Dk / Dv key / value width of a head.
 */
import { describe, guarded, HeedError, invalid } from '../error.js';
import { integer, listOf, type Reader } from '../options.js';
import { readTensor, Tensor, type TensorInput } from '../tensor.js';
import type { StateDict } from './layer.js';

/** How much one head matters. */
export interface HeadImportance {
  /** Where several layers are measured. */
  layer?: number;
  head: number;
  /** What masking the head adds to the loss; or, where outputs are measured, their root mean square change. */
  change: number;
}

/** A loss, or an output. */
export type Measured = number | TensorInput;

/**
 * Masks each head alone and measures what that changes; the most important head comes first.
 *
 * `measure` is called with all heads on, then once for each head with that one off. Its `headMask` has the form that layers and models take: [H] where `shape` is a number of
 * heads, [layers][H] where it is [layers, H].
 */
export function headImportance(
  shape: number,
  measure: (headMask: number[]) => Measured | PromiseLike<Measured>,
): Promise<HeadImportance[]>;
export function headImportance(
  shape: readonly [layers: number, heads: number],
  measure: (headMask: number[][]) => Measured | PromiseLike<Measured>,
): Promise<HeadImportance[]>;
export async function headImportance(
  shape: number | readonly [number, number],
  measure: (headMask: never) => Measured | PromiseLike<Measured>,
): Promise<HeadImportance[]> {
  const layered = Array.isArray(shape);
  const [layers, heads] = guarded('headImportance: shape', () => {
    if (layered && shape.length !== 2)
      throw invalid('headImportance: shape', describe(shape), 'a number of heads, or [layers, heads]');
    // A mask per head: more would not fit the memory.
    return [0, 1].map((i) => integer(layered ? shape[i] : [1, shape][i], 'headImportance: shape', 1, 4096)) as [
      number,
      number,
    ];
  });
  if (typeof measure !== 'function')
    throw invalid('headImportance: measure', describe(measure), 'a function from a head mask to a loss or an output');
  const measured = async (layer: number, head: number): Promise<Measured> => {
    const mask = Array.from({ length: layers }, (_, l) =>
      Array.from({ length: heads }, (_, h) => (l === layer && h === head ? 0 : 1)),
    );
    return measure((layered ? mask : mask[0]) as never);
  };
  const before = await measured(-1, -1);
  const found: HeadImportance[] = [];
  for (let layer = 0; layer < layers; layer++) {
    for (let head = 0; head < heads; head++) {
      found.push({ ...(layered && { layer }), head, change: difference(before, await measured(layer, head)) });
    }
  }
  return found.sort((a, b) => b.change - a.change);
}

function difference(before: Measured, after: Measured): number {
  if (typeof before === 'number' && typeof after === 'number') return after - before;
  const [a, b] = [readTensor('headImportance: measure', before), readTensor('headImportance: measure', after)];
  if (a.data.length !== b.data.length) {
    throw new HeedError(
      'SHAPE_MISMATCH',
      `headImportance: measure: got ${b.data.length} values after ${a.data.length}; expected the same shape on each call`,
    );
  }
  const sum = a.data.reduce((total, value, i) => total + (value - b.data[i]!) ** 2, 0);
  return Math.sqrt(sum / Math.max(1, a.data.length));
}

export const headList = listOf((head, name) => integer(head, name, 0), 'an array of head indices');

/** The heads that stay when `heads` go. */
export function remainingHeads(argument: string, heads: readonly number[], numHeads: number): number[] {
  const head: Reader<number> = (value, name) => integer(value, name, 0, numHeads - 1);
  const gone = new Set(listOf(head, 'an array of head indices')(heads, argument));
  const kept = Array.from({ length: numHeads }, (_, head) => head).filter((head) => !gone.has(head));
  if (kept.length === 0) throw invalid(argument, `all ${numHeads} heads`, 'at least one head that stays');
  return kept;
}

/** A state dict in which the attention under `prefix` has only the heads `kept`, its projections apart. */
export function withHeads(state: StateDict, prefix: string, kept: readonly number[], numHeads: number): StateDict {
  const { [`${prefix}in_proj_weight`]: packed, [`${prefix}in_proj_bias`]: bias, ...result } = state;
  const output = state[`${prefix}out_proj.weight`]!;
  const names = ['q', 'k', 'v'].map((part) => `${prefix}${part}_proj_weight`);
  const third = packed ? packed.shape[0]! / 3 : 0;
  const projections = names.map((name, part) => (packed ? rowsOf(packed, part * third, third) : state[name]!));
  projections.forEach((weight, part) => (result[names[part]!] = joinRows(headRows(weight, kept, numHeads))));
  if (bias) {
    let first = 0;
    const parts = projections.flatMap((weight) => {
      const own = rowsOf(bias, first, weight.shape[0]!);
      first += weight.shape[0]!;
      return headRows(own, kept, numHeads);
    });
    result[`${prefix}in_proj_bias`] = joinRows(parts);
  }
  result[`${prefix}out_proj.weight`] = headColumns(output, kept, numHeads);
  return result;
}

function rowsOf({ data, shape }: Tensor, first: number, count: number): Tensor {
  const row = shape.slice(1).reduce((product, extent) => product * extent, 1);
  return new Tensor(data.subarray(first * row, (first + count) * row), [count, ...shape.slice(1)]);
}

/** The rows of each kept head. */
function headRows(weight: Tensor, kept: readonly number[], numHeads: number): Tensor[] {
  const rows = weight.shape[0]! / numHeads;
  return kept.map((head) => rowsOf(weight, head * rows, rows));
}

function joinRows(parts: readonly Tensor[]): Tensor {
  const data = new Float32Array(parts.reduce((sum, part) => sum + part.data.length, 0));
  let offset = 0;
  for (const part of parts) {
    data.set(part.data, offset);
    offset += part.data.length;
  }
  return new Tensor(data, [parts.reduce((sum, part) => sum + part.shape[0]!, 0), ...parts[0]!.shape.slice(1)]);
}

function headColumns({ data, shape }: Tensor, kept: readonly number[], numHeads: number): Tensor {
  const [rows, columns] = shape as [number, number];
  const width = columns / numHeads;
  const result = new Float32Array(rows * kept.length * width);
  for (let row = 0; row < rows; row++) {
    kept.forEach((head, i) => {
      const from = row * columns + head * width;
      result.set(data.subarray(from, from + width), (row * kept.length + i) * width);
    });
  }
  return new Tensor(result, [rows, kept.length * width]);
}
