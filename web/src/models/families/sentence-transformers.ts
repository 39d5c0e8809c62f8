/**
 * Reads how a sentence-transformers folder turns a text's hidden states into a vector: modules.json with Pooling,
 * Dense, LayerNorm and Normalize, and the prompts.
 */
import { describe, invalid, invalidFile } from '../../base/error.js';
import type { SignalLike } from '../../base/platform.js';
import type { RawTensor } from '../../base/wasm/core.js';
import { type ModelFolder, parseJson, readAll } from '../../io/files.js';
import { OLD_TRANSFORMER_SETTINGS, TRANSFORMER_SETTINGS } from '../../io/list-files.js';
import { isInside } from '../../io/paths.js';
import { Settings } from '../../io/settings.js';
import type { SparseSettings } from '../heads/sparse.js';

export const POOLINGS = ['mean', 'cls', 'last', 'max', 'mean_sqrt_len', 'weighted_mean'] as const;
/**
 * A pooling. 'mean_sqrt_len': the sum divided by the square root of the number of tokens. 'weighted_mean': the i-th
 * token has weight i.
 */
export type Pooling = (typeof POOLINGS)[number];

/** A layer after the pooling. */
export interface VectorLayer {
  kind: 'dense' | 'norm';
  inFeatures: number;
  outFeatures: number;
  bias: boolean;
  activation: string;
  /**
   * Whether the input is added to the output; if their widths differ (PyLate), after multiplication by
   * `residual.weight`.
   */
  residual: boolean;
  /** The path of the weights relative to the folder. */
  weights: string;
  /** The weight and bias, if they come from the model's own weights. */
  tensors?: RawTensor[] | undefined;
}

/** The folder's configuration of text vectors. */
export interface SentenceConfig {
  /** The poolings, whose vectors are concatenated. */
  pooling: readonly Pooling[];
  /** Whether the pooling includes the prompt's tokens. */
  poolsPrompt: boolean;
  normalize: boolean;
  layers: VectorLayer[];
  /**
   * The layer from vectors to logits: the module named 'classifier' in modules.json, which `save()` of heed/train
   * writes. It does not affect the vectors.
   */
  classifier: VectorLayer | null;
  maxLength: number;
  /** Whether texts are lower-cased before tokenization. */
  lowerCase: boolean;
  /** The prompts by name, such as { query: 'query: ', document: 'passage: ' }. */
  prompts: Record<string, string>;
  defaultPrompt: string | null;
  /** The path of the model's files, with a trailing slash; '' for the root. */
  modelFolder: string;
  /** Whether the model is a StaticEmbedding: a tokenizer and an embedding table. */
  isStatic: boolean;
  /** Whether a module pools the tokens. Otherwise, the layers apply to each token (ColBERT). */
  pools: boolean;
  /** The ColBERT settings: config_sentence_transformers.json (PyLate) or artifact.metadata (Stanford). */
  colbert: Settings | null;
  sparse: SparseSettings;
  similarity: Similarity;
}

const SIMILARITIES = ['cosine', 'dot', 'euclidean', 'manhattan'] as const;
/** The similarity for which a model's vectors are meant. */
export type Similarity = (typeof SIMILARITIES)[number];

/** The names in `pooling_mode`, in the order in which several of OLD_POOLING_KEYS are concatenated. */
const POOLING_NAMES: Record<string, Pooling> = {
  cls: 'cls',
  max: 'max',
  mean: 'mean',
  mean_sqrt_len_tokens: 'mean_sqrt_len',
  weightedmean: 'weighted_mean',
  lasttoken: 'last',
};

/** Keys before sentence-transformers 5.4, with the mode that each boolean selects. */
const OLD_POOLING_KEYS: Record<string, string> = {
  pooling_mode_cls_token: 'cls',
  pooling_mode_max_tokens: 'max',
  pooling_mode_mean_tokens: 'mean',
  pooling_mode_mean_sqrt_len_tokens: 'mean_sqrt_len_tokens',
  pooling_mode_weightedmean_tokens: 'weightedmean',
  pooling_mode_lasttoken: 'lasttoken',
};

/** The name of the classifier's module in modules.json. */
export const CLASSIFIER = 'classifier';

const STATIC = 'StaticEmbedding';
/** Modules that contain the model's files. */
const MODELS = ['Transformer', STATIC, 'MLMTransformer', 'CLIPModel'];
const LAYERS = ['Pooling', 'SpladePooling', 'Dense', 'LayerNorm'];
const DENSE_ACTIVATIONS = ['Identity', 'Tanh', 'ReLU', 'GELU', 'Sigmoid', 'SiLU'];

/**
 * Reads the folder's configuration. Without modules.json, the pooling is the mean and vectors are not normalized, as in
 * sentence-transformers.
 */
