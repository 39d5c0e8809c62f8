/**
 * Reads a sentence-transformers folder: modules.json with the modules' settings as a list of steps, the settings for
 * reading texts, and the prompts. other-modules.ts has what few folders contain; it is imported on demand.
 */
import { describe, importing, invalid, invalidFile } from '../../base/error.js';
import { append } from '../../base/lists.js';
import type { SignalLike } from '../../base/platform.js';
import { OLD_TRANSFORMER_SETTINGS, TRANSFORMER_SETTINGS } from '../../io/file-names.js';
import { type ModelFolder, parseJson, readAll } from '../../io/files.js';
import { isInside } from '../../io/paths.js';
import { Settings } from '../../io/settings.js';
import {
  type ModuleEntry,
  namesIn,
  type Reading,
  type SentenceConfig,
  SIMILARITY_FUNCTIONS,
  type SimilarityFunction,
  type TextSettings,
} from './sentence-config.js';
import {
  type LayerStep,
  type ModelStep,
  modelOf,
  type Pooling,
  type PoolingStep,
  SCORES,
  type Step,
  TOKENS,
  VECTORS,
} from './steps.js';

/**
 * The poolings with their names in `pooling_mode`, and the keys before sentence-transformers 5.4 whose booleans select
 * them, in the order in which several are concatenated.
 */
const POOLING_MODES: readonly { pooling: Pooling; mode: string; old: string }[] = [
  { pooling: 'cls', mode: 'cls', old: 'pooling_mode_cls_token' },
  { pooling: 'max', mode: 'max', old: 'pooling_mode_max_tokens' },
  { pooling: 'mean', mode: 'mean', old: 'pooling_mode_mean_tokens' },
  { pooling: 'mean_sqrt_len', mode: 'mean_sqrt_len_tokens', old: 'pooling_mode_mean_sqrt_len_tokens' },
  { pooling: 'weighted_mean', mode: 'weightedmean', old: 'pooling_mode_weightedmean_tokens' },
  { pooling: 'last', mode: 'lasttoken', old: 'pooling_mode_lasttoken' },
];

/**
 * The name in modules.json of the classifier that `save()` of heed/train writes. sentence-transformers' `encode` returns
 * its logits as `sentence_embedding`; here they are `scores`.
 */
export const CLASSIFIER = 'classifier';

const STATIC = 'StaticEmbedding';
/** As the first module, a table with a weight for each token. */
const SPARSE_STATIC = 'SparseStaticEmbedding';
/** The modules that contain the model's files. */
const MODELS = ['Transformer', STATIC, 'MLMTransformer', 'CLIPModel'];
/** The activations of Dense that heed's linear layers have; other-modules.ts has those of the rest of torch.nn. */
const DENSE_ACTIVATIONS = ['Identity', 'Tanh', 'ReLU', 'GELU', 'Sigmoid', 'SiLU'];
const TANH = 'torch.nn.modules.activation.Tanh';

/** The settings of a Transformer that its length and case depend on. */
const LENGTHS = ['max_seq_length', 'do_lower_case'];
/** The settings that sentence-transformers 5.4 and later write for most models. */
const USUAL: Partial<Record<string, unknown>> = {
  transformer_task: 'feature-extraction',
  modality_config: { text: { method: 'forward', method_output_name: 'last_hidden_state' } },
  module_output_name: TOKENS,
};
const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);

const others = () => importing('other-modules', () => import('./other-modules.js'));

/**
 * Reads the folder's configuration. Without modules.json, the pooling is the mean, for causal models the last token (see
 * `addLastToken`), and vectors are not normalized, as in sentence-transformers.
 */
export async function readSentenceConfig(folder: ModelFolder, signal?: SignalLike): Promise<SentenceConfig> {
  const readModules = async () => {
    const file = await folder.open('modules.json', { signal });
    return file && ([await readAll(file), file.name] as const);
  };
  const [modules, atRoot, general] = await Promise.all([
    readModules(),
    Settings.in(folder, TRANSFORMER_SETTINGS, signal),
    Settings.in(folder, 'config_sentence_transformers.json', signal),
  ]);
  const shared = {
    ...(general ? promptsIn(general) : { prompts: {}, defaultPrompt: null }),
    general,
    similarity: general ? similarityIn(general) : 'cosine',
    dimensions: general?.get('truncate_dim') === undefined ? null : general.count('truncate_dim', undefined, 1),
    routes: null,
  } as const;
  const readChain = async (entries: ModuleEntry[], file: string): Promise<SentenceConfig> => {
    const texts = defaultTexts();
    const reading = { folder, signal, texts, file };
    const steps: Step[] = [];
    for (const entry of entries) {
      const isModel = entry.kind === SPARSE_STATIC && steps.length === 0;
      const read = isModel ? sparseStaticSteps(entry.path) : await stepsOf(entry, reading, atRoot);
      // Normalize without its value does nothing, as in sentence-transformers.
      append(
        steps,
        read.filter(({ kind, input }) => kind !== 'normalize' || steps.some(({ output }) => output === input)),
      );
    }
    if (!steps.some(({ kind }) => kind === 'model')) steps.unshift(transformerStep(''));
    const { path } = modelOf(steps);
    return { ...shared, steps, texts, modelFolder: path === '' ? '' : `${path}/` };
  };
  if (!modules) {
    const path = '1_Pooling'; // the folder may have a pooling configuration, but no modules.json
    const pooling = await Settings.in(folder, `${path}/config.json`, signal);
    const config = await readChain([], '');
    if (atRoot) readLength(atRoot, config.texts);
    config.texts.chat = { format: 'auto', options: {}, restoresEnd: true, onlyPairs: true };
    if (pooling) config.steps.push(poolingStep(path, pooling));
    return config;
  }
  const list = parseJson(...modules);
  const [, file] = modules;
  if (!Array.isArray(list)) throw invalidFile(file, 'a list of modules', JSON.stringify(list).slice(0, 80));
  const entries = list.map((entry) => entryOf(entry, file));
  if (!entries.some(isRouter)) return readChain(entries, file);
  return (await others()).readRoutes(entries, (chain) => readChain(chain, file), { folder, signal, file });
}

