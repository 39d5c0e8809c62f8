/** A pretrained encoder in this thread. Notation: N texts, L tokens of the longest text, E width, H heads. */

import { floatsOf, importing, invalid } from '../base/error.js';
import { makeYield } from '../base/event-loop.js';
import { type Read, type Reader, readOptions } from '../base/options.js';
import { Owned, type Runtime } from '../base/owned.js';
import { padRows } from '../base/padding.js';
import { inspected } from '../base/platform.js';
import { planSites, type SitePlan } from '../base/site-plan.js';
import { encoderSizes } from '../base/sites.js';
import { elementCount, Tensor } from '../base/tensor.js';
import type { RawEncoderModelConfig, RawRows, RawTensor } from '../base/wasm/core.js';
import { concatenate } from '../io/files.js';
import {
  callSchema,
  decodeIds,
  decodeSchema,
  embedSchema,
  encodeSchema,
  headMaskRows,
  predictSchema,
  requireTexts,
  tokenizeSchema,
} from './call-options.js';
import { type Device, onCore } from './device.js';
import { EncodeOutputs, listsOf, sitesOf } from './encode-outputs.js';
import { modelConfig, modelText, withoutImages } from './families/model-config.js';
import { type Pooling, promptOf, type SentenceConfig } from './families/sentence-transformers.js';
import { SparsePooling, type SparseVector } from './heads/sparse.js';
import {
  HEADS,
  type Head,
  type HeadContext,
  type HeadName,
  makeHead,
  makePooler,
  readHead,
} from './heads/task-heads.js';
import { vectorForm } from './heads/vector-layers.js';
import type {
  EmbedImageOptions,
  EncodeImageOptions,
  EncodeImageResult,
  ImageCalls,
  ImagesInput,
} from './image-encoder.js';
import {
  allRows,
  countTexts,
  type InputContext,
  isTexts,
  longest,
  type ModelInput,
  positionLimit,
  type Row,
  type RowOptions,
  type RowSteps,
  readInput,
  rowsOf,
} from './input.js';
import type { LoadedModel } from './load.js';
import type {
  EmbedCall,
  EmbedTokensOptions,
  EncodeCall,
  EncodeResultFor,
  ModelConfig,
  Prediction,
  PredictOptions,
  PretrainedModel,
  ScoreSpansOptions,
  SpanScores,
  TokenizeOptions,
  TokenizeResult,
} from './model.js';
import type { FetchRows } from './paged-embeddings.js';
import type { Parts } from './parts.js';
import { embedAs } from './prompts.js';
import { normalized, type VectorOutput, type VectorsOf, vectorsOf } from './quantized.js';
import {
  type DeviceLayers,
  type PieceHooks,
  type PieceOptions,
  piecesOf,
  poolRows,
  requireRows,
  rowsOfToken,
  runPiece,
} from './run.js';
import { STATIC } from './static-embedding.js';

/** A pretrained encoder in this thread. */
export class LocalModel extends Owned<Parts> implements PretrainedModel {
  /** @internal For messages and consoles, as minification renames classes. */
  static override readonly name: string = 'PretrainedModel';

  readonly config: ModelConfig;
  readonly workers = { count: 0, reason: 'the model runs in the calling thread; `workers` starts a pool' };
  readonly #core: RawEncoderModelConfig;
  readonly #fetchRows: FetchRows | null;
  /** @internal */
  readonly sentence: SentenceConfig;
  /** @internal */
  readonly context: InputContext;
  /** @internal */
  readonly headContext: HeadContext;
  /** @internal */
  readonly classPooling: Pooling;

