/**
 * The heads of the published checkpoints: the layers that map the encoder's hidden states to a task's logits. HEADS
 * lists each head's inputs, LAYOUTS each family's layer names.
 */
import { allocating, formatShape, invalid, invalidFile } from '../../base/error.js';
import { oneOf } from '../../base/options.js';
import type { Core, RawLayers, RawModule, RawTensor, RawTensorLayer } from '../../base/wasm/core.js';
import { viewBytes } from '../../io/bytes.js';
import type { Settings } from '../../io/settings.js';
import { activation, type Family } from '../families/family.js';
import type { Pooling } from '../families/steps.js';

/** The input of each head: one pooled row per text, all tokens, or the mask tokens. */
export const HEADS = {
  'sequence-classification': 'pooled',
  'token-classification': 'tokens',
  'question-answering': 'tokens',
  'fill-mask': 'masks',
} as const;
/** The heads of published checkpoints that `predict` and `logits` know. */
export type HeadName = keyof typeof HEADS;
export const readHead = oneOf(Object.keys(HEADS) as HeadName[]);

/**
 * A linear layer or a layer norm, by its name in the checkpoint. `activationKey`: the key of config.json that names its
 * activation, with the default `activation`.
 */
export type Step = DenseStep | { norm: string };
interface DenseStep {
  dense: string;
  activation?: string | undefined;
  activationKey?: string | undefined;
}

/**
 * The layers of each head. The MLM head ends with `decoder`, whose weight is that of the token embeddings if the two
 * are tied.
 */
type Layout = Partial<Record<HeadName, Step[]>> & {
  decoder: string;
  /** Whether the decoder has weights of its own unless config.json says otherwise. Default false. */
  isUntied?: true | undefined;
  /** The key of config.json that says whether the decoder has a bias. Default: it has the file's. */
  decoderBiasKey?: string | undefined;
  /** The pooling before 'sequence-classification'. Default: `classifier_pooling` of config.json, or the first token. */
  pooling?: Pooling | undefined;
  /** The default of `classifier_pooling`. */
  classifierPooling?: typeof LATE | undefined;
};

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

/** The classes of decoders: transformers' GenericForSequenceClassification and GenericForTokenClassification. */
const decoderLayout: Layout = {
  'sequence-classification': [{ dense: 'score' }],
  'token-classification': [{ dense: 'score' }],
  decoder: 'lm_head',
  pooling: 'last',
};
/** EuroBERT classifies every token and takes the mean of the logits, unless `classifier_pooling` is 'bos' or 'mean'. */
const LATE = 'late';
/** The other classes of T5 have decoders. */
const t5Layout: Layout = { 'token-classification': classifier, decoder: 'lm_head' };
const ultraClassifiers = { ...tokenHeads, 'sequence-classification': classifier };

