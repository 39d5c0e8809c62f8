/**
 * The heads of the published checkpoints: the layers that map the encoder's hidden states to a task's logits. HEADS
 * lists each head's inputs, LAYOUTS each family's layer names.
 */
import { allocating, formatShape, invalid, invalidFile } from '../../base/error.js';
import { oneOf } from '../../base/options.js';
import type { Core, RawLayers, RawModule, RawTensor, RawTensorLayer } from '../../base/wasm/core.js';
import type { Settings } from '../../io/settings.js';
import { activation, type Family } from '../families/family.js';

/** The input of each head: one pooled row per text, all tokens, or the mask tokens. */
export const HEADS = {
  'sequence-classification': 'pooled',
  'token-classification': 'tokens',
  'question-answering': 'tokens',
  'fill-mask': 'masks',
} as const;
export type HeadName = keyof typeof HEADS;
export const readHead = oneOf(Object.keys(HEADS) as HeadName[]);

/**
 * A linear layer or a layer norm, by its name in the checkpoint. `activationKey`: the key of config.json that names its
 * activation.
 */
export type Step =
  | { dense: string; activation?: string | undefined; activationKey?: string | undefined }
  | { norm: string };

/**
 * The layers of each head. The MLM head ends with `decoder`, whose weight is that of the token embeddings if the two
 * are tied.
 */
type Layout = Record<HeadName, Step[]> & { decoder: string };

const classifier: Step[] = [{ dense: 'classifier' }];
const tokenHeads = { 'token-classification': classifier, 'question-answering': [{ dense: 'qa_outputs' }] };

const robertaLayout: Layout = {
  ...tokenHeads,
  'sequence-classification': [{ dense: 'classifier.dense', activation: 'tanh' }, { dense: 'classifier.out_proj' }],
  'fill-mask': [{ dense: 'lm_head.dense', activation: 'gelu' }, { norm: 'lm_head.layer_norm' }],
  decoder: 'lm_head.decoder',
};

const modernHead: Step[] = [{ dense: 'head.dense', activationKey: 'classifier_activation' }, { norm: 'head.norm' }];
const modernClassifier = [...modernHead, ...classifier];

const bertLayout: Layout = {
  ...tokenHeads,
  'sequence-classification': [{ dense: 'pooler.dense', activation: 'tanh' }, ...classifier],
  'fill-mask': [
    { dense: 'cls.predictions.transform.dense', activationKey: 'hidden_act' },
    { norm: 'cls.predictions.transform.LayerNorm' },
  ],
  decoder: 'cls.predictions.decoder',
};

const gteLayout: Layout = {
  ...bertLayout,
  'fill-mask': [{ dense: 'lm_head.dense', activationKey: 'hidden_act' }, { norm: 'lm_head.norm' }],
  decoder: 'lm_head.decoder',
};

export const LAYOUTS: Record<string, Layout> = {
  bert: bertLayout,
  'deberta-v2': {
    ...bertLayout,
    'sequence-classification': [{ dense: 'pooler.dense', activationKey: 'pooler_hidden_act' }, ...classifier],
  },
  new: gteLayout,
  gte: gteLayout,
  roberta: robertaLayout,
  'xlm-roberta': robertaLayout,
  camembert: robertaLayout,
  mpnet: robertaLayout,
  distilbert: {
    ...tokenHeads,
    'sequence-classification': [{ dense: 'pre_classifier', activation: 'relu' }, ...classifier],
    'fill-mask': [{ dense: 'vocab_transform', activationKey: 'activation' }, { norm: 'vocab_layer_norm' }],
    decoder: 'vocab_projector',
  },
  electra: {
    ...tokenHeads,
    'sequence-classification': [{ dense: 'classifier.dense', activation: 'gelu' }, { dense: 'classifier.out_proj' }],
    'fill-mask': [
      { dense: 'generator_predictions.dense', activation: 'gelu' },
      { norm: 'generator_predictions.LayerNorm' },
    ],
    decoder: 'generator_lm_head',
  },
  albert: {
    ...tokenHeads,
    'sequence-classification': [{ dense: 'pooler', activation: 'tanh' }, ...classifier],
    'fill-mask': [{ dense: 'predictions.dense', activationKey: 'hidden_act' }, { norm: 'predictions.LayerNorm' }],
    decoder: 'predictions.decoder',
  },
  modernbert: {
    'sequence-classification': modernClassifier,
    'token-classification': modernClassifier,
    'question-answering': modernClassifier,
    'fill-mask': modernHead,
    decoder: 'decoder',
  },
};

/** The prefixes of all names in LAYOUTS. */
const HEAD_NAMES =
  /^(pooler|classifier|pre_classifier|qa_outputs|cls\.predictions|vocab_transform|vocab_layer_norm|vocab_projector|lm_head|generator_predictions|generator_lm_head|predictions|head|decoder|linear)\b/;

/**
 * Whether a head, or the family's image encoder, may use a tensor. `tied`: the decoder uses the token embeddings, so a
 * copy of them in the checkpoint is ignored.
 */
export function isHeadTensor(name: string, tied: boolean, family?: Family): boolean {
  if (family?.headTensors) return family.headTensors.test(name);
  return HEAD_NAMES.test(name) && !(tied && Object.values(LAYOUTS).some(({ decoder }) => name === `${decoder}.weight`));
}

/** Layers that are applied one after another. */
export class Chain {
  readonly layers: RawTensorLayer[] = [];

  /** Makes the layers in order. If one fails, deletes those made before. */
  static of(steps: readonly (() => RawTensorLayer)[]): Chain {
    const chain = new Chain();
    try {
      for (const make of steps) chain.layers.push(make());
      return chain;
    } catch (error) {
      chain.delete();
      throw error;
    }
  }

