/** Text classifiers: their layers in training, and as the head of a model. */
import { invalid } from '../../base/error.js';
import type { Runtime } from '../../base/owned.js';
import { elementCount } from '../../base/tensor.js';
import type { RawTensor } from '../../base/wasm/core.js';
import { layersIn, vectorSteps } from '../../models/families/steps.js';
import { vectorForm } from '../../models/heads/pooling.js';
import {
  activationOf,
  Chain,
  filled,
  type HeadContext,
  LAYOUTS,
  makeDense,
  makeNorm,
} from '../../models/heads/task-heads.js';
import type { EmbedOptions } from '../../models/model.js';
import type { LocalModel } from '../../models/pretrained.js';
import { buildModel, type Description } from '../fit/description.js';
import type { Tape } from '../graph/tape.js';
import type { Sequential } from '../module.js';

/** The parts of heed that training uses. */
export interface Kit {
  readonly runtime: Runtime;
  readonly tape: Tape;
}

/** A linear layer, or a layer norm if `activation` is null, by its name in the checkpoint. */
interface HeadLayer {
  readonly name: string;
  readonly activation: string | null;
  readonly weight: RawTensor;
  readonly bias: RawTensor | undefined;
}

/**
 * A classifier. 'sentence': one linear layer on the vectors that `embed` returns. 'family': the layers of the family's
 * published models, on the hidden state of one token or the mean of all.
 */
export interface ClassifierHead {
  readonly kind: 'sentence' | 'family';
  readonly layers: readonly HeadLayer[];
}

/** The classifier that `trainClassifier` has installed in a model. `save` writes it. */
export interface Installed extends ClassifierHead {
  readonly labels: readonly string[];
  readonly problemType: 'single_label_classification' | 'multi_label_classification';
}

/** The classifiers of the models that were trained in this thread. */
export const installed = new WeakMap<LocalModel, Installed>();

const TASK = 'sequence-classification';

/** The layers of the family's head in the checkpoint; null if one is missing. */
export function familyLayers({ type, tensors, settings }: HeadContext): HeadLayer[] | null {
  const steps = (Object.hasOwn(LAYOUTS, type) && LAYOUTS[type]![TASK]) || [];
  const layers = steps.map((step) => {
    const name = 'dense' in step ? step.dense : step.norm;
    const weight = tensors.get(`${name}.weight`);
    if (!weight) return null;
    return {
      name,
      weight,
      bias: tensors.get(`${name}.bias`),
      activation: 'norm' in step ? null : activationOf(step, settings),
    };
  });
  return layers.length > 0 && !layers.includes(null) ? (layers as HeadLayer[]) : null;
}

/** The options with which `embed` computes the head's input. */
export function inputOf(model: LocalModel, { kind }: ClassifierHead): EmbedOptions {
  // The layers of a folder take all entries, also where `embed` keeps some of them.
  if (kind === 'sentence') return model.sentence.dimensions === null ? {} : { dimensions: vectorWidth(model) };
  return { pooling: model.classPooling, normalize: false, prompt: '' };
}

/** The number of entries of the model's vectors before the folder's settings drop some. */
const vectorWidth = ({ sentence, context }: LocalModel) => vectorForm('embed', sentence, context.config).full;

/**
 * Chooses the head for a classifier of `labels`; see `ClassifierOptions.head`. The last layer is new if the labels are.
 */
