/**
 * Fine-tuning of models that run in a worker: sends the calls to the worker. Not a part of the worker's own script,
 * which must not refer to itself.
 */
import { invalid } from '../../base/error.js';
import { callback, plainOptions, readOptions, signal as readSignal, workerOption } from '../../base/options.js';
import type { PageRuntime } from '../../base/owned.js';
import type { SignalLike } from '../../base/platform.js';
import { shippedModel } from '../../base/wasm/shipped.js';
import type { SavedFiles } from '../fine-tuning/adapter.js';
import type { ClassifierResult } from '../fine-tuning/classifier.js';
import type { FineTuning, RemotelyTrained, Savable } from '../fine-tuning.js';
import {
  type FromPretrainedOptions,
  loadInWorker,
  loadSchema,
  type Method,
  type ModelConfig,
  type ModelSource,
  type PretrainedModel,
  RemoteModel,
  WorkerModel,
} from '../inference.js';
import { trainingSchema } from './trainable-model.js';

/** Calls that the worker's script answers in addition to those of a model. */
type Call = 'trainClassifier' | 'trainEmbedding' | 'save' | 'config' | 'mergeLora';

interface CallOptions {
  readonly signal?: SignalLike | undefined;
  readonly onStep?: ((progress: never) => void) | undefined;
}

function send<T>(name: Call, model: RemoteModel, args: unknown[], options: CallOptions | undefined): Promise<T> {
  if (!(model instanceof WorkerModel))
    throw invalid(`${name}: model`, 'a model in this thread or in one worker', 'a pool of workers', 'UNSUPPORTED', {
      hint: 'Each worker of a pool has a model of its own',
    });
  const { onStep, signal: given, ...rest } = plainOptions(name, options);
  const onProgress = callback<(progress: never) => void>(onStep, `${name}.onStep`);
  const signal = readSignal(given, `${name}.signal`);
  return model.call(name as Method, args, { ...rest, ...(signal && { signal }), ...(onProgress && { onProgress }) });
}

/** Fine-tuning of models in this thread or in a worker. */
export function anywhere(local: FineTuning): FineTuning {
  return {
    ...local,
    async trainClassifier(model, examples, options) {
      if (!(model instanceof RemoteModel)) return local.trainClassifier(model, examples, options);
      const result = send<ClassifierResult>('trainClassifier', model, [examples], options);
      const update = async () => Object.assign(model.config, await send<ModelConfig>('config', model, [], undefined));
      // A stopped training has also set the model's labels. If the worker has ended, `result` reports it.
      return result.finally(() => update().catch(() => {}));
    },
    async trainEmbedding(model, examples, options) {
      if (!(model instanceof RemoteModel)) return local.trainEmbedding(model, examples, options);
      return send('trainEmbedding', model, [examples], options);
    },
  };
}

const schema = { ...loadSchema, ...trainingSchema, worker: workerOption };

/** Loads a model to train in a worker. */
export function loadTrainableInWorker(
  runtime: PageRuntime,
  source: ModelSource = shippedModel(),
  given: FromPretrainedOptions,
): Promise<PretrainedModel> {
  const { worker, ...options } = readOptions('fromPretrained', schema, given);
  return loadInWorker(runtime, source, options, worker === true ? undefined : (worker as never));
}

/** Adds the methods for training to a model in a worker. */
export function remotelyTrainable(model: PretrainedModel): void {
  if (!(model instanceof WorkerModel)) return;
  const save: Savable['save'] = async (options) =>
    Object.fromEntries(await send<[string, SavedFiles[string]][]>('save', model, [], options));
  const mergeLora: RemotelyTrained['mergeLora'] = () => send('mergeLora', model, [], undefined);
  Object.defineProperties(model, { save: { value: save }, mergeLora: { value: mergeLora } });
}
