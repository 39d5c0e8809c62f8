import { flag, oneOf, optional, positive, readOptions, type Schema, seed, size } from '../options.js';
import type { Runtime } from '../owned.js';
import type { Tensor, TensorInput } from '../tensor.js';
import type { LayerOptions } from './layer.js';
import { TensorLayer } from './tensor-layer.js';

export interface PositionalEncodingOptions extends LayerOptions {
  /** E, the width of the encoding; with mode 'add' also x's. */
  embedDim: number;
  /** Longest sequence; default 5000. */
  maxLength?: number;
  /** Default 10000. */
  base?: number;
  /** 'add' to x, or 'concat' as further features after x's. Default 'add'. */
  mode?: 'add' | 'concat';
  /** A trainable table, parameter `weight` [maxLength, E], instead of sine and cosine. Default false. */
  learned?: boolean;
}

const schema = {
  embedDim: size,
  maxLength: optional(size, 5000),
  base: optional(positive, 10000),
  mode: optional(oneOf(['add', 'concat']), 'add' as const),
  learned: optional(flag, false),
  seed,
} satisfies Schema<PositionalEncodingOptions>;

/** Tells each position's place: sin(i base^(-2k/E)) on even and cos on odd features (Vaswani et al. 2017, section 3.5), or a learned vector. */
export class PositionalEncoding extends TensorLayer {
  /** @internal */
  constructor(runtime: Runtime, options: PositionalEncodingOptions) {
    const read = readOptions('PositionalEncoding', schema, options);
    super('PositionalEncoding', runtime, read.seed, () => new runtime.core.PositionalEncoding(read));
  }

  /** x [..., L, E] -> the same shape; with mode 'concat' x [..., L, D] of any width -> [..., L, D + E] */
  forward(x: TensorInput): Tensor {
    return this.apply('PositionalEncoding.forward', x);
  }
}
