/**
 * Reads what few sentence-transformers folders contain: unusual settings of the Transformer, modules other than Pooling,
 * Dense, LayerNorm and Normalize, and Routers. Imported on demand.
 */
import { type HeedError, invalid, invalidFile } from '../../base/error.js';
import { TORCH_ACTIVATIONS, TORCH_ROW_ACTIVATIONS } from '../../base/torch-activations.js';
import { isInside } from '../../io/paths.js';
import { Settings } from '../../io/settings.js';
import type { SparseSettings } from '../heads/sparse.js';
import { readChat, readExpansion, readRetrievalModule } from './retrieval-modules.js';
import type { ModuleEntry, Reading, Routes, SentenceConfig, TextSettings } from './sentence-config.js';
import { type LayerStep, type ModelStep, SCORES, type Step, TOKENS, VECTORS } from './steps.js';

/** The default of `modality_config` and `module_output_name` for each `transformer_task`. */
const TASKS: Record<string, { from: string; output: string }> = {
  'feature-extraction': { from: 'last_hidden_state', output: TOKENS },
  'sequence-classification': { from: 'logits', output: SCORES },
  'fill-mask': { from: 'logits', output: TOKENS },
  'text-generation': { from: 'logits', output: 'causal_logits' },
  'any-to-any': { from: 'logits', output: 'causal_logits' },
};

/** Arguments of transformers' `from_pretrained`, under their names before and since sentence-transformers 5.4. */
const LOADING = {
  model: ['model_args', 'model_kwargs'],
  tokenizer: ['tokenizer_args', 'processor_kwargs'],
  config: ['config_args', 'config_kwargs'],
} as const;
/** Those that do not affect the values in fp32. */
const LOADING_WITHOUT_EFFECT = [
  ...['attn_implementation', 'backend', 'cache_dir', 'device_map', 'dtype', 'export', 'file_name', 'force_download'],
  ...['local_files_only', 'low_cpu_mem_usage', 'output_attentions', 'provider', 'return_dict', 'revision', 'subfolder'],
  ...['token', 'torch_dtype', 'trust_remote_code', 'unpad_inputs', 'use_auth_token', 'use_cache', 'use_fast'],
  ...['use_memory_efficient_attention', 'use_safetensors', 'variant', 'weights_only'],
];

/** Completes the step of a Transformer, and the settings for its texts. */
export async function readTransformer(step: ModelStep, settings: Settings, reading: Reading): Promise<ModelStep> {
  const { texts } = reading;
  const task = settings.text('transformer_task', step.task);
  const usual = TASKS[task];
  if (!usual) throw settings.unsupported('transformer_task', `one of ${Object.keys(TASKS).join(', ')}`, `'${task}'`);
  readLoading(settings, texts);
  readProcessing(settings, texts);
  // The tokenizer's own argument replaces the lengths of tasks.
  const processing = settings.record('processing_kwargs');
  const isFixed = ['text', 'common'].some((key) => processing?.record(key)?.get('max_length') !== undefined);
  for (const name of ['query', 'document']) {
    if (settings.get(`${name}_length`) === undefined) continue;
    const length = settings.count(`${name}_length`, undefined, 1);
    if (!isFixed) texts.taskLengths[name] = length;
  }
  texts.expansion = await readExpansion(settings, step.path, reading);
  const modalities = settings.record('modality_config');
  if (!modalities) {
    if (task === step.task) return step;
    return { ...step, task, from: [usual.from], output: usual.output };
  }
  // With a chat template, texts become messages.
  const message = modalities.record('message');
  if (message) texts.chat = readChat(message, settings, texts);
  const own = modalities.record('text');
  if (message) own?.entries(); // texts become messages
  const text = message ?? own;
  if (!text) {
    const names = modalities.entries().map(([name]) => `'${name}'`);
    throw settings.unsupported('modality_config', "an entry 'text'", names.join(', '));
  }
  if (settings.get('module_output_name') === undefined)
    throw settings.wrong('module_output_name', 'the name of the output, beside modality_config', undefined);
  const method = text.text('method', 'forward');
  const key = 'method_output_name';
  const path = [text.get(key) ?? []].flat();
  if (path.some((part) => typeof part !== 'string' && !Number.isInteger(part)))
    throw text.wrong(key, 'a name, or a list of names and indices', path);
  const from = path as (string | number)[];
  if (method === 'forward' && !isOutput(from, task)) {
    const expected = task === 'feature-extraction' ? 'last_hidden_state, pooler_output' : 'logits, last_hidden_state';
    throw text.unsupported(key, `${expected} or ['hidden_states', i]`, JSON.stringify(text.get(key) ?? null));
  }
  return { ...step, task, method, from, output: settings.text('module_output_name', '') };
}

