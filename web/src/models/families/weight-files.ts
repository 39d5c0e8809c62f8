/** Chooses and opens the files with a model's weights: safetensors, in one file or in shards, or ONNX. */
import { describe, HeedError, invalid } from '../../base/error.js';
import type { SignalLike } from '../../base/platform.js';
import { discard, expectedSize, type ModelFolder, type OpenFile } from '../../io/files.js';
import { isInside } from '../../io/paths.js';
import { Settings } from '../../io/settings.js';

export interface WeightFiles {
  /** The files, to be opened in order. An ONNX file may refer to others. */
  files: (() => Promise<OpenFile>)[];
  /** The total size in bytes; null if unknown. */
  size: number | null;
  /** The path of the ONNX file below the model's folder; null for safetensors. */
  onnx: string | null;
}

/** Which of a folder's weights are read. */
export interface WeightChoice {
  /** 'q8' prefers ONNX files with int8 weights. */
  dtype?: string | undefined;
  /** The path of the file, whatever the dtype. */
  weights?: string | undefined;
}

/** ONNX files in fp32, in the order in which they are looked for. */
const FLOAT_FILES = ['onnx/model.onnx', 'model.onnx'];
/**
 * ONNX files with int8 weights in the folder onnx/, in the order in which they are looked for. An asterisk stands for
 * any characters where a source can list its files, otherwise for the processors in the names that optimum writes.
 */
const INTEGER_FILES = ['model_quantized.onnx', 'model_int8.onnx', 'model_qint8*.onnx', 'model_uint8.onnx'];
const PROCESSORS = ['_arm64', '_avx512', '_avx512_vnni'];

/**
 * Opens the weights in `folder`, or in its subfolder `within`, which ends with a slash.
 * @throws HeedError NOT_FOUND if there are none
 */
export async function openWeights(
  folder: ModelFolder,
  signal?: SignalLike,
  within = '',
  { dtype, weights }: WeightChoice = {},
): Promise<WeightFiles> {
  const opened = (path: string, file: OpenFile): WeightFiles => ({
    files: [async () => file],
    size: expectedSize(file),
    onnx: path.endsWith('.onnx') ? path : null,
  });
  /**
   * Opens the first of these files that exists. Most folders have the first one or none: the others are requested at the
   * same time, because a server takes a round trip to say that a file is missing.
   */
  const firstOf = async ([first, ...others]: readonly string[]): Promise<WeightFiles | null> => {
    if (first === undefined) return null;
    const file = await folder.open(first, { signal });
    if (file) return opened(first, file);
    const results = await Promise.allSettled(others.map((path) => folder.open(path, { signal })));
    const at = results.findIndex((result) => result.status === 'rejected' || result.value !== null);
    for (const [i, result] of results.entries())
      if (i !== at && result.status === 'fulfilled' && result.value) await discard(result.value);
    const found = results[at];
    if (!found) return null;
    if (found.status === 'rejected') throw found.reason;
    return opened(others[at]!, found.value!);
  };
  if (weights !== undefined) return opened(weights, await folder.open(weights, { required: true, signal }));
  const name = `${within}model.safetensors`;
  const integers = dtype === 'q8' ? await integerFiles(folder, within) : [];
  const found = await firstOf([...integers, name]);
  if (found) return found;
  const index = await folder.open(`${name}.index.json`, { signal });
  if (index) return openShards(folder, index, within, signal);
  const floats = await firstOf(FLOAT_FILES.map((path) => within + path));
  if (floats) return floats;
  try {
    return opened(name, await folder.open(name, { required: true, signal }));
  } catch (error) {
    throw await withOtherFiles(error, folder, within);
  }
}

/** The paths of ONNX files with int8 weights: of those that exist, if the source lists its files, otherwise of all. */
async function integerFiles(folder: ModelFolder, within: string): Promise<string[]> {
  const listed = await folder.list?.(`${within}onnx`);
  const matching = (pattern: string) => {
    const [start, end] = pattern.split('*') as [string, string?];
    if (end === undefined) return listed?.includes(start) === false ? [] : [start];
    if (!listed) return PROCESSORS.map((processor) => start + processor + end);
    return listed.filter((name) => name.startsWith(start) && name.endsWith(end)).sort();
  };
  return INTEGER_FILES.flatMap(matching).map((name) => `${within}onnx/${name}`);
}

/** Opens the shards that an index lists. */
async function openShards(
  folder: ModelFolder,
  index: OpenFile,
  within: string,
  signal: SignalLike | undefined,
): Promise<WeightFiles> {
  const settings = await Settings.read(index);
  const shards = settings.record('weight_map')?.entries() ?? [];
  const names = [...new Set(shards.map(([, file]) => file))];
  const isShard = (name: unknown) => typeof name === 'string' && isInside(name) && name.endsWith('.safetensors');
  if (names.length === 0 || !names.every(isShard))
    throw settings.wrong('weight_map', "the shards' file names by tensor", names);
  const total = settings.record('metadata')?.get('total_size');
  return {
    files: (names as string[]).map((name) => () => folder.open(within + name, { required: true, signal })),
    size: typeof total === 'number' ? total : null,
    onnx: null,
  };
}

/** The file of PEFT's adapters, with a hint. */
export const ADAPTER = {
  'adapter_config.json':
    "This is a PEFT adapter. Load its base model with { trainable: true } from heed/train and pass this folder's files to its loadAdapter, or merge both in Python by merge_and_unload()",
};

/** Weights in other formats, each with a hint. */
const OTHER_WEIGHTS = {
  'pytorch_model.bin':
    'In Python, save_pretrained(folder, safe_serialization=True) of the loaded model writes safetensors',
  'model.fp16.safetensors': "The option weights: 'model.fp16.safetensors' reads this file",
  ...ADAPTER,
};

/** Makes the error for a missing file. It names files of other formats (default: of weights) that the folder has. */
export async function withOtherFiles(
  error: unknown,
  folder: ModelFolder,
  within: string,
  others: Readonly<Record<string, string>> = OTHER_WEIGHTS,
): Promise<unknown> {
  if (!(error instanceof HeedError) || error.code !== 'NOT_FOUND') return error;
  for (const [name, hint] of Object.entries(others)) {
    const file = await folder.open(within + name, {}).catch(() => null);
    if (!file) continue;
    await discard(file);
    const argument = error.message.replace(/: expected .*$/s, '');
    return invalid(argument, 'a model', `a folder with '${within}${name}' instead`, 'UNSUPPORTED', {
      hint,
      cause: error,
    });
  }
  return error;
}

/** Reads the option `weights`: the path of a file below the model's folder. */
export function weightsPath(value: unknown, name: string): string {
  const expected = "the path of an .onnx or .safetensors file in the folder, such as 'onnx/model_q4.onnx'";
  if (typeof value !== 'string') throw invalid(name, expected, describe(value));
  if (isInside(value) && value.endsWith('.ort'))
    throw invalid(name, expected, `${describe(value)}, which is in onnxruntime's own format`, 'UNSUPPORTED');
  if (!isInside(value) || !/\.(onnx|safetensors)$/.test(value)) throw invalid(name, expected, describe(value));
  return value;
}
