/** Functions that own no parameters, and their options. */
import { type Activation, activation } from '../base/activations.js';
import { broadcastPositions, readAxis } from '../base/axes.js';
import { calling } from '../base/error.js';
import {
  count,
  finite,
  flag,
  integer,
  mask,
  oneOf,
  optional,
  positive,
  type Read,
  type Reader,
  rate,
  readOptions,
  type Schema,
  seed,
  size,
  tensor,
} from '../base/options.js';
import type { Runtime } from '../base/owned.js';
import { flipped, matmul } from '../base/products.js';
import { MAX_SIZE, type MaskInput, readTensor, summand, Tensor, type TensorInput } from '../base/tensor.js';
import { Unproxied } from '../base/unproxied.js';
import type { Calls, RawFunctions, RawTensor } from '../base/wasm/core.js';
import type { Operations } from './composition/operations.js';

/** 'inverted': entries that are not dropped are divided by 1 - p. 'none': they are not scaled. */
export type DropoutScaling = 'inverted' | 'none';

export const scaling = oneOf<DropoutScaling>(['inverted', 'none']);

/**
 * The pairs of features that rotary embedding rotates: (k, k + D/2) for 'half-split', (2k, 2k + 1) for 'interleaved',
 * as in the paper.
 */
export type RotaryPairing = 'half-split' | 'interleaved';

/** The result of attention. `weights` is present if `returnWeights` was true. */
export type Attended<W extends boolean = boolean, Weights = Tensor> = { output: Tensor } & (W extends true
  ? { weights: Weights }
  : { weights?: Weights | undefined });

/** Options of `attention`. Notation: N batch, H heads, L queries, S keys. */
export interface AttentionOptions<W extends boolean = boolean> {
  /**
   * A mask that broadcasts to [...,L,S], in layers to [N,H,L,S]. `MaskInput` says which masks allow attention, and which
   * are added to the scores. Default: none.
   */
  mask?: MaskInput | undefined;
  /** Whether query i attends only to keys 0..i, aligned at the top left. Default false. */
  causal?: boolean | undefined;
  /** Limits query i to the keys j with |i - j| <= window. Default: no limit. */
  window?: number | undefined;
  /** The factor on Q K^T. Default 1 / sqrt(Dk). */
  scale?: number | undefined;
  /** Dropout with probability p on the weights. Default: none. Without a seed, one is chosen at random. */
  dropout?: { p: number; seed?: number | undefined } | undefined;
  /**
   * Whether to return the weights: the softmax's output before dropout and head mask. Default false: the weights are
   * never stored.
   */
  returnWeights?: W | undefined;
}

/** Options of the function `attention`. */
export interface AttentionFunctionOptions<W extends boolean = boolean, S extends boolean = boolean>
  extends AttentionOptions<W> {
  /**
   * Whether to return the scores before the softmax: scale Q K^T plus additive masks, and -Infinity
   * where a mask, `causal` or `window` forbids attention. Default false.
   */
  returnScores?: S | undefined;
}

/** Scores, if `returnScores` was true. */
export type Scored<S extends boolean> = S extends true ? { scores: Tensor } : { scores?: Tensor | undefined };

/** Options of `softmax`. */
export interface SoftmaxOptions {
  /** The axis along which the entries sum to 1; negative axes count from the end. Default -1, the last axis. */
  axis?: number | undefined;
}

/** Parameters and options of `linear`. */
export interface LinearFunctionOptions {
  /** The weight W, [out, in], as in PyTorch. */
  weight: TensorInput;
  /** The bias b, [out]. Default: none. */
  bias?: TensorInput | undefined;
  /** The activation phi. Default 'identity'. */
  activation?: Activation | undefined;
}

/** Parameters and options of `layerNorm`. */
export interface LayerNormFunctionOptions {
  /** The weight gamma, [E]. Default: ones. */
  weight?: TensorInput | undefined;
  /** The bias beta, [E]. Default: zeros. */
  bias?: TensorInput | undefined;
  /** Added to the variance. Default 1e-5. */
  eps?: number | undefined;
}

