/**
 * Pretrained models in heed/train, in this thread or in workers, and the functions that train them. A separate chunk,
 * because training layers does not need it. Not a part of the worker's own script, which must not refer to itself.
 */
import { type FromPretrainedOptions, fromPretrained } from '../../api/from-pretrained.js';
import { importing, invalid } from '../../base/error.js';
import { callback, plainOptions, readOptions, signal as readSignal, workerOption } from '../../base/options.js';
import type { PageRuntime } from '../../base/owned.js';
import type { SignalLike } from '../../base/platform.js';
import { shippedModel } from '../../base/wasm/shipped.js';
import type { ModelSource } from '../../io/source.js';
import { loadSchema } from '../../models/call-options.js';
import type { ModelConfig, PretrainedModel } from '../../models/model.js';
import { LocalModel } from '../../models/pretrained.js';
import { loadInWorker, WorkerModel } from '../../worker/client.js';
import type { Method } from '../../worker/protocol.js';
import { RemoteModel } from '../../worker/remote.js';
import type { SavedFiles } from '../fine-tuning/adapter.js';
import type { ClassifierResult } from '../fine-tuning/classifier.js';
import { addSave, type FineTuning, type RemotelyTrained } from '../fine-tuning.js';
import type { Tape } from '../graph/tape.js';
import { type TrainableOptions, trainingSchema } from './trainable-model.js';

/** The options of `fromPretrained` in heed/train. */
type TrainingOptions = FromPretrainedOptions & { trainable?: boolean | undefined };

export interface PageModels extends FineTuning {
  fromPretrained(source?: ModelSource, options?: TrainingOptions): Promise<PretrainedModel>;
}

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

const loadFineTuning = () => importing('fine-tuning', () => import('../fine-tuning/index.js'));

const workerSchema = { ...loadSchema, ...trainingSchema, worker: workerOption };

/** Loads a model as the options say. */
async function loadModel(
  runtime: PageRuntime,
  tape: Tape,
  source: ModelSource | undefined,
  { trainable = false, ...options }: TrainingOptions,
): Promise<PretrainedModel> {
  if (!trainable) return fromPretrained(runtime, source, { ...options, dtype: options.dtype ?? 'fp32' });
  const given = { ...options, trainable } as TrainableOptions & FromPretrainedOptions;
  if (given.worker) {
    const { worker, ...rest } = readOptions('fromPretrained', workerSchema, given);
    return loadInWorker(runtime, source ?? shippedModel(), rest, worker === true ? undefined : (worker as never));
  }
  const { loadTrainable } = await importing('pretrained', () => import('./pretrained.js'));
  return loadTrainable(runtime, tape, source, given);
}

export function pageModels(runtime: PageRuntime, tape: Tape): PageModels {
  const kit = { runtime, tape };
  return {
    async fromPretrained(source, options = {}) {
      const model = await loadModel(runtime, tape, source, options);
      if (model instanceof LocalModel) addSave(kit, model, source, options, loadFineTuning);
      if (model instanceof WorkerModel) {
        const save: RemotelyTrained['save'] = async (options) =>
          Object.fromEntries(await send<[string, SavedFiles[string]][]>('save', model, [], options));
        const mergeLora: RemotelyTrained['mergeLora'] = () => send('mergeLora', model, [], undefined);
        Object.defineProperties(model, { save: { value: save }, mergeLora: { value: mergeLora } });
      }
      return model;
    },
    async trainClassifier(model, examples, options) {
      if (!(model instanceof RemoteModel))
        return (await loadFineTuning()).trainClassifier(kit, model, examples, options);
      const result = send<ClassifierResult>('trainClassifier', model, [examples], options);
      const update = async () => Object.assign(model.config, await send<ModelConfig>('config', model, [], undefined));
      // A stopped training has also set the model's labels. If the worker has ended, `result` reports it.
      return result.finally(() => update().catch(() => {}));
    },
    async trainEmbedding(model, examples, options) {
      if (model instanceof RemoteModel) return send('trainEmbedding', model, [examples], options);
      return (await loadFineTuning()).trainEmbedding(kit, model, examples, options);
    },
  };
}
