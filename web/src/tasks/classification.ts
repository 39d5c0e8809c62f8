/** Classification of texts, and reranking with a cross-encoder. */
import { type HeedError, importing, invalid } from '../base/error.js';
import { oneOf, optional, sizeOrInfinity, strings, text } from '../base/options.js';
import { best, type Hit, sigmoid, softmax } from '../base/scores.js';
import type { EditOptions } from '../base/site-options.js';
import type { Tensor } from '../base/tensor.js';
import { maxSim } from '../models/heads/max-sim.js';
import type { ImagesInput } from '../models/image-encoder.js';
import {
  type Prediction,
  type PredictOptions,
  type PretrainedModel,
  requireModel,
  type TextHead,
} from '../models/model.js';
import { labelOf, type TaskOptions, taskOptions } from './task.js';

/** A label with its score. */
export interface Label {
  /** The name of the label. */
  label: string;
  /** The score of the label; see the task. */
  score: number;
}

/** Implements `classify`, which imports this module when it is called; see api/on-demand.ts. */
export async function classify(
  model: PretrainedModel | TextHead,
  texts: string | readonly string[],
  options?: TaskOptions &
    EditOptions & { topK?: number | undefined; textPairs?: string | readonly string[] | undefined },
): Promise<Label[][]> {
  const [{ topK }, call] = taskOptions('classify', model, { topK: optional(sizeOrInfinity, Infinity) }, options);
  const { logits } = await model.predict('sequence-classification', texts, call);
  return labelsOf(model, logits, topK);
}

/** Implements `classifyImages`, which imports this module when it is called; see api/on-demand.ts. */
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
function labelsOf(model: Pick<TextHead, 'config'>, logits: Tensor, topK: number): Label[][] {
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

/** Implements `rerank`, which imports this module when it is called; see api/on-demand.ts. */
export async function rerank(
  model: PretrainedModel,
  query: string,
  documents: readonly string[],
  options?: TaskOptions &
    EditOptions &
    Pick<PredictOptions, 'prompt' | 'promptName'> & {
      topK?: number | undefined;
      activation?: 'identity' | 'sigmoid' | 'default' | undefined;
    },
): Promise<Hit[]> {
  const schema = {
    topK: optional(sizeOrInfinity, Infinity),
    activation: optional(oneOf(['identity', 'sigmoid', 'default']), 'identity' as const),
    prompt: optional(text, undefined),
    promptName: optional(text, undefined),
  };
  const [{ topK, activation, prompt, promptName }, call] = taskOptions('rerank', model, schema, options);
  const first = text(query, 'rerank: query');
  const textPairs = strings(documents, 'rerank: documents');
  if (textPairs.length === 0) return [];
  const predicted = model.predict(
    'sequence-classification',
    textPairs.map(() => first),
    { ...call, textPairs, prompt, promptName },
  );
  const { scoreActivation } = model.config;
  // A folder that does not name a classifier may have one nevertheless.
  const logits = scoreActivation === null ? await predicted.then(logitsOf, noHead) : logitsOf(await predicted);
  if (!logits) {
    const given = Object.entries({ prompt, promptName }).find(([, value]) => value !== undefined);
    if (given) throw invalid(`rerank.${given[0]}`, 'a cross-encoder', 'a model without a classifier', 'UNSUPPORTED');
    const scores = await tokenScores(model, first, textPairs, call);
    return best(activation === 'sigmoid' ? scores.map(sigmoid) : scores, Math.min(topK, scores.length));
  }
  const labels = logits.shape[1]!;
  if (labels !== 1) throw invalid('rerank', 'a cross-encoder with one label', `a model with ${labels}`, 'UNSUPPORTED');
  const activate = await activationOf(activation === 'default' ? scoreActivation : activation);
  return best(logits.data.map(activate), Math.min(topK, textPairs.length));
}

const logitsOf = ({ logits }: Prediction) => logits;

/** null if a model has no classifier. Other errors, such as those about its inputs, remain errors. */
function noHead(error: unknown): null {
  if (/^model: expected .* for sequence-classification\b/.test((error as HeedError | null)?.message ?? '')) return null;
  throw error;
}

/** The number of documents whose token vectors are in memory at once. */
const DOCUMENTS = 32;

/** Scores of late interaction, [N]. */
async function tokenScores(
  model: PretrainedModel,
  query: string,
  documents: readonly string[],
  call: object,
): Promise<Float32Array> {
  const [tokens] = await model.embedTokens(query, { ...call, promptName: 'query' });
  const scores = new Float32Array(documents.length);
  for (let first = 0; first < documents.length; first += DOCUMENTS) {
    const part = documents.slice(first, first + DOCUMENTS);
    const vectors = await model.embedTokens(part, { ...call, promptName: 'document' });
    scores.set(maxSim(tokens!, vectors, { lengthNormalize: true }), first);
  }
  return scores;
}

/** The activation of a score; `name` is that of a class of torch.nn. Without one, scores are logits. */
async function activationOf(name: string | null): Promise<(x: number) => number> {
  if (name === null || /^identity$/i.test(name)) return (x) => x;
  if (/^sigmoid$/i.test(name)) return sigmoid;
  const { scoreActivation } = await importing('torch-activations', () => import('../base/torch-activations.js'));
  const found = scoreActivation(name);
  if (found) return found;
  throw invalid('rerank.activation', 'the activation of one score', `the folder's '${name}'`, 'UNSUPPORTED');
}
