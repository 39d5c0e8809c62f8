import { calling, describe, guarded, invalid } from '../base/error.js';
import { mask, optional, type Read, type Schema } from '../base/options.js';
import { Owned } from '../base/owned.js';
import { type SiteOptions, siteSchema } from '../base/site-options.js';
import { DECODER_SITES } from '../base/sites.js';
import { type MaskInput, readTensor, type Tensor, type TensorInput } from '../base/tensor.js';
import type { RawDecoderCache, RawDecoderWeights, RawIncrementalDecoder, RawWeighted } from '../base/wasm/core.js';
import { decoderLayerFlops, type Pass } from './cost.js';
import { type EncoderLayerOptions, type EncoderOptions, encoderLayerSchema, encoderSchema } from './encoder.js';
import { type Attended, run, toAttended, toTensor } from './functions.js';
import { Layer } from './layer.js';
import { layerSites, layerStack, type Widths, type WithActivations } from './layer-sites.js';
import { type SelfAttentionCall, selfAttentionSchema } from './multi-head-attention.js';

/** Options of `DecoderLayer`. Cross-attention has the same heads as self-attention. */
export type DecoderLayerOptions = EncoderLayerOptions;
/** Options of `Decoder`. */
export type DecoderOptions = EncoderOptions;

/**
 * Options of a call of a decoder. `causal`, `mask` and `keyMask` apply to self-attention. Notation: N batch, H heads, L
 * targets, S rows of the memory.
 */
export interface DecoderCall<W extends boolean = boolean>
  extends Pick<SelfAttentionCall<W>, 'causal' | 'mask' | 'keyMask' | 'returnWeights'>,
    SiteOptions {
  /** The mask of cross-attention, which broadcasts to [N,H,L,S]. */
  memoryMask?: MaskInput | undefined;
  /** Marks the rows of the memory that are not padding, [N,S]. */
  memoryKeyMask?: MaskInput | undefined;
}

const { causal, keyMask, returnWeights } = selfAttentionSchema;
const decoderCallSchema = {
  causal,
  mask: selfAttentionSchema.mask,
  keyMask,
  memoryMask: optional(mask, null),
  memoryKeyMask: optional(mask, null),
  returnWeights,
  ...siteSchema,
} satisfies Schema<DecoderCall>;

/** The attention weights of one decoder layer. */
export interface DecoderWeights {
  /** The weights of self-attention, [N,H,L,L]. */
  self: Tensor;
  /** The weights of cross-attention, [N,H,L,S]. */
  memory: Tensor;
}

/** The result of a decoder layer. `weights` is present if `returnWeights` was true. */
export type DecodedByLayer<W extends boolean = boolean> = Attended<W, DecoderWeights>;
/** The result of a decoder. `weights`, one entry per layer, is present if `returnWeights` was true. */
export type Decoded<W extends boolean = boolean> = Attended<W, DecoderWeights[]>;

export function toDecoderWeights(weights: RawDecoderWeights[]): DecoderWeights[] {
  return weights.map(({ self, memory }) => ({ self: toTensor(self), memory: toTensor(memory) }));
}

/** Options of `makeCache`. */
export interface DecoderCacheOptions {
  /** Marks the rows of the memory or source that are not padding: [N,S], or [S] for one sequence. */
  keyMask?: MaskInput | undefined;
}

const cacheSchema = { keyMask } satisfies Schema<DecoderCacheOptions>;

/**
 * Keys and values of a sequence or batch, cached between the steps of decoding. Only the layer that made the cache can
 * use it.
 *
 * @example
 * const cache = decoder.makeCache(memory);
 * decoder.step([target[0]], cache);
 * cache.length; // 1
 * const branch = cache.clone();
 * decoder.step([target[1]], branch);
 * branch.length; // 2
 * cache.length; // 1
 * branch.dispose();
 */
export class DecoderCache extends Owned<RawDecoderCache> {
  /** @internal For messages and consoles, as minification renames classes. */
  static override readonly name: string = 'DecoderCache';

  /** @internal */
  readonly maker: IncrementalDecoder;

  /** @internal */
  constructor(maker: IncrementalDecoder, raw: RawDecoderCache) {
    super('DecoderCache', maker.runtime, raw);
    this.maker = maker;
  }

  /** The number of rows of each sequence that have been decoded. */
  get length(): number {
    return this.raw.length();
  }

  /** Returns an independent cache in the same state, for beam search. */
  clone(): DecoderCache {
    const { raw } = this;
    return calling('DecoderCache.clone', () => new DecoderCache(this.maker, raw.copy()));
  }
}

type RawDecoder = RawIncrementalDecoder<object, RawWeighted<RawDecoderWeights>>;

/** A layer with a decoder that can run step by step. */
export abstract class IncrementalDecoder<Raw extends RawIncrementalDecoder = RawIncrementalDecoder> extends Layer<Raw> {
  /** @internal */
  static readonly inputs = 2;

