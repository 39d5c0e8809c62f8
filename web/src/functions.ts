/**
 * The formulas, as functions without parameters of their own. `runtime.ts` offers them as methods; here are their options and how they reach the core.
 * Letters: L queries, S keys, E width, Dk / Dv key / value width.
 */
import type { Core, RawAttended, RawTensor } from './core.js';
import { calling } from './error.js';
import {
  count,
  finite,
  flag,
  integer,
  mask,
  oneOf,
  optional,
  positive,
  rate,
  readOptions,
  type Schema,
  seed,
  size,
  tensor,
} from './options.js';
import { type MaskInput, readTensor, Tensor, type TensorInput } from './tensor.js';

/** phi of a time-distributed layer; 'gelu' is the exact one (by erf), 'gelu_tanh' its approximation. */
export type Activation = 'identity' | 'relu' | 'gelu' | 'gelu_tanh' | 'tanh' | 'sigmoid' | 'silu';

/** Reads an activation's name; 'identity' where left out. */
export const activation = oneOf<Activation>(['identity', 'relu', 'gelu', 'gelu_tanh', 'tanh', 'sigmoid', 'silu']);

/** 'inverted': what is kept is divided by 1 - p; 'none': the Bernoulli mask alone. */
export type DropoutScaling = 'inverted' | 'none';

export const scaling = oneOf<DropoutScaling>(['inverted', 'none']);

/** How rotary embedding pairs features: (k, k + D/2), or (2k, 2k + 1) as in the paper. */
export type RotaryPairing = 'half-split' | 'interleaved';

export const pairing = oneOf<RotaryPairing>(['half-split', 'interleaved']);

/** A result of attention; `weights` is there when `returnWeights` was true. */
export type Attended<W extends boolean = boolean> = { output: Tensor } & (W extends true
  ? { weights: Tensor }
  : { weights?: Tensor });

export interface AttentionOptions<W extends boolean = boolean> {
  /** Broadcasts to [...,L,S]: nested arrays or a `Uint8Array` tensor of what may be attended to, or a `Float32Array` tensor that is added to the scores. */
  mask?: MaskInput;
  /** Query i sees keys 0..i, counted from the top left. Default false. */
  causal?: boolean;
  /** Query i sees keys j with |i - j| <= window. Default: all. */
  window?: number;
  /** Factor on Q K^T; default 1 / sqrt(Dk). */
  scale?: number;
  /** Dropout on the weights. */
  dropout?: { p: number; seed?: number };
  /** Also return the softmax's rows (before dropout). Default false, and then they are never stored. */
  returnWeights?: W;
}

export interface LinearFunctionOptions {
  /** [out, in], as in PyTorch */
  weight: TensorInput;
  /** [out] */
  bias?: TensorInput;
  /** Default 'identity'. */
  activation?: Activation;
}

export interface LayerNormFunctionOptions {
  /** gamma, [E]; default ones */
  weight?: TensorInput;
  /** delta, [E]; default zeros */
  bias?: TensorInput;
  /** Default 1e-5. */
  eps?: number;
}

export interface DropoutFunctionOptions {
  /** Probability of dropping an entry, in [0, 1]; default 0.5. */
  p?: number;
  /** Same seed, same draws; chosen at random where left out. */
  seed?: number;
  /** false: the identity. Default true. */
  training?: boolean;
  /** Default 'inverted'. */
  scaling?: DropoutScaling;
}

export interface PositionalEncodingFunctionOptions {
  /** Default 10000. */
  base?: number;
}

export interface RotaryFunctionOptions {
  /** Rotated features, even; default all. */
  dim?: number;
  /** Default 10000. */
  base?: number;
  /** Default 'half-split'. */
  pairing?: RotaryPairing;
  /** Position of the first row; default 0. */
  firstPosition?: number;
}

const attentionDropout = { p: rate, seed } satisfies Schema<NonNullable<AttentionOptions['dropout']>>;

const attentionSchema = {
  mask: optional(mask, null),
  causal: optional(flag, false),
  window: optional(count, null),
  scale: optional(finite, null),
  dropout: optional((value, name) => readOptions(name, attentionDropout, value), null),
  returnWeights: optional(flag, false),
} satisfies Schema<AttentionOptions>;

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
} satisfies Schema<PositionalEncodingFunctionOptions>;

const rotarySchema = {
  dim: optional(size, 0),
  base: optional(positive, 10000),
  pairing: optional(pairing, 'half-split' as const),
  firstPosition: optional(count, 0),
} satisfies Schema<RotaryFunctionOptions>;

/** The core's tensor as the caller's. */
export function toTensor({ data, shape }: RawTensor): Tensor {
  return new Tensor(data, shape);
}

/** The core's result as the caller's. */
export function toAttended<W extends boolean>({ output, weights }: RawAttended): Attended<W> {
  return (
    weights ? { output: toTensor(output), weights: toTensor(weights) } : { output: toTensor(output) }
  ) as Attended<W>;
}

export function attention<W extends boolean>(
  core: Core,
  query: TensorInput,
  key: TensorInput,
  value: TensorInput,
  options?: AttentionOptions<W>,
): Attended<W> {
  const q = readTensor('attention: query', query);
  const k = readTensor('attention: key', key);
  const v = readTensor('attention: value', value);
  const read = readOptions('attention', attentionSchema, options);
  return calling('attention', () => toAttended(core.attention(q, k, v, read)));
}

export function softmax(core: Core, x: TensorInput): Tensor {
  const raw = readTensor('softmax: x', x);
  return calling('softmax', () => toTensor(core.softmax(raw)));
}

export function linear(core: Core, x: TensorInput, options: LinearFunctionOptions): Tensor {
  const raw = readTensor('linear: x', x);
  const read = readOptions('linear', linearSchema, options);
  return calling('linear', () => toTensor(core.linear(raw, read)));
}

export function layerNorm(core: Core, x: TensorInput, options?: LayerNormFunctionOptions): Tensor {
  const raw = readTensor('layerNorm: x', x);
  const read = readOptions('layerNorm', layerNormSchema, options);
  return calling('layerNorm', () => toTensor(core.layerNorm(raw, read)));
}

export function dropout(core: Core, x: TensorInput, options?: DropoutFunctionOptions): Tensor {
  const raw = readTensor('dropout: x', x);
  const { training, ...read } = readOptions('dropout', dropoutSchema, options);
  return calling('dropout', () => toTensor(core.dropout(raw, training ? read : { ...read, p: 0 })));
}

export function positionalEncoding(
  core: Core,
  length: number,
  dim: number,
  options?: PositionalEncodingFunctionOptions,
): Tensor {
  const rows = integer(length, 'positionalEncoding: length', 0);
  const columns = integer(dim, 'positionalEncoding: dim', 1);
  const { base } = readOptions('positionalEncoding', positionalEncodingSchema, options);
  return calling('positionalEncoding', () => toTensor(core.positionalEncoding(rows, columns, base)));
}

export function rotary(core: Core, x: TensorInput, options?: RotaryFunctionOptions): Tensor {
  const raw = readTensor('rotary: x', x);
  const read = readOptions('rotary', rotarySchema, options);
  return calling('rotary', () => toTensor(core.rotary(raw, read)));
}
