import { invalid } from '../base/error.js';
import { count, flag, oneOf, optional, positive, type Read, type Schema, seed, size } from '../base/options.js';
import type { Runtime } from '../base/owned.js';
import type { LayerOptions } from './layer.js';
import { TensorLayer } from './tensor-layer.js';

/** Options of `PositionalEncoding`. */
export interface PositionalEncodingOptions extends LayerOptions {
  /** E, the width of the encoding; with mode 'add', also the width of x. */
  embedDim: number;
  /** The maximum length of a sequence. Default 5000. */
  maxLength?: number | undefined;
  /** The base of the wavelengths of sine and cosine. Default 10000. */
  base?: number | undefined;
  /** The first k in the frequencies base^(-2k/E): 0, the default, as in the paper, or 1. */
  start?: number | undefined;
  /** 'add': adds the encoding to x. 'concat': appends it to the features of x. Default 'add'. */
  mode?: 'add' | 'concat' | undefined;
  /** Whether to use a trainable table, parameter `weight` [maxLength, E], instead of sine and cosine. Default false. */
  learned?: boolean | undefined;
}

/**
 * Encodes each position i: sin(i base^(-2k/E)) in even and cos in odd features (Vaswani et al. 2017, section 3.5), or a
 * learned vector. x [..., L, E] -> the same shape; with mode 'concat', x [..., L, D] of any width -> [..., L, D + E].
 *
 * @example
 * const encoding = new heed.PositionalEncoding({ embedDim: 4 });
 * encoding.forward([[0, 0, 0, 0], [0, 0, 0, 0]]).toArray(); // [[0, 1, 0, 1], [0.8415, 0.5403, 0.01, 1]]
 */
export class PositionalEncoding extends TensorLayer {
  /** @internal */
  static readonly relatesRows = true;

  /** @internal */
  static readonly schema = {
    embedDim: size,
    maxLength: optional(size, 5000),
    base: optional(positive, null),
    start: optional(count, null),
    mode: optional(oneOf(['add', 'concat']), 'add' as const),
    learned: optional(flag, false),
    seed,
  } satisfies Schema<PositionalEncodingOptions>;

  /** @internal */
  constructor(runtime: Runtime, name: string, options: Read<typeof PositionalEncoding.schema>) {
    const { learned, base, start } = options;
    for (const [key, value] of Object.entries({ base, start })) {
      const expected = `undefined with \`learned: true\` (a learned table has no ${key})`;
      if (learned && value !== null) throw invalid(`${name}.${key}`, expected, String(value));
    }
    super(runtime, name, options, { ...options, base: base ?? 10000, start: start ?? 0 });
  }
}
