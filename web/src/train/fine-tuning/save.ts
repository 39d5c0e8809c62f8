/**
 * `model.save()`: writes a model's folder with its current weights, in the format of heed, transformers and
 * sentence-transformers.
 */
import { importing, invalid } from '../../base/error.js';
import type { RuntimeHub } from '../../base/hub-options.js';
import { flag, oneOf, optional, readOptions, type Schema, signal } from '../../base/options.js';
import type { SignalLike } from '../../base/platform.js';
import { openSafetensors } from '../../folders/onnx-tensors.js';
import { filesOf } from '../../io/file-record.js';
import { type ModelFolder, parseJson, readAll } from '../../io/files.js';
import { Integrity } from '../../io/integrity.js';
import { MODEL_FILES } from '../../io/list-files.js';
import { readTensors, writeSafetensors } from '../../io/safetensors.js';
import { Settings } from '../../io/settings.js';
import { type ModelSource, type RemoteOptions, withFolder } from '../../io/source.js';
import { textFamilyOf } from '../../models/families/families.js';
import { CLASSIFIER } from '../../models/families/sentence-transformers.js';
import { modelOf, scoreLayers } from '../../models/families/steps.js';
import { notAtRoot } from '../../models/model-files.js';
import type { LocalModel } from '../../models/pretrained.js';
import { STATIC } from '../../models/static-embedding.js';
import { openTable } from '../../models/static-table.js';
import { adapterFiles, json, type SavedFiles } from './adapter.js';
import { requireTrainable } from './encoder.js';
import { type Installed, installed } from './head.js';
import { requireNoTraining } from './training-call.js';
import { type Stored, WeightWriter, type Written } from './weight-writer.js';

/** Options of `save`. */
export interface SaveOptions {
  /**
   * The type of the stored weights. 'fp32': all in single precision. 'q8': matrices as int8 with one scale per row
   * (X.weight_scale), compressed-tensors' int-quantized layout. Default: unchanged tensors keep their type in the file,
   * and the others become single precision; if any tensor has changed, none is stored in int8. Unchanged tensors
   * in 2 to 4 bits keep these, except with 'fp32'.
   */
  dtype?: 'fp32' | 'q8' | undefined;
  /**
   * true: save only the LoRA adapters and the classifier trained with them, in PEFT's format. Layers of a family's
   * classifier are listed in `modules_to_save`; a classifier on sentence vectors is saved as `classifier.weight` and
   * `classifier.bias`, which PEFT ignores. Default false: save the whole folder, with the adapters added to the
   * weights.
   */
  adapter?: boolean | undefined;
  /**
   * true: save only the classifier on sentence vectors that `trainClassifier` has trained, as `head.safetensors`, some
   * kilobytes; `model.loadHead` reads it. Default false.
   */
  head?: boolean | undefined;
  /** An `AbortSignal` that stops the call, which then rejects with the reason of the signal. */
  signal?: SignalLike | undefined;
}

/** The source of a model. */
export interface Origin {
  readonly source: ModelSource;
  readonly hub: RuntimeHub;
  readonly options: RemoteOptions;
  /** Which weights were loaded. */
  readonly choice: { dtype?: string | undefined; weights?: string | undefined };
}

const schema = {
  dtype: optional(oneOf(['fp32', 'q8']), null),
  adapter: optional(flag, false),
  head: optional(flag, false),
  signal,
} satisfies Schema<SaveOptions>;