  forward(x: RawTensor): RawTensor {
    return this.layers.reduce((rows, layer) => layer.forward({ x: rows }), x);
  }

  delete(): void {
    for (const layer of this.layers) layer.delete();
  }
}

export interface HeadContext {
  core: Core;
  /** The layer classes. */
  calls: RawLayers;
  tensors: Map<string, RawTensor>;
  settings: Settings;
  type: string;
  eps: number;
}

/** Writes these values to the layer's parameters and returns the layer. */
export function filled<Layer extends RawModule>(layer: Layer, values: (RawTensor | undefined)[]): Layer {
  values.forEach((value, index) => {
    if (!value) return;
    const { buffer, byteOffset, byteLength } = value.data;
    layer.writeParameter(index, 0, new Uint8Array(buffer, byteOffset, byteLength), 'F32', null);
  });
  return layer;
}

/** The tensors of a layer, with its name in the checkpoint. */
interface LayerTensors {
  name: string;
  weight: RawTensor;
  bias: RawTensor | undefined;
}

function requireShape(isRight: boolean, { name, weight, bias }: LayerTensors, expected: string): void {
  const got = `${formatShape(weight.shape)} with ${bias ? formatShape(bias.shape) : 'none'}`;
  if (!isRight) throw invalidFile(`tensor '${name}.weight'`, expected, got);
}

export function makeDense({ Linear }: RawLayers, tensors: LayerTensors, activation: string): RawTensorLayer {
  const { name, weight, bias } = tensors;
  const { shape, data } = weight;
  const [outFeatures = 0, inFeatures = 0] = shape;
  const isRight = shape.length === 2 && (!bias || String(bias.shape) === String(outFeatures));
  requireShape(isRight, tensors, 'shape [out, in] with bias [out]');
  const options = { inFeatures, outFeatures, bias: bias !== undefined, activation, name };
  const layer = allocating(`${name}.weight`, shape, data.byteLength, () => new Linear(options));
  return filled(layer, [weight, bias]);
}

export function makeNorm({ LayerNorm }: RawLayers, tensors: LayerTensors, eps: number): RawTensorLayer {
  const { name, weight, bias } = tensors;
  const width = weight.data.length;
  const isRight = weight.shape.length === 1 && (!bias || bias.data.length === width);
  requireShape(isRight, tensors, 'shape [width] with bias [width]');
  const layer = new LayerNorm({ normalizedShape: width, eps, name });
  return filled(layer, [weight, bias ?? { shape: [width], data: new Float32Array(width) }]);
}

function makeStep(step: Step, { calls, tensors, settings, eps }: HeadContext, head = 'a pooler'): RawTensorLayer {
  const name = 'dense' in step ? step.dense : step.norm;
  const weight = tensors.get(`${name}.weight`);
  const bias = tensors.get(`${name}.bias`);
  if (!weight) {
    const hint = 'Load a model that was trained for this task, or train one with heed/train';
    throw invalid('model', `a head for ${head} ('${name}.weight')`, 'none', 'UNSUPPORTED', { hint });
  }
  const layer = { name, weight, bias };
  if ('norm' in step) return makeNorm(calls, layer, eps);
  const { activation: fixed = 'identity', activationKey: key } = step;
  return makeDense(calls, layer, key ? activation(settings, key, 'gelu') : fixed);
}

export interface Head {
  /** Maps the head's input to its logits or, for an MLM head with a tied decoder, to the input of the decoder. */
  chain: Chain;
  /** Whether the logits are the product with the token embeddings, plus `bias`. */
  isTied?: boolean | undefined;
  bias?: Float32Array | undefined;
  /** Whether the input is the vectors that `embed` returns, with the default prompt. */
  takesVectors?: boolean | undefined;
}

/**
 * The possible names of the bias of the family's MLM decoder. Checkpoints store it beside the decoder, inside it, or
 * under both names, because the published models have one bias with two names. The first name found is read.
 */
export function wordBiasNames(type: string): string[] {
  if (!Object.hasOwn(LAYOUTS, type)) return [];
  const { decoder } = LAYOUTS[type]!;
  return [...new Set([`${decoder.replace(/\.?decoder$/, '')}.bias`, `${decoder}.bias`])];
}

export function makeHead(head: HeadName, context: HeadContext): Head {
  const { type, calls, tensors } = context;
  if (!Object.hasOwn(LAYOUTS, type)) {
    const expected = `one of the families ${Object.keys(LAYOUTS).join(', ')} for ${head}`;
    throw invalid('model', expected, `'${type}'`, 'UNSUPPORTED');
  }
  const { [head]: steps, decoder } = LAYOUTS[type]!;
  const makers = steps.map((step) => () => makeStep(step, context, head));
  if (HEADS[head] !== 'masks') return { chain: Chain.of(makers) };
  const bias = tensors.get(wordBiasNames(type).find((name) => tensors.has(name)) ?? '');
  const weight = tensors.get(`${decoder}.weight`);
  if (weight) makers.push(() => makeDense(calls, { name: decoder, weight, bias }, 'identity'));
  return { chain: Chain.of(makers), isTied: !weight, bias: bias?.data };
}

/** Makes the layer for `pooler_output`; null if the checkpoint has none. */
export function makePooler(pooler: string | undefined, context: HeadContext): Chain | null {
  if (!pooler || !context.tensors.has(`${pooler}.weight`)) return null;
  return Chain.of([() => makeStep({ dense: pooler, activation: 'tanh' }, context)]);
}
