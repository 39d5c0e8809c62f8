/** sentence-transformers' layers after the pooling: Dense and LayerNorm. */
import { formatShape, importing, invalidFile } from '../../base/error.js';
import type { SignalLike } from '../../base/platform.js';
import type { RawLayers, RawTensor, RawTensorLayer } from '../../base/wasm/core.js';
import type { ModelFolder } from '../../io/files.js';
import { readableDtype, readTensors, tensorOf, widened } from '../../io/safetensors.js';
import type { VectorLayer } from '../families/sentence-transformers.js';
import type { LoadedModel } from '../load.js';
import { Chain, makeDense, makeNorm } from './task-heads.js';

/** torch.nn.LayerNorm's default. sentence-transformers' files do not specify another value. */
const EPS = 1e-5;

/** Loads the layers after the pooling, and the classifier if there is one. */
export async function loadVectorLayers(
  calls: RawLayers,
  { sentence, folder, config }: LoadedModel,
  signal: SignalLike | undefined,
): Promise<Chain[]> {
  const steps: (() => RawTensorLayer)[] = [];
  let width = sentence.pooling.length * config.embedDim;
  for (const layer of [...sentence.layers, ...(sentence.classifier ? [sentence.classifier] : [])]) {
    const { kind, weights, inFeatures, outFeatures, activation } = layer;
    const [weight, bias] = layer.tensors ?? (await readLayer(layer, folder, signal));
    const expected = `a layer for vectors of width ${width}, the output of the layer before`;
    if (inFeatures !== width) throw invalidFile(weights, expected, `a layer for width ${inFeatures}`);
    width = outFeatures;
    const make = () =>
      kind === 'dense'
        ? makeDense(calls, { name: 'linear', weight: weight!, bias }, activation)
        : makeNorm(calls, { name: 'norm', weight: weight!, bias }, EPS);
    const readResidual = () => readLayer({ ...layer, bias: false }, folder, signal, 'residual');
    if (layer.residual) {
      const { withResidual } = await importing('late-interaction', () => import('./late-interaction.js'));
      steps.push(await withResidual(calls, layer, make, readResidual));
    } else {
      steps.push(make);
    }
  }
  const classifiers = steps.splice(sentence.layers.length);
  const chains = [Chain.of(steps)];
  return classifiers.length > 0 ? [...chains, Chain.of(classifiers)] : chains;
}

/** Reads the weight of the layer `own`, and its bias if it has one. */
async function readLayer(
  { kind, weights, inFeatures, outFeatures, bias }: VectorLayer,
  folder: ModelFolder,
  signal: SignalLike | undefined,
  own = kind === 'dense' ? 'linear' : 'norm',
): Promise<RawTensor[]> {
  const file = await folder.open(weights, { required: true, signal });
  const tensors = await readTensors(file);
  const expected: [string, number[]][] = [['weight', kind === 'dense' ? [outFeatures, inFeatures] : [inFeatures]]];
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