export async function readSentenceConfig(folder: ModelFolder, signal?: SignalLike): Promise<SentenceConfig> {
  const config: SentenceConfig = {
    pooling: ['mean'],
    poolsPrompt: true,
    normalize: false,
    layers: [],
    classifier: null,
    maxLength: Infinity,
    lowerCase: false,
    prompts: {},
    defaultPrompt: null,
    modelFolder: '',
    isStatic: false,
    pools: false,
    colbert: null,
    sparse: { strategy: 'max', activation: 'relu' },
    similarity: 'cosine',
  };
  const read = async (path: string) => {
    const file = await folder.open(path, { signal });
    return file && ([await readAll(file), file.name] as const);
  };
  const readSettings = async (path: string) => {
    const file = await read(path);
    return file && Settings.parse(...file);
  };
  const [modules, atRoot, general] = await Promise.all([
    read('modules.json'),
    readSettings(TRANSFORMER_SETTINGS),
    readSettings('config_sentence_transformers.json'),
  ]);

  if (general) {
    readPrompts(general, config);
    config.similarity = similarityIn(general);
  }
  config.colbert = general;
  let texts = atRoot;
  if (modules) {
    const list = parseJson(...modules);
    if (!Array.isArray(list)) throw invalidFile(modules[1], 'a list of modules', JSON.stringify(list).slice(0, 80));
    for (const entry of list) await readModule(entry, config, folder, modules[1], signal);
    const within = config.modelFolder;
    const own = within === '' ? atRoot : await readSettings(within + TRANSFORMER_SETTINGS);
    const old = own || !list.some(isTransformer) ? [] : OLD_TRANSFORMER_SETTINGS;
    const all = [own, ...(await Promise.all(old.map((name) => readSettings(within + name)))), atRoot];
    texts = all.find((each) => each !== null) ?? null;
  } else {
    // The folder has a pooling configuration, but no modules.json.
    const pooling = await readSettings('1_Pooling/config.json');
    if (pooling) readPooling(pooling, config);
  }
  if (texts) {
    config.maxLength = texts.count('max_seq_length', Number.MAX_SAFE_INTEGER, 1, Number.MAX_SAFE_INTEGER);
    config.lowerCase = texts.flag('do_lower_case', false);
  }
  return config;
}

const isTransformer = ({ type }: { type: string }) => kindOf(type).endsWith('Transformer');
const kindOf = (type: string) => type.split('.').at(-1)!;

async function readModule(
  entry: { type?: unknown; path?: unknown; name?: unknown } | null,
  config: SentenceConfig,
  folder: ModelFolder,
  file: string,
  signal?: SignalLike,
): Promise<void> {
  const { type, path, name } = entry ?? {};
  const isRoot = path === '.' && String(type).endsWith(STATIC); // model2vec writes such a path
  if (typeof type !== 'string' || typeof path !== 'string' || !(path === '' || isInside(path) || isRoot))
    throw invalidFile(file, 'a module with its type and its path below the folder', JSON.stringify(entry));
  const kind = kindOf(type);
  if (kind === 'Dropout') return;
  if (MODELS.includes(kind)) {
    config.isStatic = kind === STATIC;
    config.modelFolder = path === '' || isRoot ? '' : `${path}/`;
    return;
  }
  if (kind === 'Normalize') {
    config.normalize = true;
    return;
  }
  if (!LAYERS.includes(kind)) {
    const expected = `a module ${[...MODELS, ...LAYERS].join(', ')}, Dropout or Normalize`;
    throw invalid(file, expected, `'${type}'`, 'UNSUPPORTED');
  }
  const isClassifier = name === CLASSIFIER;
  if (config.normalize && kind !== 'Pooling' && !isClassifier)
    throw invalid(file, 'Normalize as the last module', `${kind} after it`, 'UNSUPPORTED');
  const opened = await folder.open(`${path}/config.json`, { required: true, signal });
  const settings = Settings.parse(await readAll(opened), opened.name);
  if (kind === 'Pooling') {
    const before = config.layers.map(({ weights }) => `'${weights.replace(/\/[^/]*$/, '')}'`);
    if (config.normalize) before.push('Normalize');
    if (before.length > 0)
      throw invalid(file, 'the pooling before all layers', `${before.join(', ')} before '${path}'`, 'UNSUPPORTED');
    return readPooling(settings, config);
  }
  if (kind === 'SpladePooling') {
    config.sparse = readSparsePooling(settings);
    return;
  }
  if (config.pools) requireVectors(path, settings);
  const layer = { ...layerOf(kind, settings), weights: `${path}/model.safetensors` };
  if (isClassifier) config.classifier = layer;
  else config.layers.push(layer);
}

/** Rejects a layer after the pooling, the module `path`, whose input or output is not the pooled vector. */
function requireVectors(path: string, settings: Settings): void {
  const vectors = 'sentence_embedding';
  const input = settings.text('module_input_name', vectors);
  for (const [key, name] of [
    ['module_input_name', input],
    ['module_output_name', settings.text('module_output_name', input)],
  ] as const)
    if (name !== vectors)
      throw settings.unsupported(key, `'${vectors}' for '${path}', which follows the pooling`, `'${name}'`);
}

