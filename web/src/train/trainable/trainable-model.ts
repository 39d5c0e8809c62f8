/**
 * The interface of pretrained encoders that can be trained. Notation: N texts, L tokens of the longest text, E width.
 */

import type { FromPretrainedOptions } from '../../api/from-pretrained.js';
import { flag, optional, rate, seed } from '../../base/options.js';
import type { SiteOptions } from '../../base/site-options.js';
import type { Tensor, TensorInput } from '../../base/tensor.js';
import type { StateDict } from '../../layers/state-dict.js';
import type { HeadName } from '../../models/heads/task-heads.js';
import type { InputOptions, ModelInput } from '../../models/input.js';
import type { EmbedOptions, PretrainedModel } from '../../models/model.js';
import type { SiteActivation } from '../graph/recorded-sites.js';
import type { Lora, LoraOptions } from './lora.js';
import type { Trainable } from './trainable.js';

/** Options of `fromPretrained` with `trainable: true`. */
export interface TrainableOptions
  extends Omit<FromPretrainedOptions, 'worker' | 'workers' | 'embeddings' | 'device' | 'numLayers'> {
  /** Loads parameters that can be trained. */
  trainable: true;
  /**
   * Whether to store only the input of each layer for the backward pass, which then repeats the layer's forward pass:
   * less memory, a third more time, the same gradients. Default false.
   */
  recompute?: boolean | undefined;
  /** The dropout rate in training mode, everywhere the model has dropout. Default: the rates in config.json. */
  dropout?: number | undefined;
  /** The seed of dropout, an integer from 0 to 2^53 - 1. Default: chosen at random. */
  seed?: number | undefined;
}

/** The options in addition to those of `fromPretrained` in heed. */
export const trainingSchema = {
  trainable: flag,
  recompute: optional(flag, false),
  dropout: optional(rate, null),
  seed,
};

/** The result of `TrainableModel.forward`. Padding rows are zero and have no gradient. */
export interface ForwardResult {
  /** The last hidden states, [N,L,E]. */
  lastHiddenState: Tensor;
  /** 1 for tokens, 0 for padding, [N,L]. */
  attentionMask: Tensor<Uint8Array>;
  /** The tokens of each text. */
  tokens: string[][];
  /** The number of tokens that were cut from each text. */
  truncated: number[];
  /** The activations of the sites that `read` names, by name. */
  activations?: Record<string, SiteActivation> | undefined;
}

/** Options of `TrainableModel.forward`. */
export interface ForwardOptions extends InputOptions, SiteOptions {}

/** Options of `TrainableModel.sentenceVectors`. */
export interface SentenceVectorOptions extends Omit<EmbedOptions, 'signal' | 'onProgress' | 'headMask'> {}

/**
 * A pretrained encoder whose parameters can be trained. `encode`, `embed` and `predict` compute as in evaluation mode
 * and are not recorded. `forward`, `sentenceVectors` and `logits` are synchronous; in training mode, dropout is active
 * in them, and their results can be differentiated like those of layers. Parameters have their names in the
 * checkpoint's files.
 */
export interface TrainableModel extends PretrainedModel, Trainable {
  /** Whether dropout is active and calls are recorded. */
  readonly training: boolean;
  /** Switches to training mode, with dropout and gradients. */
  train(): this;
  /** Switches to evaluation mode. */
  eval(): this;
  /**
   * Returns the hidden states of all tokens. With `read`, the result can be differentiated in evaluation mode, too:
   * after `loss.backward()`, each activation has a `grad`; see docs/lens.md.
   */
  forward(input: ModelInput, options?: ForwardOptions): ForwardResult;
  /** Returns one vector per text, [N, E']: pooled, transformed and normalized as by `embed`. */
  sentenceVectors(input: ModelInput, options?: SentenceVectorOptions): Tensor;
  /**
   * Returns the logits of one of the checkpoint's heads: [N, labels], or [N, L, labels] for token heads, with zeros for
   * padding; for 'fill-mask', [masks, V], with the mask tokens of all texts in order.
   * @throws HeedError `UNSUPPORTED` if the checkpoint has no such head
   */
  logits(head: HeadName, input: ModelInput, options?: InputOptions): Tensor;
  /**
   * Adds LoRA adapters to linear modules. Everything else is frozen, except for `modulesToSave`. New adapters do not
   * change any result. @throws HeedError `INVALID_ARGUMENT`
   */
  addLora(options?: LoraOptions): this;
  /** Adds the LoRA adapters to the weights, and removes them. The weights stay frozen. */
  mergeLora(): this;
  /** The LoRA adapters; null if there are none. */
  readonly lora: Lora | null;
  /** @internal The adapters that `addLora` would make. */
  loraOf(options?: LoraOptions): Lora;
  /** Returns copies of all parameters, by name. */
  stateDict(): StateDict;
  /** Sets all parameters. If it throws, nothing is changed. */
  loadStateDict(state: Readonly<Record<string, TensorInput>>): this;
}
