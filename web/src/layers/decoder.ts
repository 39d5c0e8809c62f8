import type { RawDecoded, RawDecoder, RawDecoderCache, RawStepper } from '../core.js';
import { calling, describe, guarded, invalid } from '../error.js';
import { toTensor } from '../functions.js';
import { flag, layerCount, mask, optional, readOptions, type Schema } from '../options.js';
import { Owned, type Runtime } from '../owned.js';
import { type MaskInput, readTensor, type Tensor, type TensorInput } from '../tensor.js';
import { type EncoderLayerOptions, type EncoderOptions, encoderLayerSchema } from './encoder.js';
import { Layer } from './layer.js';

/** As an encoder layer's; the attention to the memory has the same heads. */
export type DecoderLayerOptions = EncoderLayerOptions;
export type DecoderOptions = EncoderOptions;

/** What a call of a decoder may be given. Letters: N batch, H heads, L targets, S rows of the memory. */
export interface DecoderCall<W extends boolean = boolean> {
  /** Target i sees targets 0..i. Default false, as PyTorch's. */
  causal?: boolean;
  /** Over the target itself; broadcasts to [N,H,L,L]. */
  mask?: MaskInput;
  /** The real targets, [N,L]. */
  keyMask?: MaskInput;
  /** Over the memory; broadcasts to [N,H,L,S]. */
  memoryMask?: MaskInput;
  /** The real rows of the memory, [N,S]. */
  memoryKeyMask?: MaskInput;
  /** Also return the softmax's rows. Default false. */
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

/** The weights of one decoder layer: over the target itself [N,H,L,L], and over the memory [N,H,L,S]. */
export interface DecoderWeights {
  self: Tensor;
  memory: Tensor;
}

type WithWeights<Weights, W extends boolean> = { output: Tensor } & (W extends true
  ? { weights: Weights }
  : { weights?: Weights });

/** A decoder layer's result; `weights` is there when `returnWeights` was true. */
export type DecodedByLayer<W extends boolean = boolean> = WithWeights<DecoderWeights, W>;
/** A decoder's result, with weights of each layer. */
export type Decoded<W extends boolean = boolean> = WithWeights<DecoderWeights[], W>;

export function toDecoderWeights(weights: NonNullable<RawDecoded['weights']>): DecoderWeights[] {
  return weights.map(({ self, memory }) => ({ self: toTensor(self), memory: toTensor(memory) }));
}

/** What `makeCache` may be given. */
export interface DecoderCacheOptions {
  /** The real rows of what is looked back at, [N,S]; [S] for one sequence. */
  keyMask?: MaskInput;
}

const cacheSchema = { keyMask: optional(mask, null) } satisfies Schema<DecoderCacheOptions>;

/** Keys and values of a sequence or a batch, kept between the steps of decoding it. It belongs to the layer that made it. */
export class DecoderCache extends Owned<RawDecoderCache> {
  /** @internal */
  readonly maker: SteppingLayer;

  /** @internal */
  constructor(maker: SteppingLayer, raw: RawDecoderCache) {
    super('DecoderCache', maker.runtime, raw);
    this.maker = maker;
  }

  /** Rows decoded so far, of each sequence. */
  get length(): number {
    return this.raw.length();
  }
}

/** A layer that decodes step by step. */
export abstract class SteppingLayer<Raw extends RawStepper = RawStepper> extends Layer<Raw> {
  /** What decoding needs of what it looks back at: a decoder's memory or a Transformer's source, [N,S,E] or [S,E]. Its keys and values are projected once. */
  makeCache(memory: TensorInput, options?: DecoderCacheOptions): DecoderCache {
    const { raw } = this;
    const memories = readTensor('makeCache: memory', memory);
    const { keyMask } = readOptions('makeCache', cacheSchema, options);
    return calling('makeCache', () => new DecoderCache(this, raw.makeCache(memories, keyMask)));
  }

  /** The output of the next rows of each sequence, target [N,L,E] or [L,E] -> the same shape, given all the rows before them. Equals those rows of one causal pass over everything. */
  step(target: TensorInput, cache: DecoderCache): Tensor {
    const { raw } = this;
    const targets = readTensor('step: target', target);
    const maker = guarded('step: cache', () => (cache instanceof DecoderCache ? cache.maker : null));
    if (maker !== this)
      throw invalid(
        'step: cache',
        maker ? "another layer's" : describe(cache),
        'a cache that makeCache() of this layer made',
      );
    return calling('step', () => toTensor(raw.step(targets, cache.raw)));
  }
}

function decode(
  name: string,
  raw: RawDecoder,
  target: TensorInput,
  memory: TensorInput,
  options: DecoderCall | undefined,
): RawDecoded {
  const targets = readTensor(`${name}: target`, target);
  const memories = readTensor(`${name}: memory`, memory);
  const call = readOptions(name, decoderCallSchema, options);
  return calling(name, () => raw.forward(targets, memories, call));
}

/**
 * Self-attention over the target, attention to the memory, feed-forward, each with its residual and norm: `torch.nn.TransformerDecoderLayer` with `batch_first`.
 * Parameters `self_attn.*`, `multihead_attn.*` (see `MultiHeadAttention`), `linear1.*`, `linear2.*`, `norm1.*`, `norm2.*`, `norm3.*`.
 */
export class DecoderLayer extends SteppingLayer<RawDecoder> {
  /** @internal */
  constructor(runtime: Runtime, options: DecoderLayerOptions) {
    const read = readOptions('DecoderLayer', encoderLayerSchema, options);
    super('DecoderLayer', runtime, read.seed, () => new runtime.core.DecoderLayer(read));
  }

  /** target [N,L,E], memory [N,S,E] (or [L,E], [S,E]) -> output of the target's shape. */
  forward<W extends boolean = false>(
    target: TensorInput,
    memory: TensorInput,
    options?: DecoderCall<W>,
  ): DecodedByLayer<W> {
    const { output, weights } = decode('DecoderLayer.forward', this.raw, target, memory, options);
    return { output: toTensor(output), ...(weights && { weights: toDecoderWeights(weights)[0] }) } as DecodedByLayer<W>;
  }
}

const decoderSchema = {
  ...encoderLayerSchema,
  numLayers: layerCount,
  finalNorm: optional(flag, false),
} satisfies Schema<DecoderOptions>;

/** Decoder layers one after the other: `torch.nn.TransformerDecoder`. Parameters `layers.0.*`, ... (see `DecoderLayer`), and `norm.*` with `finalNorm`. */
export class Decoder extends SteppingLayer<RawDecoder> {
  /** @internal */
  constructor(runtime: Runtime, options: DecoderOptions) {
    const read = readOptions('Decoder', decoderSchema, options);
    super('Decoder', runtime, read.seed, () => new runtime.core.Decoder(read));
  }

  /** target [N,L,E], memory [N,S,E] (or [L,E], [S,E]) -> output of the target's shape. */
  forward<W extends boolean = false>(target: TensorInput, memory: TensorInput, options?: DecoderCall<W>): Decoded<W> {
    const { output, weights } = decode('Decoder.forward', this.raw, target, memory, options);
    return { output: toTensor(output), ...(weights && { weights: toDecoderWeights(weights) }) } as Decoded<W>;
  }
}
