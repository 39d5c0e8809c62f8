/** Teaching a pretrained model. The code is in a chunk of its own, which is loaded when it is first used. */
import type { PretrainedModel } from '../models/model.js';
import type { SignalLike } from '../platform.js';
import type { ClassifierOptions, ClassifierResult } from './fine-tuning/classifier.js';
import type { ClassifierExample } from './fine-tuning/examples.js';
import type { Kit } from './fine-tuning/head.js';
import type { ClassifierMetrics } from './fine-tuning/metrics.js';

/** Functions that teach a pretrained model. */
export interface FineTuning {
  /**
   * Teaches a model to label texts. Afterwards `model.predict('sequence-classification', texts)` and `classify(model, texts)` use the classifier, and `model.config.labels` are the
   * labels. Every text is embedded once; a softmax layer is then trained on the vectors (with several labels per text, a sigmoid for each).
   *
   * @example
   * const model = await heed.fromPretrained();
   * await heed.trainClassifier(model, [{ text: 'a red apple', label: 'fruit' }, { text: 'a loud trumpet', label: 'instrument' }], { seed: 1 });
   * const [[best]] = await classify(model, 'a ripe pear'); // { label: 'fruit', score: 0.9 }
   * @throws HeedError `INVALID_ARGUMENT` for examples of one label only, empty texts, a text with two labels, or a label with one example where a part is kept for validation;
   * `DIVERGED` if a loss is not finite. If it rejects, the model is as the last whole step left it
   */
  trainClassifier(
    model: PretrainedModel,
    examples: readonly ClassifierExample[],
    options?: ClassifierOptions,
  ): Promise<ClassifierResult>;
  /** Compares the labels that a model predicts with those of examples. @throws HeedError `UNSUPPORTED` for a model without a classifier */
  evaluateClassifier(
    model: PretrainedModel,
    examples: readonly ClassifierExample[],
    options?: { signal?: SignalLike },
  ): Promise<ClassifierMetrics>;
}

export function fineTuningOf(kit: Kit): FineTuning {
  const loading = () => import('./fine-tuning/index.js');
  return {
    trainClassifier: async (...args) => (await loading()).trainClassifier(kit, ...args),
    evaluateClassifier: async (...args) => (await loading()).evaluateClassifier(...args),
  };
}
