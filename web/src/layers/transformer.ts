import type { RawTransformer } from '../core.js';
import { calling } from '../error.js';
import { toTensor } from '../functions.js';
import { flag, layerCount, mask, optional, readOptions, type Schema } from '../options.js';
import type { Runtime } from '../owned.js';
import { type MaskInput, readTensor, type Tensor, type TensorInput } from '../tensor.js';
import { type DecoderWeights, SteppingLayer, toDecoderWeights } from './decoder.js';
import { type EncoderLayerOptions, encoderLayerSchema } from './encoder.js';

export interface TransformerOptions extends EncoderLayerOptions {
  numEncoderLayers: number;
  numDecoderLayers: number;
}

const schema = {
  ...encoderLayerSchema,
  numEncoderLayers: layerCount,
  numDecoderLayers: layerCount,
} satisfies Schema<TransformerOptions>;

/** What a call of the Transformer may be given. Letters: N batch, S sources, L targets. */
export interface TransformerCall<W extends boolean = boolean> {
  /** The real rows of the source, [N,S]; the decoder's view of the memory is masked by it too. */
  sourceKeyMask?: MaskInput;
  /** The real rows of the target, [N,L]. */
  targetKeyMask?: MaskInput;
  /** Target i sees targets 0..i. Default false, as PyTorch's. */
  causal?: boolean;
  /** Also return the softmax's rows. Default false. */
  returnWeights?: W;
}

const callSchema = {
  sourceKeyMask: optional(mask, null),
  targetKeyMask: optional(mask, null),
  causal: optional(flag, false),
  returnWeights: optional(flag, false),
} satisfies Schema<TransformerCall>;

/** The weights of each layer of both halves. */
export interface TransformerWeights {
  encoder: Tensor[];
  decoder: DecoderWeights[];
}

/** The Transformer's result: the decoder's output, the encoder's (`memory`), and `weights` when `returnWeights` was true. */
export type Transformed<W extends boolean = boolean> = { output: Tensor; memory: Tensor } & (W extends true
  ? { weights: TransformerWeights }
  : { weights?: TransformerWeights });

/**
 * Encoder and decoder, each with its final norm: `torch.nn.Transformer` with `batch_first`.
 * Parameters `encoder.layers.0.*`, ..., `encoder.norm.*`, `decoder.layers.0.*`, ..., `decoder.norm.*`.
 */
export class Transformer extends SteppingLayer<RawTransformer> {
  /** @internal */
  constructor(runtime: Runtime, options: TransformerOptions) {
    const read = readOptions('Transformer', schema, options);
    super('Transformer', runtime, read.seed, () => new runtime.core.Transformer(read));
  }

  /** source [N,S,E], target [N,L,E] (or [S,E], [L,E]) -> output of the target's shape. */
  forward<W extends boolean = false>(
    source: TensorInput,
    target: TensorInput,
    options?: TransformerCall<W>,
  ): Transformed<W> {
    const { raw } = this;
    const sources = readTensor('Transformer.forward: source', source);
    const targets = readTensor('Transformer.forward: target', target);
    const { sourceKeyMask, targetKeyMask, causal, returnWeights } = readOptions(
      'Transformer.forward',
      callSchema,
      options,
    );
    const call = {
      source: { mask: null, keyMask: sourceKeyMask, causal: false, window: null, headMask: null, returnWeights },
      target: {
        mask: null,
        keyMask: targetKeyMask,
        memoryMask: null,
        memoryKeyMask: sourceKeyMask,
        causal,
        returnWeights,
      },
    };
    return calling('Transformer.forward', () => {
      const { output, memory, weights, encoderWeights } = raw.forward(sources, targets, call);
      return {
        output: toTensor(output),
        memory: toTensor(memory),
        ...(weights &&
          encoderWeights && { weights: { encoder: encoderWeights.map(toTensor), decoder: toDecoderWeights(weights) } }),
      } as Transformed<W>;
    });
  }
}
