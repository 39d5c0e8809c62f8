/**
 * What stands on top of the encoder for a task, as the published checkpoints have it: per family and task, the layers from a row of hidden states to its logits.
 */
import type { Core, RawModule, RawTensor, RawTensorLayer } from '../core.js';
import { allocating, HeedError } from '../error.js';
import type { Settings } from './config.js';
import { activation } from './families.js';
import type { HeadTensor } from './weights.js';

export const HEADS = ['sequence-classification', 'token-classification', 'question-answering', 'fill-mask'] as const;
export type HeadName = (typeof HEADS)[number];

/** A dense layer or a layer norm, by its name in the checkpoint. `activation` may name a key of config.json. */
type Step = { dense: string; activation?: string; activationKey?: string } | { norm: string };

/** Steps of each head; fill-mask ends with the word table and `bias`. */
interface Layout {
  pooled?: Step[];
  perToken?: Step[];
  question?: Step[];
  mask?: { steps: Step[]; bias: string[] };
}

const classifier: Step[] = [{ dense: 'classifier' }];
const question: Step[] = [{ dense: 'qa_outputs' }];

const robertaLayout: Layout = {
  pooled: [{ dense: 'classifier.dense', activation: 'tanh' }, { dense: 'classifier.out_proj' }],
  perToken: classifier,
  question,
  mask: {
    steps: [{ dense: 'lm_head.dense', activation: 'gelu' }, { norm: 'lm_head.layer_norm' }],
    bias: ['lm_head.bias', 'lm_head.decoder.bias'],
  },
};

const modernHead: Step[] = [{ dense: 'head.dense', activationKey: 'classifier_activation' }, { norm: 'head.norm' }];

const LAYOUTS: Record<string, Layout> = {
  bert: {
    pooled: [{ dense: 'pooler.dense', activation: 'tanh' }, ...classifier],
    perToken: classifier,
    question,
    mask: {
      steps: [
        { dense: 'cls.predictions.transform.dense', activationKey: 'hidden_act' },
        { norm: 'cls.predictions.transform.LayerNorm' },
      ],
      bias: ['cls.predictions.bias', 'cls.predictions.decoder.bias'],
    },
  },
  roberta: robertaLayout,
  'xlm-roberta': robertaLayout,
  camembert: robertaLayout,
  mpnet: robertaLayout,
  distilbert: {
    pooled: [{ dense: 'pre_classifier', activation: 'relu' }, ...classifier],
    perToken: classifier,
    question,
    mask: {
      steps: [{ dense: 'vocab_transform', activationKey: 'activation' }, { norm: 'vocab_layer_norm' }],
      bias: ['vocab_projector.bias'],
    },
  },
  electra: {
    pooled: [{ dense: 'classifier.dense', activation: 'gelu' }, { dense: 'classifier.out_proj' }],
    perToken: classifier,
    question,
    mask: {
      steps: [
        { dense: 'generator_predictions.dense', activation: 'gelu' },
        { norm: 'generator_predictions.LayerNorm' },
      ],
      bias: ['generator_lm_head.bias'],
    },
  },
  albert: {
    pooled: [{ dense: 'pooler', activation: 'tanh' }, ...classifier],
    perToken: classifier,
    question,
    mask: {
      steps: [{ dense: 'predictions.dense', activationKey: 'hidden_act' }, { norm: 'predictions.LayerNorm' }],
      bias: ['predictions.bias', 'predictions.decoder.bias'],
    },
  },
  modernbert: {
    pooled: [...modernHead, ...classifier],
    perToken: [...modernHead, ...classifier],
    question: [...modernHead, ...classifier],
    mask: { steps: modernHead, bias: ['decoder.bias'] },
  },
};

const HEAD_NAMES =
  /^(pooler|classifier|pre_classifier|qa_outputs|cls\.predictions|vocab_transform|vocab_layer_norm|vocab_projector|lm_head|generator_predictions|generator_lm_head|predictions|head|decoder)\b/;
const WORD_TABLE_COPIES =
  /^((cls\.predictions\.|lm_head\.|predictions\.)?decoder|vocab_projector|generator_lm_head)\.weight$/;

/** Tensors worth keeping for a head. The output layer of a language model is the word table again where the two are tied. */
export function isHeadTensor(name: string, tied: boolean): boolean {
  return HEAD_NAMES.test(name) && !(tied && WORD_TABLE_COPIES.test(name));
}

/** Layers one after the other. */
export class Chain {
  private constructor(private readonly layers: RawTensorLayer[]) {}

