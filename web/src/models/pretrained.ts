/** A pretrained encoder in this thread. Notation: N texts, L tokens of the longest text, E width, H heads. */
import { floatsOf, importing, invalid } from '../base/error.js';
import { optional, readOptions, text } from '../base/options.js';
import { padHeads } from '../base/padding.js';
import { heldByCalls } from '../base/pending.js';
import { inspected } from '../base/platform.js';
import { Tensor } from '../base/tensor.js';
import type { RawRows, RawTensor } from '../base/wasm/core.js';
import { concatenate } from '../io/files.js';
import { decodeIds, decodeSchema, readCall, requireTexts } from './call-options.js';
import { type Device, onCore } from './device.js';
import { EncodeOutputs, listsOf, sitesOf } from './encode-outputs.js';
import { outputWidth } from './families/family.js';
import { modelText, refuseFormerNames, withoutImages } from './families/model-config.js';
import type { SentenceConfig } from './families/sentence-config.js';
import { promptOf } from './families/sentence-transformers.js';
import { isSparseTable, sparseIn } from './families/steps.js';
import { finishVectors, poolRows, rowsOfToken, skippedTokens, type VectorForm, vectorForm } from './heads/pooling.js';
import { largestEntries, SparsePooling, type SparseVector } from './heads/sparse.js';
import type { StepOptions, Values } from './heads/step-values.js';
import { HEADS, type Head, type HeadName, readHead } from './heads/task-heads.js';
import type {
  EmbedImageOptions,
  EncodeImageOptions,
  EncodeImageResult,
  ImageCalls,
  ImagesInput,
} from './image-encoder.js';
import { countTexts, longest, type ModelInput, type Row, readInput, rowsOf } from './input.js';
import type {
  DecodeOptions,
  EmbedCall,
  EmbedSparseCall,
  EmbedTokensOptions,
  EncodeCall,
  EncodeResultFor,
  Prediction,
  PredictOptions,
  PretrainedModel,
  ScoreSpansOptions,
  SpanScores,
  TextHead,
  TokenizeOptions,
  TokenizeResult,
} from './model.js';
import { embedAs, promptText, withPrompt } from './prompts.js';
import { type VectorOutput, type VectorsOf, vectorsOf } from './quantized.js';
import { runRows } from './run.js';
import { RunnableModel } from './runnable-model.js';
import { STATIC } from './static-embedding.js';

/** A pretrained encoder in this thread. */
export class LocalModel extends RunnableModel implements PretrainedModel {
  /** @internal For messages and consoles, as minification renames classes. */
  static override readonly name: string = 'PretrainedModel';

  readonly workers = { count: 0, reason: 'the model runs in the calling thread; `workers` starts a pool' };

  get dimensions(): number {
    return this.config.dimensions;
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
    const route = this.#route(options);
    if (route !== this) return route.encode(input, options);
    const [call, pieceOptions] = this.begin('encode', options);
    const given = readInput(input);
    if (this.config.family === STATIC)
      throw invalid('encode', 'a model with an encoder', 'static embeddings', 'UNSUPPORTED', {
        hint: 'They have vectors of texts only: use embed()',
      });
    const rows = await this.allRows(given, call, pieceOptions);
    pieceOptions.sites = this.sites('encode', sitesOf(call), rows);
    pieceOptions.small = call.outputAttentions || call.outputHiddenStates;
    const outputs = new EncodeOutputs(rows, this.encoderConfig, call);
    await runRows(this.runContext, rows, rows.length, call, pieceOptions, (piece, first) =>
      outputs.hooksOf(piece, first),
    );
    return outputs.result(this.raw.pooler, pieceOptions.sites) as EncodeResultFor<A, S, P>;
  }