/** Options of `dropout`. */
export interface DropoutFunctionOptions {
  /** The probability of dropping an entry, in [0, 1]. Default 0.5. */
  p?: number | undefined;
  /** The seed: equal seeds drop the same entries. Default: chosen at random. */
  seed?: number | undefined;
  /** Whether to apply dropout; false returns x. Default true. */
  training?: boolean | undefined;
  /** How entries that are not dropped are scaled. Default 'inverted'. */
  scaling?: DropoutScaling | undefined;
}

/** Options of `positionalEncoding`. */
export interface PositionalEncodingFunctionOptions {
  /** The base of the wavelengths. Default 10000. */
  base?: number | undefined;
  /** The first k in the frequencies base^(-2k/dim): 0, the default, as in the paper, or 1, from which many texts count. */
  start?: number | undefined;
}

/** Options of rotary embedding. */
export interface RotaryOptions {
  /** The number of rotated features (per head), even. Default: all. */
  dim?: number | undefined;
  /** The base of the rotation angles. Default 10000. */
  base?: number | undefined;
  /** The pairs of features that are rotated. Default 'half-split'. */
  pairing?: RotaryPairing | undefined;
}

/** Options of `rotary`. */
export interface RotaryFunctionOptions extends RotaryOptions {
  /** The position of the first row. Default 0. */
  firstPosition?: number | undefined;
}

const attentionDropout = { p: rate, seed } satisfies Schema<NonNullable<AttentionOptions['dropout']>>;

/** Attention options that the function and the layers have in common. */
export const sharedAttentionSchema = {
  mask: optional(mask, null),
  causal: optional(flag, false),
  window: optional(count, null),
  returnWeights: optional(flag, false),
};

const attentionSchema = {
  ...sharedAttentionSchema,
  returnScores: optional(flag, false),
  scale: optional(finite, null),
  dropout: optional((value, name) => readOptions(name, attentionDropout, value), null),
} satisfies Schema<AttentionFunctionOptions>;

const softmaxSchema = {
  axis: optional((value, name) => integer(value, name, -MAX_SIZE), -1),
} satisfies Schema<SoftmaxOptions>;

const linearSchema = {
  weight: tensor,
  bias: optional(tensor, null),
  activation: optional(activation, 'identity' as const),
} satisfies Schema<LinearFunctionOptions>;

const layerNormSchema = {
  weight: optional(tensor, null),
  bias: optional(tensor, null),
  eps: optional(positive, 1e-5),
} satisfies Schema<LayerNormFunctionOptions>;

const dropoutSchema = {
  p: optional(rate, 0.5),
  seed,
  training: optional(flag, true),
  scaling: optional(scaling, 'inverted' as const),
} satisfies Schema<DropoutFunctionOptions>;

const positionalEncodingSchema = {
  base: optional(positive, 10000),
  start: optional(count, 0),
} satisfies Schema<PositionalEncodingFunctionOptions>;

export const rotarySchema = {
  dim: optional(size, 0),
  base: optional(positive, 10000),
  pairing: optional(oneOf<RotaryPairing>(['half-split', 'interleaved']), 'half-split' as const),
} satisfies Schema<RotaryOptions>;

const rotaryFunctionSchema = {
  ...rotarySchema,
  firstPosition: optional(count, 0),
} satisfies Schema<RotaryFunctionOptions>;

/** Converts a tensor of the WebAssembly module to one of the API. */
export function toTensor({ data, shape }: RawTensor): Tensor {
  return new Tensor(data, shape);
}

/** Converts a result of attention to one of the API. `convert` converts the weights. */
export function toAttended<W extends boolean, Raw = RawTensor, Weights = Tensor>(
  { output, weights }: { output: RawTensor; weights: Raw | null },
  convert: (weights: Raw) => Weights = toTensor as never,
): Attended<W, Weights> {
  return { output: toTensor(output), ...(weights !== null && { weights: convert(weights) }) } as Attended<W, Weights>;
}

