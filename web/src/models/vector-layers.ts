/** sentence-transformers' layers after the pooling, Dense and LayerNorm. */
import type { Core, RawTensorLayer } from '../core.js';
import { formatShape, invalidFile } from '../error.js';
import type { ModelFolder } from '../io/files.js';
import { readableDtype, readTensors, tensorOf, widened } from '../io/safetensors.js';
import type { SignalLike } from '../platform.js';
import type { LoadedModel } from './load.js';
import type { VectorLayer } from './sentence-transformers.js';
import { Chain, makeDense, makeNorm } from './task-heads.js';
import type { HeadTensor } from './weights.js';

/** torch.nn.LayerNorm's default; sentence-transformers' files have no other value. */
const EPS = 1e-5;

/** The layers of the vectors, and the classifier if there is one. */
export async function loadVectorLayers(
  core: Core,
  { sentence, folder, config }: LoadedModel,
  signal: SignalLike | undefined,
): Promise<Chain[]> {
  const steps: (() => RawTensorLayer)[] = [];
  let width = sentence.pooling.length * config.embedDim;
  for (const layer of [...sentence.layers, ...(sentence.classifier ? [sentence.classifier] : [])]) {
    const { kind, weights, inFeatures, outFeatures, activation } = layer;
    const [weight, bias] = layer.tensors ?? (await readLayer(layer, folder, signal));
    const expected = `a layer for vectors of ${width}, the width of what precedes it`;
    if (inFeatures !== width) throw invalidFile(weights, expected, `one for ${inFeatures}`);
    width = outFeatures;
    steps.push(() =>
      kind === 'dense'
        ? makeDense(core, { name: 'linear', weight: weight!, bias }, activation)
        : makeNorm(core, { name: 'norm', weight: weight!, bias }, EPS),
    );
  }
  const classifiers = steps.splice(sentence.layers.length);
  const chains = [Chain.of(steps)];
  return classifiers.length > 0 ? [...chains, Chain.of(classifiers)] : chains;
}

/** The layer's weight, and its bias if it has one. */
async function readLayer(
  { kind, weights, inFeatures, outFeatures, bias }: VectorLayer,
  folder: ModelFolder,
  signal: SignalLike | undefined,
): Promise<HeadTensor[]> {
  const file = await folder.open(weights, { required: true, signal });
  const tensors = await readTensors(file);
  const isDense = kind === 'dense';
  const expected: [string, number[]][] = [['weight', isDense ? [outFeatures, inFeatures] : [inFeatures]]];
  if (bias) expected.push(['bias', [outFeatures]]);
  return expected.map(([part, shape]) => {
    const name = `${isDense ? 'linear' : 'norm'}.${part}`;
    const tensor = tensors.get(name);
    if (tensor && String(tensor.shape) === String(shape)) {
      const dtype = readableDtype(tensor.dtype, tensorOf(file.name, name));
      return { shape, data: widened(tensor.bytes, dtype, { name, shape }) };
    }
    const got = tensor ? formatShape(tensor.shape) : 'none';
    throw invalidFile(file.name, `'${name}' ${formatShape(shape)}, as its config.json says`, got);
  });
}
