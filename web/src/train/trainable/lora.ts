/**
 * LoRA adapters for a pretrained encoder's linear modules (Hu et al. 2021, arXiv:2106.09685), with the names and
 * behavior of PEFT.
 */
import { invalid } from '../../base/error.js';
import {
  finite,
  listOf,
  optional,
  type Read,
  type Reader,
  rate,
  readOptions,
  type Schema,
  seed,
  size,
  text,
} from '../../base/options.js';
import type { RawNamedRows } from '../graph/train-core.js';

/** Options of `addLora`, with PEFT's names. */
export interface LoraOptions {
  /** The rank r of the adapters. Default 8. */
  rank?: number | undefined;
  /** The adapters' outputs are scaled by alpha / rank. Default 8. */
  alpha?: number | undefined;
  /** The dropout rate of the adapters' inputs in training mode. Default 0. */
  dropout?: number | undefined;
  /**
   * The modules that get an adapter, by the last parts of their names in the checkpoint. Default: the query and value
   * projections, such as `['query', 'value']` for BERT.
   */
  targets?: readonly string[] | undefined;
  /**
   * Other modules that remain trainable, such as `['classifier']`, including the modules inside them, by the last parts
   * of their names. Default: none.
   */
  modulesToSave?: readonly string[] | undefined;
  /**
   * The seed of the initial A and of the adapters' dropout, an integer from 0 to 2^53 - 1. Default: chosen at random.
   */
  seed?: number | undefined;
}

/** The LoRA adapters of a model. */
export interface Lora {
  /** The rank of the adapters. */
  readonly rank: number;
  /** The results of the adapters are multiplied by alpha / rank. */
  readonly alpha: number;
  /** The dropout rate before the adapters. */
  readonly dropout: number;
  /** The modules that have adapters. */
  readonly targets: readonly string[];
  /** The modules that are trained and saved with the adapters. */
  readonly modulesToSave: readonly string[];
  /** The full names of the modules with an adapter. */
  readonly modules: readonly string[];
}

const names = listOf(text, 'an array of names of modules');
const nonEmpty: Reader<string[]> = (value, name) => {
  const list = names(value, name);
  if (list.length === 0) throw invalid(name, 'at least one name', 'none');
  return list;
};

const schema = {
  rank: optional(size, 8),
  alpha: optional(finite, 8),
  dropout: optional(rate, 0),
  targets: optional(nonEmpty, null),
  modulesToSave: optional(names, []),
  seed,
} satisfies Schema<LoraOptions>;

/** Whether a parameter, by its name in heed, is the weight of a linear module. */
const isLinear = (core: string) =>
  /([qkv]_proj_weight|in_proj_weight|out_proj\.weight|linear[12]\.weight|projection\.weight)$/.test(core);
/** Whether a tensor contains the query or value projection, possibly packed with the key projection. */
const isDefault = (core: string, { firstRow, rows }: RawNamedRows) =>
  /[qv]_proj_weight$/.test(core) ||
  (core.endsWith('in_proj_weight') && (rows > firstRow || firstRow === 0 || firstRow === 2 * rows));

const moduleOf = (name: string) => name.replace(/\.weight$/, '');
const endsWith = (module: string, target: string) => module === target || module.endsWith(`.${target}`);

/**
 * Reads the options and finds the target modules.
 * @param listed the encoder's parameters
 * @param core the names of heed's parameters, by their index
 */
export function readLora(
  given: LoraOptions | undefined,
  listed: readonly RawNamedRows[],
  core: readonly string[],
): Read<typeof schema> & { targets: string[]; modules: string[]; chosen: { name: string; parameter: number }[] } {
  const options = readOptions('addLora', schema, given);
  if (core.some((name) => name.endsWith('.lora_A')))
    throw invalid('addLora', 'a model without adapters of tasks', 'a model with them', 'UNSUPPORTED');
  const linear = listed.flatMap((rows, parameter) =>
    isLinear(core[rows.parameter]!)
      ? [{ ...rows, name: moduleOf(rows.name), parameter, core: core[rows.parameter]! }]
      : [],
  );
  const ends = [...new Set(linear.map(({ name }) => name.replace(/^.*\.\d+\./, '')))];
  for (const target of options.targets ?? [])
    if (!linear.some(({ name }) => endsWith(name, target)))
      throw invalid('addLora.targets', `ends of the names of linear modules (${ends.join(', ')})`, `'${target}'`);
  const chosen = linear.filter((rows) =>
    options.targets ? options.targets.some((target) => endsWith(rows.name, target)) : isDefault(rows.core, rows),
  );
  const targets = options.targets ?? [...new Set(chosen.map(({ name }) => name.slice(name.lastIndexOf('.') + 1)))];
  const modules = chosen.map(({ name }) => name);
  return { ...options, targets, modules, chosen: chosen.map(({ name, parameter }) => ({ name, parameter })) };
}

/** Whether a parameter is A or B of an adapter. */
export const isUpdate = (parameter: string): boolean => /\.lora_[AB]\.weight$/.test(parameter);

/** Whether a parameter belongs to one of the modules, or to a module inside one of them. */
export function isIn(parameter: string, modules: readonly string[]): boolean {
  const module = parameter.slice(0, parameter.lastIndexOf('.'));
  return modules.some((target) => `.${module}.`.includes(`.${target}.`));
}
