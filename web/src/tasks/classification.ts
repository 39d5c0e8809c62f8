/** Classification of texts, and reranking with a cross-encoder. */
import { invalid } from '../base/error.js';
import { oneOf, optional, sizeOrInfinity, strings, text } from '../base/options.js';
import { best, type Hit, sigmoid, softmax } from '../base/scores.js';
import type { EditOptions } from '../base/site-options.js';
import type { Tensor } from '../base/tensor.js';
import type { ImagesInput } from '../models/image-encoder.js';
import { type PretrainedModel, requireModel } from '../models/model.js';
import { labelOf, type TaskOptions, taskOptions } from './task.js';

export interface Label {
  label: string;
  score: number;
}

/**
 * Classifies texts. Returns the labels of each text, best first. The score is the logit for regression; the sigmoid of
 * the logit if config.json's problem type is multi-label or there is only one label; otherwise the softmax over the
 * labels.
 *
 * @example
 * const [labels] = await classify(classifier, 'What a day!', { topK: 2 });
 * labels[0]; // { label, score }
 */
export async function classify(
  model: PretrainedModel,
  texts: string | readonly string[],
  options?: TaskOptions &
    EditOptions & { topK?: number | undefined; textPairs?: string | readonly string[] | undefined },
): Promise<Label[][]> {
  const [{ topK }, call] = taskOptions('classify', model, { topK: optional(sizeOrInfinity, Infinity) }, options);
  const { logits } = await model.predict('sequence-classification', texts, call);
  return labelsOf(model, logits, topK);
}

/**
 * Classifies images with a ViT or DINOv2 classifier. Returns the labels of each image, best first, with scores as for
 * `classify`.
 *
 * @example
 * const [labels] = await classifyImages(imageClassifier, imageData, { topK: 2 });
 * labels[0]; // { label, score }
 * @throws HeedError UNSUPPORTED for a model that does not classify images
 */
export async function classifyImages(
  model: PretrainedModel,
  images: ImagesInput,
  options?: TaskOptions & { topK?: number | undefined },
): Promise<Label[][]> {
  requireModel('classifyImages', model, 'encodeImage');
  const [{ topK }, call] = taskOptions('classifyImages', model, { topK: optional(sizeOrInfinity, Infinity) }, options);
  const { logits, poolerOutput } = await model.encodeImage(images, call);
  if (poolerOutput.shape[0] === 0) return [];
  if (!logits)
    throw invalid(
      'classifyImages: model',
      'a checkpoint that classifies images',
      `'${model.config.family}' without a classifier`,
      'UNSUPPORTED',
    );
  return labelsOf(model, logits, topK);
}

/** The `topK` best labels of each row of logits. */
function labelsOf(model: PretrainedModel, logits: Tensor, topK: number): Label[][] {
  const [count, labels] = logits.shape as [number, number];
  const { problemType } = model.config;
  const scoresOf = (row: Float32Array) => {
    if (problemType === 'regression') return row;
    return problemType === 'multi_label_classification' || labels === 1 ? row.map(sigmoid) : softmax(row);
  };
  return Array.from({ length: count }, (_, n) =>
    best(scoresOf(logits.data.subarray(n * labels, (n + 1) * labels)), Math.min(topK, labels)).map(
      ({ index, score }) => ({ label: labelOf(model, index), score }),
    ),
  );
}

/**
 * Ranks documents by a cross-encoder's score for (query, document), best first. The score is the logit;
 * `activation: 'sigmoid'` maps it to [0, 1].
 *
 * @example
 * const hits = await rerank(crossEncoder, 'What do cats eat?', ['Cats eat fish.', 'It rains.'], { topK: 1 });
 * hits[0]; // { index, score }
 */
export async function rerank(
  model: PretrainedModel,
  query: string,
  documents: readonly string[],
  options?: TaskOptions & EditOptions & { topK?: number | undefined; activation?: 'identity' | 'sigmoid' | undefined },
): Promise<Hit[]> {
  const schema = {
    topK: optional(sizeOrInfinity, Infinity),
    activation: optional(oneOf(['identity', 'sigmoid']), 'identity' as const),
  };
  const [{ topK, activation }, call] = taskOptions('rerank', model, schema, options);
  const first = text(query, 'rerank: query');
  const textPairs = strings(documents, 'rerank: documents');
  if (textPairs.length === 0) return [];
  const { logits } = await model.predict(
    'sequence-classification',
    textPairs.map(() => first),
    { ...call, textPairs },
  );
  const labels = logits.shape[1]!;
  if (labels !== 1) throw invalid('rerank', 'a cross-encoder with one label', `a model with ${labels}`, 'UNSUPPORTED');
  const scores = activation === 'sigmoid' ? logits.data.map(sigmoid) : logits.data;
  return best(scores, Math.min(topK, textPairs.length));
}