/** Whether heed has this output of the model. */
function isOutput(from: readonly (string | number)[], task: string): boolean {
  const [name, index] = from;
  if (name === 'hidden_states') return from.length === 2 && typeof index === 'number';
  if (from.length !== 1) return false;
  return name === (task === 'feature-extraction' ? 'pooler_output' : 'logits') || name === 'last_hidden_state';
}

function readLoading(settings: Settings, texts: TextSettings): void {
  for (const [what, keys] of Object.entries(LOADING))
    for (const key of keys) {
      const given = settings.record(key);
      for (const name of given?.entries().map(([each]) => each) ?? []) {
        const value = given!.get(name);
        if (value === undefined || LOADING_WITHOUT_EFFECT.includes(name)) continue;
        if (what === 'tokenizer' && name === 'model_max_length') texts.maxLength = given!.count(name, undefined, 1);
        else throw settings.unsupported(`${key}.${name}`, 'none', JSON.stringify(value));
      }
    }
}

/** The arguments of the tokenizer's call that do not affect a text's tokens, or only add outputs that are not used. */
const CALL_WITHOUT_EFFECT = [
  ...['return_tensors', 'return_length', 'return_offsets_mapping', 'verbose'],
  ...['return_special_tokens_mask', 'logits_to_keep'],
];
/** The values of those that heed accepts only with their default. */
const CALL_DEFAULTS: Record<string, unknown> = {
  is_split_into_words: false,
  padding_side: 'right',
  return_attention_mask: true,
  return_overflowing_tokens: false,
  split_special_tokens: false,
  stride: 0,
};

/** Reads `processing_kwargs`: the arguments of the tokenizer's call. Those of `common` replace those of `text`. */
function readProcessing(settings: Settings, texts: TextSettings): void {
  const all = settings.record('processing_kwargs');
  if (!all) return;
  for (const [modality, given] of all.entries()) {
    if (modality === 'text' || modality === 'common') continue;
    const isEmpty = given === null || Object.keys(given as object).length === 0;
    // Python does not read other keys, nor settings for inputs that the model does not take.
    if (modality === 'image' && !isEmpty)
      throw settings.unsupported(`processing_kwargs.${modality}`, 'no arguments', JSON.stringify(given));
  }
  const merged = [all.record('text'), all.record('common')].flatMap((each) => each?.entries() ?? []);
  const call = new Settings(Object.fromEntries(merged), `${settings.file}: processing_kwargs.text`);
  for (const [key] of call.entries()) {
    const value = call.get(key);
    if (value === undefined || CALL_WITHOUT_EFFECT.includes(key)) continue;
    if (key === 'max_length') texts.maxLength = call.count(key, undefined, 1);
    else if (key === 'truncation') texts.truncation = truncationIn(call);
    else if (key === 'add_special_tokens') texts.addSpecialTokens = call.flag(key, true);
    else if (key === 'return_token_type_ids') texts.returnTokenTypeIds = call.flag(key, true);
    else if (key === 'padding') texts.padding.isFull = value === 'max_length';
    else if (key === 'pad_to_multiple_of') texts.padding.multiple = call.count(key, 1, 1);
    else if (!Object.hasOwn(CALL_DEFAULTS, key) || value !== CALL_DEFAULTS[key]) {
      const accepted = ['max_length', 'truncation', 'add_special_tokens', 'padding'];
      const expected = Object.hasOwn(CALL_DEFAULTS, key) ? JSON.stringify(CALL_DEFAULTS[key]) : accepted.join(', ');
      throw call.unsupported(key, expected, JSON.stringify(value));
    }
  }
}

function truncationIn(call: Settings): TextSettings['truncation'] {
  const value = call.get('truncation');
  if (value === true || value === 'longest_first') return true;
  if (value === false || value === 'do_not_truncate') return false;
  if (value === 'only_first') return value;
  throw call.unsupported('truncation', "true, 'longest_first', 'only_first' or false", JSON.stringify(value));
}

