/**
 * Writes a model's folder without the vocabulary rows that a corpus does not need; see docs/quantization.md. Imported
 * on demand.
 */
import { invalid } from '../base/error.js';
import { makeYield } from '../base/event-loop.js';
import { optional, readOptions, type Schema, size } from '../base/options.js';
import type { Runtime } from '../base/owned.js';
import { listFiles } from '../io/list-files.js';
import { Settings } from '../io/settings.js';
import type { ModelSource } from '../io/source.js';
import { familyOf } from '../loading/family-of.js';
import { loadPretrained } from '../loading/load-pretrained.js';
import { parameterRowsOf, textFamilyOf } from '../models/families/families.js';
import { openWeights } from '../models/families/weight-files.js';
import { bareName, POSITION_TABLE, WORD_TABLE, withoutScale } from '../models/families/weights.js';
import { LAYOUTS } from '../models/heads/task-heads.js';
import { positionLimit } from '../models/input.js';
import type { LocalModel } from '../models/pretrained.js';
import { PROBE } from '../models/probe.js';
import { STATIC } from '../models/static-embedding.js';
import { openTable } from '../models/static-table.js';
import type { Token } from '../text/tokenizer.js';
import { lossOf, type VectorSimilarity } from './folder-loss.js';
import { folderWriter } from './folder-writer.js';
import { prunedConfig, prunedTokenizerConfig, shortened, unlike, Vocabulary } from './prune-tokenizer.js';
import {
  openOriginal,
  type PlannedTensor,
  planWeights,
  type RewriteOptions,
  type RewriteReport,
  type Rewritten,
  rewriteSchema,
  textList,
  writeFolder,
} from './rewrite.js';

/** Options of `prune`. */
export interface PruneOptions extends RewriteOptions {
  /** The corpus: at least one text. The vectors of these texts stay identical, bit for bit. */
  keep: readonly string[];
  /** Entries of the vocabulary to keep besides those that the corpus needs. Default: none. */
  tokens?: readonly string[] | undefined;
  /**
   * The number of positions to keep, which limits the tokens of a text. For models with a table of position embeddings.
   * Default: all.
   */
  positions?: number | undefined;
  /** Other texts, for which the report measures the accuracy loss. Default: none. */
  texts?: readonly string[] | undefined;
}

/** The accuracy loss for texts outside the corpus. */
export interface PruneLoss extends VectorSimilarity {
  /** The fraction of unknown tokens among the texts' tokens, before and after. */
  unknown: { before: number; after: number };
}

/** What `prune` has changed. */
export interface PruneReport extends RewriteReport {
  /** The number of rows of the token embeddings, before and after. */
  rows: { before: number; after: number };
  /**
   * Files that were not written: vocabularies for other programs, which no longer match, and weights in other formats.
   */
  leftOut: string[];
  /** null if `texts` was not given. */
  loss: PruneLoss | null;
}

/** What `prune` returns. */
export type Pruned = Rewritten<PruneReport>;

const schema = {
  keep: textList,
  tokens: optional(textList, []),
  positions: optional(size, null),
  ...rewriteSchema,
} satisfies Schema<PruneOptions>;

/** Vocabulary files of slow tokenizers, superseded by tokenizer.json. */
const OTHER_VOCABULARY = /^(vocab\.(txt|json)|merges\.txt|added_tokens\.json|[^/]*\.(model|spm))$/;

/** The number of texts whose vectors are compared at a time. */
const BLOCK = 64;

