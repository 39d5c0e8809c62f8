/** sentence-transformers' layers behind the pooling, Dense and LayerNorm. */
import type { Core, RawTensorLayer } from '../core.js';
import { HeedError } from '../error.js';
import type { ModelFolder } from '../io/files.js';
import type { SignalLike } from '../platform.js';
import { Chain, makeDense, makeNorm } from './heads.js';
import type { LoadedModel } from './load.js';
import type { VectorLayer } from './sentence-transformers.js';
import { type HeadTensor, WeightLoader } from './weights.js';

/** torch.nn.LayerNorm's default; sentence-transformers names no other. */
const EPS = 1e-5;

export async function loadVectorLayers(
  core: Core,
  { recipe, folder, config }: LoadedModel,
  signal: SignalLike | undefined,
): Promise<Chain> {
  const steps: (() => RawTensorLayer)[] = [];
  let width = recipe.pooling.length * config.embedDim;
  for (const layer of recipe.layers) {
    const { weight, bias } = await readLayer(layer, folder, signal);
    if (layer.inFeatures !== width)
      throw new HeedError(
        'INVALID_FILE',
        `${layer.weights}: got a layer for vectors of ${layer.inFeatures}; expected ${width}, as come out of what is before it`,
      );
    width = layer.outFeatures;
    steps.push(() =>
      layer.kind === 'dense'
        ? makeDense(core, 'linear', weight, bias, layer.activation)
        : makeNorm(core, 'norm', weight, bias, EPS),
    );
  }
  return Chain.of(steps);
}

async function readLayer(
  { kind, weights, inFeatures, outFeatures, bias }: VectorLayer,
  folder: ModelFolder,
  signal: SignalLike | undefined,
): Promise<{ weight: HeadTensor; bias: HeadTensor | undefined }> {
  const file = await folder.open(weights, { required: true, signal });
  const tensors = await WeightLoader.readAll(file);
  const read = (part: 'weight' | 'bias', shape: number[]) => {
    const name = `${kind === 'dense' ? 'linear' : 'norm'}.${part}`;
    const tensor = tensors.get(name);
    if (tensor && String(tensor.shape) === String(shape)) return tensor;
    throw new HeedError(
      'INVALID_FILE',
      `${file.name}: got '${name}' ${tensor ? `[${tensor.shape.join(', ')}]` : 'not at all'}; expected [${shape.join(', ')}], as config.json beside it says`,
    );
  };
  return {
    weight: read('weight', kind === 'dense' ? [outFeatures, inFeatures] : [inFeatures]),
    bias: bias ? read('bias', [outFeatures]) : undefined,
  };
}
