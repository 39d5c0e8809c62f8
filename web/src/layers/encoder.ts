import type { RawEncoder, RawEncoderLayer, RawTensor } from '../core.js';
import { calling, HeedError, invalid } from '../error.js';
import { type Activation, type Attended, activation, toAttended, toTensor } from '../functions.js';
import {
  flag,
  headMask,
  layerCount,
  listOf,
  optional,
  positive,
  type Reader,
  rate,
  readOptions,
  type Schema,
  seed,
  size,
} from '../options.js';
import type { Runtime } from '../owned.js';
import { formatShape, readTensor, type Tensor, type TensorInput } from '../tensor.js';
import { headList, remainingHeads, withHeads } from './heads.js';
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
    const smaller = this.another(prunedOptions(this.#options, kept.length));
    return smaller.loadStateDict(withHeads(this.stateDict(), 'self_attn.', kept, this.#options.numHeads));
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
  /** A factor on each head's output in each layer, [numLayers,H]: 0 switches a head off. After pruning, nested arrays with an entry for each head that is left. */
  headMask?: TensorInput;
}

/** Reads a head mask of layers with that many heads each: rows of different lengths are filled up to the longest. */
function headMasks(heads: readonly number[]): Reader<RawTensor | null> {
  return optional((value, name) => {
    const most = Math.max(...heads);
    if (!Array.isArray(value) || heads.every((count) => count === most)) return headMask(value, name);
    const rows = listOf(headMask, 'a row for each layer')(value, name);
    const wrong = heads.findIndex((count, layer) => formatShape(rows[layer]?.shape ?? []) !== formatShape([count]));
    if (wrong >= 0 || rows.length !== heads.length) {
      const got = wrong < 0 ? `${rows.length} layers` : `${formatShape(rows[wrong]?.shape ?? [])} for layer ${wrong}`;
      throw new HeedError('SHAPE_MISMATCH', `${name}: got ${got}; expected ${heads.join(', ')} heads, layer by layer`);
    }
    const data = new Float32Array(heads.length * most);
    for (const [layer, row] of rows.entries()) data.set(row.data, layer * most);
    return { data, shape: [heads.length, most] };
  }, null);
}

/** An encoder's result; `weights`, one tensor a layer, is there when `returnWeights` was true. */
export type Encoded<W extends boolean = boolean> = { output: Tensor } & (W extends true
  ? { weights: Tensor[] }
  : { weights?: Tensor[] });

/**
 * Encoder layers one after the other: `torch.nn.TransformerEncoder`. Parameters `layers.0.*`, `layers.1.*`, ... (see `EncoderLayer`), and `norm.*` with `finalNorm`.
 */
export class Encoder extends Layer<RawEncoder> {
  readonly #options: EncoderOptions;
  /** Of each layer. */
  readonly #heads: readonly number[];

  /** @internal */
  constructor(runtime: Runtime, options: EncoderOptions, heads: readonly number[] | null = null) {
    const read = readOptions('Encoder', encoderSchema, options);
    super('Encoder', runtime, read.seed, () => new runtime.core.Encoder({ ...read, heads }));
    this.#options = { ...options };
    this.#heads = heads ?? new Array<number>(read.numLayers).fill(read.numHeads);
  }

  /**
   * A smaller encoder without `heads`, a list for each layer, whose output is the one that this encoder gives with them masked. It keeps all other weights; this encoder stays
   * as it is.
   */
  prune(heads: readonly (readonly number[])[]): Encoder {
    const argument = 'Encoder.prune: heads';
    const lists = listOf(headList, 'a list of heads for each layer')(heads, argument);
    if (lists.length !== this.#heads.length)
      throw invalid(argument, `${lists.length} lists`, `${this.#heads.length}, one for each layer`);
    const kept = this.#heads.map((count, layer) => remainingHeads(`${argument}[${layer}]`, lists[layer]!, count));
    const counts = kept.map((left) => left.length);
    const smaller = this.another(prunedOptions(this.#options, this.#options.numHeads), counts);
    const state = kept.reduce(
      (all, left, layer) => withHeads(all, `layers.${layer}.self_attn.`, left, this.#heads[layer]!),
      this.stateDict(),
    );
    return smaller.loadStateDict(state);
  }

  /** x [N,L,E] or [L,E] -> output of the same shape, weights: of each layer [N,H,L,L] or [H,L,L]. */
  forward<W extends boolean = false>(x: TensorInput, options?: EncoderCall<W>): Encoded<W> {
    const { raw } = this;
    const input = readTensor('Encoder.forward: x', x);
    const call = readOptions('Encoder.forward', { ...selfAttentionSchema, headMask: headMasks(this.#heads) }, options);
    return calling('Encoder.forward', () => {
      const { output, weights } = raw.forward(input, call);
      return (
        weights ? { output: toTensor(output), weights: weights.map(toTensor) } : { output: toTensor(output) }
      ) as Encoded<W>;
    });
  }
}
