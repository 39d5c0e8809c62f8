/** A model that runs elsewhere: each method is a call there. */

import { importing } from '../error.js';
import { outputOption } from '../models/call-options.js';
import { onCore } from '../models/device.js';
import type { EmbedImageOptions, EncodeImageOptions, EncodeImageResult, ImagesInput } from '../models/image-encoder.js';
import type { ModelInput } from '../models/input.js';
import type {
  EmbedCall,
  EmbedOptions,
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
  Workers,
} from '../models/model.js';
import { modelText } from '../models/model-config.js';
import { embedAs } from '../models/prompts.js';
import { type VectorOutput, type VectorsOf, vectorsOf } from '../models/quantized.js';
import type { SparseVector } from '../models/sparse.js';
import type { HeadName } from '../models/task-heads.js';
import { plainOptions } from '../options.js';
import { dispose, inspected } from '../platform.js';
import type { Tensor } from '../tensor.js';
import type { Method } from './protocol.js';

export abstract class RemoteModel implements PretrainedModel {
  abstract readonly config: ModelConfig;
  abstract readonly workers: Workers;
  readonly device = onCore;
  abstract readonly disposed: boolean;
  abstract dispose(): void;

  /** Calls a method of the model. */
  abstract call<T>(method: Method, args: unknown[], options?: object): Promise<T>;

  /** @internal */
  [inspected](): string {
    return modelText(this);
  }

  encode<A extends boolean, S extends boolean, P extends boolean>(
    input: ModelInput,
    options?: EncodeCall<A, S, P>,
  ): Promise<EncodeResultFor<A, S, P>> {
    return this.call('encode', [input], options);
  }

  /** The vectors are put into the requested form here, so that those of several workers are joined before. */
  async embed<O extends VectorOutput = 'float32'>(input: ModelInput, options?: EmbedCall<O>): Promise<VectorsOf<O>> {
    const { output, ...rest } = plainOptions('embed', options);
    const form = outputOption(output, 'embed.output') as O;
    const floats = await this.embedFloats(input, options && rest);
    return vectorsOf(floats, form, floats.truncated);
  }

  encodeQuery<O extends VectorOutput = 'float32'>(input: ModelInput, options?: EmbedCall<O>) {
    return embedAs<O>(this, 'query', input, options);
  }

  encodeDocument<O extends VectorOutput = 'float32'>(input: ModelInput, options?: EmbedCall<O>) {
    return embedAs<O>(this, 'document', input, options);
  }

  /** `embed` with fp32 vectors. */
  embedFloats(input: ModelInput, options?: EmbedOptions): Promise<VectorsOf<'float32'>> {
    return this.call('embed', [input], options);
  }

  tokenize(input: ModelInput, options?: TokenizeOptions): Promise<TokenizeResult> {
    return this.call('tokenize', [input], options);
  }

  predict(head: HeadName, input: ModelInput, options?: PredictOptions): Promise<Prediction> {
    return this.call('predict', [head, input], options);
  }

  embedSparse(input: ModelInput, options?: PredictOptions): Promise<SparseVector[]> {
    return this.call('embedSparse', [input], options);
  }

  embedTokens(texts: string | readonly string[], options?: EmbedTokensOptions): Promise<Tensor[]> {
    return this.call('embedTokens', [texts], options);
  }

  scoreSpans(
    texts: string | readonly string[],
    labels: readonly string[],
    options?: ScoreSpansOptions,
  ): Promise<SpanScores[]> {
    return this.call('scoreSpans', [texts, labels], options);
  }

  async embedImage(images: ImagesInput, options?: EmbedImageOptions): Promise<Tensor> {
    const { embedRemotely } = await importing(() => import('./remote-images.js'));
    return embedRemotely(this, images, options);
  }

  embedImages(images: ImagesInput, options?: EmbedImageOptions): Promise<Tensor> {
    return this.embedImage(images, options);
  }

  async encodeImage(images: ImagesInput, options?: EncodeImageOptions): Promise<EncodeImageResult> {
    const { encodeRemotely } = await importing(() => import('./remote-images.js'));
    return encodeRemotely(this, images, options);
  }

  decode(ids: readonly number[]): Promise<string> {
    return this.call('decode', [ids]);
  }

  [dispose](): void {
    this.dispose();
  }
}
