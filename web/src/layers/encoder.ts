import { formatShape, invalid } from '../base/error.js';
import { maxOf } from '../base/lists.js';
import {
  flag,
  headMask,
  layerCount,
  listOf,
  optional,
  positive,
  type Read,
  type Reader,
  rate,
  type Schema,
} from '../base/options.js';
import type { Runtime } from '../base/owned.js';
import { type SiteOptions, siteSchema } from '../base/site-options.js';
import type { Tensor, TensorInput } from '../base/tensor.js';
import type { RawAttended, RawLayer, RawTensor, RawWeighted } from '../base/wasm/core.js';
import { encoderLayerFlops, type Pass } from './cost.js';
import { FeedForward, type FeedForwardOptions } from './feed-forward.js';
import { type Attended, run, toAttended, toTensor } from './functions.js';
import { headList, prunedSizes, remainingHeads, withHeads } from './heads.js';
import { Layer, type LayerOptions } from './layer.js';
import { layerSites, layerStack, type WithActivations } from './layer-sites.js';
import {
  headsSchema,
  type MultiHeadAttentionOptions,
  type SelfAttentionCall,
  selfAttentionSchema,
} from './multi-head-attention.js';

const callSchema = { ...selfAttentionSchema, ...siteSchema };

/** Options of `EncoderLayer`. */
export interface EncoderLayerOptions
  extends Pick<MultiHeadAttentionOptions, 'embedDim' | 'numHeads' | 'keyDim' | 'valueDim' | 'rotary'>,
    Pick<FeedForwardOptions, 'feedForwardDim' | 'activation' | 'gated'>,
    LayerOptions {
  /** Where the layer norms are. true (pre-norm): x + f(LN(x)); false (post-norm): LN(x + f(x)). Default false. */
  normFirst?: boolean | undefined;
  /** The epsilon of the layer norms. Default 1e-5. */
  eps?: number | undefined;
  /**
   * The probability of dropout in training: on the weights and output of the attention, and after both products of the
   * feed-forward block. Default 0.1.
   */
  dropout?: number | undefined;
  /** Whether the projections and the feed-forward block have biases. Default true. */
  bias?: boolean | undefined;
}

export const encoderLayerSchema = {
  ...headsSchema,
  ...FeedForward.schema,
  normFirst: optional(flag, false),
  eps: optional(positive, 1e-5),
  dropout: optional(rate, 0.1),
} satisfies Schema<EncoderLayerOptions>;

/**
 * Post-norm: a = LN(x + Dropout(MHA(x))), y = LN(a + Dropout(FF(a))); pre-norm: a = x + Dropout(MHA(LN(x))), y = a + Dropout(FF(LN(a))).
 * `torch.nn.TransformerEncoderLayer` with `batch_first`. Notation: N batch, H heads, L positions, E width, F feed-forward width.
 *
 * Parameters `self_attn.*` (see `MultiHeadAttention`), `linear1.*`, `linear2.*` (see `FeedForward`), `norm1.*`, `norm2.*` (see `LayerNorm`).
 *
 * @example
 * const layer = new heed.EncoderLayer({ embedDim: 8, numHeads: 2, feedForwardDim: 16 });
 * const { output } = layer.forward(x, { keyMask });
 */
export class EncoderLayer extends Layer<RawLayer<object, RawAttended>> {
  /** @internal */
  static readonly relatesRows = true;

  /** @internal */
  declare protected readonly options: Read<typeof encoderLayerSchema>;

  /** @internal */
  static readonly schema = encoderLayerSchema;

  /** x [N,L,E] or [L,E] -> output of the same shape, weights [N,H,L,L] or [H,L,L]. */
  forward<W extends boolean = false>(
    x: TensorInput,
    options?: SelfAttentionCall<W> & SiteOptions,
  ): Attended<W> & WithActivations {
    const { raw } = this;
    const owner = 'EncoderLayer.forward';
    return run(owner, { x }, callSchema, options, ([input], { read, edit, ...call }) => {
      const stacks = () => [layerStack({ numLayers: null }, input!, input!, this.options)];
      const { sites, withActivations } = layerSites({ read, edit }, owner, stacks);
      return withActivations(toAttended<W>(raw.forward({ x: input!, ...call, sites })));
    });
  }

  /**
   * Returns a smaller layer without `heads`, whose output equals that of this layer with these heads masked. It has
   * copies of all other weights; this layer is unchanged.
   *
   * @example
   * const layer = new heed.EncoderLayer({ embedDim: 8, numHeads: 4, feedForwardDim: 16 });
   * const smaller = layer.prune([0, 3]); // two heads are left
   */
  prune(heads: readonly number[]): this {
    const { numHeads } = this.options;
    const kept = remainingHeads('EncoderLayer.prune: heads', heads, numHeads);
    const state = withHeads(this.stateDict(), 'self_attn.', kept, numHeads);
    return this.another(EncoderLayer, prunedSizes(this.options, kept.length), state);
  }

  /** @internal */
  protected override countFlops(pass: Pass): number {
    return encoderLayerFlops(this.options, pass);
  }
}

/** Options of `Encoder`. */
export interface EncoderOptions extends EncoderLayerOptions {
  /** The number of layers, from 1 to 1024. */
  numLayers: number;
  /** Whether there is a layer norm after the last layer. Default false. */
  finalNorm?: boolean | undefined;
}

