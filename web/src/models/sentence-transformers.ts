/** What a sentence-transformers folder says about turning rows into one vector: modules.json with Pooling, Dense, LayerNorm and Normalize, and prompts. */
import { HeedError } from '../error.js';
import { type ModelFolder, readAll } from '../io/files.js';
import type { SignalLike } from '../platform.js';
import { parseJson, Settings } from './config.js';

export const POOLINGS = ['mean', 'cls', 'last', 'max', 'mean_sqrt_len', 'weighted_mean'] as const;
/** 'mean_sqrt_len': the sum over the square root of the length; 'weighted_mean': the i-th token counts i times. */
export type Pooling = (typeof POOLINGS)[number];

/** A layer behind the pooling. */
export interface VectorLayer {
  kind: 'dense' | 'norm';
  inFeatures: number;
  outFeatures: number;
  bias: boolean;
  activation: string;
  /** Path of its weights below the folder. */
  weights: string;
}

export interface Recipe {
  /** More than one: their vectors one after the other. */
  pooling: readonly Pooling[];
  /** Whether the pooling sees the prompt's tokens. */
  poolsPrompt: boolean;
  normalize: boolean;
  layers: VectorLayer[];
  maxLength: number;
  /** Texts are lower-cased before the tokenizer sees them. */
  lowerCase: boolean;
  /** By name, e.g. { query: 'query: ', document: 'passage: ' }. */
  prompts: Record<string, string>;
  defaultPrompt: string | null;
}

/** In the order in which several are put one after the other. */
const POOLING_KEYS: Record<string, Pooling> = {
  pooling_mode_cls_token: 'cls',
  pooling_mode_max_tokens: 'max',
  pooling_mode_mean_tokens: 'mean',
  pooling_mode_mean_sqrt_len_tokens: 'mean_sqrt_len',
  pooling_mode_weightedmean_tokens: 'weighted_mean',
  pooling_mode_lasttoken: 'last',
};

const DENSE_ACTIVATIONS: Record<string, string> = {
  Identity: 'identity',
  Tanh: 'tanh',
  ReLU: 'relu',
  GELU: 'gelu',
  Sigmoid: 'sigmoid',
  SiLU: 'silu',
};

/** A folder without modules.json pools by the mean and does not normalize, as sentence-transformers would. */
export async function readRecipe(folder: ModelFolder, signal?: SignalLike): Promise<Recipe> {
  const recipe: Recipe = {
    pooling: ['mean'],
    poolsPrompt: true,
    normalize: false,
    layers: [],
    maxLength: Infinity,
    lowerCase: false,
    prompts: {},
    defaultPrompt: null,
  };
  const read = async (path: string) => {
    const file = await folder.open(path, { signal });
    return file && { bytes: await readAll(file), name: file.name };
  };
  const [modules, own, prompts] = await Promise.all([
    read('modules.json'),
    read('sentence_bert_config.json'),
    read('config_sentence_transformers.json'),
  ]);

  if (own) {
    const settings = Settings.parse(own.bytes, own.name);
    recipe.maxLength = settings.count('max_seq_length', Number.MAX_SAFE_INTEGER, 1, Number.MAX_SAFE_INTEGER);
    recipe.lowerCase = settings.flag('do_lower_case', false);
  }
  if (prompts) readPrompts(Settings.parse(prompts.bytes, prompts.name), recipe);
  if (modules) {
    const list = parseJson(modules.bytes, modules.name);
    if (!Array.isArray(list))
      throw new HeedError('INVALID_FILE', `${modules.name}: got JSON that is no list; expected modules in order`);
    for (const entry of list as { type?: unknown; path?: unknown }[])
      await readModule(entry, recipe, folder, modules.name, signal);
  } else {
    // A folder with pooling but without the list of modules: what is there is meant.
    const pooling = await read('1_Pooling/config.json');
    if (pooling) readPooling(Settings.parse(pooling.bytes, pooling.name), recipe);
  }
  return recipe;
}

