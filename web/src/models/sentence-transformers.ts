/** What a sentence-transformers folder says about turning rows into one vector: modules.json, N_Pooling, N_Dense, N_Normalize, prompts. */
import { HeedError } from '../error.js';
import type { SignalLike } from '../platform.js';
import { parseJson, Settings } from './config.js';
import type { ModelFolder } from './source.js';
import { readAll } from './source.js';

export const POOLINGS = ['mean', 'cls', 'last', 'max'] as const;
export type Pooling = (typeof POOLINGS)[number];

export interface DenseModule {
  inFeatures: number;
  outFeatures: number;
  bias: boolean;
  activation: string;
  /** Path of its weights below the folder. */
  weights: string;
}

export interface Recipe {
  pooling: Pooling;
  normalize: boolean;
  dense: DenseModule[];
  maxLength: number;
  /** By name, e.g. { query: 'query: ', document: 'passage: ' }. */
  prompts: Record<string, string>;
  defaultPrompt: string | null;
}

const POOLING_KEYS: Record<string, Pooling> = {
  pooling_mode_mean_tokens: 'mean',
  pooling_mode_cls_token: 'cls',
  pooling_mode_lasttoken: 'last',
  pooling_mode_max_tokens: 'max',
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
    pooling: 'mean',
    normalize: false,
    dense: [],
    maxLength: Infinity,
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

  if (own) recipe.maxLength = Settings.parse(own.bytes, own.name).count('max_seq_length', Number.MAX_SAFE_INTEGER, 1);
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
    if (pooling) recipe.pooling = poolingOf(Settings.parse(pooling.bytes, pooling.name));
  }
  return recipe;
}

async function readModule(
  entry: { type?: unknown; path?: unknown },
  recipe: Recipe,
  folder: ModelFolder,
  file: string,
  signal?: SignalLike,
): Promise<void> {
  const { type, path } = entry ?? {};
  if (typeof type !== 'string' || typeof path !== 'string' || /(^|\/)\.\.(\/|$)|^\//.test(path)) {
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
  if (kind === 'Transformer') return;
  if (kind === 'Pooling') recipe.pooling = poolingOf(await settings());
  else if (kind === 'Normalize') recipe.normalize = true;
  else if (kind === 'Dense') recipe.dense.push(denseOf(await settings(), path));
  else
    throw new HeedError(
      'UNSUPPORTED',
      `${file}: got module '${type}'; expected Transformer, Pooling, Dense, Normalize`,
    );
}

function poolingOf(settings: Settings): Pooling {
  const wanted = settings
    .entries()
    .filter(([key, value]) => key.startsWith('pooling_mode_') && value === true)
    .map(([key]) => key);
  const key = wanted[0];
  if (wanted.length === 1 && Object.hasOwn(POOLING_KEYS, key!)) return POOLING_KEYS[key!]!;
  throw new HeedError(
    'UNSUPPORTED',
    `${settings.file}: got ${wanted.join(', ') || 'no pooling mode'}; expected one of ${Object.keys(POOLING_KEYS).join(', ')}`,
  );
}

function denseOf(settings: Settings, path: string): DenseModule {
  const name = settings.text('activation_function', 'torch.nn.modules.linear.Identity').split('.').at(-1)!;
  if (!Object.hasOwn(DENSE_ACTIVATIONS, name))
    throw settings.wrong('activation_function', name, Object.keys(DENSE_ACTIVATIONS).join(', '));
  return {
    inFeatures: settings.count('in_features', undefined, 1),
    outFeatures: settings.count('out_features', undefined, 1),
    bias: settings.flag('bias', true),
    activation: DENSE_ACTIVATIONS[name]!,
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
