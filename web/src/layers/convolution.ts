import { describe, invalid } from '../base/error.js';
import { count, flag, optional, type Read, type Reader, type Schema, seed, size } from '../base/options.js';
import type { Runtime } from '../base/owned.js';
import { linearFlops, type Pass } from './cost.js';
import type { LayerOptions } from './layer.js';
import { TensorLayer } from './tensor-layer.js';

/** Options of `Conv1D`. */
export interface Conv1DOptions extends LayerOptions {
  /** C, the width of the input. */
  inChannels: number;
  /** D, the width of the output. */
  outChannels: number;
  /** K, the number of positions that the kernel covers. */
  kernelSize: number;
  /** The distance between the positions of two outputs. Default 1. */
  stride?: number | undefined;
  /**
   * The number of rows of zeros before and after each sequence; 'same': as many as keep its length, which requires stride
   * 1; 'causal': all before it, so that an output depends on no later position. Default 0.
   */
  padding?: number | 'same' | 'causal' | undefined;
  /** The distance between the positions that a kernel covers. Default 1. */
  dilation?: number | undefined;
  /** G, a divisor of C and D: each group of outputs depends on one group of inputs. Default 1. */
  groups?: number | undefined;
  /** Whether to add a bias. Default true. */
  bias?: boolean | undefined;
}

const padding: Reader<number | 'same' | 'causal'> = (value, name) => {
  if (value === 'same' || value === 'causal') return value;
  if (typeof value === 'number') return count(value, name);
  throw invalid(name, "a nonnegative integer, 'same' or 'causal'", describe(value));
};

/**
 * Convolution along a sequence: `torch.nn.Conv1d` with the channels last, as in Keras. x [N, L, C] or [L, C] -> [N, L', D]
 * or [L', D], where L' = floor((L + padding - dilation (K - 1) - 1) / stride) + 1 with the padding of both sides.
 * Parameters `weight` [D, C / G, K], `bias` [D].
 *
 * @example
 * const mean = new heed.Conv1D({ inChannels: 1, outChannels: 1, kernelSize: 2 });
 * mean.loadStateDict({ weight: [[[0.5, 0.5]]], bias: [0] });
 * mean.forward([[1], [3], [5]]).toArray(); // [[2], [4]]
 */
export class Conv1D extends TensorLayer {
  /** @internal */
  static readonly relatesRows = true;

  /** @internal */
  declare protected readonly options: Read<typeof Conv1D.schema>;

  /** @internal */
  static readonly schema = {
    inChannels: size,
    outChannels: size,
    kernelSize: size,
    stride: optional(size, 1),
    padding: optional(padding, 0),
    dilation: optional(size, 1),
    groups: optional(size, 1),
    bias: optional(flag, true),
    seed,
  } satisfies Schema<Conv1DOptions>;

  /** @internal */
  constructor(runtime: Runtime, name: string, options: Read<typeof Conv1D.schema>) {
    if (options.padding === 'same' && options.stride !== 1)
      throw invalid(`${name}.padding`, "a number or 'causal' with a stride above 1", "'same'");
    super(runtime, name, options, { ...options, ...rowsOfZeros(options) });
  }

  /** @internal */
  protected override countFlops({ length }: Pass): number {
    const { inChannels, outChannels, kernelSize, stride, dilation, groups } = this.options;
    const { before, after } = rowsOfZeros(this.options);
    const rows = Math.floor((length + before + after - dilation * (kernelSize - 1) - 1) / stride) + 1;
    return linearFlops(Math.max(rows, 0), (inChannels / groups) * kernelSize, outChannels);
  }
}

/** The number of rows of zeros before and after each sequence. */
function rowsOfZeros({ padding, dilation, kernelSize }: Read<typeof Conv1D.schema>): { before: number; after: number } {
  if (typeof padding === 'number') return { before: padding, after: padding };
  const all = dilation * (kernelSize - 1);
  const after = padding === 'same' ? Math.ceil(all / 2) : 0;
  return { before: all - after, after };
}