export const LAYOUTS: Record<string, Layout> = {
  ernie: bertLayout,
  'megatron-bert': bertLayout,
  'data2vec-text': robertaLayout,
  'roberta-prelayernorm': robertaLayout,
  'xlm-roberta-xl': robertaLayout,
  roformer: {
    ...bertLayout,
    'sequence-classification': [
      { dense: 'classifier.dense', activationKey: 'hidden_act' },
      { dense: 'classifier.out_proj' },
    ],
  },
  ultrabert: {
    ...ultraClassifiers,
    'fill-mask': [
      { dense: 'head.linear1', activation: 'gelu_tanh' },
      { dense: 'head.linear2', activation: 'gelu_tanh' },
    ],
    decoder: 'cls',
    isUntied: true,
  },
  bert: bertLayout,
  'deberta-v2': {
    ...bertLayout,
    'sequence-classification': [{ dense: 'pooler.dense', activationKey: 'pooler_hidden_act' }, ...classifier],
  },
  new: gteLayout,
  gte: { ...gteLayout, 'fill-mask': [{ dense: 'lm_head.dense', activation: 'gelu' }, { norm: 'lm_head.norm' }] },
  roberta: robertaLayout,
  'xlm-roberta': robertaLayout,
  camembert: robertaLayout,
  jina_embeddings_v3: robertaLayout,
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
    'fill-mask': [
      { dense: 'predictions.dense', activationKey: 'hidden_act', activation: 'gelu_new' },
      { norm: 'predictions.LayerNorm' },
    ],
    decoder: 'predictions.decoder',
  },
  modernbert: {
    'sequence-classification': modernClassifier,
    'token-classification': modernClassifier,
    'question-answering': modernClassifier,
    'fill-mask': modernHead,
    decoder: 'decoder',
    decoderBiasKey: 'decoder_bias',
  },
  nomic_bert: {
    ...bertLayout,
    'fill-mask': [
      { dense: 'cls.predictions.transform.dense', activationKey: 'hidden_act', activation: 'silu' },
      { norm: 'cls.predictions.transform.layer_norm' },
    ],
  },
  eurobert: {
    ...tokenHeads,
    'sequence-classification': [{ dense: 'dense', activation: 'gelu' }, ...classifier],
    'fill-mask': [],
    decoder: 'lm_head',
    isUntied: true,
    classifierPooling: LATE,
  },
  llama: { ...decoderLayout, isUntied: true },
  t5: t5Layout,
  mt5: t5Layout,
  umt5: t5Layout,
  qwen3: { ...decoderLayout, isUntied: true },
  gemma3_text: decoderLayout,
};

/** The pooling of the hidden states before the family's classifier. */
export function classPoolingOf(type: string, settings: Settings): Pooling {
  const { pooling, classifierPooling } = layoutOf(type);
  const given = settings.get('classifier_pooling') ?? classifierPooling;
  return pooling ?? (given === 'mean' || given === LATE ? 'mean' : 'cls');
}

const layoutOf = (type: string): Partial<Layout> => (Object.hasOwn(LAYOUTS, type) && LAYOUTS[type]!) || {};

/** The keys of config.json that a family's heads read when they are first used. */
export function headKeys(type: string): string[] {
  const layout = layoutOf(type);
  const steps = (Object.keys(HEADS) as HeadName[]).flatMap((head) => layout[head] ?? []);
  const keys = steps.map((step) => ('dense' in step ? step.activationKey : undefined));
  return [...keys, layout.decoderBiasKey].filter((key) => key !== undefined);
}

/** Whether the decoder's weights are those of the token embeddings. */
export const isTied = (type: string, settings: Settings) =>
  settings.flag('tie_word_embeddings', !layoutOf(type).isUntied);

/** The name of the decoder's weights in a checkpoint; null for families without one. */
export function decoderOf(type: string): string | null {
  const { decoder } = layoutOf(type);
  return decoder === undefined ? null : `${decoder}.weight`;
}

/** The name of the decoder's weights if they are the token embeddings, as far as config.json says; else null. */
export const tiedDecoderOf = (type: string, settings: Settings): string | null =>
  isTied(type, settings) ? decoderOf(type) : null;

/** The prefixes of all names in LAYOUTS. */
const HEAD_NAMES =
  /^(pooler|classifier|pre_classifier|qa_outputs|cls|vocab_transform|vocab_layer_norm|vocab_projector|lm_head|generator_predictions|generator_lm_head|predictions|head|decoder|dense|linear|score)\b/;

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
  /** The name of a decoder's weights that are not the token embeddings, although config.json says so. */
  otherDecoder: string | null;
}