// Below the folder whatever resolves it: no `..`, no backslash, no percent, no colon of a scheme.
const kInside = /^(?:[\w-][\w. -]*(?:\/[\w-][\w. -]*)*)?$/;

async function readModule(
  entry: { type?: unknown; path?: unknown },
  recipe: Recipe,
  folder: ModelFolder,
  file: string,
  signal?: SignalLike,
): Promise<void> {
  const { type, path } = entry ?? {};
  if (typeof type !== 'string' || typeof path !== 'string' || !kInside.test(path)) {
    throw new HeedError(
      'INVALID_FILE',
      `${file}: got module ${JSON.stringify(entry)}; expected its type and its path below the folder`,
    );
  }
  const settings = async () => {
    const config = await folder.open(`${path}/config.json`, { required: true, signal });
    return Settings.parse(await readAll(config), config.name);
  };
  const kind = type.split('.').at(-1);
  if (kind === 'Transformer' || kind === 'Dropout') return;
  if (kind === 'Pooling') return readPooling(await settings(), recipe);
  if (kind === 'Normalize') {
    recipe.normalize = true;
    return;
  }
  if (kind !== 'Dense' && kind !== 'LayerNorm')
    throw new HeedError(
      'UNSUPPORTED',
      `${file}: got module '${type}'; expected Transformer, Pooling, Dense, LayerNorm, Dropout, Normalize`,
    );
  if (recipe.normalize)
    throw new HeedError('UNSUPPORTED', `${file}: got ${kind} after Normalize; expected Normalize as the last module`);
  recipe.layers.push(kind === 'Dense' ? denseOf(await settings(), path) : normOf(await settings(), path));
}

function readPooling(settings: Settings, recipe: Recipe): void {
  const wanted = settings
    .entries()
    .filter(([key, value]) => key.startsWith('pooling_mode_') && value === true)
    .map(([key]) => key);
  const unknown = wanted.filter((key) => !Object.hasOwn(POOLING_KEYS, key));
  if (wanted.length === 0 || unknown.length > 0)
    throw new HeedError(
      'UNSUPPORTED',
      `${settings.file}: got ${unknown.join(', ') || 'no pooling mode'}; expected one or more of ${Object.keys(POOLING_KEYS).join(', ')}`,
    );
  recipe.pooling = Object.entries(POOLING_KEYS).flatMap(([key, pooling]) => (wanted.includes(key) ? [pooling] : []));
  recipe.poolsPrompt = settings.flag('include_prompt', true);
}

function denseOf(settings: Settings, path: string): VectorLayer {
  const name = settings.text('activation_function', 'torch.nn.modules.activation.Tanh').split('.').at(-1)!;
  if (!Object.hasOwn(DENSE_ACTIVATIONS, name))
    throw settings.wrong('activation_function', name, Object.keys(DENSE_ACTIVATIONS).join(', '));
  return {
    kind: 'dense',
    inFeatures: settings.count('in_features', undefined, 1),
    outFeatures: settings.count('out_features', undefined, 1),
    bias: settings.flag('bias', true),
    activation: DENSE_ACTIVATIONS[name]!,
    weights: `${path}/model.safetensors`,
  };
}

function normOf(settings: Settings, path: string): VectorLayer {
  const width = settings.count('dimension', undefined, 1);
  return {
    kind: 'norm',
    inFeatures: width,
    outFeatures: width,
    bias: true,
    activation: 'identity',
    weights: `${path}/model.safetensors`,
  };
}

function readPrompts(settings: Settings, recipe: Recipe): void {
  for (const [name, text] of settings.record('prompts')?.entries() ?? []) {
    if (typeof text !== 'string') throw settings.wrong('prompts', text, 'texts by name');
    recipe.prompts[name] = text;
  }
  const name = settings.get('default_prompt_name');
  if (name === undefined) return;
  if (typeof name !== 'string' || !Object.hasOwn(recipe.prompts, name))
    throw settings.wrong('default_prompt_name', name, `one of ${Object.keys(recipe.prompts).join(', ')}`);
  recipe.defaultPrompt = name;
}