export function chooseHead(
  model: LocalModel,
  wanted: 'auto' | 'sentence' | 'family',
  labels: readonly string[],
): ClassifierHead {
  const { raw, sentence, headContext, config } = model;
  const width = vectorWidth(model);
  const steps = vectorSteps(sentence.steps);
  const zeros = (...shape: number[]): RawTensor => ({ shape, data: new Float32Array(elementCount(shape)) });
  const isFamily = !raw.heads.get(TASK)?.takesVectors && layersIn(steps).length === 0;
  const family = isFamily ? familyLayers(headContext) : null;
  const agree = String([...config.labels].sort()) === String([...labels].sort());
  if (wanted === 'family' && !family) {
    const hint = "Leave `head` out: a linear layer on the model's sentence vectors is trained";
    const got = 'a checkpoint without it';
    throw invalid('trainClassifier.head', "a checkpoint with its family's classifier", got, 'UNSUPPORTED', { hint });
  }
  if (wanted === 'sentence' || !family || (wanted === 'auto' && !agree)) {
    const [weight, bias] = [zeros(labels.length, width), zeros(labels.length)];
    return { kind: 'sentence', layers: [{ name: 'linear', activation: 'identity', weight, bias }] };
  }
  const last = family.at(-1)!;
  if (agree && last.weight.shape[0] === labels.length) return { kind: 'family', layers: family };
  if ('sentenceVectors' in model) {
    const expected = `a classifier of the labels ${config.labels.join(', ')}`;
    const hint = "Load the model without `trainable`, or give head: 'sentence'";
    throw invalid('trainClassifier.head', expected, labels.join(', '), 'UNSUPPORTED', { hint });
  }
  const fresh = { ...last, weight: zeros(labels.length, last.weight.shape[1]!), bias: zeros(labels.length) };
  return { kind: 'family', layers: [...family.slice(0, -1), fresh] };
}

/** Makes a trainable model of the head. */
export function trainableHead({ tape, runtime }: Kit, { layers }: ClassifierHead, eps: number): Sequential {
  const parts = layers.map(({ activation, weight, bias }): Description => {
    const [outFeatures, inFeatures] = weight.shape;
    return activation === null
      ? { layer: 'LayerNorm', options: { normalizedShape: outFeatures, eps, seed: 0 } }
      : { layer: 'Linear', options: { inFeatures, outFeatures, bias: bias !== undefined, activation, seed: 0 } };
  });
  const module = buildModel(tape, runtime, { parts }) as Sequential;
  const state = layers.flatMap(({ weight, bias, activation }, i) => {
    const zeros = { shape: weight.shape.slice(0, 1), data: new Float32Array(weight.shape[0]!) };
    const values = bias ?? (activation === null ? zeros : undefined);
    return [[`${i}.weight`, weight] as const, ...(values ? [[`${i}.bias`, values] as const] : [])];
  });
  return module.loadStateDict(Object.fromEntries(state)) as Sequential;
}

/** The head with its trained values. */
export function trainedHead({ kind, layers }: ClassifierHead, module: Sequential): ClassifierHead {
  const state = module.stateDict();
  const tensor = (name: string): RawTensor | undefined =>
    state[name] && { shape: [...state[name].shape], data: state[name].data };
  return {
    kind,
    layers: layers.map((layer, i) => ({ ...layer, weight: tensor(`${i}.weight`)!, bias: tensor(`${i}.bias`) })),
  };
}

/** Installs the head in the model, for 'sequence-classification'. */
export function install({ runtime }: Kit, model: LocalModel, head: Installed): void {
  const { kind, layers, labels, problemType } = head;
  const { raw, headContext, config } = model;
  if (kind === 'family') {
    for (const { name, weight, bias } of layers) {
      headContext.tensors.set(`${name}.weight`, weight);
      if (bias) headContext.tensors.set(`${name}.bias`, bias);
    }
  }
  const old = raw.heads.get(TASK);
  const shapes = old?.chain.layers.map((layer) => String(layer.parameters()[0]!.shape));
  if (
    old &&
    !old.takesVectors === (kind === 'family') &&
    String(shapes) === String(layers.map(({ weight }) => weight.shape))
  ) {
    // Written in place, because the layers are among the parameters of a trainable model.
    for (const [i, { weight, bias }] of layers.entries()) filled(old.chain.layers[i]!, [weight, bias]);
  } else {
    const { calls } = runtime;
    const chain = Chain.of(
      layers.map(
        ({ name, activation, weight, bias }) =>
          () =>
            activation === null
              ? makeNorm(calls, { name, weight, bias }, headContext.eps)
              : makeDense(calls, { name, weight, bias }, activation),
      ),
    );
    old?.chain.delete();
    raw.heads.set(TASK, { chain, takesVectors: kind === 'sentence' });
  }
  config.labels = [...labels];
  config.problemType = problemType;
  installed.set(model, head);
}
