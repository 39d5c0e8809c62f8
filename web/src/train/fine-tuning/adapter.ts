/** Low-rank updates in PEFT's format: adapter_config.json and adapter_model.safetensors (huggingface/peft, utils/save_and_load.py). */
import { formatShape, invalid, invalidFile } from '../../error.js';
import { readAll } from '../../io/files.js';
import { readableDtype, readTensors, tensorOf, widened, writeSafetensors } from '../../io/safetensors.js';
import { type ModelSource, openFolder } from '../../io/source.js';
import { Settings } from '../../models/config.js';
import type { LocalModel } from '../../models/pretrained.js';
import { Tensor } from '../../tensor.js';
import { isIn, isUpdate } from '../lora.js';
import type { Parameter } from '../parameters.js';
import type { TrainableModel } from '../trainable-model.js';
import { requireIdle } from './busy.js';
import { choiceOf } from './encoder.js';

/** The files of a folder, by path. */
export type SavedFiles = Record<string, Uint8Array<ArrayBuffer>>;

const CONFIG = 'adapter_config.json';
const WEIGHTS = 'adapter_model.safetensors';
/** The prefix that PEFT adds to the names of the wrapped model's parameters. */
const PREFIX = 'base_model.model.';

/** The parameters in an adapter: those of the updates, and those of the other modules that are trained. */
function ownParameters(model: TrainableModel): Parameter[] {
  const { modulesToSave = [] } = model.lora ?? {};
  return model.parameters().filter(({ name }) => isUpdate(name) || isIn(name, modulesToSave));
}

export function adapterFiles(model: TrainableModel): SavedFiles {
  if (!model.lora)
    throw invalid('save.adapter', 'a model with low-rank updates', 'one without', 'INVALID_ARGUMENT', {
      hint: 'addLora, or training with { lora }, adds them',
    });
  const { rank, alpha, dropout, targets, modulesToSave } = model.lora;
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
  const tensors = ownParameters(model).map(({ name, value: { data, shape } }) => ({
    name: PREFIX + name,
    dtype: 'F32' as const,
    shape: [...shape],
    data,
  }));
  return {
    [CONFIG]: new TextEncoder().encode(`${JSON.stringify(config, null, 2)}\n`),
    [WEIGHTS]: writeSafetensors(tensors, { format: 'pt' }),
  };
}

/** @internal See `Adaptable.loadAdapter`. */
export async function loadAdapter(model: TrainableModel, source: ModelSource): Promise<void> {
  const call = 'loadAdapter';
  requireIdle(call, model);
  const folder = await openFolder(source, { hub: (model as unknown as LocalModel).runtime.hub });
  const [configFile, weightsFile] = await Promise.all([
    folder.open(CONFIG, { required: true }),
    folder.open(WEIGHTS, { required: true }),
  ]);
  const settings = Settings.parse(await readAll(configFile), configFile.name);
  const tensors = await readTensors(weightsFile);
  const options = readConfig(settings);
  requireIdle(call, model); // a training may have begun meanwhile
  const restore = choiceOf(model);
  model.addLora(options);
  try {
    const parameters = ownParameters(model);
    const writes = parameters.map((parameter) => {
      const name = PREFIX + parameter.name;
      const tensor = tensors.get(name);
      if (!tensor || String(tensor.shape) !== String(parameter.shape))
        throw invalidFile(
          tensorOf(weightsFile.name, name),
          `shape ${formatShape(parameter.shape)}, as ${CONFIG} and the model call for`,
          tensor ? formatShape(tensor.shape) : 'none',
        );
      const { shape, bytes, dtype } = tensor;
      const data = widened(bytes, readableDtype(dtype, tensorOf(weightsFile.name, name)), { name, shape });
      return () => parameter.write(new Tensor(data, shape));
    });
    const known = new Set(parameters.map(({ name }) => PREFIX + name));
    const unexpected = [...tensors.keys()].find((name) => !known.has(name));
    if (unexpected !== undefined)
      throw invalidFile(
        weightsFile.name,
        `tensors of the modules ${model.lora!.modules.join(', ')}`,
        `'${unexpected}'`,
      );
    for (const write of writes) write();
  } catch (error) {
    model.mergeLora(); // still zeros
    restore();
    throw error;
  }
}

function readConfig(settings: Settings) {
  const type = settings.text('peft_type', '');
  if (type !== 'LORA') throw settings.unsupported('peft_type', "'LORA'", `'${type}'`);
  for (const key of ['use_dora', 'use_rslora', 'fan_in_fan_out', 'lora_bias'])
    if (settings.flag(key, false)) throw settings.unsupported(key, 'false', 'true');
  for (const key of ['rank_pattern', 'alpha_pattern'])
    if ((settings.record(key)?.entries().length ?? 0) > 0) throw settings.unsupported(key, 'none', 'some');
  if (settings.text('bias', 'none') !== 'none') throw settings.unsupported('bias', "'none'", 'another');
  const names = (key: string) => {
    const value = settings.get(key);
    if (value === undefined) return [];
    if (Array.isArray(value) && value.every((name) => typeof name === 'string')) return value as string[];
    throw settings.wrong(key, 'a list of modules', value);
  };
  return {
    rank: settings.count('r', undefined, 1),
    alpha: settings.between('lora_alpha', 0, Infinity, 8),
    targets: names('target_modules'),
    modulesToSave: names('modules_to_save'),
  };
}

/** The weights of the modules that have an update, with the update added: W + alpha / rank B A, summed in double precision. */
export function mergedWeights(model: TrainableModel): Map<string, () => { shape: number[]; data: Float32Array }> {
  const merged = new Map<string, () => { shape: number[]; data: Float32Array }>();
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
