import type { RawMultiHeadAttention, RawRotaryOptions } from '../core.js';
import { calling } from '../error.js';
import { type Activation, type Attended, activation, pairing, type RotaryPairing, toAttended } from '../functions.js';
import {
  count,
  flag,
  headMask,
  mask,
  optional,
  positive,
  type Reader,
  rate,
  readOptions,
  type Schema,
  seed,
  size,
  tensor,
} from '../options.js';
import type { Runtime } from '../owned.js';
import { type MaskInput, readTensor, type TensorInput } from '../tensor.js';
import { remainingHeads, withHeads } from './heads.js';
import { Layer, type LayerOptions } from './layer.js';

/** Rotary embedding (Su et al. 2021, arXiv:2104.09864) of the projected queries and keys. */
export interface RotaryOptions {
  /** Rotated features of each head, even; default all. */
  dim?: number;
  /** Default 10000. */
  base?: number;
  /** Default 'half-split'. */
  pairing?: RotaryPairing;
}

const rotarySchema = {
  dim: optional(size, 0),
  base: optional(positive, 10000),
  pairing: optional(pairing, 'half-split' as const),
} satisfies Schema<RotaryOptions>;

/** Reads the rotary options of a layer; null where left out. */
export const rotaryOptions: Reader<RawRotaryOptions | null> = optional(
  (value, name) => readOptions(name, rotarySchema, value),
  null,
);

export interface MultiHeadAttentionOptions extends LayerOptions {
  /** E, width of the query input and of the output */
  embedDim: number;
  /** H */
  numHeads: number;
  /** Dk, width of one head's queries and keys; default embedDim / numHeads. */
  keyDim?: number;
  /** Dv, width of one head's values; default embedDim / numHeads. */
  valueDim?: number;
  /** Width of the key input (PyTorch's kdim); default embedDim. */
  keyInputDim?: number;
  /** Width of the value input (PyTorch's vdim); default embedDim. */
  valueInputDim?: number;
  /** Default true. */
  bias?: boolean;
  /** phi on the Q, K and V projections; default 'identity'. */
  activation?: Activation;
  /** Dropout on the weights, in training; default 0. */
  dropout?: number;
  /** Turns the projected queries and keys by their positions. Default: not. */
  rotary?: RotaryOptions;
}

const schema = {
  embedDim: size,
  numHeads: size,
  keyDim: optional(size, 0),
  valueDim: optional(size, 0),
  keyInputDim: optional(size, 0),
  valueInputDim: optional(size, 0),
  bias: optional(flag, true),
  activation: optional(activation, 'identity' as const),
  dropout: optional(rate, 0),
  rotary: rotaryOptions,
  seed,
} satisfies Schema<MultiHeadAttentionOptions>;

/** The options of a layer that keeps only some of its heads, each as wide as before. */
export function prunedOptions<T extends { embedDim: number; numHeads: number; keyDim?: number; valueDim?: number }>(
  options: T,
  kept: number,
): T {
  const width = options.embedDim / options.numHeads;
  return { ...options, numHeads: kept, keyDim: options.keyDim ?? width, valueDim: options.valueDim ?? width };
}

/** What a call of self-attention may be given. */
export interface SelfAttentionCall<W extends boolean = boolean> {
  /** Broadcasts to [N,H,L,S]: nested arrays or a `Uint8Array` tensor of what may be attended to, or a `Float32Array` tensor that is added to the scores. */
  mask?: MaskInput;
  /** The real keys of each sequence, [N,S]; [S] where the input is unbatched. */
  keyMask?: MaskInput;
  /** Query i sees keys 0..i, counted from the top left. Default false. */
  causal?: boolean;
  /** Query i sees keys j with |i - j| <= window. Default: all. */
  window?: number;
  /** A factor on each head's output, [H] or [N,H]: 0 switches a head off. */
  headMask?: TensorInput;
  /** Also return the softmax's rows, before dropout and head mask. Default false, and then they are never stored. */
  returnWeights?: W;
}

/** Readers of `SelfAttentionCall`. */
export const selfAttentionSchema = {
  mask: optional(mask, null),
  keyMask: optional(mask, null),
  causal: optional(flag, false),
  window: optional(count, null),
  headMask: optional(headMask, null),
  returnWeights: optional(flag, false),
} satisfies Schema<SelfAttentionCall>;

/** What a call of multi-head attention may be given. */
export interface MultiHeadAttentionCall<W extends boolean = boolean> extends SelfAttentionCall<W> {
  /** [N,S,keyInputDim]; default: the query */
  key?: TensorInput;
  /** [N,S,valueInputDim]; default: the key */
  value?: TensorInput;
  /** Return the mean of the heads' weights, [N,L,S]. Default false. */
  averageWeights?: boolean;
}

const callSchema = {
  ...selfAttentionSchema,
  key: optional(tensor, null),
  value: optional(tensor, null),
  averageWeights: optional(flag, false),
} satisfies Schema<MultiHeadAttentionCall>;

/**
 * MultiHead(Q, K, V) = [H_1 .. H_h] W^O (Vaswani et al. 2017, arXiv:1706.03762, section 3.2.2): `torch.nn.MultiheadAttention` with `batch_first`, plus Keras's free head widths.
 * Letters: N batch, H heads, L queries, S keys, E width, Dk / Dv key / value width of a head.
 *
 * Parameters where the key and value inputs are E wide and H Dk = H Dv = E: `in_proj_weight` [3E, E], `in_proj_bias` [3E]; otherwise `q_proj_weight` [H Dk, E],
 * `k_proj_weight` [H Dk, keyInputDim], `v_proj_weight` [H Dv, valueInputDim], `in_proj_bias` [2 H Dk + H Dv]. Always `out_proj.weight` [E, H Dv], `out_proj.bias` [E].
 */
export class MultiHeadAttention extends Layer<RawMultiHeadAttention> {
  readonly #options: MultiHeadAttentionOptions;

  /** @internal */
  constructor(runtime: Runtime, options: MultiHeadAttentionOptions) {
    const read = readOptions('MultiHeadAttention', schema, options);
    super('MultiHeadAttention', runtime, read.seed, () => new runtime.core.MultiHeadAttention(read));
    this.#options = { ...options };
  }

  /** A smaller layer without `heads`, whose output is the one that this layer gives with them masked. It keeps this layer's weights for the others; this one stays as it is. */
  prune(heads: readonly number[]): MultiHeadAttention {
    const kept = remainingHeads('MultiHeadAttention.prune: heads', heads, this.#options.numHeads);
    const smaller = this.another(prunedOptions(this.#options, kept.length));
    return smaller.loadStateDict(withHeads(this.stateDict(), '', kept, this.#options.numHeads));
  }

  /** query [N,L,E] -> output [N,L,E], weights [N,H,L,S]; unbatched, [L,E] -> [L,E], weights [H,L,S]. */
  forward<W extends boolean = false>(query: TensorInput, options?: MultiHeadAttentionCall<W>): Attended<W> {
    const { raw } = this;
    const input = readTensor('MultiHeadAttention.forward: query', query);
    const { key, value, ...call } = readOptions('MultiHeadAttention.forward', callSchema, options);
    return calling('MultiHeadAttention.forward', () => toAttended(raw.forward(input, key, value, call)));
  }
}
