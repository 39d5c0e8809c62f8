/** A pretrained encoder in this thread. Notation: N texts, L tokens of the longest text, E width, H heads. */
import { floatsOf, importing, invalid } from '../base/error.js';
import { optional, readOptions, text } from '../base/options.js';
import { heldByCalls } from '../base/pending.js';
import { inspected } from '../base/platform.js';
import { Tensor } from '../base/tensor.js';
import { decodeIds, decodeSchema, readCall, requireTexts } from './call-options.js';
import { type Device, onCore } from './device.js';
import { EncodeOutputs, listsOf, sitesOf } from './encode-outputs.js';
import { modelText, refuseFormerNames, withoutImages } from './families/model-config.js';
import { promptOf } from './families/sentence-transformers.js';
import { isSparseTable } from './families/steps.js';
import { finishVectors, skippedTokens, stepOptions, vectorForm } from './heads/pooling.js';
import type { SparseVector } from './heads/sparse.js';
import { type HeadName, readHead } from './heads/task-heads.js';
import type {
  EmbedImageOptions,
  EncodeImageOptions,
  EncodeImageResult,
  ImageCalls,
  ImagesInput,
} from './image-encoder.js';
import { countTexts, type ModelInput, readInput } from './input.js';
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
    const { predict } = await importing('predict', () => import('./heads/predict.js'));
    return predict(this, name, given, call, pieceOptions);
  }

  async embedSparse(input: ModelInput, options: EmbedSparseCall = {}): Promise<SparseVector[]> {
    const [call, pieceOptions] = this.begin('embedSparse', options);
    const route = this.#route({ task: call.promptName });
    if (route !== this) return route.embedSparse(input, options);
    const given = readInput(input);
    requireTexts(given, options);
    const { embedSparse } = await importing('embed-sparse', () => import('./heads/embed-sparse.js'));
    return embedSparse(this, given, call, pieceOptions);
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