/** The scores of attention: scale Q K^T plus additive masks, and -Infinity where a key is forbidden. */
function scoresOf(
  calls: Pick<RawFunctions, 'compute'>,
  query: RawTensor,
  key: RawTensor,
  { mask, causal, window, scale }: Omit<Read<typeof attentionSchema>, 'returnScores'>,
): Tensor {
  const { data, shape } = matmul(calls, query, flipped(key));
  const [length, keys] = shape.slice(-2) as [number, number];
  const factor = scale ?? query.shape.at(-1)! ** -0.5;
  // A mask [N,1,L,S] of a batch without heads has one axis more.
  const own = mask?.shape.filter((_, axis) => axis !== 1 || mask.shape.length <= shape.length);
  const positions = own && broadcastPositions(own, shape);
  const added = (at: number) => {
    const [i, j] = [Math.floor(at / keys) % length, at % keys];
    if ((causal && j > i) || (window !== null && Math.abs(i - j) > window)) return -Infinity;
    return mask ? summand(mask, positions![at]!) : 0;
  };
  for (let at = 0; at < data.length; at++) {
    const sum = added(at);
    data[at] = sum === -Infinity ? sum : data[at]! * factor + sum;
  }
  return new Tensor(data, shape);
}

/** Reads the tensors and options of the call `name` and passes them to `body`, which calls the WebAssembly module. */
export function run<S extends Record<string, Reader<unknown>>, T>(
  name: string,
  tensors: Record<string, TensorInput>,
  schema: S,
  options: unknown,
  body: (tensors: RawTensor[], options: Read<S>) => T,
): T {
  const raw = Object.entries(tensors).map(([key, value]) => readTensor(`${name}: ${key}`, value));
  const read = readOptions(name, schema, options);
  return calling(name, () => body(raw, read));
}

/**
 * Functions without parameters, as methods of the object that `load()` returns.
 *
 * Notation: L queries, S keys, E width, Dk / Dv key / value width; `...` stands for any leading axes. Errors:
 * `SHAPE_MISMATCH` for shapes that do not match, `INVALID_ARGUMENT` for other invalid arguments, `OUT_OF_MEMORY`,
 * `DISPOSED`.
 */
export abstract class Functions extends Unproxied {
  readonly #runtime: Runtime;
  declare transpose: Operations['transpose'];

  /** @internal */
  constructor(runtime: Runtime) {
    super();
    this.#runtime = runtime;
  }

