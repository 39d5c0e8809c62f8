/**
 * A model in a worker: each method is a call to it. Arguments are checked in this thread first, so that errors are the
 * same as for a model in this thread, also for values that cannot be sent.
 */
import { importing } from '../base/error.js';
import { listOfTexts, readOptions, strings } from '../base/options.js';
import { heldByCalls } from '../base/pending.js';
import { dispose, inspected } from '../base/platform.js';
import type { Tensor } from '../base/tensor.js';
import { Unproxied } from '../base/unproxied.js';
import type { RawTensor } from '../base/wasm/core.js';
import {
  decodeIds,
  decodeSchema,
  headMaskRows,
  type OptionsOf,
  readCall,
  type TextMethod,
} from '../models/call-options.js';
import { onCore } from '../models/device.js';
import { modelText, refuseFormerNames, withoutImages } from '../models/families/model-config.js';
import type { SparseVector } from '../models/heads/sparse.js';
import { type HeadName, readHead } from '../models/heads/task-heads.js';
import type { EmbedImageOptions, EncodeImageOptions, EncodeImageResult, ImagesInput } from '../models/image-encoder.js';
import { type ModelInput, readInput } from '../models/input.js';
import type {
  DecodeOptions,
  EmbedCall,
  EmbedSparseCall,
  EmbedTokensOptions,
  EncodeCall,
  EncodeResultFor,
  ModelConfig,
  Prediction,
  PredictOptions,
  PretrainedModel,
  ScoreSpansOptions,
  SpanScores,
  TextHead,
  TokenizeOptions,
  TokenizeResult,
  Workers,
} from '../models/model.js';
import { embedAs } from '../models/prompts.js';
import { type VectorOutput, type VectorsOf, vectorsOf } from '../models/quantized.js';
import { disposed } from './connection.js';
import type { Method } from './protocol.js';
import { type Control, type SentOptions, sentOptions } from './sent-options.js';
import { type Joiner, joinLists, joinMasks, joinRecords, joinVectors } from './shares.js';

/** A call with texts whose arguments have been checked. */
export interface RemoteCall<Result> {
  method: Method;
  input: ModelInput;
  options: SentOptions;
  /** Returns the arguments before the options, for all texts or for some of them. Default: the texts. */
  args?: ((input: ModelInput) => unknown[]) | undefined;
  /** Creates the joiner for the results of shares of the texts. null if the texts must not be divided. */
  join: ((total: number) => Joiner<Result>) | null;
}

export abstract class RemoteModel extends Unproxied implements PretrainedModel {
  abstract readonly config: ModelConfig;
  abstract readonly workers: Workers;
  readonly device = onCore;

  get dimensions(): number {
    return this.config.dimensions;
  }

  abstract readonly disposed: boolean;
  abstract dispose(): void;

  /** Calls a method of the model, with plain data as arguments. */
  abstract call<T>(method: Method, args: unknown[], options?: Control): Promise<T>;

  /** Runs a call, possibly dividing its texts among workers. */
  protected abstract run<T>(call: RemoteCall<T>): Promise<T>;

  /** @internal */
  [inspected](): string {
    return modelText(this);
  }

  async encode<A extends boolean, S extends boolean, P extends boolean>(
    given: ModelInput,
    options?: EncodeCall<A, S, P>,
  ): Promise<EncodeResultFor<A, S, P>> {
    const call = this.#options('encode', options);
    const join = (total: number) => joinRecords<EncodeResultFor<A, S, P>>('encode', total);
    return this.run({ method: 'encode', input: readInput(given), options: call, join });
  }

  /** Converts vectors to the requested type in this thread, after those of several workers have been joined. */
  async embed<O extends VectorOutput = 'float32'>(given: ModelInput, options?: EmbedCall<O>): Promise<VectorsOf<O>> {
    const { output, ...call } = this.#options('embed', options);
    const input = readInput(given);
    const floats = await this.run({ method: 'embed', input, options: call, join: joinVectors });
    return vectorsOf(floats, output as O, floats);
  }

