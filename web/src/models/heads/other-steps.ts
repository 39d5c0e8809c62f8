/**
 * The steps of sentence-transformers folders besides pooling and normalization: layers, also with activations of torch.nn
 * that heed's linear layers lack, and with residual connections. Imported on demand.
 */
import { isOwnActivation } from '../../base/activations.js';
import { formatShape, invalid, invalidFile } from '../../base/error.js';
import type { SignalLike } from '../../base/platform.js';
import { TORCH_ACTIVATIONS, TORCH_ROW_ACTIVATIONS } from '../../base/torch-activations.js';
import type { RawLayers, RawTensor, RawTensorLayer } from '../../base/wasm/core.js';
import type { ModelFolder } from '../../io/files.js';
import { readableDtype, readTensors, tensorOf, widened } from '../../io/safetensors.js';
import {
  type LayerStep,
  MASK,
  type OtherStep,
  SCORES,
  type Step,
  scoreLayers,
  TOKEN_POOLING,
  weightsOf,
} from '../families/steps.js';
import type { LoadedModel } from '../loaded-model.js';
import type { LoadedStep } from './step-values.js';
import { Chain, type Head, makeDense, makeNorm } from './task-heads.js';

/** torch.nn.LayerNorm's default. sentence-transformers' files do not specify another value. */
const EPS = 1e-5;

/** Loads a step that is not in steps.ts. Those that choose or join tokens are for `embedTokens`, which reads them. */
export async function otherStep(
  step: Step,
  calls: RawLayers,
  loaded: LoadedModel,
  signal: SignalLike | undefined,
): Promise<LoadedStep> {
  if (step.kind === 'dense' || step.kind === 'norm') {
    const { input, output } = step;
    const layer = (await layerMaker(step, calls, loaded.folder, signal))();
    return { step, layers: [layer], run: (values) => values.set(output, layer.forward({ x: values.get(input) })) };
  }
  if (step.kind === 'other' && (step.type === MASK || step.type === TOKEN_POOLING))
    return { step, layers: [], run: () => {} };
  if (step.kind === 'other' && step.type === 'WeightedLayerPooling') return layerPooling(step, loaded, signal);
  throw invalid('modules.json', 'modules of dense vectors', `'${step.path}' (${step.kind})`, 'UNSUPPORTED');
}

/** The head of the layers that give a reranker's scores. */
export async function layersHead(
  calls: RawLayers,
  { sentence: { steps }, folder }: LoadedModel,
  signal: SignalLike | undefined,
): Promise<Head> {
  const layers = scoreLayers(steps);
  const wrong = layers.slice(1).find(({ input }) => input !== SCORES);
  if (wrong) throw invalid('modules.json', `'${SCORES}' as the input of '${wrong.path}'`, wrong.input, 'UNSUPPORTED');
  const makers: (() => RawTensorLayer)[] = [];
  for (const layer of layers) makers.push(await layerMaker(layer, calls, folder, signal));
  return { chain: Chain.of(makers), takesVectors: true, value: layers[0]!.input, steps: steps.indexOf(layers[0]!) };
}

/** Reads a layer's parameters, and returns a function that makes it. */
async function layerMaker(
  step: LayerStep,
  calls: RawLayers,
  folder: ModelFolder,
  signal: SignalLike | undefined,
): Promise<() => RawTensorLayer> {
  const { kind, activation, residual } = step;
  const [weight, bias] = step.tensors ?? (await readLayer(step, folder, signal));
  const make = (own: string) =>
    kind === 'dense'
      ? makeDense(calls, { name: 'linear', weight: weight!, bias }, own)
      : makeNorm(calls, { name: 'norm', weight: weight!, bias }, EPS);
  if (!residual && isOwnActivation(activation)) return () => make(activation);
  const read = (name: string, shape?: number[]) => readLayer({ ...step, bias: false }, folder, signal, name, shape);
  return otherLayer(step, calls, make, read);
}

/** Reads the weight of the layer `own`, and its bias if it has one. */
async function readLayer(
  step: LayerStep,
  folder: ModelFolder,
  signal: SignalLike | undefined,
  own = step.kind === 'dense' ? 'linear' : 'norm',
  weightShape = step.kind === 'dense' ? [step.outFeatures, step.inFeatures] : [step.inFeatures],
): Promise<RawTensor[]> {
  const { outFeatures, bias } = step;
  const file = await folder.open(weightsOf(step), { required: true, signal });
  const tensors = await readTensors(file);
  const expected: [string, number[]][] = [['weight', weightShape]];
  if (bias) expected.push(['bias', [outFeatures]]);
  return expected.map(([part, shape]) => {
    const name = `${own}.${part}`;
    const tensor = tensors.get(name);
    if (tensor && String(tensor.shape) === String(shape)) {
      const dtype = readableDtype(tensor.dtype, tensorOf(file.name, name));
      return { shape, data: widened(tensor.bytes, dtype, { name, shape }) };
    }
    const got = tensor ? formatShape(tensor.shape) : 'none';
    throw invalidFile(file.name, `'${name}' ${formatShape(shape)}, as its config.json says`, got);
  });
}

