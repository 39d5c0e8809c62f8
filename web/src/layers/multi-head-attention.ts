import { type Activation, activation } from '../base/activations.js';
import { invalid } from '../base/error.js';
import {
  flag,
  headMask,
  mask,
  optional,
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
import { type SiteOptions, siteSchema } from '../base/site-options.js';
import { ATTENTION_SITES } from '../base/sites.js';
import type { MaskInput, TensorInput } from '../base/tensor.js';
import type { RawAttended, RawLayer } from '../base/wasm/core.js';
import { attentionFlops, type Pass, visiblePairs } from './cost.js';
import {
  type Attended,
  type AttentionOptions,
  type RotaryOptions,
  rotarySchema,
  run,
  sharedAttentionSchema,
  toAttended,
} from './functions.js';
import { prunedSizes, remainingHeads, withHeads } from './heads.js';
import { Layer, type LayerOptions } from './layer.js';
import { layerSites, layerStack, type WithActivations } from './layer-sites.js';

/** The activations of the projections. */
export interface ProjectionActivations {
  /** The activation of the queries. Default 'identity'. */
  query?: Activation | undefined;
  /** The activation of the keys. Default 'identity'. */
  key?: Activation | undefined;
  /** The activation of the values. Default 'identity'. */
  value?: Activation | undefined;
}

/** Options of `MultiHeadAttention`. */
export interface MultiHeadAttentionOptions extends LayerOptions {
  /** E, the width of the query input and of the output. */
  embedDim: number;
  /** H, the number of heads. */
  numHeads: number;
  /** Dk, the width of one head's queries and keys. Default embedDim / numHeads. */
  keyDim?: number | undefined;
  /** Dv, the width of one head's values. Default embedDim / numHeads. */
  valueDim?: number | undefined;
  /** The width of the key input (PyTorch's kdim). Default embedDim. */
  keyInputDim?: number | undefined;
  /** The width of the value input (PyTorch's vdim). Default embedDim. */
  valueInputDim?: number | undefined;
  /** Whether the projections have biases. Default true. */
  bias?: boolean | undefined;
  /** The activation phi on the Q, K and V projections: one for all, or one for each. Default 'identity'. */
  activation?: Activation | ProjectionActivations | undefined;
  /** The probability of dropout on the weights, in training. Default 0. */
  dropout?: number | undefined;
  /** Rotary embedding of the projected queries and keys (Su et al. 2021, arXiv:2104.09864). Default: none. */
  rotary?: RotaryOptions | undefined;
}

/** Options of a call of self-attention. */
export interface SelfAttentionCall<W extends boolean = boolean> extends Omit<AttentionOptions<W>, 'scale' | 'dropout'> {
  /** Marks the keys of each sequence that are not padding: [N,S], or [S] for unbatched input. */
  keyMask?: MaskInput | undefined;
  /** A factor on the output of each head, [H] or [N,H]; 0 disables a head. */
  headMask?: TensorInput | undefined;
}

export const selfAttentionSchema = {
  ...sharedAttentionSchema,
  keyMask: optional(mask, null),
  headMask: optional(headMask, null),
} satisfies Schema<SelfAttentionCall>;

/** Options of a call of multi-head attention. */
export interface MultiHeadAttentionCall<W extends boolean = boolean, A extends boolean = boolean>
  extends SelfAttentionCall<W>,
    SiteOptions {
  /** The key input, [N,S,keyInputDim]. Default: the query. */
  key?: TensorInput | undefined;
  /** The value input, [N,S,valueInputDim]. Default: the key. */
  value?: TensorInput | undefined;
  /** Whether to return the weights averaged over the heads, [N,L,S]. Default false. */
  averageWeights?: A | undefined;
}

/** Options that layers with attention have in common. */
export const headsSchema = {
  embedDim: size,
  numHeads: size,
  keyDim: optional(size, 0),
  valueDim: optional(size, 0),
  rotary: optional((value, name) => readOptions(name, rotarySchema, value), null),
  seed,
};

const oneActivation = optional(activation, 'identity' as const);
const activationsSchema = {
  query: oneActivation,
  key: oneActivation,
  value: oneActivation,
} satisfies Schema<ProjectionActivations>;

/** Reads one activation for all projections, or one for each. */
const projectionActivations: Reader<Activation | Read<typeof activationsSchema>> = (value, name) =>
  typeof value === 'object' && value !== null
    ? readOptions(name, activationsSchema, value)
    : oneActivation(value, name);

const callSchema = {
  ...selfAttentionSchema,
  returnWeights: optional(flag, null),
  key: optional(tensor, null),
  value: optional(tensor, null),
  averageWeights: optional(flag, false),
  ...siteSchema,
} satisfies Schema<MultiHeadAttentionCall>;

/**
 * MultiHead(Q, K, V) = [H_1 .. H_h] W^O (Vaswani et al. 2017, arXiv:1706.03762, section 3.2.2): `torch.nn.MultiheadAttention` with `batch_first`, plus Keras's free head widths.
 * Notation: N batch, H heads, L queries, S keys, E width, Dk / Dv key / value width of a head.
 *
 * Parameters if the key and value inputs have width E and H Dk = H Dv = E: `in_proj_weight` [3E, E], `in_proj_bias` [3E]; otherwise `q_proj_weight` [H Dk, E],
 * `k_proj_weight` [H Dk, keyInputDim], `v_proj_weight` [H Dv, valueInputDim], `in_proj_bias` [2 H Dk + H Dv]. Always `out_proj.weight` [E, H Dv], `out_proj.bias` [E].
 *
 * @example
 * const attention = new heed.MultiHeadAttention({ embedDim: 8, numHeads: 2 });
 * const { output, weights } = attention.forward(x, { causal: true, returnWeights: true });
 */
export class MultiHeadAttention extends Layer<RawLayer<object, RawAttended>> {
  /** @internal */
  static readonly relatesRows = true;

  /** @internal */
  declare protected readonly options: Read<typeof MultiHeadAttention.schema>;

  /** @internal */
  static readonly schema = {
    ...headsSchema,
    keyInputDim: optional(size, 0),
    valueInputDim: optional(size, 0),
    bias: optional(flag, true),
    activation: projectionActivations,
    dropout: optional(rate, 0),
  } satisfies Schema<MultiHeadAttentionOptions>;

  /** @internal */
  constructor(runtime: Runtime, name: string, options: Read<typeof MultiHeadAttention.schema>) {
    const { activation: all } = options;
    const each = typeof all === 'string' ? { query: all, key: all, value: all } : all;
    super(runtime, name, options, { ...options, activation: each });
  }

  /** query [N,L,E] -> output [N,L,E], weights [N,H,L,S], averaged weights [N,L,S]; without N for unbatched input. */
  forward<W extends boolean = false, A extends boolean = false>(
    query: TensorInput,
    options?: MultiHeadAttentionCall<W, A>,
  ): Attended<W extends true ? true : A> & WithActivations {
    const { raw } = this;
    const name = 'MultiHeadAttention.forward';
    return run(name, { query }, callSchema, options, ([input], { returnWeights, read, edit, ...call }) => {
      if (returnWeights === false && call.averageWeights)
        throw invalid(`${name}.averageWeights`, 'false with `returnWeights: false`', 'true');
      const stack = { numLayers: null, sites: ATTENTION_SITES };
      const stacks = () => [layerStack(stack, input!, call.key ?? input!, this.options)];
      const { sites, withActivations } = layerSites({ read, edit }, name, stacks);
      const all = { query: input!, ...call, returnWeights: returnWeights ?? call.averageWeights, sites };
      return withActivations(toAttended<W extends true ? true : A>(raw.forward(all)));
    });
  }

  /**
   * Returns a smaller layer without `heads`, whose output equals that of this layer with these heads masked. It has
   * copies of the other heads' weights; this layer is unchanged.
   *
   * @example
   * const attention = new heed.MultiHeadAttention({ embedDim: 8, numHeads: 4 });
   * const smaller = attention.prune([0, 3]); // two heads are left
   */
  prune(heads: readonly number[]): this {
    const { numHeads } = this.options;
    const kept = remainingHeads('MultiHeadAttention.prune: heads', heads, numHeads);
    const state = withHeads(this.stateDict(), '', kept, numHeads);
    return this.another(MultiHeadAttention, prunedSizes(this.options, kept.length), state);
  }

  /** @internal */
  protected override countFlops(pass: Pass): number {
    const { length, keyLength } = pass;
    return attentionFlops(this.options, length, keyLength, visiblePairs(pass, keyLength));
  }
}