  embedQuery<O extends VectorOutput = 'float32'>(input: ModelInput, options?: EmbedCall<O>) {
    return embedAs<O>(this, 'query', input, options);
  }

  embedDocument<O extends VectorOutput = 'float32'>(input: ModelInput, options?: EmbedCall<O>) {
    return embedAs<O>(this, 'document', input, options);
  }

  async tokenize(given: ModelInput, options?: TokenizeOptions): Promise<TokenizeResult> {
    const call = this.#options('tokenize', options);
    return this.run({ method: 'tokenize', input: readInput(given), options: call, join: null });
  }

  async predict(given: HeadName, texts: ModelInput, options?: PredictOptions): Promise<Prediction> {
    const call = this.#options('predict', options);
    const head = readHead(given, 'predict: head');
    const join = head === 'fill-mask' ? joinMasks : (total: number) => joinRecords<Prediction>('predict', total);
    const args = (input: ModelInput) => [head, input];
    return this.run({ method: 'predict', input: readInput(texts), options: call, args, join });
  }

  async embedSparse(given: ModelInput, options?: EmbedSparseCall): Promise<SparseVector[]> {
    const call = this.#options('embedSparse', options);
    const join = joinLists<SparseVector>;
    return this.run({ method: 'embedSparse', input: readInput(given), options: call, join });
  }

  async embedTokens(texts: string | readonly string[], options?: EmbedTokensOptions): Promise<Tensor[]> {
    const call = this.#options('embedTokens', options);
    const input = listOfTexts(texts);
    const join = joinLists<Tensor>;
    return this.run({ method: 'embedTokens', input, options: call, join });
  }

  async scoreSpans(
    texts: string | readonly string[],
    given: readonly string[],
    options?: ScoreSpansOptions,
  ): Promise<SpanScores[]> {
    const call = this.#options('scoreSpans', options);
    const input = listOfTexts(texts);
    const labels = strings(given, 'labels');
    const join = joinLists<SpanScores>;
    return this.run({ method: 'scoreSpans', input, options: call, args: (each) => [each, labels], join });
  }

  async embedImages(images: ImagesInput, options?: EmbedImageOptions): Promise<Tensor> {
    return (await this.#images('embedImages')).embedRemotely(this, images, options);
  }

  async encodeImage(images: ImagesInput, options?: EncodeImageOptions): Promise<EncodeImageResult> {
    return (await this.#images('encodeImage')).encodeRemotely(this, images, options);
  }

  async decode(ids: readonly number[], options?: DecodeOptions): Promise<string> {
    this.#requireUndisposed();
    return this.call('decode', [decodeIds(ids, 'decode: ids'), readOptions('decode', decodeSchema, options)]);
  }

  async loadHead(file: ArrayBufferLike | ArrayBufferView): Promise<TextHead> {
    this.#requireUndisposed();
    return (await importing('text-head', () => import('../models/heads/text-head.js'))).readHead(this, file);
  }

  [dispose](): void {
    this.dispose();
  }

  #requireUndisposed(): void {
    if (this.disposed) throw disposed();
  }

  /** Reads a call's options. Throws if the model has been disposed of or the signal has been aborted. */
  #options<M extends TextMethod>(
    method: M,
    given: object | undefined,
  ): Omit<OptionsOf<M>, keyof SentOptions> & SentOptions {
    this.#requireUndisposed();
    const call = readCall(method, given);
    const sent = sentOptions(call);
    headMaskRows((call as { headMask?: RawTensor | null | undefined }).headMask, this.config);
    return sent;
  }

  #images(owner: string): Promise<typeof import('./remote-images.js')> {
    this.#requireUndisposed();
    if (!this.config.hasImageEncoder) throw withoutImages(owner, this.config);
    return importing('remote-images', () => import('./remote-images.js'));
  }
}

refuseFormerNames(RemoteModel.prototype);
heldByCalls(RemoteModel.prototype);
