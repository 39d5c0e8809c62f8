/**
 * LoRA adapters in PEFT's format: adapter_config.json and adapter_model.safetensors (huggingface/peft,
 * utils/save_and_load.py).
 */
import { describe, formatShape, invalid, invalidFile } from '../../base/error.js';
import { Tensor } from '../../base/tensor.js';
import type { RawTensor } from '../../base/wasm/core.js';
import { readableDtype, readTensors, tensorOf, widened, writeSafetensors } from '../../io/safetensors.js';
import { Settings } from '../../io/settings.js';
import { type ModelSource, withFolder } from '../../io/source.js';
import type { LocalModel } from '../../models/pretrained.js';
import type { Parameter } from '../graph/parameters.js';
import { isIn, isUpdate } from '../trainable/lora.js';
import type { TrainableModel } from '../trainable/trainable-model.js';
import { choiceOf } from './encoder.js';
import { type ClassifierHead, chooseHead, familyLayers, type Installed, install, installed, type Kit } from './head.js';
import { requireNoTraining } from './training-call.js';

/** The files of a folder, by path. */
export type SavedFiles = Record<string, Uint8Array<ArrayBuffer>>;

const CONFIG = 'adapter_config.json';
const WEIGHTS = 'adapter_model.safetensors';
/** The bytes of a JSON file. */
export const json = (value: unknown) => new TextEncoder().encode(`${JSON.stringify(value, null, 2)}\n`);

/** The prefix that PEFT adds to the names of the wrapped model's parameters. */
const PREFIX = 'base_model.model.';

/** The metadata key of a classifier that `trainClassifier` has trained. */
const CLASSIFIER = 'heed_classifier';
/**
 * The name of its weight and bias if it is on sentence vectors. It is then not a module of the wrapped model, and PEFT
 * ignores it.
 */
const SENTENCE = 'classifier';

type Labelling = Omit<Installed, 'layers'>;

/** The parameters in an adapter file: those of the LoRA adapters, and those of other trained modules. */
function ownParameters(model: TrainableModel, modulesToSave: readonly string[]): Parameter[] {
  return model.parameters().filter(({ name }) => isUpdate(name) || isIn(name, modulesToSave));
}

/** The full names of the modules in a classifier of the model's family. */
function modulesOf(model: TrainableModel, layers: ClassifierHead['layers']): string[] {
  const modules = model.parameters().map(({ name }) => name.slice(0, name.lastIndexOf('.')));
  return [...new Set(modules.filter((module) => layers.some(({ name }) => `.${module}`.endsWith(`.${name}`))))];
}

export function adapterFiles(model: TrainableModel): SavedFiles {
  if (!model.lora)
    throw invalid('save.adapter', 'a model with a LoRA adapter', 'a model without one', 'INVALID_ARGUMENT', {
      hint: 'Add one with addLora, or by training with { lora }. A classifier alone is saved by save({ head: true })',
    });
  const { rank, alpha, dropout, targets } = model.lora;
  const head = installed.get(model as unknown as LocalModel);
  const ofFamily = head?.kind === 'family' ? modulesOf(model, head.layers) : [];
  const besides = model.lora.modulesToSave;
  const modulesToSave = [...besides, ...ofFamily.filter((module) => !isIn(`${module}.weight`, besides))];
  const config = {
    peft_type: 'LORA',
    task_type: null,
    base_model_name_or_path: null,
    inference_mode: true,
    r: rank,
    lora_alpha: alpha,
    lora_dropout: dropout,
    target_modules: targets,
    modules_to_save: modulesToSave.length > 0 ? modulesToSave : null,
    bias: 'none',
    fan_in_fan_out: false,
  };
  const tensors = ownParameters(model, modulesToSave).map(({ name, value: { data, shape } }) => ({
    name: PREFIX + name,
    dtype: 'F32' as const,
    shape: [...shape],
    data,
  }));
  const [last] = head?.kind === 'sentence' ? head.layers : [];
  for (const [part, tensor] of Object.entries(last ? { weight: last.weight, bias: last.bias! } : {}))
    tensors.push({ name: `${SENTENCE}.${part}`, dtype: 'F32', ...tensor });
  const { kind, labels, problemType } = head ?? {};
  const metadata = head && { [CLASSIFIER]: JSON.stringify({ kind, labels, problemType } as Labelling) };
  return {
    [CONFIG]: json(config),
    [WEIGHTS]: writeSafetensors(tensors, { format: 'pt', ...metadata }),
  };
}