/**
 * The weighted mean of the hidden states from `layer_start` on. It does nothing unless config.json requests all hidden
 * states, as in sentence-transformers.
 */
async function layerPooling(
  step: OtherStep,
  { settings: model, config, folder }: LoadedModel,
  signal: SignalLike | undefined,
): Promise<LoadedStep> {
  if (!model.flag('output_hidden_states', false)) return { step, layers: [], run: () => {} };
  const { settings, output } = step;
  const first = settings.count('layer_start', 4, 0, config.numLayers);
  const count = settings.count('num_hidden_layers', 12) + 1 - first;
  const file = await folder.open(weightsOf(step), { required: true, signal });
  const tensor = (await readTensors(file)).get('layer_weights');
  if (!tensor || String(tensor.shape) !== String(count) || count !== config.numLayers + 1 - first) {
    const expected = `'layer_weights' [${config.numLayers + 1 - first}], one per layer from ${first} on`;
    throw invalidFile(file.name, expected, tensor ? formatShape(tensor.shape) : 'none');
  }
  const dtype = readableDtype(tensor.dtype, tensorOf(file.name, 'layer_weights'));
  const weights = widened(tensor.bytes, dtype, { name: 'layer_weights', shape: tensor.shape });
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return {
    step,
    layers: [],
    states: Array.from(weights, (_, i) => first + i).filter((state) => state < config.numLayers),
    run(values) {
      const last = values.tokens();
      const data = new Float32Array(last.data.length);
      weights.forEach((weight, i) => {
        const state = values.states.get(first + i) ?? last.data;
        for (let k = 0; k < data.length; k++) data[k]! += (weight / total) * state[k]!;
      });
      values.set(output, { ...last, data });
    },
  };
}

/**
 * Makes a Dense with an activation of TORCH_ACTIVATIONS, or with `use_residual`: y = dense(x) + x, or
 * y = dense(x) + x R^T if the widths differ. `make`: makes the layer with an activation of heed's.
 */
async function otherLayer(
  { activation, residual, inFeatures, outFeatures }: LayerStep,
  calls: RawLayers,
  make: (activation: string) => RawTensorLayer,
  read: (name: string, shape?: number[]) => Promise<RawTensor[]>,
): Promise<() => RawTensorLayer> {
  const [weight] = residual && inFeatures !== outFeatures ? await read('residual') : [];
  const makeResidual = () => makeDense(calls, { name: 'residual', weight: weight!, bias: undefined }, 'identity');
  const own = activation === 'PReLU' ? prelu((await read('activation_function', [1]))[0]!) : rowsOf(activation);
  const makeOwn = () => make(own ? 'identity' : activation);
  return () => {
    const { layers } = Chain.of(weight ? [makeOwn, makeResidual] : [makeOwn]);
    const [dense, added] = layers as [RawTensorLayer, RawTensorLayer?];
    return {
      forward({ x }: { x: RawTensor }): RawTensor {
        const { data, shape } = dense.forward({ x });
        const activated = own ? own(data, shape.at(-1)!) : data;
        if (!residual) return { data: activated, shape: [shape[0]!, activated.length / shape[0]!] };
        const other = (added?.forward({ x }) ?? x).data;
        return { data: activated.map((value, i) => value + other[i]!), shape };
      },
      delete() {
        dense.delete();
        added?.delete();
      },
    } as RawTensorLayer;
  };
}

type Activate = (data: Float32Array, width: number) => Float32Array;

/** An activation of torch.nn on rows of a width; undefined for those of heed's linear layers. */
function rowsOf(name: string): Activate | undefined {
  if (name === 'GLU') return glu;
  const own = Object.hasOwn(TORCH_ACTIVATIONS, name) && TORCH_ACTIVATIONS[name];
  if (own) return (data) => data.map(own);
  const row = Object.hasOwn(TORCH_ROW_ACTIVATIONS, name) && TORCH_ROW_ACTIVATIONS[name];
  if (!row) return undefined;
  return (data, width) => {
    const out = new Float32Array(data.length);
    for (let at = 0; at < data.length; at += width) out.set(row(data.subarray(at, at + width)), at);
    return out;
  };
}

/** torch's GLU: the first half of each row times the sigmoid of the second. */
const glu: Activate = (data, width) => {
  const half = width / 2;
  return Float32Array.from({ length: data.length / 2 }, (_, i) => {
    const at = Math.floor(i / half) * width + (i % half);
    return data[at]! / (1 + Math.exp(-data[at + half]!));
  });
};

/** torch's PReLU with one slope for negative values. */
function prelu({ data: [slope = 0] }: RawTensor): Activate {
  return (data) => data.map((x) => (x > 0 ? x : slope * x));
}
