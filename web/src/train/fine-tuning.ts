/** Fine-tuning of pretrained models. The code is a separate chunk, imported on demand. */

import type { FromPretrainedOptions } from '../api/from-pretrained.js';
import { heldByCalls } from '../base/pending.js';
import { shippedModel } from '../base/wasm/shipped.js';
import type { ClassifierExample } from '../evaluation/labeled-examples.js';
import { type ModelSource, sourceForWorker } from '../io/source.js';
import type { PretrainedModel } from '../models/model.js';
import type { LocalModel } from '../models/pretrained.js';
import type { SavedFiles } from './fine-tuning/adapter.js';
import type { ClassifierOptions, ClassifierResult } from './fine-tuning/classifier.js';
import type { EmbeddingResult, EmbeddingTrainingOptions } from './fine-tuning/embedding.js';
import type { EmbeddingExamples } from './fine-tuning/embedding-examples.js';
import type { Kit } from './fine-tuning/head.js';
import type { Origin, SaveOptions } from './fine-tuning/save.js';
import type { TrainableModel } from './trainable/trainable-model.js';

/** Functions that fine-tune a pretrained model. */
export interface FineTuning {
  /**
   * Trains a model to label texts. Afterwards, `model.predict('sequence-classification', texts)` and
   * `classify(model, texts)` use the classifier, and `model.config.labels` has the labels. By default, every text is
   * embedded once, and a softmax layer is trained on the vectors (with several labels per text, a sigmoid per label).
   *
   * @example
   * const model = await heed.fromPretrained();
   * await heed.trainClassifier(model, [{ text: 'a red apple', label: 'fruit' }, { text: 'a loud trumpet', label: 'instrument' }], { seed: 1 });
   * const [[best]] = await classify(model, 'a ripe pear'); // { label: 'fruit', score: 0.9 }
   * @throws HeedError `INVALID_ARGUMENT` for examples with only one label, empty texts, a text with two labels, or a
   * label with a single example if a part of the examples is used for validation; `DIVERGED` if a loss is not finite.
   * If it rejects, the model is as it was after the last complete step
   */
  trainClassifier(
    model: PretrainedModel,
    examples: readonly ClassifierExample[],
    options?: ClassifierOptions,
  ): Promise<ClassifierResult>;
  /**
   * Trains a model to embed similar texts close to each other, from pairs, triplets or labeled texts. For pairs and
   * triplets, the other texts of a batch are negatives. For labeled texts, followed by `trainClassifier`, this is the
   * SetFit method.
   *
   * @example
   * const model = await heed.fromPretrained(undefined, { trainable: true });
   * await heed.trainEmbedding(model, [{ a: 'How do I pay?', b: 'Payment methods' }, { a: 'Where is my parcel?', b: 'Tracking' }], { train: { lora: {} } });
   * @throws HeedError `UNSUPPORTED` for a model without `trainable: true`; otherwise as for `trainClassifier`
   */
  trainEmbedding(
    model: PretrainedModel,
    examples: EmbeddingExamples,
    options?: EmbeddingTrainingOptions,
  ): Promise<EmbeddingResult>;
}

/** A model that can be saved: any model that `fromPretrained` of heed/train returns, except a pool of workers. */
export interface Savable {
  /**
   * Returns the files of the model's folder with the current weights, by path, for heed, transformers and
   * sentence-transformers. With a classifier on sentence vectors, `encode` of sentence-transformers returns the logits.
   * Unchanged files are copied from the model's source, which is read again.
   *
   * @example
   * const files = await model.save();
   * const again = await heed.fromPretrained(files);
   * @throws HeedError `INVALID_ARGUMENT` while the model is being trained; `INVALID_FILE` if files of its source have been
   * replaced since the model was loaded; the errors of `fromPretrained` if its source can no longer be read
   */
  save(options?: SaveOptions): Promise<SavedFiles>;
}

/** A model with `trainable: true` in this thread. */
export interface Adaptable {
  /**
   * Loads the LoRA adapters that `save({ adapter: true })` or PEFT stored, and the classifier that was trained with
   * them. The model must come from the same checkpoint. All other parameters are frozen, as after `addLora`.
   * @throws HeedError `INVALID_FILE` or `UNSUPPORTED` for files that are not LoRA adapters of this model, which is then
   * unchanged
   */
  loadAdapter(source: ModelSource): Promise<void>;
}

/** A model with `trainable: true` in a worker. */
export interface RemotelyTrained extends Savable {
  /**
   * Adds the LoRA adapters that a training with `{ lora }` has left to the weights, and removes them. Other parameters,
   * or adapters with other settings, can then be trained.
   * @throws HeedError `INVALID_ARGUMENT` for a model without LoRA adapters
   */
  mergeLora(): Promise<void>;
}

/** Loads the code that saves: pages import it on demand; workers contain it. */
type Code = () => Promise<{
  save(model: LocalModel, origin: Origin, options?: SaveOptions): Promise<SavedFiles>;
  loadAdapter(kit: Kit, model: TrainableModel, source: ModelSource): Promise<void>;
}>;

/** Adds `save`, and `loadAdapter` if it can be trained, to a model that was loaded from `given`. */
export function addSave(
  kit: Kit,
  model: LocalModel,
  given: ModelSource | undefined,
  options: FromPretrainedOptions,
  code: Code,
): void {
  const { remoteHost, revision, token, fetch, cache, integrity, dtype, weights } = options;
  const origin: Origin = {
    ...sourceForWorker(given ?? shippedModel(), model.runtime.hub), // a copy
    options: { remoteHost, revision, token, fetch, cache, integrity } as Origin['options'],
    choice: { dtype, weights },
  };
  const { save, loadAdapter } = heldByCalls<Savable & Adaptable>({
    save: async (options) => (await code()).save(model, origin, options),
    loadAdapter: async (source) => (await code()).loadAdapter(kit, model as unknown as TrainableModel, source),
  });
  Object.defineProperty(model, 'save', { value: save });
  if ('sentenceVectors' in model) Object.defineProperty(model, 'loadAdapter', { value: loadAdapter });
}
