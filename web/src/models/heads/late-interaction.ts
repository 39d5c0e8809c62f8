/**
 * Token vectors for late interaction (ColBERT: Khattab and Zaharia 2020, arXiv:2004.12832; ColBERTv2: Santhanam et al.
 * 2022, arXiv:2112.01488). Queries and documents are encoded as in PyLate's models/colbert.py and Stanford's
 * modeling/colbert.py.
 */
import { invalid, invalidFile } from '../../base/error.js';
import { texts as textsOption } from '../../base/options.js';
import { Tensor } from '../../base/tensor.js';
import type { RawLayers, RawTensor, RawTensorLayer } from '../../base/wasm/core.js';
import type { Settings } from '../../io/settings.js';
import type { OptionsOf } from '../call-options.js';
import type { SentenceConfig, VectorLayer } from '../families/sentence-transformers.js';
import { type InputContext, positionLimit, type Row, type RowSteps, requireFit } from '../input.js';
import { STANFORD } from '../load.js';
import type { EmbedTokensOptions, ModelConfig } from '../model.js';
import type { Parts } from '../parts.js';
import { normalized } from '../quantized.js';
import { type PieceOptions, type RunContext, runRows } from '../run.js';
import { STATIC } from '../static-embedding.js';
import { Chain, type HeadContext, makeDense } from './task-heads.js';

type Options = OptionsOf<'embedTokens'>;

/** The members of LocalModel that are used here. */
interface TokenModel {
  readonly raw: Parts;
  readonly config: ModelConfig;
  readonly sentence: SentenceConfig;
  readonly context: InputContext;
  readonly runContext: RunContext;
  readonly headContext: HeadContext;
  begin(method: 'embedTokens', options: object): [Options, PieceOptions];
  withSites(owner: string, read: Options, rows: RowSteps, options: PieceOptions): Promise<RowSteps>;
}

/** How queries, or documents, are encoded. */
interface Encoding {
  /** The token to insert after the first one; null: none. */
  prefix: string | null;
  /** The maximum number of tokens; longer texts are cut. */
  length: number;
  /** Whether texts are padded to `length` with mask tokens. */
  expands: boolean;
  /** Whether tokens attend to the padding. */
  attends: boolean;
  /** Ids of tokens whose vectors are left out of the result. */
  skipped: Set<number>;
}

/** Implements `PretrainedModel.embedTokens`. */
export async function embedTokens(
  model: TokenModel,
  texts: string | readonly string[],
  options: EmbedTokensOptions = {},
): Promise<Tensor[]> {
  const [read, pieceOptions] = model.begin('embedTokens', options);
  const given = textsOption(texts, 'texts');
  if (model.config.family === STATIC)
    throw invalid('embedTokens', 'a model with an encoder', 'static embeddings', 'UNSUPPORTED');
  if (read.textPairs) throw invalid('embedTokens.textPairs', 'undefined', 'texts', 'UNSUPPORTED');
  const list = typeof given === 'string' ? [given] : given;
  const encoding = encodingOf(model, read.promptName, read.maxLength);
  const layers = layersOf(model);
  const vectors: Tensor[] = [];
  const rows = rowsOf(model, list, encoding, read.truncation ?? true);
  await runRows(
    model.runContext,
    await model.withSites('embedTokens', read, rows, pieceOptions),
    list.length,
    read,
    pieceOptions,
    (piece) => ({
      use: (running) => {
        const hidden = running.hidden();
        const tokens = piece.reduce((sum, { ids }) => sum + ids.length, 0);
        const width = hidden.length / (tokens || 1);
        const { data, shape } = layers.forward({ data: hidden, shape: [tokens, width] });
        let at = 0;
        for (const { ids } of piece) {
          vectors.push(kept(ids, data, shape[1]!, at, encoding.skipped));
          at += ids.length;
        }
      },
    }),
  );
  return vectors;
}

/** The rows from `first` on, scaled to unit norm, without those of skipped tokens. */
function kept(ids: number[], data: Float32Array, width: number, first: number, skipped: Set<number>): Tensor {
  const rows = ids.flatMap((id, i) => (skipped.has(id) ? [] : [first + i]));
  const out = new Float32Array(rows.length * width);
  rows.forEach((row, i) => {
    out.set(normalized(data.subarray(row * width, (row + 1) * width)), i * width);
  });
  return new Tensor(out, [rows.length, width]);
}

function* rowsOf(
  { context, config }: TokenModel,
  texts: string[],
  { prefix, length, expands, attends }: Encoding,
  truncation: boolean,
): Generator<Row | null> {
  const { tokenizer } = context;
  if (!tokenizer) throw invalid('embedTokens', 'a model with tokenizer.json', 'a model without it', 'UNSUPPORTED');
  const idOf = (token: string) => {
    const id = tokenizer.idOf(token);
    if (id !== undefined) return id;
    throw invalidFile('tokenizer.json', `the token '${token}', which the ColBERT's settings name`, 'none');
  };
  const added = prefix === null ? [] : [idOf(prefix)];
  if (expands && config.maskToken === null)
    throw invalid(
      'embedTokens',
      'a tokenizer with a mask token to pad queries',
      'a tokenizer without one',
      'UNSUPPORTED',
    );
  for (const [n, text] of texts.entries()) {
    const { tokens, cut } = yield* tokenizer.tokenizing(text, undefined, length - added.length);
    const ids = tokens.map(({ id }) => id);
    ids.splice(1, 0, ...added);
    const special = () => tokenizer.specialCount(false) + added.length;
    requireFit(`texts[${n}]`, ids.length + cut, length, truncation, special);
    const own = ids.length;
    while (expands && ids.length < length) ids.push(idOf(config.maskToken!));
    const lists = { tokens: [], offsets: [], parts: [], columns: [] };
    const row: Row = { ids, types: null, positions: null, length: ids.length, ...lists, cut };
    if (expands && !attends) row.keyMask = ids.map((_, i) => (i < own ? 0 : -Infinity));
    yield row;
  }
}

