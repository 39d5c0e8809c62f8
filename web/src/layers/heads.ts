/**
 * Measures the importance of heads, and prunes heads (Michel et al. 2019, arXiv:1905.10650; Voita et al. 2019,
 * arXiv:1905.09418). Notation: E width, H heads, Dk / Dv key / value width of a head.
 */
import { describe, invalid } from '../base/error.js';
import { count, integer, listOf, type Reader } from '../base/options.js';
import { readTensor, Tensor, type TensorInput } from '../base/tensor.js';
import type { StateDict } from './state-dict.js';

/** The importance of one head. */
export interface HeadImportance {
  /** The index of the layer. Present if several layers are measured. */
  layer?: number | undefined;
  /** The index of the head in its layer. */
  head: number;
  /** The increase of the loss if the head is masked or, if outputs are measured, their root mean square change. */
  change: number;
}

/** The result of a measurement: a loss or an output. */
export type Measured = number | TensorInput;

/**
 * Masks each head separately and measures the effect. Returns the most important head first. Needs no `load()`.
 *
 * `measure` is called once with all heads enabled, then once per head with that head disabled. Its `headMask` has the
 * shape that layers and models accept: [H] if `shape` is a number of heads, [layers][H] if it is [layers, H].
 *
 * @example
 * const ranked = await headImportance(numHeads, (headMask) => attention.forward(x, { headMask }).output);
 * @throws HeedError `INVALID_ARGUMENT`, `SHAPE_MISMATCH` for outputs of different sizes; errors of `measure` are passed
 * on
 */
export async function headImportance<Shape extends number | readonly [layers: number, heads: number]>(
  shape: Shape,
  measure: (headMask: Shape extends number ? number[] : number[][]) => Measured | PromiseLike<Measured>,
): Promise<HeadImportance[]> {
  const layered = Array.isArray(shape);
  const argument = 'headImportance: shape';
  // Limited because there is one mask per head.
  const extent: Reader<number> = (value) => integer(value, argument, 1, 4096);
  const extents = layered ? listOf(extent, '')(shape, argument) : [1, extent(shape, argument)];
  if (extents.length !== 2) throw invalid(argument, 'a number of heads, or [layers, heads]', describe(shape));
  const [layers, heads] = extents as [number, number];
  if (typeof measure !== 'function')
    throw invalid('headImportance: measure', 'a function from a head mask to a loss or an output', describe(measure));
  const measured = async (layer: number, head: number): Promise<Measured> => {
    const mask = Array.from({ length: layers }, () => new Array<number>(heads).fill(1));
    if (layer >= 0) mask[layer]![head] = 0;
    return measure((layered ? mask : mask[0]) as never);
  };
  const before = await measured(-1, 0);
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
    const got = `${a.data.length} values, then ${b.data.length}`;
    throw invalid('headImportance: measure', 'the same shape from each call', got, 'SHAPE_MISMATCH');
  }
  const sum = a.data.reduce((total, value, i) => total + (value - b.data[i]!) ** 2, 0);
  return Math.sqrt(sum / Math.max(1, a.data.length));
}

const EXPECTED = 'an array of head indices';
export const headList = listOf(count, EXPECTED);

/** The heads that remain when `heads` are removed. */
export function remainingHeads(argument: string, heads: readonly number[], numHeads: number): number[] {
  const head: Reader<number> = (value, name) => integer(value, name, 0, numHeads - 1);
  const gone = new Set(listOf(head, EXPECTED)(heads, argument));
  const kept = Array.from({ length: numHeads }, (_, head) => head).filter((head) => !gone.has(head));
  if (kept.length === 0) throw invalid(argument, 'a list that leaves at least one head', `all ${numHeads} heads`);
  return kept;
}

/** The options of a layer that keeps `numHeads` of its heads, with unchanged head widths. */
export function prunedSizes(
  { embedDim, keyDim, valueDim, ...old }: { embedDim: number; numHeads: number; keyDim: number; valueDim: number },
  numHeads: number,
): { numHeads: number; keyDim: number; valueDim: number } {
  const width = embedDim / old.numHeads;
  return { numHeads, keyDim: keyDim || width, valueDim: valueDim || width };
}

/** A state dict in which the attention under `prefix` has only the heads `kept`, out of `numHeads`. */
export function withHeads(state: StateDict, prefix: string, kept: readonly number[], numHeads: number): StateDict {
  const result = { ...state };
  const prune = (name: string, axis: number, blocks: number) => {
    const tensor = state[prefix + name];
    if (!tensor) return;
    const shape = tensor.shape.map((extent, i) => (i === axis ? (extent / numHeads) * kept.length : extent));
    result[prefix + name] = new Tensor(keptHeads(tensor.data, blocks, kept, numHeads), shape);
  };
  prune('in_proj_weight', 0, 3);
  for (const part of ['q', 'k', 'v']) prune(`${part}_proj_weight`, 0, 1);
  prune('out_proj.weight', 1, state[`${prefix}out_proj.weight`]!.shape[0]!);
  const bias = state[`${prefix}in_proj_bias`]?.data;
  if (bias) {
    const keys = state[`${prefix}q_proj_weight`]?.shape[0] ?? bias.length / 3;
    const parts = [bias.subarray(0, keys), bias.subarray(keys, 2 * keys), bias.subarray(2 * keys)];
    const data = Float32Array.from(parts.flatMap((part) => [...keptHeads(part, 1, kept, numHeads)]));
    result[`${prefix}in_proj_bias`] = new Tensor(data, [data.length]);
  }
  return result;
}

/** The entries of the heads `kept`. `data` has the shape [blocks, numHeads, entries per head]. */
function keptHeads(data: Float32Array, blocks: number, kept: readonly number[], numHeads: number): Float32Array {
  const size = data.length / blocks / numHeads;
  const result = new Float32Array(blocks * kept.length * size);
  for (let block = 0, to = 0; block < blocks; block++) {
    for (const head of kept) {
      const from = (block * numHeads + head) * size;
      result.set(data.subarray(from, from + size), to);
      to += size;
    }
  }
  return result;
}