/** Writes these values to the layer's parameters and returns the layer. */
export function filled<Layer extends RawModule>(layer: Layer, values: (RawTensor | undefined)[]): Layer {
  values.forEach((value, index) => {
    if (value) layer.writeParameter(index, 0, viewBytes(value.data), 'F32', null);
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

/** The activation of a dense step: by its key of config.json, whose default is the step's, else GELU. */
export function activationOf({ activation: own, activationKey: key }: DenseStep, settings: Settings): string {
  return key ? activation(settings, key, own ?? 'gelu') : (own ?? 'identity');
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
  return makeDense(calls, layer, activationOf(step, settings));
}

export interface Head {
  /** Maps the head's input to its logits or, for an MLM head with a tied decoder, to the input of the decoder. */
  chain: Chain;
  /** Whether the logits are the product with the token embeddings, plus `bias`. */
  isTied?: boolean | undefined;
  bias?: Float32Array | undefined;
  /** The pooling of a head whose input is one row per text. Default: `classPooling` of the model. */
  pooling?: Pooling | undefined;
  /** Whether a head for texts takes all tokens, and the mean of their logits is the text's. */
  poolsLogits?: boolean | undefined;
  /** false for a head that training cannot record. */
  hasGradient?: false | undefined;
  /** Whether the input is the vectors that `embed` returns, with the default prompt. */
  takesVectors?: boolean | undefined;
  /** If the head's layers are modules of the folder: the value that they take, and the number of steps before them. */
  value?: string | undefined;
  steps?: number | undefined;
}

/**
 * The possible names of the bias of the family's MLM decoder. Checkpoints store it beside the decoder, inside it, or
 * under both names, because the published models have one bias with two names. The first name found is read.
 */
export function wordBiasNames(type: string): string[] {
  const { decoder } = layoutOf(type);
  if (decoder === undefined) return [];
  return [...new Set([`${decoder.replace(/\.?decoder$/, '')}.bias`, `${decoder}.bias`])];
}

/** @throws HeedError UNSUPPORTED for a decoder that is not the token embeddings; see `HeadContext` */
export function requireTied(otherDecoder: string | null): void {
  if (otherDecoder === null) return;
  const expected = `tie_word_embeddings: false in config.json, as '${otherDecoder}' is not the token embeddings`;
  throw invalid('model', expected, 'true', 'UNSUPPORTED');
}

export function makeHead(head: HeadName, context: HeadContext): Head {
  const { type, calls, tensors, settings } = context;
  const { [head]: steps, decoder = '', decoderBiasKey, classifierPooling } = layoutOf(type);
  if (!steps) {
    const families = Object.keys(LAYOUTS).filter((name) => LAYOUTS[name]![head]);
    throw invalid('model', `one of the families ${families.join(', ')} for ${head}`, `'${type}'`, 'UNSUPPORTED');
  }
  const makers = steps.map((step) => () => makeStep(step, context, head));
  if (HEADS[head] !== 'masks') {
    const isLate = classifierPooling === LATE && (settings.get('classifier_pooling') ?? LATE) === LATE;
    return { chain: Chain.of(makers), poolsLogits: HEADS[head] === 'pooled' && isLate };
  }
  requireTied(context.otherDecoder);
  const isBiased = !decoderBiasKey || settings.flag(decoderBiasKey, true);
  const bias = isBiased ? tensors.get(wordBiasNames(type).find((name) => tensors.has(name)) ?? '') : undefined;
  const weight = tensors.get(`${decoder}.weight`);
  if (!weight && !isTied(type, settings)) {
    const expected = `'${decoder}.weight', as tie_word_embeddings is false in config.json`;
    throw invalid('model', expected, 'none', 'UNSUPPORTED');
  }
  if (weight) makers.push(() => makeDense(calls, { name: decoder, weight, bias }, 'identity'));
  return { chain: Chain.of(makers), isTied: !weight, bias: bias?.data };
}

/** Makes the layer for `pooler_output`; null if the checkpoint has none. */
export function makePooler(pooler: string | undefined, context: HeadContext): Chain | null {
  if (!pooler || !context.tensors.has(`${pooler}.weight`)) return null;
  return Chain.of([() => makeStep({ dense: pooler, activation: 'tanh' }, context)]);
}