  constructor(runtime: Runtime, loaded: LoadedModel, parts: Parts) {
    super('PretrainedModel', runtime, parts);
    const { config, settings, tokenizer, sentence, family, type, heads: tensors } = loaded;
    const { positionOffset, eps } = config;
    this.#core = config;
    this.#fetchRows = loaded.fetchRows;
    this.sentence = sentence;
    const maxLength = Math.min(positionLimit(config), tokenizer?.maxLength ?? Infinity, sentence.maxLength);
    const padId = settings.count('pad_token_id', Math.max(0, positionOffset - 1));
    this.context = { tokenizer, config, maxLength, padId };
    this.headContext = { core: runtime.core, calls: runtime.calls, tensors, settings, type, eps };
    this.classPooling = settings.get('classifier_pooling') === 'mean' ? 'mean' : 'cls';
    parts.pooler = makePooler(family.pooler, this.headContext);
    const parameterCount = parts.encoder.parameters().reduce((sum, { shape }) => sum + elementCount(shape), 0);
    this.config = modelConfig(loaded, maxLength, parameterCount);
  }

  get device(): Device {
    return this.raw.device?.about ?? onCore;
  }

  /** @internal */
  [inspected](): string {
    return modelText(this);
  }

  async encode<A extends boolean, S extends boolean, P extends boolean>(
    input: ModelInput,
    options: EncodeCall<A, S, P> = {},
  ): Promise<EncodeResultFor<A, S, P>> {
    const [read, pieceOptions] = this.begin('encode', encodeSchema, options);
    const given = readInput(input);
    if (this.config.family === STATIC)
      throw invalid('encode', 'a model with an encoder', 'static embeddings', 'UNSUPPORTED', {
        hint: 'They have vectors of texts only: use embed()',
      });
    const rows = await this.#allRows(given, read, pieceOptions);
    pieceOptions.sites = this.sites('encode', sitesOf(read), rows);
    pieceOptions.small = read.outputAttentions || read.outputHiddenStates;
    const outputs = new EncodeOutputs(rows, this.#core, read);
    await this.run(rows, rows.length, read, pieceOptions, (piece, first) => outputs.hooksOf(piece, first));
    return outputs.result(this.raw.pooler, pieceOptions.sites) as EncodeResultFor<A, S, P>;
  }

  async embed<O extends VectorOutput = 'float32'>(
    input: ModelInput,
    options: EmbedCall<O> = {},
  ): Promise<VectorsOf<O>> {
    const [read, pieceOptions] = this.begin('embed', embedSchema, options);
    const given = readInput(input);
    const { pooling, normalize, width } = vectorForm('embed', this.sentence, this.#core.embedDim, read);
    const prompt = this.prompt(read);
    requireTexts(given, read);
    const skipped = isTexts(given) ? this.tokensOf(prompt) : 0;
    const total = countTexts(given);
    const out = floatsOf('embed', [total, width]);
    const rows = this.#rows(given, { ...read, prompt }, true);
    const truncated: number[] = [];
    const tokens: number[] = [];
    const all = await this.withSites('embed', read, rows, pieceOptions);
    await this.run(all, total, read, pieceOptions, (piece, first) => ({
      pooling: { modes: pooling, skipped },
      use: (encoding) => {
        for (const { cut, ids } of piece) {
          truncated.push(cut);
          tokens.push(ids.length);
        }
        out.set(this.#vectors(encoding, piece, pooling, normalize, skipped, width).data, first * width);
      },
    }));
    return vectorsOf(new Tensor(out, [total, width]), read.output as O, { truncated, tokens });
  }

  embedQuery<O extends VectorOutput = 'float32'>(input: ModelInput, options?: EmbedCall<O>) {
    return embedAs<O>(this, 'query', input, options);
  }

  embedDocument<O extends VectorOutput = 'float32'>(input: ModelInput, options?: EmbedCall<O>) {
    return embedAs<O>(this, 'document', input, options);
  }

  async tokenize(input: ModelInput, options: TokenizeOptions = {}): Promise<TokenizeResult> {
    const [read, pieceOptions] = this.begin('tokenize', tokenizeSchema, options);
    const rows = await this.#allRows(readInput(input), { ...read, anyLength: true }, pieceOptions);
    return {
      inputIds: rows.map((row) => row.ids),
      ...listsOf(rows),
      parts: rows.map((row) => row.parts),
      tokenTypeIds: rows.map((row) => row.types ?? row.ids.map(() => 0)),
      attentionMask: rows.map((row) => row.ids.map(() => 1)),
    };
  }

  async predict(head: HeadName, input: ModelInput, options: PredictOptions = {}): Promise<Prediction> {
    const [read, pieceOptions] = this.begin('predict', predictSchema, options);
    const name = readHead(head, 'predict: head');
    const given = readInput(input);
    const kind = HEADS[name];
    const found = this.head(name);
    const { isTied, bias, takesVectors } = found;
    const { pooling, normalize } = this.sentence;
    const prompt = takesVectors ? this.prompt() : '';
    const skipped = isTexts(given) ? this.tokensOf(prompt) : 0;
    const rows = await this.#allRows(given, read, pieceOptions, prompt);
    pieceOptions.sites = this.sites('predict', read, rows);
    const { embedDim } = this.#core;
    const count = rows.length;
    const width = longest(rows);
    const masks: [number, number][] = [];
    const { maskToken } = this.config;
    const maskId = maskToken === null ? undefined : this.context.tokenizer!.idOf(maskToken);
    const parts: Float32Array[] = [];
    let labels = 0;
    /** The inputs of each kind of head. */
    const inputs = {
      pooled: (encoding: RawRows, piece: Row[]) =>
        takesVectors
          ? this.#vectors(encoding, piece, pooling, normalize, skipped)
          : poolRows(encoding, piece.length, embedDim, [this.classPooling]),
      tokens(encoding: RawRows) {
        const data = encoding.hidden();
        return { data, shape: [data.length / embedDim, embedDim] };
      },
      masks: (encoding: RawRows, piece: Row[], first: number) =>
        rowsOfToken(encoding.hidden(), piece, maskId, embedDim, (text, token) => masks.push([first + text, token])),
    };
    const modes = takesVectors ? pooling : [this.classPooling];
    await this.run(rows, count, read, pieceOptions, (piece, first) => ({
      ...(kind === 'pooled' && { pooling: { modes, skipped: takesVectors ? skipped : 0 } }),
      use: (encoding) => {
        const { data, shape } = this.#logits(found, inputs[kind](encoding, piece, first));
        labels = shape.at(-1)!;
        if (isTied && bias) for (let i = 0; i < data.length; i++) data[i]! += bias[i % labels] ?? 0;
        const padded = kind === 'tokens' ? new Float32Array(piece.length * width * labels) : data;
        if (kind === 'tokens') padRows(data, piece, width, labels, padded);
        parts.push(padded);
      },
    }));
    const shapes = { pooled: [count], tokens: [count, width], masks: [masks.length] };
    return {
      logits: new Tensor(concatenate(Float32Array, parts), [...shapes[kind], labels]),
      inputIds: rows.map((row) => row.ids),
      ...listsOf(rows),
      parts: rows.map((row) => row.parts),
      masks,
      ...(read.read && { activations: pieceOptions.sites!.activations() }),
    };
  }

  async embedSparse(input: ModelInput, options: PredictOptions = {}): Promise<SparseVector[]> {
    const [read, pieceOptions] = this.begin('embedSparse', callSchema, options);
    const given = readInput(input);
    const head = this.head('fill-mask');
    requireTexts(given, read);
    const { embedDim, vocabSize } = this.#core;
    const vectors: SparseVector[] = [];
    const rows = await this.withSites('embedSparse', read, rowsOf(given, read, this.context), pieceOptions);
    await this.run(rows, countTexts(given), read, pieceOptions, (piece) => ({
      use: (encoding) => {
        const hidden = encoding.hidden();
        let at = 0;
        for (const { ids } of piece) {
          const pooling = new SparsePooling(vocabSize, this.sentence.sparse);
          const rows = hidden.subarray(at, at + ids.length * embedDim);
          at += rows.length;
          pooling.addRows(rows, embedDim, head.isTied ? head.bias : undefined, (few) => this.#logits(head, few));
          vectors.push(pooling.vector());
        }
      },
    }));
    return vectors;
  }

  async embedTokens(texts: string | readonly string[], options?: EmbedTokensOptions): Promise<Tensor[]> {
    const { embedTokens } = await importing('late-interaction', () => import('./heads/late-interaction.js'));
    return embedTokens(this, texts, options);
  }

  async scoreSpans(
    texts: string | readonly string[],
    labels: readonly string[],
    options?: ScoreSpansOptions,
  ): Promise<SpanScores[]> {
    const { scoreSpans } = await importing('gliner', () => import('./heads/gliner.js'));
    return scoreSpans(this, texts, labels, options);
  }

  /** Applies a head. With a tied decoder, the logits lack its bias. */
  #logits({ chain, isTied }: Head, rows: RawTensor): RawTensor {
    const output = chain.forward(rows);
    return isTied ? this.raw.encoder.wordLogits(output) : output;
  }

  async embedImage(images: ImagesInput, options?: EmbedImageOptions): Promise<Tensor> {
    return this.#images('embedImage').embed(images, options, this.sentence.normalize, () => void this.raw);
  }

  embedImages(images: ImagesInput, options?: EmbedImageOptions): Promise<Tensor> {
    return this.embedImage(images, options);
  }

  async encodeImage(images: ImagesInput, options?: EncodeImageOptions): Promise<EncodeImageResult> {
    return this.#images('encodeImage').encode(images, options, () => void this.raw);
  }

  #images(owner: string): ImageCalls {
    const { images } = this.raw.encoder;
    if (images) return images;
    throw withoutImages(owner, this.config);
  }

  async decode(tokenIds: readonly number[], options?: { skipSpecialTokens?: boolean }): Promise<string> {
    void this.raw;
    const ids = decodeIds(tokenIds, 'decode: ids');
    const { skipSpecialTokens } = readOptions('decode', decodeSchema, options);
    const { tokenizer } = this.context;
    if (!tokenizer) throw invalid('decode', 'a model with tokenizer.json', 'one without it', 'UNSUPPORTED');
    return tokenizer.decode(ids, skipSpecialTokens);
  }

  /** @internal Reads the options of a call. Throws if the model has been disposed of or the signal has fired. */
  begin<S extends Record<string, Reader<unknown>> & typeof tokenizeSchema & { headMask?: Reader<RawTensor | null> }>(
    owner: string,
    schema: S,
    options: object,
  ): [Read<S>, PieceOptions] {
    void this.raw;
    const read = readOptions(owner, schema, options);
    const { signal, headMask = null } = read as Read<typeof callSchema>;
    return [read, { yieldToEventLoop: makeYield(signal), headMask: headMaskRows(headMask, this.#core), sites: null }];
  }

  /** @internal Runs rows in pieces. `hooksOf` returns the hooks for a piece, whose first text is `first`. */
  async run(
    rows: RowSteps,
    total: number,
    { onProgress, signal }: Pick<Read<typeof callSchema>, 'onProgress' | 'signal'>,
    options: PieceOptions,
    hooksOf: (piece: Row[], first: number) => PieceHooks,
  ): Promise<void> {
    let done = 0;
    const { sites } = options;
    const all = sites?.needsAll ? allRows(rows) : [];
    const run = async (piece: Row[], layers: DeviceLayers | null) => {
      requireRows(piece, this.context, done);
      await this.#fetchRows?.(piece, () => void this.raw, signal);
      const raw = sites?.raw(done, piece) ?? null;
      await runPiece(() => this.raw.encoder, this.#core, piece, { ...options, layers }, hooksOf(piece, done), raw);
      done += piece.length;
      onProgress?.({ done, total });
    };
    const { device } = this.raw;
    const budget = options.small || sites ? undefined : device?.maxRows;
    for (const piece of all.length > 0 ? [all] : piecesOf(rows, this.#core, budget)) {
      await options.yieldToEventLoop();
      if (!piece) continue;
      if (!device) await run(piece, null);
      else {
        const tokens = piece.reduce((sum, { ids }) => sum + ids.length, 0);
        await device.attempt('text', tokens, async (layers) => {
          // Pieces for a GPU are larger than those for WebAssembly.
          const parts = layers || all.length > 0 ? [piece] : piecesOf(piece, this.#core);
          for (const part of parts) if (part) await run(part, layers);
        });
      }
    }
  }

  /** @internal Plans the sites that a call with these rows reads and edits. */
  sites(owner: string, read: Parameters<typeof planSites>[0], rows: readonly Row[]): SitePlan | null {
    return planSites(read, () => {
      if (this.config.family === STATIC)
        throw invalid(owner, 'a model with an encoder for `read` and `edit`', 'static embeddings', 'UNSUPPORTED');
      const sizes = encoderSizes(this.#core, rows.length, longest(rows));
      return { owner, stacks: [{ numLayers: this.#core.numLayers, sizesOf: () => sizes }] };
    });
  }

  /** @internal The rows of a call. If there are edits, tokenizes all rows first. */
  async withSites(
    owner: string,
    read: Parameters<typeof planSites>[0],
    rows: RowSteps,
    options: PieceOptions,
  ): Promise<RowSteps> {
    if (!read.edit) return rows;
    const all = await collected(rows, options);
    options.sites = this.sites(owner, read, all);
    return all;
  }

  /** The vectors that `embed` returns, [N, width], cut to the first `width` entries. Default: all entries. */
  #vectors(
    encoding: RawRows,
    piece: Row[],
    pooling: readonly Pooling[],
    normalize: boolean,
    skipped: number,
    width?: number,
  ): RawTensor {
    const { data, shape } = this.raw.vectorLayers.forward(
      poolRows(encoding, piece.length, this.#core.embedDim, pooling, skipped),
    );
    const [count, full] = shape as [number, number];
    const kept = width ?? full;
    const out = new Float32Array(count * kept);
    for (let n = 0; n < count; n++) {
      const vector = data.subarray(n * full, n * full + kept);
      out.set(normalize ? normalized(vector) : vector, n * kept);
    }
    return { data: out, shape: [count, kept] };
  }

  /**
   * @internal The number of the prompt's tokens, including the special token before it, if the folder excludes the
   * prompt from pooling; otherwise 0.
   */
  tokensOf(prompt: string): number {
    const { tokenizer } = this.context;
    if (this.sentence.poolsPrompt || prompt === '' || !tokenizer) return 0;
    const { tokens } = tokenizer.tokenize(prompt, undefined, Infinity);
    return tokens.length - (tokens.at(-1)?.part === null ? 1 : 0);
  }

  /** The rows of an input as the model runs them. `isPooled`: only the pooled vectors are needed. */
  #rows(input: ModelInput, options: RowOptions, isPooled = false): RowSteps {
    const rows = rowsOf(input, options, this.context);
    return this.raw.encoder.textRows?.(rows, isTexts(input), isPooled) ?? rows;
  }

  async #allRows(input: ModelInput, options: RowOptions, pieceOptions: PieceOptions, prompt = ''): Promise<Row[]> {
    requireTexts(input, options);
    return collected(this.#rows(input, { ...options, prompt }), pieceOptions);
  }

  /** @internal */
  prompt(given: { prompt?: string | undefined; promptName?: string | undefined } = {}): string {
    return promptOf(this.sentence, given);
  }

  /** @internal */
  head(name: HeadName): Head {
    const { heads } = this.raw;
    const head = heads.get(name) ?? makeHead(name, this.headContext);
    if (head.isTied && this.#fetchRows)
      throw invalid('fromPretrained.embeddings', "'whole' for logits of words", "'paged'", 'UNSUPPORTED');
    heads.set(name, head);
    return head;
  }
}

/** Collects all rows. Yields to the event loop between texts and within long ones. */
async function collected(rows: RowSteps, { yieldToEventLoop }: PieceOptions): Promise<Row[]> {
  const all: Row[] = [];
  for (const row of rows) {
    if (row) all.push(row);
    await yieldToEventLoop();
  }
  return all;
}