  /** Makes the layers in order; where one cannot be made, those before it are gone again. */
  static of(steps: readonly (() => RawTensorLayer)[]): Chain {
    const chain = new Chain([]);
    try {
      for (const make of steps) chain.layers.push(make());
      return chain;
    } catch (error) {
      chain.delete();
      throw error;
    }
  }

  forward(x: RawTensor): RawTensor {
    return this.layers.reduce((rows, layer) => layer.forward(rows), x);
  }

  delete(): void {
    for (const layer of this.layers) layer.delete();
  }
}

export interface HeadContext {
  core: Core;
  tensors: Map<string, HeadTensor>;
  settings: Settings;
  type: string;
  eps: number;
}

function fill(layer: RawModule, values: Record<string, Float32Array>): void {
  layer.parameters().forEach(({ name }, index) => {
    const { buffer, byteOffset, byteLength } = values[name]!;
    layer.writeParameter(index, 0, new Uint8Array(buffer, byteOffset, byteLength), 'F32', null);
  });
}

export function makeDense(
  core: Core,
  name: string,
  weight: HeadTensor,
  bias: HeadTensor | undefined,
  phi: string,
): RawTensorLayer {
  const [outFeatures, inFeatures] = weight.shape;
  if (weight.shape.length !== 2 || (bias && (bias.shape.length !== 1 || bias.shape[0] !== outFeatures))) {
    throw new HeedError(
      'INVALID_FILE',
      `tensor '${name}.weight': got shape [${weight.shape.join(', ')}] with bias [${bias?.shape.join(', ') ?? 'none'}]; expected [out, in] and [out]`,
    );
  }
  const options = { inFeatures: inFeatures!, outFeatures: outFeatures!, bias: bias !== undefined, activation: phi };
  const layer = allocating(`${name}.weight`, weight.shape, weight.data.byteLength, () => new core.Linear(options));
  fill(layer, { weight: weight.data, ...(bias && { bias: bias.data }) });
  return layer;
}

export function makeNorm(
  core: Core,
  name: string,
  weight: HeadTensor,
  bias: HeadTensor | undefined,
  eps: number,
): RawTensorLayer {
  const width = weight.data.length;
  if (weight.shape.length !== 1 || (bias && bias.data.length !== width)) {
    throw new HeedError(
      'INVALID_FILE',
      `tensor '${name}.weight': got shape [${weight.shape.join(', ')}] with bias [${bias?.shape.join(', ') ?? 'none'}]; expected [width] and [width]`,
    );
  }
  const layer = new core.LayerNorm({ normalizedShape: width, eps });
  fill(layer, { weight: weight.data, bias: bias?.data ?? new Float32Array(width) });
  return layer;
}

function makeStep(step: Step, { core, tensors, settings, eps }: HeadContext): RawTensorLayer {
  const name = 'dense' in step ? step.dense : step.norm;
  const weight = tensors.get(`${name}.weight`);
  if (!weight)
    throw new HeedError('UNSUPPORTED', `model: got a checkpoint without '${name}.weight'; expected one with that head`);
  const bias = tensors.get(`${name}.bias`);
  if ('dense' in step) {
    const phi = step.activation ?? (step.activationKey ? activation(settings, step.activationKey, 'gelu') : 'identity');
    return makeDense(core, name, weight, bias, phi);
  }
  return makeNorm(core, name, weight, bias, eps);
}

function layoutOf(type: string): Layout {
  return (Object.hasOwn(LAYOUTS, type) && LAYOUTS[type]) || {};
}

export function makeHead(head: HeadName, context: HeadContext): { chain: Chain; bias: Float32Array | null } {
  const layout = layoutOf(context.type);
  const steps =
    head === 'fill-mask'
      ? layout.mask?.steps
      : head === 'sequence-classification'
        ? layout.pooled
        : head === 'token-classification'
          ? layout.perToken
          : layout.question;
  if (!steps) {
    const known = Object.keys(LAYOUTS).join(', ');
    throw new HeedError('UNSUPPORTED', `model: got family '${context.type}' for ${head}; expected one of ${known}`);
  }
  const chain = Chain.of(steps.map((step) => () => makeStep(step, context)));
  const bias =
    head === 'fill-mask' ? layout.mask!.bias.map((name) => context.tensors.get(name)?.data).find(Boolean) : undefined;
  return { chain, bias: bias ?? null };
}

/** `pooler_output`'s layer, where the checkpoint has one. */
export function makePooler(pooler: string | undefined, context: HeadContext): Chain | null {
  if (!pooler || !context.tensors.has(`${pooler}.weight`)) return null;
  return Chain.of([() => makeStep({ dense: pooler, activation: 'tanh' }, context)]);
}