const isRouter = ({ kind }: ModuleEntry) => kind === 'Router' || kind === 'Asym';

const defaultTexts = (): TextSettings => ({
  maxLength: null,
  taskLengths: {},
  lowerCase: false,
  truncation: true,
  padding: { isFull: false, multiple: 1 },
  addSpecialTokens: true,
  returnTokenTypeIds: null,
  expansion: null,
  chat: null,
  template: null,
});

function entryOf(given: { type?: unknown; path?: unknown; name?: unknown } | null, file: string): ModuleEntry {
  const { type, path, name } = given ?? {};
  const isRoot = path === '.' && String(type).endsWith(STATIC); // model2vec writes such a path
  if (typeof type !== 'string' || typeof path !== 'string' || !(path === '' || isInside(path) || isRoot))
    throw invalidFile(file, 'a module with its type and its path below the folder', JSON.stringify(given));
  return { kind: type.split('.').at(-1)!, type, path: isRoot ? '' : path, name };
}

async function stepsOf(entry: ModuleEntry, reading: Reading, atRoot: Settings | null): Promise<Step[]> {
  const { kind, path } = entry;
  const { folder, signal, texts } = reading;
  if (kind === 'Dropout') return [];
  if (kind === STATIC) return staticSteps(path);
  if (MODELS.includes(kind)) {
    const own = path === '' ? atRoot : await Settings.in(folder, `${path}/${TRANSFORMER_SETTINGS}`, signal);
    const settings = own ?? (await oldSettings(path, reading));
    if (!settings) return [transformerStep(path, kind)];
    readLength(settings, texts);
    const isUsual = settings
      .names()
      .every((key) => LENGTHS.includes(key) || (Object.hasOwn(USUAL, key) && same(settings.get(key), USUAL[key])));
    return [
      isUsual && kind === 'Transformer'
        ? transformerStep(path)
        : await (await others()).readTransformer(transformerStep(path, kind), settings, reading),
    ];
  }
  const required = kind !== 'Normalize';
  const opened = await folder.open(`${path}/config.json`, { required, signal });
  const settings = opened ? await Settings.read(opened) : new Settings({}, `${path}/config.json`);
  if (kind === 'Pooling') return [poolingStep(path, settings)];
  if (kind === 'Normalize') return [{ kind: 'normalize', path, ...namesIn(settings) }];
  if (kind === 'LayerNorm') return [normStep(path, settings)];
  if (kind === 'Dense') {
    const step = denseStep(entry, settings);
    return [step.activation === '' ? (await others()).withActivation(step, settings) : step];
  }
  return (await others()).readModule(entry, settings, reading);
}

async function oldSettings(path: string, { folder, signal }: Reading): Promise<Settings | null> {
  const within = path === '' ? '' : `${path}/`;
  const all = await Promise.all(OLD_TRANSFORMER_SETTINGS.map((name) => Settings.in(folder, within + name, signal)));
  return all.find((each) => each !== null) ?? null;
}

/** The step of a model whose last hidden states are used, as in folders before sentence-transformers 5.4. */
function transformerStep(path: string, kind = 'Transformer'): ModelStep {
  const step = { kind: 'model', isStatic: false, input: 'input_ids', path, method: 'forward' } as const;
  if (kind === 'CLIPModel')
    return {
      ...step,
      task: 'feature-extraction',
      method: 'get_text_features',
      from: ['pooler_output'],
      output: VECTORS,
    };
  if (kind === 'MLMTransformer') return { ...step, task: 'fill-mask', from: ['logits'], output: TOKENS };
  return { ...step, task: 'feature-extraction', from: ['last_hidden_state'], output: TOKENS };
}