/** @internal See `Savable.save`. */
export async function save(
  model: LocalModel,
  { source, hub, options, choice }: Origin,
  given?: SaveOptions,
): Promise<SavedFiles> {
  const { dtype, adapter, head: headOnly, signal } = readOptions('save', schema, given);
  void model.raw; // throws after dispose()
  if (model.config.hasImageEncoder) throw invalid('save', 'a text model', `'${model.config.family}'`, 'UNSUPPORTED');
  requireNoTraining('save', model);
  if (headOnly) return headFiles(model, { dtype, adapter });
  if (adapter) return adapterFiles(requireTrainable('save.adapter', model, HEAD_ALONE));
  const { integrity, ...remote } = options;
  const from = { ...remote, hub, signal, integrity: new Integrity(integrity) };
  return withFolder(source, from, async (opened, signal) => {
    const folder = filesOf.get(model)?.requiring(opened) ?? opened;
    const files: SavedFiles = {};
    const copy = async (path: string) => {
      const file = await folder.open(path, { signal });
      if (file) files[path] = (await readAll(file)) as Uint8Array<ArrayBuffer>;
    };
    await Promise.all(MODEL_FILES.map(copy));
    const { modelFolder, steps, routes } = model.sentence;
    const { isStatic } = modelOf(steps);
    if (routes) throw invalid('save', 'a model without a Router', 'a model with one', 'UNSUPPORTED');
    const missing = ['config.json', 'tokenizer.json'].filter((name) => !files[name]);
    if ((isStatic || modelFolder) && missing.length > 0) throw notAtRoot('save', missing, modelFolder);
    const modules = files['modules.json'] ? modulesOf(files['modules.json']) : null;
    for (const { path } of modules ?? []) {
      if (path !== '' && path !== '.')
        await Promise.all(['config.json', 'model.safetensors'].map((file) => copy(`${path}/${file}`)));
    }
    const settings = Settings.parse(files['config.json']!, 'config.json');
    const stored = await readStored(folder, settings, choice, model.config.family === STATIC, signal);
    await folder.complete?.(signal);
    const encoder = await textFamilyOf(model.headContext.settings);
    const [layers, all] = [model.config.numLayers, encoder.config.numLayers];
    if (layers < all) throw invalid('save', 'a model with all of its layers', `${layers} of ${all}`, 'UNSUPPORTED');
    // No await from here on, so that all weights are from the same moment.
    requireNoTraining('save', model);
    const writer = new WeightWriter(model, encoder, stored, settings, dtype);
    files['model.safetensors'] = writer.bytes();
    writeLayers(files, writer);
    const head = installed.get(model);
    files['config.json'] = configOf(files['config.json']!, writer, head);
    if (head?.kind === 'sentence') {
      // The new classifier replaces the folder's modules that give scores.
      const old = scoreLayers(steps).map(({ path }) => path);
      addClassifier(
        files,
        modules?.filter(({ name, path }) => name === CLASSIFIER || !old.includes(path)) ?? null,
        head,
      );
    }
    filesOf.get(model)?.accept(files);
    return files;
  });
}

const HEAD_ALONE = '. A classifier alone, as `trainClassifier` trains it by default, is saved by save({ head: true })';

/** The file of the classifier alone. */
async function headFiles(model: LocalModel, others: { dtype: string | null; adapter: boolean }): Promise<SavedFiles> {
  if (others.dtype || others.adapter)
    throw invalid('save.head', 'no `dtype` and no `adapter` with it', others.adapter ? '`adapter`' : '`dtype`');
  const head = installed.get(model);
  if (head?.kind !== 'sentence')
    throw invalid(
      'save.head',
      'a classifier on sentence vectors, trained by trainClassifier',
      head ? "a classifier of the model's family" : 'a model without one',
      'UNSUPPORTED',
      { hint: head && "Train with head: 'sentence'" },
    );
  const [{ weight, bias }] = head.layers as [Installed['layers'][number]];
  const values = { weight: weight.data as Float32Array, bias: bias!.data as Float32Array };
  const { headFile } = await importing('text-head', () => import('../../models/heads/text-head.js'));
  return { 'head.safetensors': await headFile(model, { ...head, ...values }) };
}

