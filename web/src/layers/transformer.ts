import { flag, layerCount, mask, optional, type Read, type Schema } from '../base/options.js';
import { type SiteOptions, siteSchema } from '../base/site-options.js';
import { DECODER_SITES } from '../base/sites.js';
import type { MaskInput, Tensor, TensorInput } from '../base/tensor.js';
import type { RawDecoderWeights, RawIncrementalDecoder, RawTensor, RawWeighted } from '../base/wasm/core.js';
import { decoderLayerFlops, encoderLayerFlops, type Pass } from './cost.js';
import { type DecoderCall, type DecoderWeights, IncrementalDecoder, toDecoderWeights } from './decoder.js';
import { type EncoderLayerOptions, encoderLayerSchema } from './encoder.js';
import { type Attended, run, toAttended, toTensor } from './functions.js';
import { layerSites, layerStack, type WithActivations } from './layer-sites.js';

/** Options of `Transformer`. */
export interface TransformerOptions extends EncoderLayerOptions {
  /** The number of encoder layers, from 1 to 1024. */
  numEncoderLayers: number;
  /** The number of decoder layers, from 1 to 1024. */
  numDecoderLayers: number;
}

/**
 * Options of a call of the Transformer. `causal` applies to the decoder's self-attention. Notation: N batch, S rows of
 * the source, L targets.
 */
export interface TransformerCall<W extends boolean = boolean>
  extends Pick<DecoderCall<W>, 'causal' | 'returnWeights'>,
    SiteOptions {
  /** Marks the rows of the source that are not padding, [N,S]. Also masks the decoder's cross-attention. */
  sourceKeyMask?: MaskInput | undefined;
  /** Marks the rows of the target that are not padding, [N,L]. */
  targetKeyMask?: MaskInput | undefined;
}

const callSchema = {
  sourceKeyMask: optional(mask, null),
  targetKeyMask: optional(mask, null),
  causal: optional(flag, false),
  returnWeights: optional(flag, false),
  ...siteSchema,
} satisfies Schema<TransformerCall>;

/** The attention weights of each layer of the encoder and the decoder. */
export interface TransformerWeights {
  /** The weights of each encoder layer, [N,H,S,S]. */
  encoder: Tensor[];
  /** The weights of each decoder layer. */
  decoder: DecoderWeights[];
}

type RawTransformer = RawIncrementalDecoder<
  object,
  RawWeighted<RawDecoderWeights> & { memory: RawTensor; encoderWeights: RawTensor[] | null }
>;

/**
 * The result of the Transformer: the decoder's output, the encoder's output (`memory`), and `weights` if
 * `returnWeights` was true.
 */
export type Transformed<W extends boolean = boolean> = Attended<W, TransformerWeights> & { memory: Tensor };

/**
 * Encoder and decoder, each with a final norm: `torch.nn.Transformer` with `batch_first`.
 * Parameters `encoder.layers.0.*`, ..., `encoder.norm.*`, `decoder.layers.0.*`, ..., `decoder.norm.*`.
 *
 * @example
 * const transformer = new heed.Transformer({ embedDim: 8, numHeads: 2, feedForwardDim: 16, numEncoderLayers: 2, numDecoderLayers: 2 });
 * const { output } = transformer.forward(source, target, { sourceKeyMask, causal: true });
 * const cache = transformer.makeCache(source, { keyMask: sourceKeyMask }); // then `step`, row by row
 */
export class Transformer extends IncrementalDecoder<RawTransformer> {
  /** @internal */
  declare protected readonly options: Read<typeof Transformer.schema>;

  /** @internal */
  static readonly schema = {
    ...encoderLayerSchema,
    numEncoderLayers: layerCount,
    numDecoderLayers: layerCount,
  } satisfies Schema<TransformerOptions>;

  /** source [N,S,E], target [N,L,E] (or [S,E], [L,E]) -> output of the target's shape. */
  forward<W extends boolean = false>(
    source: TensorInput,
    target: TensorInput,
    options?: TransformerCall<W>,
  ): Transformed<W> & WithActivations {
    const { raw } = this;
    const owner = 'Transformer.forward';
    return run(owner, { source, target }, callSchema, options, ([sources, targets], { read, edit, ...call }) => {
      const { numEncoderLayers, numDecoderLayers } = this.options;
      const encoder = { prefix: 'encoder.', numLayers: numEncoderLayers };
      // Numbered after the encoder's layers and its output.
      const first = numEncoderLayers + 1;
      const decoder = { prefix: 'decoder.', numLayers: numDecoderLayers, first, sites: DECODER_SITES };
      const { sites, withActivations } = layerSites({ read, edit }, owner, () => [
        layerStack(encoder, sources!, sources!, this.options),
        layerStack(decoder, targets!, sources!, this.options),
      ]);
      const given = { source: sources!, target: targets!, ...call, sites };
      const { memory, encoderWeights, ...decoded } = raw.forward(given);
      const result = toAttended<W, RawDecoderWeights[], TransformerWeights>(decoded, (weights) => ({
        encoder: encoderWeights!.map(toTensor),
        decoder: toDecoderWeights(weights),
      }));
      return withActivations({ ...result, memory: toTensor(memory) });
    });
  }

  /** @internal */
  protected override countFlops(pass: Pass): number {
    const { numEncoderLayers, numDecoderLayers } = this.options;
    const encoderPass = { ...pass, length: pass.keyLength, causal: false };
    return (
      numEncoderLayers * encoderLayerFlops(this.options, encoderPass) +
      numDecoderLayers * decoderLayerFlops(this.options, pass)
    );
  }
}