/** The encoding of queries or documents according to the folder's settings. `maxLength`: the caller's option. */
function encodingOf(model: TokenModel, promptName: 'query' | 'document', maxLength: number | undefined): Encoding {
  const { context } = model;
  const limit = positionLimit(context.config);
  if (maxLength !== undefined && maxLength > limit)
    throw invalid('embedTokens.maxLength', `a whole number from 1 to ${limit}, the model's limit`, String(maxLength));
  const isQuery = promptName === 'query';
  const { prefix, expands, attends, words, ...own } = settingsOf(model, isQuery);
  const skipped = isQuery ? [] : words.map((word) => context.tokenizer?.idOf(word) ?? -1);
  const length = maxLength ?? Math.min(own.length, limit);
  return { prefix: prefix || null, expands: isQuery && expands, attends, length, skipped: new Set(skipped) };
}

function settingsOf(model: TokenModel, isQuery: boolean) {
  const settings = model.sentence.colbert;
  if (isStanford(model)) return stanfordSettings(settings!, isQuery);
  const isPyLate = settings?.get(settings.keyOf(['query_length', 'query_prefix'])) !== undefined;
  if (isPyLate) return pyLateSettings(settings!, isQuery);
  return { prefix: '', length: model.context.maxLength, expands: false, attends: true, words: [] };
}

const isStanford = ({ headContext }: TokenModel) => String(headContext.settings.get('architectures')) === STANFORD;

/** Python's string.punctuation. */
const PUNCTUATION = [...'!"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}~'];

/** Settings in config_sentence_transformers.json, with PyLate's defaults. */
function pyLateSettings(settings: Settings, isQuery: boolean) {
  const words = settings.get('skiplist_words') ?? PUNCTUATION;
  if (!Array.isArray(words) || words.some((word) => typeof word !== 'string'))
    throw settings.wrong('skiplist_words', 'a list of words', words);
  return {
    prefix: isQuery ? settings.text('query_prefix', '[Q] ') : settings.text('document_prefix', '[D] '),
    length: isQuery ? settings.count('query_length', 32, 1) : settings.count('document_length', 180, 1),
    expands: settings.flag('do_query_expansion', true),
    attends: settings.flag('attend_to_expansion_tokens', false),
    words: words as string[],
  };
}

/** Settings in artifact.metadata, with the defaults of Stanford's ColBERTConfig. */
function stanfordSettings(settings: Settings, isQuery: boolean) {
  return {
    prefix: isQuery ? settings.text('query_token_id', '[unused0]') : settings.text('doc_token_id', '[unused1]'),
    length: isQuery ? settings.count('query_maxlen', 32, 1) : settings.count('doc_maxlen', 220, 1),
    expands: true,
    attends: settings.flag('attend_to_mask_tokens', false),
    words: settings.flag('mask_punctuation', true) ? PUNCTUATION : [],
  };
}

/**
 * The layers that are applied to each token's hidden state: those of modules.json unless they follow a pooling, or
 * Stanford's `linear.weight`.
 */
function layersOf(model: TokenModel): Chain {
  const { raw, sentence, headContext } = model;
  if (sentence.layers.length > 0 && !sentence.pools) return raw.vectorLayers;
  const weight = headContext.tensors.get('linear.weight');
  if (!isStanford(model) || !weight) return Chain.of([]);
  const layer = { name: 'linear', weight, bias: undefined };
  const head = raw.heads.get('tokens') ?? { chain: Chain.of([() => makeDense(headContext.calls, layer, 'identity')]) };
  raw.heads.set('tokens', head);
  return head.chain;
}

/** Makes PyLate's Dense with `use_residual`: y = dense(x) + x, or y = dense(x) + x R^T if the widths differ. */
export async function withResidual(
  calls: RawLayers,
  { inFeatures, outFeatures }: VectorLayer,
  makeOwn: () => RawTensorLayer,
  readResidual: () => Promise<RawTensor[]>,
): Promise<() => RawTensorLayer> {
  const [weight] = inFeatures === outFeatures ? [] : await readResidual();
  const makeResidual = () => makeDense(calls, { name: 'residual', weight: weight!, bias: undefined }, 'identity');
  return () => {
    const { layers } = Chain.of(weight ? [makeOwn, makeResidual] : [makeOwn]);
    const [dense, residual] = layers as [RawTensorLayer, RawTensorLayer?];
    return {
      forward({ x }: { x: RawTensor }): RawTensor {
        const { data, shape } = dense.forward({ x });
        const added = (residual?.forward({ x }) ?? x).data;
        return { data: data.map((value, i) => value + added[i]!), shape };
      },
      delete() {
        dense.delete();
        residual?.delete();
      },
    } as RawTensorLayer;
  };
}