/** @internal See `Adaptable.loadAdapter`. */
export async function loadAdapter(kit: Kit, model: TrainableModel, source: ModelSource): Promise<void> {
  const call = 'loadAdapter';
  requireNoTraining(call, model);
  const local = model as unknown as LocalModel;
  const { hub } = local.runtime;
  const { settings, tensors, metadata, weightsFile } = await withFolder(source, { hub }, async (folder, signal) => {
    const [configFile, weightsFile] = await Promise.all([
      folder.open(CONFIG, { required: true }),
      folder.open(WEIGHTS, { required: true }),
    ]);
    const settings = await Settings.read(configFile);
    let metadata: Record<string, string> = {};
    const tensors = await readTensors(weightsFile, (given) => {
      metadata = given;
    });
    await folder.complete?.(signal);
    return { settings, tensors, metadata, weightsFile };
  });
  const labelling = readLabelling(metadata[CLASSIFIER], weightsFile.name);
  const { modulesToSave, ...options } = readConfig(settings);
  requireNoTraining(call, model); // training may have begun in the meantime
  const taken = new Set<string>();
  const take = (key: string, shape: readonly number[]): RawTensor => {
    const tensor = tensors.get(key);
    const at = tensorOf(weightsFile.name, key);
    if (!tensor || String(tensor.shape) !== String(shape)) {
      const expected = `shape ${formatShape(shape)}, as ${CONFIG} and the model call for`;
      throw invalidFile(at, expected, tensor ? formatShape(tensor.shape) : 'none');
    }
    taken.add(key);
    return {
      data: widened(tensor.bytes, readableDtype(tensor.dtype, at), { name: key, shape: tensor.shape }),
      shape: tensor.shape,
    };
  };
  const head = labelling && headOf(local, labelling, take, weightsFile.name);
  const ofFamily = head?.kind === 'family' ? modulesOf(model, head.layers) : [];
  const restore = choiceOf(model);
  model.addLora({ ...options, modulesToSave: modulesToSave.filter((name) => !ofFamily.includes(name)) });
  try {
    const writes = ownParameters(model, [...modulesToSave, ...ofFamily]).map((parameter) => {
      const { data, shape } = take(PREFIX + parameter.name, parameter.shape);
      return () => parameter.write(new Tensor(data, shape));
    });
    const unexpected = [...tensors.keys()].find((name) => !taken.has(name));
    if (unexpected !== undefined)
      throw invalidFile(
        weightsFile.name,
        `tensors of the modules ${model.lora!.modules.join(', ')}`,
        `'${unexpected}'`,
      );
    if (head) install(kit, local, head);
    for (const write of writes) write();
  } catch (error) {
    model.mergeLora(); // the adapters are still zero
    restore();
    throw error;
  }
}

/** Reads the classifier of an adapter file. `take` returns a tensor of the file. */
function headOf(
  model: LocalModel,
  labelling: Labelling,
  take: (key: string, shape: readonly number[]) => RawTensor,
  file: string,
): Installed {
  const { kind, labels } = labelling;
  const isOnVectors = kind === 'sentence';
  const layers = isOnVectors ? chooseHead(model, kind, labels).layers : familyLayers(model.headContext);
  if (!layers)
    throw invalidFile(file, "a classifier that the model's checkpoint has", "its family's classifier, which it lacks");
  const names = (model as unknown as TrainableModel).parameters().map(({ name }) => name);
  const own = (layer: string, part: string, { shape }: RawTensor) =>
    take(
      isOnVectors ? `${SENTENCE}.${part}` : PREFIX + names.find((name) => `.${name}`.endsWith(`.${layer}.${part}`)),
      shape,
    );
  return {
    ...labelling,
    layers: layers.map((layer) => ({
      ...layer,
      weight: own(layer.name, 'weight', layer.weight),
      bias: layer.bias && own(layer.name, 'bias', layer.bias),
    })),
  };
}