  /**
   * Scaled dot-product attention, softmax(Q K^T / sqrt(Dk) + M) V (Vaswani et al. 2017, arXiv:1706.03762, eq. 1).
   *
   * Maps query [...,L,Dk], key [...,S,Dk] and value [...,S,Dv], whose leading axes broadcast, to output [...,L,Dv] and,
   * with `returnWeights` and `returnScores`, weights and scores [...,L,S]. For a query whose keys are all masked, output
   * and weights are zero.
   *
   * @example
   * const { output, weights } = heed.attention([[1, 0]], [[1, 0], [0, 1]], [[1], [3]], { returnWeights: true });
   * @throws HeedError `SHAPE_MISMATCH`, `INVALID_ARGUMENT`
   */
  attention<W extends boolean = false, S extends boolean = false>(
    query: TensorInput,
    key: TensorInput,
    value: TensorInput,
    options?: AttentionFunctionOptions<W, S>,
  ): Attended<W> & Scored<S> {
    return run('attention', { query, key, value }, attentionSchema, options, ([q, k, v], { returnScores, ...read }) => {
      const attended = toAttended<W>(this.#calls.compute('attention', { query: q!, key: k!, value: v!, ...read }));
      const scores = returnScores ? { scores: scoresOf(this.#runtime.core, q!, k!, read) } : {};
      return { ...attended, ...scores } as Attended<W> & Scored<S>;
    });
  }

  /**
   * Computes exp(x_i) / sum_j exp(x_j) along an axis, without overflow. The result has the shape of x.
   *
   * @example
   * heed.softmax([0, 0, Math.log(2)]).toArray(); // [0.25, 0.25, 0.5]
   * heed.softmax([[0, 1], [0, 1]], { axis: 0 }).toArray(); // [[0.5, 0.5], [0.5, 0.5]]
   */
  softmax(x: TensorInput, options?: SoftmaxOptions): Tensor {
    return run('softmax', { x }, softmaxSchema, options, ([raw], { axis }) => {
      const last = raw!.shape.length - 1;
      const at = last < 0 ? last : readAxis(axis, 'softmax.axis', raw!); // the module rejects tensors without axes
      if (at === last) return toTensor(this.#calls.compute('softmax', { x: raw! }));
      const { data, shape } = this.transpose(raw!, at, last);
      return this.transpose(toTensor(this.#calls.compute('softmax', { x: { data, shape } })), at, last);
    });
  }

  /**
   * The linear layer phi(x W^T + b), applied to each position. x [...,in], weight [out,in], bias [out] -> [...,out].
   *
   * @example
   * heed.linear([[1, 2]], { weight: [[3, 4], [0, -1]], bias: [1, 0], activation: 'relu' }).toArray(); // [[12, 0]]
   */
  linear(x: TensorInput, options: LinearFunctionOptions): Tensor {
    return run('linear', { x }, linearSchema, options, ([raw], read) =>
      toTensor(this.#calls.compute('linear', { x: raw!, ...read })),
    );
  }

  /**
   * Layer normalization over the last axis: gamma (x - mean) / sqrt(variance + eps) + beta, where the variance is
   * divided by E (Ba, Kiros, Hinton 2016, arXiv:1607.06450). x [...,E] -> [...,E].
   *
   * @example
   * heed.layerNorm([1, 2, 3, 4]).toArray(); // [-1.3416, -0.4472, 0.4472, 1.3416]
   */
  layerNorm(x: TensorInput, options?: LayerNormFunctionOptions): Tensor {
    return run('layerNorm', { x }, layerNormSchema, options, ([raw], read) =>
      toTensor(this.#calls.compute('layerNorm', { x: raw!, ...read })),
    );
  }

  /**
   * Sets each entry to zero with probability p (Srivastava et al. 2014). x of any shape -> the same shape.
   *
   * @example
   * heed.dropout([1, 1, 1, 1], { p: 0.5, seed: 1 }); // some entries are 0, the others 2
   * heed.dropout([1, 1, 1, 1], { p: 0.5, training: false }).toArray(); // [1, 1, 1, 1]
   */
  dropout(x: TensorInput, options?: DropoutFunctionOptions): Tensor {
    return run('dropout', { x }, dropoutSchema, options, ([raw], { training, ...read }) =>
      toTensor(this.#calls.compute('dropout', { x: raw!, ...read, ...(!training && { p: 0 }) })),
    );
  }

  /**
   * Sinusoidal positional encoding [length, dim]: the sine, in even columns, and the cosine, in odd columns, of i
   * base^(-2k/dim), with k from `start` (Vaswani et al. 2017, section 3.5).
   *
   * @example
   * heed.positionalEncoding(2, 4).toArray(); // [[0, 1, 0, 1], [0.8415, 0.5403, 0.01, 1]]
   */
  positionalEncoding(length: number, dim: number, options?: PositionalEncodingFunctionOptions): Tensor {
    const rows = integer(length, 'positionalEncoding: length', 0);
    const columns = integer(dim, 'positionalEncoding: dim', 1);
    return run('positionalEncoding', {}, positionalEncodingSchema, options, (_, { base, start }) =>
      toTensor(this.#calls.positionalEncoding(rows, columns, base, start)),
    );
  }

  /**
   * Rotary embedding (Su et al. 2021, arXiv:2104.09864): rotates pair k of row i by i base^(-2k/dim). x [...,L,D] -> [...,L,D].
   *
   * @example
   * heed.rotary([[1, 0], [1, 0]]).toArray(); // [[1, 0], [0.5403, 0.8415]]: row 1 is rotated by 1 radian
   */
  rotary(x: TensorInput, options?: RotaryFunctionOptions): Tensor {
    return run('rotary', { x }, rotaryFunctionSchema, options, ([raw], read) =>
      toTensor(this.#calls.compute('rotary', { x: raw!, ...read })),
    );
  }

  get #calls(): Calls {
    return this.#runtime.calls;
  }
}
