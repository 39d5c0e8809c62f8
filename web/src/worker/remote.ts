/** A model that runs elsewhere: each method is a call there. */

import type { ModelInput } from '../models/input.js';
import type {
  EmbedOptions,
  EncodeCall,
  EncodeResultFor,
  ModelConfig,
  Prediction,
  PredictOptions,
  PretrainedModel,
  TokenizeOptions,
  TokenizeResult,
  Workers,
} from '../models/model.js';
import type { HeadName } from '../models/task-heads.js';
import { dispose } from '../platform.js';
import type { Tensor } from '../tensor.js';
import type { Method } from './protocol.js';

export abstract class RemoteModel implements PretrainedModel {
  abstract readonly config: ModelConfig;
  abstract readonly workers: Workers;
  abstract readonly disposed: boolean;
  abstract dispose(): void;

  /** Calls a method of the model. */
  abstract call<T>(method: Method, args: unknown[], options?: object): Promise<T>;

  encode<A extends boolean, S extends boolean, P extends boolean>(
    input: ModelInput,
    options?: EncodeCall<A, S, P>,
  ): Promise<EncodeResultFor<A, S, P>> {
    return this.call('encode', [input], options);
  }

  embed(input: ModelInput, options?: EmbedOptions): Promise<Tensor> {
    return this.call('embed', [input], options);
  }

  tokenize(texts: string | readonly string[], options?: TokenizeOptions): Promise<TokenizeResult> {
    return this.call('tokenize', [texts], options);
  }

  predict(head: HeadName, input: ModelInput, options?: PredictOptions): Promise<Prediction> {
    return this.call('predict', [head, input], options);
  }

  decode(ids: readonly number[]): Promise<string> {
    return this.call('decode', [ids]);
  }

  [dispose](): void {
    this.dispose();
  }
}
