/**
 * Pretrained models in heed/train, in this thread or in workers. A separate chunk, because training layers does not
 * need it.
 */
import { importing } from '../../base/error.js';
import type { PageRuntime } from '../../base/owned.js';
import { type FineTuning, fineTuningOf, savable } from '../fine-tuning.js';
import type { Tape } from '../graph/tape.js';
import { type FromPretrainedOptions, fromPretrained, type ModelSource, type PretrainedModel } from '../inference.js';
import { anywhere, loadTrainableInWorker, remotelyTrainable } from './remote-training.js';
import type { TrainableOptions } from './trainable-model.js';

/** The options of `fromPretrained` in heed/train. */
export type TrainingOptions = FromPretrainedOptions & { trainable?: boolean | undefined };

export interface PageModels extends FineTuning {
  fromPretrained(source?: ModelSource, options?: TrainingOptions): Promise<PretrainedModel>;
}

const loadFineTuning = () => importing('fine-tuning', () => import('../fine-tuning/index.js'));

export function pageModels(runtime: PageRuntime, tape: Tape): PageModels {
  const kit = { runtime, tape };
  const load = savable(
    async (source, { trainable = false, ...options }: TrainingOptions = {}) => {
      if (!trainable) return fromPretrained(runtime, source, options);
      const read = { ...options, trainable } as TrainableOptions & FromPretrainedOptions;
      if (read.worker) return loadTrainableInWorker(runtime, source, read);
      const { loadTrainable } = await importing('pretrained', () => import('./pretrained.js'));
      return loadTrainable(runtime, tape, source, read);
    },
    loadFineTuning,
    kit,
  );
  return {
    ...anywhere(fineTuningOf(kit, loadFineTuning)),
    async fromPretrained(source, options) {
      const model = await load(source, options);
      remotelyTrainable(model);
      return model;
    },
  };
}