const ROW_ACTIVATIONS = Object.keys(TORCH_ROW_ACTIVATIONS);

/** Completes a Dense whose activation heed's linear layers do not have. Its class is made without arguments. */
export function withActivation(step: LayerStep, settings: Settings): LayerStep {
  const key = 'activation_function';
  const type = settings.text(key, '');
  const name = type.split('.').at(-1)!;
  const isTorch = type.startsWith('torch.');
  const others = [...Object.keys(TORCH_ACTIVATIONS), 'PReLU', 'GLU', ...(step.input === TOKENS ? [] : ROW_ACTIVATIONS)];
  if (name === 'GLU' && (step.residual || step.outFeatures % 2 === 1))
    throw settings.unsupported(key, 'another activation with these settings', `'${type}'`);
  if (isTorch && others.includes(name)) return { ...step, activation: name };
  const known = ['Identity', 'Tanh', 'ReLU', 'GELU', 'Sigmoid', 'SiLU', ...others];
  throw settings.wrong(key, `one of ${known.join(', ')} of torch.nn`, type);
}

const WIDTH = ['embedding_dimension', 'word_embedding_dimension'];

/** Modules that heed does not have, and why. */
const REFUSED: Record<string, string> = {
  WordWeights: 'a module without weights of words',
  BoW: 'a model with an encoder, not a bag of words',
  WordEmbeddings: 'a model with an encoder, not word embeddings with a tokenizer of their own',
  CNN: 'a model without convolutions over tokens',
  LSTM: 'a model without a recurrent network over tokens',
};