/** Implements `Heed.prune`. */
export async function prune(runtime: Runtime, source: ModelSource, options: PruneOptions): Promise<Pruned> {
  const given = readOptions('prune', schema, options ?? {});
  const { keep, tokens, positions, texts, out, onProgress, signal, ...remote } = given;
  if (keep.length === 0) throw invalid('prune.keep', 'at least one text', 'none');
  if (texts?.length === 0) throw invalid('prune.texts', 'at least one text', 'none');
  const yieldToEventLoop = makeYield(signal);
  const { integrity, open, folder, settings, tokenizerFile } = await openOriginal(runtime, source, remote, signal);
  const isStatic = settings.get('model_type') === STATIC;
  const { family, gliner, config } = isStatic ? {} : await familyOf(settings);
  if (gliner) throw invalid('source', 'a folder with config.json', 'a GLiNER folder', 'UNSUPPORTED');
  if (family?.images)
    throw settings.unsupported('model_type', 'a family that encodes texts only', `'${settings.get('model_type')}'`);
  if (config?.adapterTasks)
    throw invalid('source', 'a model without adapters of tasks', `${config.adapterTasks} tasks`, 'UNSUPPORTED');
  if (!tokenizerFile) throw invalid('source', 'a folder with tokenizer.json', 'a folder without it', 'UNSUPPORTED');
  const tokenizerSettings = await Settings.read(tokenizerFile);
  const { paths, others } = await listFiles(source, folder);
  const writer = await folderWriter(out);
  const models: LocalModel[] = [];
  try {
    const original = (await loadPretrained(runtime, source, { signal }, await open())) as LocalModel;
    models.push(original);
    const { vocabSize } = original.config;
    const vocabulary = new Vocabulary(tokenizerSettings); // the tokenizer has already validated these settings
    // PROBE is the text by which indexes recognize their model.
    const kept = await keptIds(original, vocabulary, [...keep, PROBE], tokens, settings, yieldToEventLoop);
    const newIds = new Map(kept.map((id, row) => [id, row]));
    const planned = await planOf(folder, settings, vocabSize, kept, signal, keptPositions(original, keep, positions));
    const leftOut = paths.filter((path) => OTHER_VOCABULARY.test(path));
    const rewritten = (path: string, bytes: Uint8Array) => {
      const values = () => Object.fromEntries(Settings.parse(bytes, path).entries());
      const asJson = (value: object) => new TextEncoder().encode(`${JSON.stringify(value, null, 2)}\n`);
      if (path === 'tokenizer.json') return new TextEncoder().encode(vocabulary.pruned(newIds));
      if (path === 'tokenizer_config.json')
        return asJson(shortened({ ...values(), ...prunedTokenizerConfig(values(), newIds) }, positions));
      if (path === 'sentence_bert_config.json' && positions !== null) return asJson(shortened(values(), positions));
      if (path === 'config.json')
        return asJson({
          ...prunedConfig(Object.fromEntries(settings.entries()), newIds), // not the file's: see `untied` in rewrite.ts
          ...(positions !== null && {
            max_position_embeddings: positions + original.context.config.positionOffset,
          }),
        });
      return leftOut.includes(path) ? null : bytes;
    };
    const run = { onProgress, signal, yieldToEventLoop };
    const written = await writeFolder(writer, folder, paths, planned, rewritten, run);
    integrity.requireAllFound();
    const model = (await loadPretrained(runtime, writer.source, { signal })) as LocalModel;
    models.push(model);
    await requireSame(original, model, keep, newIds, run);
    const report: PruneReport = {
      rows: { before: vocabSize, after: kept.length },
      ...written,
      leftOut: [...leftOut, ...others],
      loss: texts && {
        ...lossOf(texts, await original.embed(texts, { signal }), await model.embed(texts, { signal })),
        unknown: {
          before: unknownShare(original, texts, vocabulary.unknownId),
          after: unknownShare(model, texts, newIds.get(vocabulary.unknownId ?? -1)),
        },
      },
    };
    await folder.complete?.(signal);
    return { files: await writer.commit(), report };
  } catch (error) {
    await writer.abort();
    if (await folder.failed?.(error)) return await prune(runtime, source, { ...options, refresh: true });
    throw signal?.aborted ? signal.reason : error;
  } finally {
    for (const each of models) each.dispose();
  }
}

/** All tokens of a text of any length. */
function tokensOf({ context }: LocalModel, given: string): Token[] {
  return context.tokenizer!.tokenize(given, undefined, Infinity).tokens;
}

/** The text without a prompt and with each of the folder's prompts. */
function promptedTexts({ sentence }: LocalModel, given: string): string[] {
  return [given, ...Object.values(sentence.prompts).map((prompt) => prompt + given)];
}

/**
 * The rows of the position table to keep; null for all.
 * @throws HeedError INVALID_ARGUMENT for more positions than there are, or fewer than a text of the corpus needs
 */
function keptPositions(model: LocalModel, texts: readonly string[], positions: number | null): number[] | null {
  if (positions === null) return null;
  const { config } = model.context;
  const limit = positionLimit(config);
  const length = (prompted: string) => Math.min(tokensOf(model, prompted).length, model.config.maxLength);
  const longest = texts.flatMap((given) => promptedTexts(model, given)).reduce((max, t) => Math.max(max, length(t)), 1);
  if (positions < longest || positions > limit)
    throw invalid('prune.positions', `${longest} (the tokens of a text in \`keep\`) to ${limit}`, `${positions}`);
  return Array.from({ length: config.positionOffset + positions }, (_, row) => row);
}

