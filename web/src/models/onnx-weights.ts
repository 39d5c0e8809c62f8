/** Loads weights in ONNX files, whose reader is imported when it is used. */
import { importing } from '../base/error.js';
import type { SignalLike } from '../base/platform.js';
import type { RawEncoderModelConfig } from '../base/wasm/core.js';
import type { ModelFolder, OpenFile } from '../io/files.js';
import type { Settings } from '../io/settings.js';
import { parameterRowsOf } from './families/families.js';
import type { Family } from './families/family.js';
import { familyOf } from './families/family-of.js';
import { openWeights, type WeightChoice, type WeightFiles } from './families/weight-files.js';
import type { WeightLoader } from './families/weights.js';
import { isHeadTensor } from './heads/task-heads.js';

const onnx = () => importing('onnx', () => import('./onnx/index.js'));

interface About {
  /** config.json's `model_type`. */
  type: string;
  family: Family;
  config: RawEncoderModelConfig;
}

/** What the reader needs to know about a model, and how it opens files beside the one at `path`. */
const optionsOf = (
  { type, family, config }: About,
  { rows, isHead }: Pick<WeightLoader, 'rows' | 'isHead'>,
  folder: ModelFolder,
  path: string,
  signal: SignalLike | undefined,
) => ({
  wanted: { type, prefix: family.prefix, normOffset: config.normWeightOffset ?? 0, rows, isHead },
  open: (name: string) => folder.open(path.replace(/[^/]*$/, name), { required: true, signal }),
});

/**
 * Loads the tensors of an ONNX file and of the files that it refers to. `path`: its path below the folder. `counter`
 * returns the function to call with the length of each chunk of a file.
 */
export async function loadOnnx(
  loader: WeightLoader,
  file: OpenFile,
  path: string,
  folder: ModelFolder,
  about: About & { counter(file: OpenFile): (count: number) => void; signal: SignalLike },
): Promise<void> {
  const { readOnnx } = await onnx();
  await readOnnx(file, {
    ...optionsOf(about, loader, folder, path, about.signal),
    counter: about.counter,
    keepIntegers: true,
    receive: (entry, reader) => loader.loadTensor(entry, reader),
  });
  loader.complete(file.name);
}

/**
 * Opens a folder's weights as safetensors files. ONNX files are read whole and converted. `settings`: those of
 * config.json; null for static embeddings without them.
 */
export async function openSafetensors(
  folder: ModelFolder,
  settings: Settings | null,
  signal: SignalLike | undefined,
  within = '',
  choice: WeightChoice = {},
): Promise<WeightFiles> {
  const weights = await openWeights(folder, signal, within, choice);
  const { onnx: path } = weights;
  if (!path || !settings) return weights;
  const { converted } = await onnx();
  const about = await familyOf(settings);
  const tied = settings.flag('tie_word_embeddings', true);
  const places = {
    rows: parameterRowsOf(about.family, about.config),
    isHead: (name: string) => isHeadTensor(name, tied, about.family),
  };
  const open = async () => converted(await weights.files[0]!(), optionsOf(about, places, folder, path, signal));
  return { ...weights, files: [open] };
}