  /**
   * Prepares decoding: projects the keys and values of a decoder's memory, or encodes a Transformer's source first.
   * [N,S,E] or [S,E].
   */
  makeCache(memory: TensorInput, options?: DecoderCacheOptions): DecoderCache {
    const { raw } = this;
    return run(
      'makeCache',
      { memory },
      cacheSchema,
      options,
      ([read], { keyMask }) => new DecoderCache(this, raw.makeCache({ input: read!, keyMask })),
    );
  }

  /**
   * Computes the output for the next rows of each sequence: target [N,L,E] or [L,E] -> the same shape. Equals these
   * rows of one causal forward pass over all rows so far.
   *
   * @example
   * const cache = decoder.makeCache(memory);
   * for (const row of target) outputs.push(decoder.step([row], cache));
   * @throws HeedError `SHAPE_MISMATCH`, `INVALID_ARGUMENT` for a cache of another layer
   */
  step(target: TensorInput, cache: DecoderCache): Tensor {
    const { raw } = this;
    const targets = readTensor('step: target', target);
    const maker = guarded('step: cache', () => (cache instanceof DecoderCache ? cache.maker : null));
    const got = maker ? "another layer's" : describe(cache);
    if (maker !== this) throw invalid('step: cache', 'a cache that makeCache() of this layer made', got);
    return calling('step', () => toTensor(raw.step({ target: targets }, cache.raw)));
  }
}

function decode<W extends boolean>(
  { raw, name }: Layer<RawDecoder>,
  sizes: Widths,
  numLayers: number | null,
  target: TensorInput,
  memory: TensorInput,
  options: DecoderCall | undefined,
): Decoded<W> & WithActivations {
  const owner = `${name}.forward`;
  return run(owner, { target, memory }, decoderCallSchema, options, ([targets, memories], { read, edit, ...call }) => {
    const stacks = () => [layerStack({ numLayers, sites: DECODER_SITES }, targets!, memories!, sizes)];
    const { sites, withActivations } = layerSites({ read, edit }, owner, stacks);
    const result = raw.forward({ target: targets!, memory: memories!, ...call, sites });
    return withActivations(toAttended<W, RawDecoderWeights[], DecoderWeights[]>(result, toDecoderWeights));
  });
}

/**
 * Self-attention over the target, cross-attention to the memory, and a feed-forward block, each with a residual
 * connection and a norm: `torch.nn.TransformerDecoderLayer` with `batch_first`. Parameters `self_attn.*`,
 * `multihead_attn.*` (see `MultiHeadAttention`), `linear1.*`, `linear2.*`, `norm1.*`, `norm2.*`, `norm3.*`.
 *
 * @example
 * const layer = new heed.DecoderLayer({ embedDim: 8, numHeads: 2, feedForwardDim: 16 });
 * const { output, weights } = layer.forward(target, memory, { causal: true, returnWeights: true });
 * weights.self.shape; // [2, 2, 2], from target [2, 8]
 * weights.memory.shape; // [2, 2, 3], from memory [3, 8]
 * const cache = layer.makeCache(memory); // then `step`, row by row
 */
export class DecoderLayer extends IncrementalDecoder<RawDecoder> {
  /** @internal */
  declare protected readonly options: Read<typeof encoderLayerSchema>;

  /** @internal */
  static readonly schema = encoderLayerSchema;

  /** target [N,L,E], memory [N,S,E] (or [L,E], [S,E]) -> output of the target's shape. */
  forward<W extends boolean = false>(
    target: TensorInput,
    memory: TensorInput,
    options?: DecoderCall<W>,
  ): DecodedByLayer<W> & WithActivations {
    const { weights, ...result } = decode(this, this.options, null, target, memory, options);
    return { ...result, ...(weights && { weights: weights[0] }) } as DecodedByLayer<W> & WithActivations;
  }

  /** @internal */
  protected override countFlops(pass: Pass): number {
    return decoderLayerFlops(this.options, pass);
  }
}

/**
 * A stack of decoder layers: `torch.nn.TransformerDecoder`. Parameters `layers.0.*`, ... (see `DecoderLayer`), and
 * `norm.*` with `finalNorm`.
 *
 * @example
 * const decoder = new heed.Decoder({ embedDim: 8, numHeads: 2, feedForwardDim: 16, numLayers: 2 });
 * const { output } = decoder.forward(target, memory, { causal: true });
 * const cache = decoder.makeCache(memory);
 * decoder.step(target, cache); // the same rows; the next call goes on from here
 */
export class Decoder extends IncrementalDecoder<RawDecoder> {
  /** @internal */
  declare protected readonly options: Read<typeof encoderSchema>;

  /** @internal */
  static readonly schema = encoderSchema;

  /** target [N,L,E], memory [N,S,E] (or [L,E], [S,E]) -> output of the target's shape. */
  forward<W extends boolean = false>(
    target: TensorInput,
    memory: TensorInput,
    options?: DecoderCall<W>,
  ): Decoded<W> & WithActivations {
    return decode(this, this.options, this.options.numLayers, target, memory, options);
  }

  /** @internal */
  protected override countFlops(pass: Pass): number {
    return this.options.numLayers * decoderLayerFlops(this.options, pass);
  }
}