/** Reads the tensors of all weight files, by name. */
async function readStored(
  folder: ModelFolder,
  settings: Settings,
  choice: Origin['choice'],
  isStatic: boolean,
  signal: SignalLike | undefined,
): Promise<Map<string, Stored>> {
  const all = new Map<string, Stored>();
  for (const open of (await openSafetensors(folder, settings, signal, '', choice)).files) {
    const opened = await open();
    const file = isStatic ? (await openTable(opened, null)).file : opened;
    for (const [name, tensor] of await readTensors(file)) all.set(name, tensor);
    signal?.throwIfAborted();
  }
  return all;
}

type Module = { idx?: unknown; name?: unknown; path: string; type: string };

function modulesOf(bytes: Uint8Array): Module[] {
  return parseJson(bytes, 'modules.json') as Module[]; // validated when the model was loaded
}

/** Writes the layers after the pooling, if they are among the model's parameters. */
function writeLayers(files: SavedFiles, { values }: WeightWriter): void {
  for (const path of Object.keys(files)) {
    const folder = /^(.+)\/model\.safetensors$/.exec(path)?.[1];
    if (folder === undefined) continue;
    const tensors = ['linear', 'norm'].flatMap((layer) =>
      ['weight', 'bias'].flatMap((part): Written[] => {
        const value = values.get(`${folder.replaceAll('/', '.')}.${layer}.${part}`)?.();
        return value ? [{ name: `${layer}.${part}`, dtype: 'F32', ...value }] : [];
      }),
    );
    if (tensors.length > 0) files[path] = writeSafetensors(tensors, { format: 'pt' });
  }
}

/** Returns config.json, unchanged unless the labels or the storage have changed. */
function configOf(bytes: Uint8Array<ArrayBuffer>, writer: WeightWriter, head: Installed | undefined) {
  const config = parseJson(bytes, 'config.json') as Record<string, unknown>;
  const changes: Record<string, unknown> = {};
  const { quantization } = writer;
  if (quantization && (quantization.config || config.quantization_config !== undefined))
    changes.quantization_config = quantization.config ?? undefined;
  if (head) {
    changes.id2label = Object.fromEntries(head.labels.map((label, i) => [i, label]));
    changes.label2id = Object.fromEntries(head.labels.map((label, i) => [label, i]));
    changes.problem_type = head.problemType;
  }
  return Object.keys(changes).length === 0 ? bytes : json({ ...config, ...changes });
}

const modulePath = (type: string) => `sentence_transformers.models.${type}`;

/** Adds the classifier as the last module: a Dense layer without activation, so that sentence-transformers' `encode` returns the logits. */
function addClassifier(files: SavedFiles, given: Module[] | null, { layers }: Installed): void {
  const [{ weight, bias }] = layers as [Installed['layers'][number]];
  const [outFeatures, inFeatures] = weight.shape as [number, number];
  const modules = given ?? [
    { idx: 0, name: '0', path: '', type: modulePath('Transformer') },
    { idx: 1, name: '1', path: '1_Pooling', type: modulePath('Pooling') },
  ];
  files['1_Pooling/config.json'] ??= json({ word_embedding_dimension: inFeatures, pooling_mode_mean_tokens: true });
  const others = modules.filter(({ name }) => name !== CLASSIFIER);
  const old = modules.find(({ name }) => name === CLASSIFIER);
  const path = old?.path ?? `${others.length}_Dense`;
  const module = { idx: others.length, name: CLASSIFIER, path, type: modulePath('Dense') };
  files['modules.json'] = json([...others, module]);
  files[`${path}/config.json`] = json({
    in_features: inFeatures,
    out_features: outFeatures,
    bias: true,
    activation_function: 'torch.nn.modules.linear.Identity',
  });
  const tensors = Object.entries({ weight, bias: bias! }).map(
    ([part, { shape, data }]): Written => ({ name: `linear.${part}`, dtype: 'F32', shape, data }),
  );
  files[`${path}/model.safetensors`] = writeSafetensors(tensors, { format: 'pt' });
}