function readPooling(settings: Settings, config: SentenceConfig): void {
  config.pooling = poolingsIn(settings);
  config.pools = true;
  config.poolsPrompt = settings.flag('include_prompt', true);
}

function poolingsIn(settings: Settings): Pooling[] {
  const key = 'pooling_mode';
  const modes = settings.get(key);
  if (modes === undefined) return poolingsOfOldKeys(settings);
  const names = [modes].flat();
  if (names.length > 0 && names.every((name) => typeof name === 'string' && Object.hasOwn(POOLING_NAMES, name)))
    return names.map((name) => POOLING_NAMES[name as string]!);
  const expected = `one or more of ${Object.keys(POOLING_NAMES).join(', ')}`;
  throw settings.unsupported(key, expected, JSON.stringify(modes));
}

function poolingsOfOldKeys(settings: Settings): Pooling[] {
  const keys = settings
    .entries()
    .filter(([key, value]) => key.startsWith('pooling_mode_') && value === true)
    .map(([key]) => key);
  const unknown = keys.filter((key) => !Object.hasOwn(OLD_POOLING_KEYS, key));
  if (unknown.length > 0) {
    const expected = `pooling_mode, or one or more of ${Object.keys(OLD_POOLING_KEYS).join(', ')}`;
    throw invalid(settings.file, expected, unknown.join(', '), 'UNSUPPORTED');
  }
  if (keys.length === 0) return ['mean']; // as sentence-transformers 6.2
  return Object.entries(OLD_POOLING_KEYS).flatMap(([key, name]) => (keys.includes(key) ? [POOLING_NAMES[name]!] : []));
}

function readSparsePooling(settings: Settings): SparseSettings {
  const read = <T extends string>(key: string, values: readonly [T, T]) => {
    const value = settings.text(key, values[0]);
    if (values.includes(value as T)) return value as T;
    throw settings.wrong(key, values.map((each) => `'${each}'`).join(' or '), value);
  };
  return {
    strategy: read('pooling_strategy', ['max', 'sum']),
    activation: read('activation_function', ['relu', 'log1p_relu']),
  };
}

function layerOf(kind: string, settings: Settings): Omit<VectorLayer, 'weights'> {
  if (kind === 'LayerNorm') {
    const width = settings.count('dimension', undefined, 1);
    return { kind: 'norm', inFeatures: width, outFeatures: width, bias: true, activation: 'identity', residual: false };
  }
  const key = 'activation_function';
  const name = settings.text(key, 'torch.nn.modules.activation.Tanh').split('.').at(-1)!;
  if (!DENSE_ACTIVATIONS.includes(name)) throw settings.wrong(key, `one of ${DENSE_ACTIVATIONS.join(', ')}`, name);
  return {
    kind: 'dense',
    inFeatures: settings.count('in_features', undefined, 1),
    outFeatures: settings.count('out_features', undefined, 1),
    bias: settings.flag('bias', true),
    activation: name.toLowerCase(),
    residual: settings.flag('use_residual', false),
  };
}

/** Other names, such as PyLate's MaxSim, do not apply to text vectors. */
function similarityIn(settings: Settings): Similarity {
  const name = settings.get('similarity_fn_name');
  return SIMILARITIES.find((each) => each === name) ?? 'cosine';
}

function readPrompts(settings: Settings, config: SentenceConfig): void {
  for (const [name, text] of settings.record('prompts')?.entries() ?? []) {
    if (typeof text !== 'string') throw settings.wrong('prompts', 'texts by name', text);
    config.prompts[name] = text;
  }
  const key = 'default_prompt_name';
  const name = settings.get(key);
  if (name === undefined) return;
  if (typeof name !== 'string' || !Object.hasOwn(config.prompts, name))
    throw settings.wrong(key, `one of ${Object.keys(config.prompts).join(', ')}`, name);
  config.defaultPrompt = name;
}

/** The text before the model's input: `prompt`, or the folder's prompt named `promptName`, or the folder's default. */
export function promptOf(
  { prompts, defaultPrompt }: SentenceConfig,
  { prompt, promptName }: { prompt?: string | undefined; promptName?: string | undefined } = {},
): string {
  if (prompt !== undefined && promptName !== undefined)
    throw invalid('embed.promptName', 'undefined together with `prompt`', describe(promptName));
  if (prompt !== undefined) return prompt;
  const name = promptName ?? defaultPrompt;
  if (name === null) return '';
  if (Object.hasOwn(prompts, name)) return prompts[name]!;
  const known = Object.keys(prompts).join(', ') || 'it has none';
  throw invalid('embed.promptName', `one of the model's prompts (${known})`, describe(name));
}
