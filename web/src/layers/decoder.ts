import type {
  RawDecoded,
  RawDecoder,
  RawDecoderCache,
  RawEncoderLayerOptions,
  RawStackOptions,
  RawStepper,
} from '../core.js';
import { calling, describe, guarded, invalid } from '../error.js';
import { type Attended, run, toAttended, toTensor } from '../functions.js';
import { flag, mask, optional, type Schema } from '../options.js';
import { Owned } from '../owned.js';
import { type MaskInput, readTensor, type Tensor, type TensorInput } from '../tensor.js';
import { decoderLayerFlops, type Pass } from './cost.js';
import { type EncoderLayerOptions, type EncoderOptions, encoderLayerSchema, encoderSchema } from './encoder.js';
import { Layer } from './layer.js';

/** Options of `DecoderLayer`; the attention to the memory has the same heads as self-attention. */
export type DecoderLayerOptions = EncoderLayerOptions;
/** Options of `Decoder`. */
export type DecoderOptions = EncoderOptions;

/** Options of a call of a decoder. Notation: N batch, H heads, L targets, S rows of the memory. */
export interface DecoderCall<W extends boolean = boolean> {
  /** Target i attends to targets 0..i. Default false, as in PyTorch. */
  causal?: boolean;
  /** Of self-attention; broadcasts to [N,H,L,L]. */
  mask?: MaskInput;
  /** Marks the targets that are not padding, [N,L]. */
  keyMask?: MaskInput;
  /** Of the attention to the memory; broadcasts to [N,H,L,S]. */
  memoryMask?: MaskInput;
  /** Marks the rows of the memory that are not padding, [N,S]. */
  memoryKeyMask?: MaskInput;
  /** Also return the weights: the softmax's rows. Default false. */
  returnWeights?: W;
}

const decoderCallSchema = {
  causal: optional(flag, false),
  mask: optional(mask, null),
  keyMask: optional(mask, null),
  memoryMask: optional(mask, null),
  memoryKeyMask: optional(mask, null),
  returnWeights: optional(flag, false),
} satisfies Schema<DecoderCall>;

/** The weights of one decoder layer. */
export interface DecoderWeights {
  /** Of self-attention, [N,H,L,L]. */
  self: Tensor;
  /** Of the attention to the memory, [N,H,L,S]. */
  memory: Tensor;
}

/** The result of a decoder layer; `weights` is present if `returnWeights` was true. */
export type DecodedByLayer<W extends boolean = boolean> = Attended<W, DecoderWeights>;
/** The result of a decoder; `weights`, one entry per layer, is present if `returnWeights` was true. */
export type Decoded<W extends boolean = boolean> = Attended<W, DecoderWeights[]>;

export function toDecoderWeights(weights: NonNullable<RawDecoded['weights']>): DecoderWeights[] {
  return weights.map(({ self, memory }) => ({ self: toTensor(self), memory: toTensor(memory) }));
}

/** Options of `makeCache`. */
export interface DecoderCacheOptions {
  /** Marks the rows of the memory or source that are not padding, [N,S]; [S] for one sequence. */
  keyMask?: MaskInput;
}

const cacheSchema = { keyMask: optional(mask, null) } satisfies Schema<DecoderCacheOptions>;

/** Keys and values of a sequence or a batch, kept between the steps of decoding it. Only the layer that made it can use it. */
export class DecoderCache extends Owned<RawDecoderCache> {
  /** @internal */
  readonly maker: SteppingLayer;

  /** @internal */
  constructor(maker: SteppingLayer, raw: RawDecoderCache) {
    super('DecoderCache', maker.runtime, raw);
    this.maker = maker;
  }

  /** Number of rows of each sequence that are decoded so far. */
  get length(): number {
    return this.raw.length();
  }
}

/** A layer that decodes step by step. */
export abstract class SteppingLayer<Raw extends RawStepper = RawStepper> extends Layer<Raw> {
  /** Prepares decoding: projects the keys and values of a decoder's memory, or encodes a Transformer's source first, [N,S,E] or [S,E]. */
  makeCache(memory: TensorInput, options?: DecoderCacheOptions): DecoderCache {
    const { raw } = this;
    return run(
      'makeCache',
      { memory },
      cacheSchema,
      options,
      ([read], { keyMask }) => new DecoderCache(this, raw.makeCache(read!, keyMask)),
    );
  }

  /**
   * The output for the next rows of each sequence, target [N,L,E] or [L,E] -> the same shape. Equals these rows of one causal pass over all rows so far.
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
    if (maker !== this)
      throw invalid(
        'step: cache',
        'a cache that makeCache() of this layer made',
        maker ? "another layer's" : describe(cache),
      );
    return calling('step', () => toTensor(raw.step(targets, cache.raw)));
  }
}

function decode<W extends boolean>(
  layer: Layer<RawDecoder>,
  target: TensorInput,
  memory: TensorInput,
  options: DecoderCall | undefined,
): Decoded<W> {
  const { raw } = layer;
  return run(`${layer.name}.forward`, { target, memory }, decoderCallSchema, options, ([targets, memories], call) =>
    toAttended(raw.forward(targets!, memories!, call), toDecoderWeights),
  );
}

/**
 * Self-attention over the target, attention to the memory, feed-forward, each with its residual and norm: `torch.nn.TransformerDecoderLayer` with `batch_first`.
 * Parameters `self_attn.*`, `multihead_attn.*` (see `MultiHeadAttention`), `linear1.*`, `linear2.*`, `norm1.*`, `norm2.*`, `norm3.*`.
 */
export class DecoderLayer extends SteppingLayer<RawDecoder> {
  /** @internal */
  declare protected readonly options: RawEncoderLayerOptions;

  /** @internal */
  static readonly schema = encoderLayerSchema;

  /** target [N,L,E], memory [N,S,E] (or [L,E], [S,E]) -> output of the target's shape. */
  forward<W extends boolean = false>(
    target: TensorInput,
    memory: TensorInput,
    options?: DecoderCall<W>,
  ): DecodedByLayer<W> {
    const { output, weights } = decode(this, target, memory, options);
    return { output, ...(weights && { weights: weights[0] }) } as DecodedByLayer<W>;
  }

  /** @internal */
  protected override countFlops(pass: Pass): number {
    return decoderLayerFlops(this.options, pass);
  }
}

/** Decoder layers one after the other: `torch.nn.TransformerDecoder`. Parameters `layers.0.*`, ... (see `DecoderLayer`), and `norm.*` with `finalNorm`. */
export class Decoder extends SteppingLayer<RawDecoder> {
  /** @internal */
  declare protected readonly options: RawStackOptions;

  /** @internal */
  static readonly schema = encoderSchema;

  /** target [N,L,E], memory [N,S,E] (or [L,E], [S,E]) -> output of the target's shape. */
  forward<W extends boolean = false>(target: TensorInput, memory: TensorInput, options?: DecoderCall<W>): Decoded<W> {
    return decode(this, target, memory, options);
  }

  /** @internal */
  protected override countFlops(pass: Pass): number {
    return this.options.numLayers * decoderLayerFlops(this.options, pass);
  }
}