export const encoderSchema = {
  ...encoderLayerSchema,
  numLayers: layerCount,
  finalNorm: optional(flag, false),
} satisfies Schema<EncoderOptions>;

/** Options of a call of the encoder. */
export interface EncoderCall<W extends boolean = boolean> extends Omit<SelfAttentionCall<W>, 'headMask'>, SiteOptions {
  /**
   * A factor on the output of each head in each layer, [numLayers,H]; 0 disables a head. After pruning: nested arrays
   * with one entry per remaining head.
   */
  headMask?: TensorInput | undefined;
}

/** Reads a head mask for layers with `heads[i]` heads each. Rows are padded to the maximum length. */
function headMasks(heads: readonly number[]): Reader<RawTensor | null> {
  return optional((value, name) => {
    const max = maxOf(heads);
    if (!Array.isArray(value) || heads.every((count) => count === max)) return headMask(value, name);
    const rows = listOf(headMask, 'a row for each layer')(value, name);
    const wrong = heads.findIndex((count, layer) => formatShape(rows[layer]?.shape ?? []) !== formatShape([count]));
    if (wrong >= 0 || rows.length !== heads.length) {
      const got = wrong < 0 ? `${rows.length} rows` : `${formatShape(rows[wrong]?.shape ?? [])} for layer ${wrong}`;
      throw invalid(name, `rows of ${heads.join(', ')} factors, one per layer`, got, 'SHAPE_MISMATCH');
    }
    const data = new Float32Array(heads.length * max);
    for (const [layer, row] of rows.entries()) data.set(row.data, layer * max);
    return { data, shape: [heads.length, max] };
  }, null);
}

/** The result of an encoder. `weights`, one tensor per layer, is present if `returnWeights` was true. */
export type Encoded<W extends boolean = boolean> = Attended<W, Tensor[]>;

/**
 * A stack of encoder layers: `torch.nn.TransformerEncoder`. Parameters `layers.0.*`, `layers.1.*`, ... (see
 * `EncoderLayer`), and `norm.*` with `finalNorm`.
 *
 * @example
 * const encoder = new heed.Encoder({ embedDim: 8, numHeads: 2, feedForwardDim: 16, numLayers: 6 });
 * const { output, weights } = encoder.forward(x, { keyMask, returnWeights: true });
 */
export class Encoder extends Layer<RawLayer<object, RawWeighted<RawTensor>>> {
  /** @internal */
  static readonly relatesRows = true;

  /** @internal */
  declare protected readonly options: Read<typeof encoderSchema> & { heads: readonly number[] | null };

  /** @internal */
  static readonly schema = encoderSchema;

  /** @internal */
  constructor(runtime: Runtime, name: string, options: Read<typeof encoderSchema>) {
    super(runtime, name, { heads: null, ...options });
  }

  /** x [N,L,E] or [L,E] -> output of the same shape, weights of each layer [N,H,L,L] or [H,L,L]. */
  forward<W extends boolean = false>(x: TensorInput, options?: EncoderCall<W>): Encoded<W> & WithActivations {
    const { raw } = this;
    const schema = { ...callSchema, headMask: headMasks(this.#heads) };
    const owner = 'Encoder.forward';
    return run(owner, { x }, schema, options, ([input], { read, edit, ...call }) => {
      const { numLayers } = this.options;
      const stacks = () => [layerStack({ numLayers }, input!, input!, this.options, this.#heads)];
      const { sites, withActivations } = layerSites({ read, edit }, owner, stacks);
      const result = raw.forward({ x: input!, ...call, sites });
      return withActivations(toAttended<W, RawTensor[], Tensor[]>(result, (weights) => weights.map(toTensor)));
    });
  }

  /**
   * Returns a smaller encoder without `heads`, one list per layer, whose output equals that of this encoder with these
   * heads masked. It has copies of all other weights; this encoder is unchanged.
   *
   * @example
   * const encoder = new heed.Encoder({ embedDim: 8, numHeads: 4, feedForwardDim: 16, numLayers: 2 });
   * const smaller = encoder.prune([[0, 3], [1]]); // two heads are left in the first layer, three in the second
   * @throws HeedError `INVALID_ARGUMENT` for heads that do not exist, or all of a layer
   */
  prune(heads: readonly (readonly number[])[]): this {
    const argument = 'Encoder.prune: heads';
    const before = this.#heads;
    const lists = listOf(headList, 'a list of heads for each layer')(heads, argument);
    if (lists.length !== before.length)
      throw invalid(argument, `${before.length} lists, one for each layer`, `${lists.length}`);
    const kept = before.map((count, layer) => remainingHeads(`${argument}[${layer}]`, lists[layer]!, count));
    const state = kept.reduce(
      (all, left, layer) => withHeads(all, `layers.${layer}.self_attn.`, left, before[layer]!),
      this.stateDict(),
    );
    const sizes = prunedSizes(this.options, this.options.numHeads);
    return this.another(Encoder, { ...sizes, heads: kept.map((left) => left.length) }, state);
  }

  /** @internal */
  protected override countFlops(pass: Pass): number {
    const { options } = this;
    const sizes = prunedSizes(options, options.numHeads);
    return this.#heads.reduce((sum, numHeads) => sum + encoderLayerFlops({ ...options, ...sizes, numHeads }, pass), 0);
  }

  /** The number of heads of each layer. */
  get #heads(): readonly number[] {
    const { heads, numLayers, numHeads } = this.options;
    return heads ?? new Array<number>(numLayers).fill(numHeads);
  }
}