/** The ids to keep, in ascending order. */
async function keptIds(
  model: LocalModel,
  vocabulary: Vocabulary,
  texts: readonly string[],
  tokens: readonly string[],
  settings: Settings,
  yieldToEventLoop: () => Promise<void>,
): Promise<number[]> {
  const { config } = model.context;
  const ids = new Set<number>();
  const unknown = new Set<string>();
  for (const given of texts) {
    await yieldToEventLoop();
    for (const prompted of promptedTexts(model, given))
      for (const { id, start, end, part } of tokensOf(model, prompted)) {
        ids.add(id);
        if (id === vocabulary.unknownId && part === 0) unknown.add(prompted.slice(start, end));
      }
  }
  for (const [key, value] of settings.entries())
    if (key.endsWith('_token_id')) for (const id of [value].flat()) if (typeof id === 'number') ids.add(id);
  // Keep the tokens that a ColBERT's settings name.
  for (const [, value] of model.sentence.general?.entries() ?? [])
    for (const token of [value].flat()) ids.add(vocabulary.idOf(String(token)) ?? -1);
  for (const [n, token] of tokens.entries()) {
    const id = vocabulary.idOf(token);
    if (id === undefined) throw invalid(`prune.tokens[${n}]`, 'an entry of the vocabulary', `'${token.slice(0, 40)}'`);
    ids.add(id);
  }
  vocabulary.complete(ids, unknown);
  // Position ids begin after the padding token's id, so keep that and smaller ids.
  if (config.positionOffset > 0) for (let id = 0; id < config.positionOffset; id++) ids.add(id);
  return [...ids].filter((id) => id >= 0 && id < config.vocabSize).sort((a, b) => a - b);
}

async function planOf(
  folder: Parameters<typeof planWeights>[0],
  settings: Settings,
  vocabSize: number,
  kept: readonly number[],
  signal: PruneOptions['signal'],
  positions: readonly number[] | null,
) {
  let ownSettings = settings;
  const isStatic = settings.get('model_type') === STATIC;
  if (isStatic) {
    const { files } = await openWeights(folder, signal);
    const table = await openTable(await files[0]!(), settings);
    await table.close();
    ownSettings = table.settings;
  }
  const { type, family, config } = await textFamilyOf(ownSettings);
  const rows = parameterRowsOf(family, config);
  const { decoder = 'lm_head' } = Object.hasOwn(LAYOUTS, type) ? LAYOUTS[type]! : {};
  const decoders = [`${decoder}.weight`, `${decoder}.bias`, `${decoder.replace(/\.?decoder$/, '')}.bias`];
  if (positions && ![...rows.values()].some(({ parameter }) => parameter === POSITION_TABLE)) {
    const expected = 'undefined for a model without a table of position embeddings';
    throw invalid('prune.positions', expected, `${positions.length}`, 'UNSUPPORTED');
  }
  return planWeights(folder, settings, signal, (entry, _, names): PlannedTensor => {
    const bare = bareName(withoutScale(entry.name), family.prefix);
    const parameter = rows.get(bare)?.parameter;
    if (positions && parameter === POSITION_TABLE)
      return { entry, form: 'copy', table: false, parameter: null, kept: positions };
    const isTable = parameter === WORD_TABLE;
    // In a static embedding with a quantized vocabulary, `mapping` has one entry per token, instead of the table one
    // row.
    const isMapped = isStatic && names.has('mapping');
    const isVocabulary =
      (isTable && !isMapped) || decoders.includes(bare) || (isStatic && /^(mapping|weights)$/.test(entry.name));
    const isPruned = isVocabulary && entry.shape[0] === vocabSize;
    return { entry, form: 'copy', table: false, parameter: null, kept: isPruned ? kept : null };
  });
}

/** @throws HeedError UNSUPPORTED if a text is tokenized differently or has a different vector */
async function requireSame(
  before: LocalModel,
  after: LocalModel,
  texts: readonly string[],
  newIds: ReadonlyMap<number, number>,
  { signal, yieldToEventLoop }: { signal: PruneOptions['signal']; yieldToEventLoop: () => Promise<void> },
): Promise<void> {
  for (let first = 0; first < texts.length; first += BLOCK) {
    const block = texts.slice(first, first + BLOCK);
    for (const [n, given] of block.entries()) {
      await yieldToEventLoop();
      for (const prompted of promptedTexts(before, given)) {
        const expected = tokensOf(before, prompted).map(({ id }) => newIds.get(id));
        const got = tokensOf(after, prompted).map(({ id }) => id);
        if (String(got) !== String(expected)) throw unlike(first + n, 'tokens');
      }
    }
    const [a, b] = [await before.embed(block, { signal }), await after.embed(block, { signal })];
    const width = a.shape[1]!;
    const [x, y] = [a, b].map(({ data }) => new Uint32Array(data.buffer)) as [Uint32Array, Uint32Array];
    const at = x.findIndex((bits, i) => bits !== y[i]);
    if (at >= 0 || x.length !== y.length) throw unlike(first + Math.floor(Math.max(0, at) / width), 'vector');
  }
}

/** The fraction of unknown tokens among the texts' tokens, not counting special tokens. */
function unknownShare(model: LocalModel, texts: readonly string[], unknownId: number | undefined): number {
  const own = texts.flatMap((given) => tokensOf(model, given).filter(({ part }) => part === 0));
  return own.filter(({ id }) => id === unknownId).length / (own.length || 1);
}
