/** Reads the weights in an ONNX file by the names of a model's tensors. */
import { importing } from '../base/error.js';
import { makeYield } from '../base/event-loop.js';
import type { SignalLike } from '../base/platform.js';
import type { ModelFolder, OpenFile } from '../io/files.js';
import type { FamilyConfig } from './families/families.js';
import type { WeightLoader } from './families/weights.js';
import type { ReadOptions } from './onnx/read.js';

/**
 * Reads the tensors of an ONNX file and of the files that it refers to. `path`: its path below the folder. `isOwn`:
 * whether a head has a tensor of its own, which is not tied to the embeddings.
 */
export async function readOnnxWeights(
  file: OpenFile,
  path: string,
  folder: ModelFolder,
  { type, family, config }: Pick<FamilyConfig, 'type' | 'family' | 'config'>,
  {
    rows,
    isHead,
    isOwn = () => true,
  }: Pick<WeightLoader, 'rows' | 'isHead'> & Partial<Pick<ReadOptions['wanted'], 'isOwn'>>,
  how: Pick<ReadOptions, 'counter' | 'keepIntegers' | 'receive'>,
  signal: SignalLike | undefined,
): Promise<void> {
  const { readOnnx } = await importing('onnx', () => import('./onnx/read.js'));
  await readOnnx(file, {
    wanted: { type, prefix: family.prefix, normOffset: config.normWeightOffset ?? 0, rows, isHead, isOwn },
    open(name) {
      const beside = path.replace(/[^/]*$/, () => name);
      return folder.open(beside, { required: true, signal });
    },
    pause: makeYield(signal),
    ...how,
  });
}