  async embed<O extends VectorOutput = 'float32'>(
    input: ModelInput,
    options: EmbedCall<O> = {},
  ): Promise<VectorsOf<O>> {
    const route = this.#route(options);
    if (route !== this) return route.embed(input, options);
    const [call, pieceOptions] = this.begin('embed', options);
    if (isSparseTable(this.sentence)) {
      const hint = 'Use embedSparse()';
      throw invalid('embed', 'a model of dense vectors', 'weights of tokens', 'UNSUPPORTED', { hint });
    }
    const given = readInput(input);
    requireTexts(given, call);
    const form = vectorForm('embed', this.sentence, this.encoderConfig, call);
    const prompt = promptOf(this.sentence, call);
    const skipped = skippedTokens(given, prompt, call, this.sentence, this.context);
    const total = countTexts(given);
    const out = floatsOf('embed', [total, form.width]);
    const truncated: number[] = [];
    const tokens: number[] = [];
    const rows = await this.withSites('embed', call, this.rows(given, { ...call, prompt }, true), pieceOptions);
    const { steps } = this.raw;
    if (steps.readsStates) pieceOptions.small = true;
    await runRows(this.runContext, rows, total, call, pieceOptions, (piece, first) =>
      steps.hooks(piece, stepOptions(form, skipped), (values) => {
        for (const { cut, ids } of piece) {
          truncated.push(cut);
          tokens.push(ids.length);
        }
        out.set(finishVectors(steps.run(values), form).data, first * form.width);
      }),
    );
    return vectorsOf(new Tensor(out, [total, form.width]), call.output as O, { truncated, tokens });
  }

  embedQuery<O extends VectorOutput = 'float32'>(input: ModelInput, options?: EmbedCall<O>) {
    return embedAs<O>(this, 'query', input, options);
  }

  embedDocument<O extends VectorOutput = 'float32'>(input: ModelInput, options?: EmbedCall<O>) {
    return embedAs<O>(this, 'document', input, options);
  }

  async tokenize(input: ModelInput, options: TokenizeOptions = {}): Promise<TokenizeResult> {
    const route = this.#route(options);
    if (route !== this) return route.tokenize(input, options);
    const [call, pieceOptions] = this.begin('tokenize', options);
    const rows = await this.allRows(readInput(input), { ...call, anyLength: true }, pieceOptions);
    return {
      inputIds: rows.map(({ given, ids }) => (given ?? { ids }).ids),
      ...listsOf(rows),
      parts: rows.map((row) => row.parts),
      tokenTypeIds: rows.map((row) => (row.given ?? row).types ?? row.tokens.map(() => 0)),
      attentionMask: rows.map((row) => row.given?.mask ?? row.ids.map(() => 1)),
    };
  }

  async predict(head: HeadName, input: ModelInput, options: PredictOptions = {}): Promise<Prediction> {
    const route = this.#route(options);
    if (route !== this) return route.predict(head, input, options);
    const [call, pieceOptions] = this.begin('predict', options);
    const name = readHead(head, 'predict: head');
    const given = readInput(input);
    const kind = HEADS[name];
    const found = this.head(name);
    const { isTied, bias, takesVectors, poolsLogits } = found;
    const form = vectorForm('predict', this.sentence, this.encoderConfig);
    // A cross-encoder's prompt precedes its queries, as in sentence-transformers.
    const isScored = name === 'sequence-classification';
    const prompt = isScored ? promptOf(this.sentence, call) : '';
    const skipped = takesVectors ? skippedTokens(given, prompt, call, this.sentence, this.context) : 0;
    const rows = await this.allRows(given, call, pieceOptions, prompt);
    pieceOptions.sites = this.sites('predict', call, rows);
    const embedDim = outputWidth(this.encoderConfig);
    const count = rows.length;
    const width = longest(rows);
    const masks: [number, number][] = [];
    const { maskToken } = this.config;
    const maskId = maskToken === null ? undefined : this.context.tokenizer!.idOf(maskToken);
    const parts: Float32Array[] = [];
    let labels = 0;
    const classPooling = found.pooling ?? this.classPooling;
    /** The inputs of each kind of head. */
    const inputs = {
      pooled: (encoding: RawRows, piece: Row[]) => poolRows(encoding, piece.length, embedDim, [classPooling]),
      tokens(encoding: RawRows) {
        const data = encoding.hidden();
        return { data, shape: [data.length / embedDim, embedDim] };
      },
      masks: (encoding: RawRows, piece: Row[], first: number) =>
        rowsOfToken(encoding.hidden(), piece, maskId, embedDim, (text, token) =>
          masks.push([first + text, piece[text]!.columns[token]!]),
        ),
    };
    const { steps } = this.raw;
    const use = (input: RawTensor, piece: Row[]) => {
      const { data, shape } = this.#logits(found, input);
      labels = shape.at(-1)!;
      if (isTied && bias) for (let i = 0; i < data.length; i++) data[i]! += bias[i % labels] ?? 0;
      const padded = kind === 'tokens' ? new Float32Array(piece.length * width * labels) : data;
      if (kind === 'tokens') padHeads(data, piece, width, 1, labels, padded);
      parts.push(poolsLogits ? meanRows(data, piece, labels) : padded);
    };
    const running = kind === 'pooled' && !found.pooling && !takesVectors ? this.#withoutPadding(rows) : rows;
    await runRows(this.runContext, running, count, call, pieceOptions, (piece, first) => {
      const run = (values: Values) => use(steps.run(values, found.value, found.steps), piece);
      if (takesVectors) return steps.hooks(piece, stepOptions(form, skipped, false), run);
      return {
        ...(kind === 'pooled' && !poolsLogits && { pooling: { modes: [classPooling], skipped: 0 } }),
        use: (encoding) => use(inputs[poolsLogits ? 'tokens' : kind](encoding, piece, first), piece),
      };
    });
    const shapes = { pooled: [count], tokens: [count, width], masks: [masks.length] };
    return {
      logits: new Tensor(concatenate(Float32Array, parts), [...shapes[kind], labels]),
      inputIds: rows.map(({ given, ids }) => (given ?? { ids }).ids),
      ...listsOf(rows),
      parts: rows.map((row) => row.parts),
      masks,
      ...(call.read && { activations: pieceOptions.sites!.activations() }),
    };
  }

