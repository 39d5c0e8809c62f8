/** A pretrained encoder in this thread. Notation: N texts, L tokens of the longest text, E width, H heads. */
import { floatsOf, importing, invalid } from '../base/error.js';
import { readOptions } from '../base/options.js';
import { padRows } from '../base/padding.js';
import { heldByCalls } from '../base/pending.js';
import { inspected } from '../base/platform.js';
import { Tensor } from '../base/tensor.js';
import type { RawRows, RawTensor } from '../base/wasm/core.js';
import { concatenate } from '../io/files.js';
import { decodeIds, decodeSchema, requireTexts } from './call-options.js';
import { type Device, onCore } from './device.js';
import { EncodeOutputs, listsOf, sitesOf } from './encode-outputs.js';
import { modelText, withoutImages } from './families/model-config.js';
import { promptOf } from './families/sentence-transformers.js';
import { finishVectors, poolRows, rowsOfToken, skippedTokens, type VectorForm, vectorForm } from './heads/pooling.js';
import { SparsePooling, type SparseVector } from './heads/sparse.js';
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
  EmbedCall,
  EmbedTokensOptions,
  EncodeCall,
  EncodeResultFor,
  Prediction,
  PredictOptions,
  PretrainedModel,
  ScoreSpansOptions,
  SpanScores,
  TokenizeOptions,
  TokenizeResult,
} from './model.js';
import { embedAs } from './prompts.js';
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
    const [read, pieceOptions] = this.begin('encode', options);
    const given = readInput(input);
    if (this.config.family === STATIC)
      throw invalid('encode', 'a model with an encoder', 'static embeddings', 'UNSUPPORTED', {
        hint: 'They have vectors of texts only: use embed()',
      });
    const rows = await this.allRows(given, read, pieceOptions);
    pieceOptions.sites = this.sites('encode', sitesOf(read), rows);
    pieceOptions.small = read.outputAttentions || read.outputHiddenStates;
    const outputs = new EncodeOutputs(rows, this.encoderConfig, read);
    await runRows(this.runContext, rows, rows.length, read, pieceOptions, (piece, first) =>
      outputs.hooksOf(piece, first),
    );
    return outputs.result(this.raw.pooler, pieceOptions.sites) as EncodeResultFor<A, S, P>;
  }

  async embed<O extends VectorOutput = 'float32'>(
    input: ModelInput,
    options: EmbedCall<O> = {},
  ): Promise<VectorsOf<O>> {
    const [read, pieceOptions] = this.begin('embed', options);
    const given = readInput(input);
    requireTexts(given, read);
    const form = vectorForm('embed', this.sentence, this.encoderConfig, read);
    const prompt = promptOf(this.sentence, read);
    const skipped = skippedTokens(given, prompt, this.sentence, this.context);
    const total = countTexts(given);
    const out = floatsOf('embed', [total, form.width]);
    const truncated: number[] = [];
    const tokens: number[] = [];
    const rows = await this.withSites('embed', read, this.rows(given, { ...read, prompt }, true), pieceOptions);
    await runRows(this.runContext, rows, total, read, pieceOptions, (piece, first) => ({
      pooling: { modes: form.pooling, skipped },
      use: (encoding) => {
        for (const { cut, ids } of piece) {
          truncated.push(cut);
          tokens.push(ids.length);
        }
        out.set(this.#vectors(encoding, piece, form, skipped).data, first * form.width);
      },
    }));
    return vectorsOf(new Tensor(out, [total, form.width]), read.output as O, { truncated, tokens });
  }

  /** The vectors [N,D] of a piece's N texts. */
  #vectors(encoding: RawRows, { length }: Row[], form: VectorForm, skipped: number): RawTensor {
    const pooled = poolRows(encoding, length, this.encoderConfig.embedDim, form.pooling, skipped);
    return finishVectors(pooled, this.raw.vectorLayers, form);
  }

  embedQuery<O extends VectorOutput = 'float32'>(input: ModelInput, options?: EmbedCall<O>) {
    return embedAs<O>(this, 'query', input, options);
  }

  embedDocument<O extends VectorOutput = 'float32'>(input: ModelInput, options?: EmbedCall<O>) {
    return embedAs<O>(this, 'document', input, options);
  }

  async tokenize(input: ModelInput, options: TokenizeOptions = {}): Promise<TokenizeResult> {
    const [read, pieceOptions] = this.begin('tokenize', options);
    const rows = await this.allRows(readInput(input), { ...read, anyLength: true }, pieceOptions);
    return {
      inputIds: rows.map(({ given, ids }) => (given ?? { ids }).ids),
      ...listsOf(rows),
      parts: rows.map((row) => row.parts),
      tokenTypeIds: rows.map((row) => (row.given ?? row).types ?? row.tokens.map(() => 0)),
      attentionMask: rows.map((row) => row.given?.mask ?? row.ids.map(() => 1)),
    };
  }

  async predict(head: HeadName, input: ModelInput, options: PredictOptions = {}): Promise<Prediction> {
    const [read, pieceOptions] = this.begin('predict', options);
    const name = readHead(head, 'predict: head');
    const given = readInput(input);
    const kind = HEADS[name];
    const found = this.head(name);
    const { isTied, bias, takesVectors } = found;
    const form = vectorForm('predict', this.sentence, this.encoderConfig);
    const prompt = takesVectors ? promptOf(this.sentence) : '';
    const skipped = takesVectors ? skippedTokens(given, prompt, this.sentence, this.context) : 0;
    const rows = await this.allRows(given, read, pieceOptions, prompt);
    pieceOptions.sites = this.sites('predict', read, rows);
    const { embedDim } = this.encoderConfig;
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
          ? this.#vectors(encoding, piece, form, skipped)
          : poolRows(encoding, piece.length, embedDim, [this.classPooling]),
      tokens(encoding: RawRows) {
        const data = encoding.hidden();
        return { data, shape: [data.length / embedDim, embedDim] };
      },
      masks: (encoding: RawRows, piece: Row[], first: number) =>
        rowsOfToken(encoding.hidden(), piece, maskId, embedDim, (text, token) =>
          masks.push([first + text, piece[text]!.columns[token]!]),
        ),
    };
    const modes = takesVectors ? form.pooling : [this.classPooling];
    await runRows(this.runContext, rows, count, read, pieceOptions, (piece, first) => ({
      ...(kind === 'pooled' && { pooling: { modes, skipped } }),
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
      inputIds: rows.map(({ given, ids }) => (given ?? { ids }).ids),
      ...listsOf(rows),
      parts: rows.map((row) => row.parts),
      masks,
      ...(read.read && { activations: pieceOptions.sites!.activations() }),
    };
  }

  async embedSparse(input: ModelInput, options: Omit<PredictOptions, 'read'> = {}): Promise<SparseVector[]> {
    const [read, pieceOptions] = this.begin('embedSparse', options);
    const given = readInput(input);
    const head = this.head('fill-mask');
    requireTexts(given, read);
    const { embedDim, vocabSize } = this.encoderConfig;
    const vectors: SparseVector[] = [];
    const rows = await this.withSites('embedSparse', read, rowsOf(given, read, this.context), pieceOptions);
    await runRows(this.runContext, rows, countTexts(given), read, pieceOptions, (piece) => ({
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

  async decode(tokenIds: readonly number[], options?: { skipSpecialTokens?: boolean | undefined }): Promise<string> {
    void this.raw;
    const ids = decodeIds(tokenIds, 'decode: ids');
    const { skipSpecialTokens } = readOptions('decode', decodeSchema, options);
    const { tokenizer } = this.context;
    if (!tokenizer) throw invalid('decode', 'a model with tokenizer.json', 'a model without it', 'UNSUPPORTED');
    return tokenizer.decode(ids, skipSpecialTokens);
  }
}

heldByCalls(LocalModel.prototype);