/** Reads a module of another class. */
export function readModule(entry: ModuleEntry, settings: Settings, { file }: Reading): Step[] {
  const { kind, type, path } = entry;
  const read = readRetrievalModule(entry, settings);
  if (read) return [read];
  if (kind === 'SpladePooling')
    return [{ kind: 'splade', path, input: TOKENS, output: VECTORS, settings: readSparsePooling(settings) }];
  if (kind === 'WeightedLayerPooling') {
    const shape = () => ({ perToken: true, width: settings.count(WIDTH, undefined, 1) });
    // Without the hidden states of all layers, the module does nothing; other-steps.ts decides.
    return [{ kind: 'other', type: kind, path, input: TOKENS, output: TOKENS, settings, shape }];
  }
  const expected =
    REFUSED[kind] ??
    'a module Transformer, StaticEmbedding, MLMTransformer, CLIPModel, Pooling, SpladePooling, Dense, LayerNorm, Dropout, Router or Normalize';
  throw invalid(file, expected, `'${type}'`, 'UNSUPPORTED');
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

/** router_config.json. */
interface Router {
  entry: ModuleEntry;
  routes: Map<string, ModuleEntry[]>;
  /** Routes by task; null: any. In the order of priority, and only those for texts. */
  mappings: { task: string | null; modality: string | null; route: string }[];
  fallback: string | null;
}

/**
 * Reads the modules of a folder with Routers. `readChain` reads a list of modules without Routers.
 * @throws HeedError UNSUPPORTED for a Router within a Router
 */
export async function readRoutes(
  entries: readonly ModuleEntry[],
  readChain: (entries: ModuleEntry[]) => Promise<SentenceConfig>,
  reading: Omit<Reading, 'texts'>,
): Promise<SentenceConfig> {
  const routers = new Map<ModuleEntry, Router>();
  for (const entry of entries) if (isRouter(entry)) routers.set(entry, await readRouter(entry, reading));
  const chainOf = (task: string | undefined) =>
    entries.flatMap((entry) => {
      const router = routers.get(entry);
      return router ? router.routes.get(routeOf(router, task))! : [entry];
    });
  const tasks = new Set<string | undefined>([undefined, 'query', 'document']);
  for (const { routes, mappings } of routers.values()) {
    for (const route of routes.keys()) tasks.add(route);
    for (const { task } of mappings) if (task !== null) tasks.add(task);
  }
  const keys: string[] = [];
  const chains: SentenceConfig[] = [];
  const keyOf = (chain: ModuleEntry[]) => chain.map(({ path }) => path).join('|');
  for (const task of tasks) {
    let chain: ModuleEntry[];
    try {
      chain = chainOf(task);
    } catch {
      continue; // the task is rejected when it is used
    }
    if (keys.includes(keyOf(chain))) continue;
    keys.push(keyOf(chain));
    chains.push(await readChain(chain));
  }
  if (chains.length === 0) throw invalidFile(reading.file, 'a Router with a route', 'none');
  const routes: Routes = { chains, of: (task) => keys.indexOf(keyOf(chainOf(task))) };
  return { ...chains[0]!, routes };
}

const isRouter = ({ kind }: ModuleEntry) => kind === 'Router' || kind === 'Asym';

async function readRouter(entry: ModuleEntry, { folder, signal }: Omit<Reading, 'texts'>): Promise<Router> {
  const within = entry.path === '' ? '' : `${entry.path}/`;
  const settings =
    (await Settings.in(folder, `${within}router_config.json`, signal)) ??
    (await Settings.read(await folder.open(`${within}config.json`, { required: true, signal })));
  const part = (key: string) => {
    const record = settings.record(key);
    if (record) return record;
    throw settings.wrong(key, 'an object', settings.get(key));
  };
  const [types, structure] = [part('types'), part('structure')];
  const parameters = settings.record('parameters') ?? new Settings({}, settings.file);
  const routes = new Map<string, ModuleEntry[]>();
  for (const [route, ids] of structure.entries()) {
    if (!Array.isArray(ids)) throw structure.wrong(route, 'a list of modules', ids);
    const modules = ids.map((id: unknown): ModuleEntry => {
      const type = types.get(String(id));
      if (typeof type !== 'string' || !isInside(String(id)))
        throw structure.wrong(route, 'modules whose class `types` names', id);
      return { kind: type.split('.').at(-1)!, type, path: within + String(id) };
    });
    const nested = modules.find(isRouter);
    if (nested) throw structure.unsupported(route, 'modules other than Router', `'${nested.path}'`);
    routes.set(route, modules);
  }
  const first = [...routes.keys()][0];
  if (first === undefined) throw settings.wrong('structure', 'at least one route', {});
  const known = (key: string, route: unknown) => {
    if (typeof route === 'string' && routes.has(route)) return route;
    throw parameters.wrong(key, `one of the routes ${[...routes.keys()].join(', ')}`, route);
  };
  const given = parameters.get('default_route');
  const fallback = given === undefined ? null : known('default_route', given);
  const mappings = (parameters.record('route_mappings')?.entries() ?? []).flatMap(([key, route]) => {
    const pair = mappingOf(key);
    return pair ? [{ ...pair, route: known('route_mappings', route) }] : [];
  });
  const usesFirst = parameters.flag('allow_empty_key', true);
  return { entry, routes, mappings, fallback: fallback ?? (usesFirst ? first : null) };
}

/** Reads a key of `route_mappings`, such as "('query', 'text')" or "(None, ('image', 'text'))". Only texts matter. */
function mappingOf(key: string): { task: string | null; modality: string | null } | null {
  const found = /^\(\s*(None|'[^']*'|"[^"]*")\s*,\s*(None|'[^']*'|"[^"]*")\s*\)$/.exec(key);
  if (!found) return null;
  const [task, modality] = found.slice(1).map((part) => (part === 'None' ? null : part.slice(1, -1)));
  return modality === null || modality === 'text' ? { task: task!, modality: modality! } : null;
}

/** The route for texts with a task, as `Router._resolve_route`. */
function routeOf({ entry, routes, mappings, fallback }: Router, task: string | undefined): string {
  const priorities = [
    [task ?? null, 'text'],
    [task ?? null, null],
    [null, 'text'],
    [null, null],
  ] as const;
  for (const [wanted, modality] of priorities) {
    const mapping = mappings.find((each) => each.task === wanted && each.modality === modality);
    if (mapping) return mapping.route;
  }
  if (task !== undefined && routes.has(task)) return task;
  if (routes.has('text')) return 'text';
  if (task === undefined && fallback !== null) return fallback;
  throw noRoute(entry, [...routes.keys()], task);
}

function noRoute({ path }: ModuleEntry, routes: string[], task: string | undefined): HeedError {
  const where = path === '' ? '' : ` of '${path}'`;
  const got = task === undefined ? 'no task' : `'${task}'`;
  const hint = 'embedQuery and embedDocument name the tasks query and document';
  return invalid('task', `a task with a route${where}: ${routes.join(', ')}`, got, 'INVALID_ARGUMENT', { hint });
}