  /**
   * The rows without padding tokens at the end, if a decoder's classifier reads the last token: transformers takes the
   * last one that is not `pad_token_id`, also if the text contains it.
   */
  #withoutPadding(rows: Row[]): Row[] {
    const pad = this.headContext.settings.get('pad_token_id');
    if (this.classPooling !== 'last' || typeof pad !== 'number' || !this.encoderConfig.causal) return rows;
    return rows.map((row) => {
      let count = row.ids.length;
      while (count > 0 && row.ids[count - 1] === pad) count--;
      if (count === row.ids.length) return row;
      const keep = Math.max(1, count);
      const cut = <T>(list: T[] | null) => list?.slice(0, keep) ?? null;
      return { ...row, ids: row.ids.slice(0, keep), types: cut(row.types), positions: cut(row.positions) };
    });
  }

  async embedSparse(input: ModelInput, options: EmbedSparseCall = {}): Promise<SparseVector[]> {
    const [{ promptName, ...call }, pieceOptions] = this.begin('embedSparse', options);
    const route = this.#route({ task: promptName });
    if (route !== this) return route.embedSparse(input, options);
    const given = readInput(input);
    const { steps } = this.raw;
    const { encode = null } = steps.sparse ?? {};
    const head = encode ? null : this.head('fill-mask');
    requireTexts(given, options);
    const { prompts } = this.config;
    const prompt = promptName ? promptText(prompts, withPrompt(prompts, promptName, {})) : promptOf(this.sentence);
    const limit = maxActiveDims(this.sentence);
    const vectors: SparseVector[] = [];
    const rowOptions = { ...call, prompt, task: promptName };
    const rows = await this.withSites('embedSparse', call, rowsOf(given, rowOptions, this.context), pieceOptions);
    const finish = (found: readonly SparseVector[], piece: readonly Row[]) => {
      for (const [n, { ids }] of piece.entries())
        vectors.push(largestEntries(steps.sparse?.finish(found[n]!, ids) ?? found[n]!, limit));
    };
    const form = vectorForm('embedSparse', this.sentence, this.encoderConfig);
    const skipped = skippedTokens(given, prompt, call, this.sentence, this.context);
    if (steps.readsStates) pieceOptions.small = true;
    await runRows(this.runContext, rows, countTexts(given), call, pieceOptions, (piece) => {
      if (head) return { use: (encoding) => finish(this.#splade(head, encoding.hidden(), piece), piece) };
      return steps.hooks(piece, stepOptions(form, skipped, false), (values) =>
        finish(
          encode!(values, () => steps.run(values)),
          piece,
        ),
      );
    });
    return vectors;
  }

  /** The sparse vectors of the hidden states of a piece of texts. */
  #splade(head: Head, hidden: Float32Array, piece: readonly Row[]): SparseVector[] {
    const { vocabSize } = this.encoderConfig;
    const embedDim = outputWidth(this.encoderConfig);
    let at = 0;
    return piece.map(({ ids }) => {
      const pooling = new SparsePooling(vocabSize, sparseIn(this.sentence.steps));
      const rows = hidden.subarray(at, at + ids.length * embedDim);
      at += rows.length;
      pooling.addRows(rows, embedDim, head.isTied ? head.bias : undefined, (few) => this.#logits(head, few));
      return pooling.vector();
    });
  }

  /** The model of the chain of modules for the task, if the folder has a Router. */
  #route(options: { task?: string | undefined }): LocalModel {
    const { routes } = this.sentence;
    if (!routes) return this;
    const task = optional(text, undefined)(options.task, 'task');
    const chain = routes.of(task);
    return chain === 0 ? this : (this.raw.routes as readonly LocalModel[])[chain - 1]!;
  }

  async embedTokens(texts: string | readonly string[], options?: EmbedTokensOptions): Promise<Tensor[]> {
    const { embedTokens } = await importing('late-interaction', () => import('./heads/late-interaction.js'));
    const { promptName: task = 'document' } = readCall('embedTokens', options);
    return embedTokens(this.#route({ task }), texts, options);
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

  async embedImages(images: ImagesInput, options?: EmbedImageOptions): Promise<Tensor> {
    return this.#images('embedImages').embed(images, options, this.config.normalize, () => void this.raw);
  }

  async encodeImage(images: ImagesInput, options?: EncodeImageOptions): Promise<EncodeImageResult> {
    return this.#images('encodeImage').encode(images, options, () => void this.raw);
  }

  #images(owner: string): ImageCalls {
    const { images } = this.raw.encoder;
    if (images) return images;
    throw withoutImages(owner, this.config);
  }

  async loadHead(file: ArrayBufferLike | ArrayBufferView): Promise<TextHead> {
    void this.raw;
    return (await importing('text-head', () => import('./heads/text-head.js'))).readHead(this, file);
  }

  async decode(tokenIds: readonly number[], options?: DecodeOptions): Promise<string> {
    void this.raw;
    const ids = decodeIds(tokenIds, 'decode: ids');
    const { skipSpecialTokens, cleanUpTokenizationSpaces } = readOptions('decode', decodeSchema, options);
    const { tokenizer } = this.context;
    if (!tokenizer) throw invalid('decode', 'a model with tokenizer.json', 'a model without it', 'UNSUPPORTED');
    return tokenizer.decode(ids, skipSpecialTokens, cleanUpTokenizationSpaces);
  }
}

refuseFormerNames(LocalModel.prototype);
heldByCalls(LocalModel.prototype);

/** The number of entries of a sparse vector that the folder keeps. */
function maxActiveDims({ general }: SentenceConfig): number {
  const key = 'max_active_dims';
  return general?.get(key) === undefined ? Infinity : general.count(key, undefined, 1);
}

/** The options of the steps for vectors of this form. The last normalization follows the cut to `form.width`. */
function stepOptions({ pooling }: Pick<VectorForm, 'pooling'>, skipped: number, unnormalized = true): StepOptions {
  return { pooling, skipped, unnormalized };
}

/** The means of each text's rows of `data` (tokens, width), without those of masked tokens. */
function meanRows(data: Float32Array, piece: readonly Row[], width: number): Float32Array {
  const means = new Float32Array(piece.length * width);
  let at = 0;
  for (const [n, { ids, keyMask }] of piece.entries()) {
    const sums = new Float64Array(width);
    let count = 0;
    for (let i = 0; i < ids.length; i++, at += width) {
      if (keyMask && keyMask[i] !== 0) continue;
      for (let k = 0; k < width; k++) sums[k]! += data[at + k]!;
      count++;
    }
    means.set(
      sums.map((sum) => sum / count),
      n * width,
    );
  }
  return means;
}