/** Reads the metadata of a classifier; null if there is none. */
function readLabelling(given: string | undefined, file: string): Labelling | null {
  if (given === undefined) return null;
  let read: Partial<Labelling> | null = null;
  try {
    read = JSON.parse(given);
  } catch {} // reported below
  const { kind, labels, problemType } = read ?? {};
  const isText = (label: unknown) => typeof label === 'string';
  if ((kind === 'sentence' || kind === 'family') && Array.isArray(labels) && labels.every(isText) && problemType)
    return { kind, labels, problemType };
  throw invalidFile(`${file}: ${CLASSIFIER}`, '{ kind, labels, problemType }', describe(given));
}

function readConfig(settings: Settings) {
  const type = settings.text('peft_type', '');
  if (type !== 'LORA') throw settings.unsupported('peft_type', "'LORA'", `'${type}'`);
  for (const key of ['use_dora', 'use_rslora', 'fan_in_fan_out', 'lora_bias'])
    if (settings.flag(key, false)) throw settings.unsupported(key, 'false', 'true');
  for (const key of ['rank_pattern', 'alpha_pattern'])
    if ((settings.record(key)?.entries().length ?? 0) > 0)
      throw settings.unsupported(key, '{}: the same for all modules', JSON.stringify(settings.get(key)));
  const bias = settings.text('bias', 'none');
  if (bias !== 'none') throw settings.unsupported('bias', "'none'", `'${bias}'`);
  const names = (key: string) => {
    const value = settings.get(key);
    if (value === undefined) return [];
    if (Array.isArray(value) && value.every((name) => typeof name === 'string')) return value as string[];
    throw settings.wrong(key, 'a list of modules', value);
  };
  const dropout = settings.get('lora_dropout') ?? 0;
  if (typeof dropout !== 'number' || !(dropout >= 0 && dropout <= 1))
    throw settings.wrong('lora_dropout', 'a number from 0 to 1', dropout);
  return {
    rank: settings.count('r', undefined, 1),
    alpha: settings.between('lora_alpha', 0, Infinity, 8),
    dropout,
    targets: names('target_modules'),
    modulesToSave: names('modules_to_save'),
  };
}

/**
 * The weights of the modules with LoRA adapters, with the adapter added: W + alpha / rank B A, summed in double
 * precision.
 */
export function mergedWeights(model: TrainableModel): Map<string, () => RawTensor> {
  const merged = new Map<string, () => RawTensor>();
  const { lora } = model;
  if (!lora) return merged;
  const parameters = new Map(model.parameters().map((parameter) => [parameter.name, parameter]));
  for (const module of lora.modules) {
    merged.set(`${module}.weight`, () => {
      const [weight, a, b] = ['', '.lora_A', '.lora_B'].map((part) => parameters.get(`${module}${part}.weight`)!.value);
      const [rows, columns] = weight!.shape as [number, number];
      const data = Float32Array.from(weight!.data);
      for (let i = 0; i < rows; i++) {
        for (let j = 0; j < columns; j++) {
          let sum = 0;
          for (let k = 0; k < lora.rank; k++) sum += b!.data[i * lora.rank + k]! * a!.data[k * columns + j]!;
          data[i * columns + j]! += (lora.alpha / lora.rank) * sum;
        }
      }
      return { shape: [rows, columns], data };
    });
  }
  return merged;
}