/** A StaticEmbedding gives the mean of its tokens' rows. */
function staticSteps(path: string): Step[] {
  return [
    { ...transformerStep(path), isStatic: true },
    { kind: 'pooling', path, input: TOKENS, output: VECTORS, modes: ['mean'], poolsPrompt: true },
  ];
}

/** A SparseStaticEmbedding gives the weights of its tokens. */
function sparseStaticSteps(path: string): Step[] {
  const names = { input: TOKENS, output: VECTORS };
  const settings = new Settings({}, 'config.json');
  return [
    { ...transformerStep(path), isStatic: true, task: 'sparse' },
    { kind: 'other', type: SPARSE_STATIC, path, ...names, settings, shape: () => ({ perToken: false, width: 1 }) },
  ];
}

function readLength(settings: Settings, texts: TextSettings): void {
  const key = 'max_seq_length';
  if (settings.get(key) !== undefined) texts.maxLength = settings.count(key, undefined, 1, Number.MAX_SAFE_INTEGER);
  texts.lowerCase = settings.flag('do_lower_case', false);
}

function poolingStep(path: string, settings: Settings): PoolingStep {
  const poolsPrompt = settings.flag('include_prompt', true);
  settings.count(['embedding_dimension', 'word_embedding_dimension'], 1, 1); // the model's width counts
  return { kind: 'pooling', path, input: TOKENS, output: VECTORS, modes: poolingsIn(settings), poolsPrompt };
}

function poolingsIn(settings: Settings): Pooling[] {
  const key = 'pooling_mode';
  const modes = settings.get(key);
  if (modes === undefined) return poolingsOfOldKeys(settings);
  const found = [modes].flat().map((name) => POOLING_MODES.find(({ mode }) => mode === name)?.pooling);
  if (found.length > 0 && found.every((pooling) => pooling !== undefined)) return found;
  const expected = `one or more of ${POOLING_MODES.map(({ mode }) => mode).join(', ')}`;
  throw settings.unsupported(key, expected, JSON.stringify(modes));
}

function poolingsOfOldKeys(settings: Settings): Pooling[] {
  const keys = settings.entries('pooling_mode_').flatMap(([key, value]) => (value === true ? [key] : []));
  const known = POOLING_MODES.map(({ old }) => old);
  const unknown = keys.filter((key) => !known.includes(key));
  if (unknown.length > 0) {
    const expected = `pooling_mode, or one or more of ${known.join(', ')}`;
    throw invalid(settings.file, expected, unknown.join(', '), 'UNSUPPORTED');
  }
  if (keys.length === 0) return ['mean']; // as sentence-transformers 6.2
  return POOLING_MODES.filter(({ old }) => keys.includes(old)).map(({ pooling }) => pooling);
}

/** torch's LayerNorm of the vectors. */
function normStep(path: string, settings: Settings): LayerStep {
  const width = settings.count('dimension', undefined, 1);
  const sizes = { inFeatures: width, outFeatures: width, bias: true, activation: 'identity', residual: false };
  return { kind: 'norm', path, input: VECTORS, output: VECTORS, ...sizes };
}

/** Activations that heed's linear layers do not have are '' until `withActivation` has read them. */
function denseStep({ type, path, name }: ModuleEntry, settings: Settings): LayerStep {
  // PyLate's layers are applied to tokens, and its files do not name their values.
  const names = namesIn(settings, type.startsWith('pylate.') ? TOKENS : VECTORS);
  const activation = settings.text('activation_function', TANH).split('.');
  const isKnown = activation[0] === 'torch' && DENSE_ACTIVATIONS.includes(activation.at(-1)!);
  return {
    kind: 'dense',
    path,
    ...names,
    output: name === CLASSIFIER ? SCORES : names.output,
    inFeatures: settings.count('in_features', undefined, 1),
    outFeatures: settings.count('out_features', undefined, 1),
    bias: settings.flag('bias', true),
    activation: isKnown ? activation.at(-1)!.toLowerCase() : '',
    residual: settings.flag('use_residual', false),
  };
}

/** Other names, such as PyLate's MaxSim, do not apply to text vectors. */
function similarityIn(settings: Settings): SimilarityFunction {
  const name = settings.get('similarity_fn_name');
  return SIMILARITY_FUNCTIONS.find((each) => each === name) ?? 'cosine';
}

function promptsIn(settings: Settings): Pick<SentenceConfig, 'prompts' | 'defaultPrompt'> {
  const prompts: Record<string, string> = {};
  for (const [name, text] of settings.record('prompts')?.entries() ?? []) {
    if (typeof text !== 'string') throw settings.wrong('prompts', 'texts by name', text);
    prompts[name] = text;
  }
  const key = 'default_prompt_name';
  const name = settings.get(key);
  if (name === undefined) return { prompts, defaultPrompt: null };
  if (typeof name !== 'string' || !Object.hasOwn(prompts, name))
    throw settings.wrong(key, `one of ${Object.keys(prompts).join(', ')}`, name);
  return { prompts, defaultPrompt: name };
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
