/** The tensors of a model's folder as safetensors, for code that lists or rewrites them; those of ONNX files, too. */
import type { SignalLike } from '../base/platform.js';
import type { ModelFolder, OpenFile } from '../io/files.js';
import { safetensorsHeader, type TensorEntry } from '../io/safetensors.js';
import type { Settings } from '../io/settings.js';
import { parameterRowsOf } from '../models/families/families.js';
import { familyOf } from '../models/families/family-of.js';
import { openWeights, type WeightChoice, type WeightFiles } from '../models/families/weight-files.js';
import { isHeadTensor } from '../models/heads/task-heads.js';
import { onnx, optionsOf } from '../models/onnx-weights.js';

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
  const about = await familyOf(settings);
  const tied = settings.flag('tie_word_embeddings', true);
  const places = {
    rows: parameterRowsOf(about.family, about.config),
    isHead: (name: string) => isHeadTensor(name, tied, about.family),
  };
  const open = async () => converted(await weights.files[0]!(), optionsOf(about, places, folder, path, signal));
  return { ...weights, files: [open] };
}

/** Reads an ONNX file. The result has its tensors in memory; quantized ones are converted to fp32. */
async function converted(file: OpenFile, options: ReturnType<typeof optionsOf>): Promise<OpenFile> {
  const tensors: { entry: TensorEntry; bytes: Uint8Array }[] = [];
  const { readOnnx } = await onnx();
  await readOnnx(file, {
    ...options,
    keepIntegers: false,
    counter: () => () => {},
    receive: async (entry, reader) => {
      tensors.push({ entry, bytes: await reader.take(entry.end, entry) });
    },
  });
  const headers = tensors.map(({ entry, bytes }) => ({ ...entry, byteLength: bytes.length }));
  const start = safetensorsHeader(headers, { format: 'pt' });
  async function* chunks(): AsyncIterable<Uint8Array> {
    yield start;
    for (const { bytes } of tensors) yield bytes;
  }
  const size = headers.reduce((sum, { byteLength }) => sum + byteLength, start.length);
  return { name: file.name, size, chunks };
}
