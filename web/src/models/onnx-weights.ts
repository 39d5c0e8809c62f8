/** Loads weights in ONNX files, whose reader is imported when it is used. */
import { importing } from '../base/error.js';
import type { SignalLike } from '../base/platform.js';
import type { RawEncoderModelConfig } from '../base/wasm/core.js';
import type { ModelFolder, OpenFile } from '../io/files.js';
import type { Family } from './families/family.js';
import type { WeightLoader } from './families/weights.js';

/** The reader of ONNX files. */
export const onnx = () => importing('onnx', () => import('./onnx/index.js'));

interface About {
  /** config.json's `model_type`. */
  type: string;
  family: Family;
  config: RawEncoderModelConfig;
  /** Whether a head has a tensor of its own, which is not tied to the embeddings. Default: all have. */
  isOwn?: ((name: string) => boolean) | undefined;
}

/** What the reader needs to know about a model, and how it opens files beside the one at `path`. */
export const optionsOf = (
  { type, family, config, isOwn = () => true }: About,
  { rows, isHead }: Pick<WeightLoader, 'rows' | 'isHead'>,
  folder: ModelFolder,
  path: string,
  signal: SignalLike | undefined,
) => ({
  wanted: { type, prefix: family.prefix, normOffset: config.normWeightOffset ?? 0, rows, isHead, isOwn },
  open: (name: string) =>
    folder.open(
      path.replace(/[^/]*$/, () => name),
      { required: true, signal },
    ),
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
