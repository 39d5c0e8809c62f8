/**
 * The tensors of a model's folder as safetensors, for code that lists or rewrites them; those of ONNX files and of
 * quantized files of other programs, too.
 */
import { makeYield } from '../base/event-loop.js';
import type { SignalLike } from '../base/platform.js';
import type { ModelFolder, OpenFile } from '../io/files.js';
import { ByteReader } from '../io/reader.js';
import { metadataOf, parseHeader, readHeader, safetensorsHeader, type TensorEntry } from '../io/safetensors.js';
import type { Settings } from '../io/settings.js';
import { familyOf } from '../loading/family-of.js';
import { openCompressedWeights } from '../models/compressed-weights.js';
import { parameterRowsOf } from '../models/families/families.js';
import { openWeights, type WeightChoice, type WeightFiles } from '../models/families/weight-files.js';
import { unwrapped } from '../models/families/weights.js';
import { isHeadTensor, isTied } from '../models/heads/task-heads.js';
import type { Receive } from '../models/onnx/recover.js';
import { readOnnxWeights } from '../models/onnx-weights.js';
import { STATIC } from '../models/static-embedding.js';

/**
 * Opens a folder's weights as safetensors files, with the names that tensors have without wrappers. ONNX files, and
 * quantized files that heed has to convert, are read whole and converted to fp32. `settings`: those of config.json; null
 * for static embeddings without that file.
 */
export async function openSafetensors(
  folder: ModelFolder,
  settings: Settings | null,
  signal: SignalLike | undefined,
  within = '',
  choice: WeightChoice = {},
): Promise<WeightFiles> {
  const weights = await openWeights(folder, signal, within, choice);
  const { onnx: path, files } = weights;
  if (!settings || settings.get('model_type') === STATIC) return weights;
  const about = await familyOf(settings);
  const { prefix } = about.family;
  const tied = isTied(about.type, settings);
  const rows = parameterRowsOf(about.family, about.config);
  const places = { rows, isHead: (name: string) => isHeadTensor(name, tied, about.family) };
  if (path) {
    settings.get('quantization_config'); // describes other files
    return one(weights, async (receive) => {
      const file = await files[0]!();
      const how = { keepIntegers: false, counter: () => () => {}, receive };
      await readOnnxWeights(file, path, folder, about, places, how, signal);
      return file.name;
    });
  }
  const plain = { ...weights, files: files.map((open) => async () => renamed(await open(), rows, prefix)) };
  const options = { ...places, prefix, keepIntegers: false, pause: makeYield(signal) };
  const compressed = await openCompressedWeights(settings);
  if (!compressed) return plain;
  return one(weights, async (receive) => {
    const reader = compressed({ ...options, receive });
    let last = '';
    for (const open of files) {
      const file = await open();
      await reader.read(file, () => {});
      last = file.name;
    }
    reader.finish(last);
    return last;
  });
}

/** One file in place of all, with the tensors that `read` passes on, in memory. `read` returns the file's name. */
function one(weights: WeightFiles, read: (receive: Receive) => Promise<string>): WeightFiles {
  const converted = async (): Promise<OpenFile> => {
    const tensors: { entry: TensorEntry; bytes: Uint8Array }[] = [];
    const name = await read(async (entry, reader) => {
      tensors.push({ entry, bytes: await reader.take(entry.end - entry.begin, entry) });
    });
    const headers = tensors.map(({ entry, bytes }) => ({ ...entry, byteLength: bytes.length }));
    const start = safetensorsHeader(headers, { format: 'pt' });
    async function* chunks(): AsyncIterable<Uint8Array> {
      yield start;
      for (const { bytes } of tensors) yield bytes;
    }
    const size = headers.reduce((sum, { byteLength }) => sum + byteLength, start.length);
    return { name, size, chunks };
  };
  return { ...weights, files: [converted] };
}

/** The file with the names that its tensors have without those of wrappers. */
async function renamed(file: OpenFile, rows: ReadonlyMap<string, unknown>, prefix: string): Promise<OpenFile> {
  const reader = new ByteReader(file);
  const [start, json] = await readHeader(reader);
  const listed = parseHeader(json, file.name, file.size);
  const entries = unwrapped(listed, rows, prefix, file.name);
  const headers = entries.map((entry) => ({ ...entry, byteLength: entry.end - entry.begin }));
  const isSame = entries.every(({ name }, i) => name === listed[i]!.name);
  const begin = isSame ? [start, json] : [safetensorsHeader(headers, metadataOf(json, file.name))];
  const length = begin.reduce((sum, part) => sum + part.length, 0);
  async function* chunks(): AsyncIterable<Uint8Array> {
    yield* begin;
    yield* reader.rest();
  }
  const size = file.size && file.size + length - start.length - json.length;
  return { ...file, size, chunks, close: () => reader.close() };
}
