/** A model that lives elsewhere: each of its methods is one call there. */
import type { AllOutputs, ModelConfig, PretrainedModel, Workers } from '../models/model.js';
import { dispose } from '../platform.js';
import type { Arguments, Method } from './protocol.js';

export type Called<M extends Method> = ReturnType<PretrainedModel[M]>;

export abstract class RemoteModel implements PretrainedModel {
  abstract readonly config: ModelConfig;
  abstract readonly workers: Workers;
  abstract readonly disposed: boolean;
  abstract dispose(): void;

  protected abstract call<M extends Method>(method: M, args: Arguments<M>): Called<M>;

  encode(...args: Arguments<'encode'>): Promise<AllOutputs> {
    return this.call('encode', args) as Promise<AllOutputs>;
  }

  embed(...args: Arguments<'embed'>): Called<'embed'> {
    return this.call('embed', args);
  }

  tokenize(...args: Arguments<'tokenize'>): Called<'tokenize'> {
    return this.call('tokenize', args);
  }

  predict(...args: Arguments<'predict'>): Called<'predict'> {
    return this.call('predict', args);
  }

  decode(...args: Arguments<'decode'>): Called<'decode'> {
    return this.call('decode', args);
  }

  [dispose](): void {
    this.dispose();
  }
}
