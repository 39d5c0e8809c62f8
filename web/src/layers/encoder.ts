import type { RawEncoder, RawEncoderLayer } from '../core.js';
import { calling } from '../error.js';
import { type Activation, type Attended, activation, toAttended, toTensor } from '../functions.js';
import { flag, layerCount, optional, positive, rate, readOptions, type Schema, seed, size } from '../options.js';
import type { Runtime } from '../owned.js';
import { readTensor, type Tensor, type TensorInput } from '../tensor.js';
import { remainingHeads, withHeads } from './heads.js';
import { Layer, type LayerOptions } from './layer.js';
import {
  prunedOptions,
  type RotaryOptions,
  rotaryOptions,
  type SelfAttentionCall,
  selfAttentionSchema,
} from './multi-head-attention.js';

export interface EncoderLayerOptions extends LayerOptions {
  /** E */
  embedDim: number;
  /** H */
  numHeads: number;
  /** Dk, width of one head's queries and keys; default embedDim / numHeads. */
  keyDim?: number;
  /** Dv, width of one head's values; default embedDim / numHeads. */
  valueDim?: number;
  /** F, the width inside the feed-forward */
  feedForwardDim: number;
  /** phi of the feed-forward; default 'relu'. */
  activation?: Activation;
  /** true: x + f(LN(x)); false: LN(x + f(x)). Default false. */
  normFirst?: boolean;
  /** Of the layer norms; default 1e-5. */
  eps?: number;
  /** In training, on the attention's weights, its output and both products of the feed-forward; default 0.1. */
  dropout?: number;
  /** Of the projections and the feed-forward; default true. */
  bias?: boolean;
  /** The feed-forward is a gated one, see `FeedForward`. Default false. */
  gated?: boolean;
  /** Turns the projected queries and keys by their positions. Default: not. */
  rotary?: RotaryOptions;
}

export const encoderLayerSchema = {
  embedDim: size,
  numHeads: size,
  keyDim: optional(size, 0),
  valueDim: optional(size, 0),
  feedForwardDim: size,
  activation: optional(activation, 'relu' as const),
  normFirst: optional(flag, false),
  eps: optional(positive, 1e-5),
  dropout: optional(rate, 0.1),
  bias: optional(flag, true),
  gated: optional(flag, false),
  rotary: rotaryOptions,
  seed,
} satisfies Schema<EncoderLayerOptions>;

/**
 * Post-norm: a = LN(x + Dropout(MHA(x))), y = LN(a + Dropout(FF(a))); pre-norm: a = x + Dropout(MHA(LN(x))), y = a + Dropout(FF(LN(a))).
 * `torch.nn.TransformerEncoderLayer` with `batch_first`. Letters: N batch, H heads, L positions, E width, F feed-forward width.
 *
 * Parameters `self_attn.*` (see `MultiHeadAttention`), `linear1.*`, `linear2.*` (see `FeedForward`), `norm1.*`, `norm2.*` (see `LayerNorm`).
 */
export class EncoderLayer extends Layer<RawEncoderLayer> {
  readonly #options: EncoderLayerOptions;

  /** @internal */
  constructor(runtime: Runtime, options: EncoderLayerOptions) {
    const read = readOptions('EncoderLayer', encoderLayerSchema, options);
    super('EncoderLayer', runtime, read.seed, () => new runtime.core.EncoderLayer(read));
    this.#options = { ...options };
  }

  /** A smaller layer without `heads`, whose output is the one that this layer gives with them masked. It keeps all other weights; this layer stays as it is. */
  prune(heads: readonly number[]): EncoderLayer {
    const kept = remainingHeads('EncoderLayer.prune: heads', heads, this.#options.numHeads);
    const smaller = new EncoderLayer(this.runtime, prunedOptions(this.#options, kept.length));
    smaller.loadStateDict(withHeads(this.stateDict(), 'self_attn.', kept, this.#options.numHeads));
    return this.training ? smaller.train() : smaller;
  }

  /** x [N,L,E] or [L,E] -> output of the same shape, weights [N,H,L,L] or [H,L,L]. */
  forward<W extends boolean = false>(x: TensorInput, options?: SelfAttentionCall<W>): Attended<W> {
    const { raw } = this;
    const input = readTensor('EncoderLayer.forward: x', x);
    const call = readOptions('EncoderLayer.forward', selfAttentionSchema, options);
    return calling('EncoderLayer.forward', () => toAttended(raw.forward(input, call)));
  }
}

export interface EncoderOptions extends EncoderLayerOptions {
  numLayers: number;
  /** A layer norm after the last layer. Default false. */
  finalNorm?: boolean;
}

const encoderSchema = {
  ...encoderLayerSchema,
  numLayers: layerCount,
  finalNorm: optional(flag, false),
} satisfies Schema<EncoderOptions>;

/** What a call of the encoder may be given. */
export interface EncoderCall<W extends boolean = boolean> extends Omit<SelfAttentionCall<W>, 'headMask'> {
  /** A factor on each head's output in each layer, [numLayers,H]: 0 switches a head off. */
  headMask?: TensorInput;
}

/** An encoder's result; `weights`, one tensor a layer, is there when `returnWeights` was true. */
export type Encoded<W extends boolean = boolean> = { output: Tensor } & (W extends true
  ? { weights: Tensor[] }
  : { weights?: Tensor[] });

/**
 * Encoder layers one after the other: `torch.nn.TransformerEncoder`. Parameters `layers.0.*`, `layers.1.*`, ... (see `EncoderLayer`), and `norm.*` with `finalNorm`.
 */
export class Encoder extends Layer<RawEncoder> {
  /** @internal */
  constructor(runtime: Runtime, options: EncoderOptions) {
    const read = readOptions('Encoder', encoderSchema, options);
    super('Encoder', runtime, read.seed, () => new runtime.core.Encoder(read));
  }

  /** x [N,L,E] or [L,E] -> output of the same shape, weights: of each layer [N,H,L,L] or [H,L,L]. */
  forward<W extends boolean = false>(x: TensorInput, options?: EncoderCall<W>): Encoded<W> {
    const { raw } = this;
    const input = readTensor('Encoder.forward: x', x);
    const call = readOptions('Encoder.forward', selfAttentionSchema, options);
    return calling('Encoder.forward', () => {
      const { output, weights } = raw.forward(input, call);
      return (
        weights ? { output: toTensor(output), weights: weights.map(toTensor) } : { output: toTensor(output) }
      ) as Encoded<W>;
    });
  }
}
