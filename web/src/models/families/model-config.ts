/** A loaded model's description of itself. */
import { type HeedError, invalid } from '../../base/error.js';
import type { RawEncoderModelConfig } from '../../base/wasm/core.js';
import type { Settings } from '../../io/settings.js';
import { classPoolingOf } from '../heads/task-heads.js';
import type { LoadedModel } from '../loaded-model.js';
import type { ModelConfig, PretrainedModel } from '../model.js';
import { outputWidth } from './family.js';
import type { SentenceConfig } from './sentence-config.js';
import { finalNormalize, givesLogitScore, poolingName, scoreLayers, vectorSteps } from './steps.js';

/**
 * The class of torch.nn that sentence-transformers applies to the scores of the folder's classifier; null if the folder
 * is not a classifier's.
 */
export function scoreActivationIn(settings: Settings, sentence: SentenceConfig): string | null {
  const { general, steps } = sentence;
  const layer = scoreLayers(steps).at(-1);
  const architecture = settings.get('architectures');
  const isClassifier = /ForSequenceClassification$/.test(String([architecture].flat()[0]));
  const isJudge = givesLogitScore(sentence, architecture);
  if (!layer && !isClassifier && !isJudge) return null;
  const named =
    general?.get('activation_fn') ??
    settings.record('sentence_transformers')?.get('activation_fn') ??
    settings.get('sbert_ce_default_activation_function');
  // Without trust_remote_code, sentence-transformers uses only torch's.
  if (typeof named === 'string' && named.startsWith('torch.')) return named.split('.').at(-1)!;
  const labels = isJudge ? 1 : (layer?.outFeatures ?? (labelsIn(settings).length || settings.count('num_labels', 2)));
  return labels === 1 ? 'Sigmoid' : 'Identity';
}

/** The label names of a classifier; empty for other models. */
function labelsIn(settings: Settings): string[] {
  return (settings.record('id2label')?.entries() ?? []).map(([, label]) => String(label));
}

/** The settings of config.json that a model applies after its encoder. `config`: the encoder's options. */
export function taskSettings(
  type: string,
  settings: Settings,
  { positionOffset, adapterTasks }: Pick<RawEncoderModelConfig, 'positionOffset' | 'adapterTasks'>,
) {
  return {
    padId: settings.count('pad_token_id', Math.max(0, positionOffset - 1)),
    classPooling: classPoolingOf(type, settings),
    labels: labelsIn(settings),
    tasks: adapterTasks ? (settings.get('lora_adaptations') as string[]) : [],
    problemType: (settings.get('problem_type') as string | undefined) ?? null,
  };
}

/**
 * `dimensions`: the width of the vectors. `maxLength`: the default maximum number of tokens per text. `parameterCount`: of
 * the encoder.
 */
export function modelConfig(
  { config, settings, tokenizer, family, sentence, type, storage, unused, unread }: LoadedModel,
  { dimensions, maxLength, parameterCount }: Pick<ModelConfig, 'dimensions' | 'maxLength' | 'parameterCount'>,
): ModelConfig {
  const vectors = vectorSteps(sentence.steps);
  const { labels, problemType } = taskSettings(type, settings, config);
  const { vocabSize, numLayers, numHeads, feedForwardDim, int8 } = config;
  return {
    family: type,
    dtype: int8 ? 'q8' : 'fp32',
    storage,
    vocabSize,
    embedDim: outputWidth(config),
    dimensions,
    numLayers,
    numHeads,
    feedForwardDim,
    maxLength,
    parameterCount,
    pooling: poolingName(vectors),
    normalize: finalNormalize(vectors) >= 0,
    prompts: sentence.prompts,
    similarity: sentence.similarity,
    labels,
    scoreActivation: scoreActivationIn(settings, sentence),
    problemType,
    hasTokenizer: tokenizer !== null,
    subwordPrefix: tokenizer?.subwordPrefix ?? null,
    hasImageEncoder: family.images !== undefined,
    maskToken: tokenizer && (['[MASK]', '<mask>'].find((token) => tokenizer.idOf(token) !== undefined) ?? null),
    unusedTensors: unused,
    unread,
  };
}

/** The text for `console.log` of a model. */
export function modelText({ config, disposed }: PretrainedModel): string {
  const { family, dtype, embedDim, numLayers, maxLength, parameterCount, labels } = config;
  const notes = [
    `${numLayers} layers of width ${embedDim}`,
    `${parameterCount.toLocaleString('en')} parameters`,
    dtype,
    `texts up to ${maxLength} tokens`,
    ...(labels.length > 0 ? [`${labels.length} labels`] : []),
    ...(disposed ? ['disposed'] : []),
  ];
  return `PretrainedModel '${family}': ${notes.join(', ')}`;
}

/** Former names of a model's methods, and the present ones. */
const FORMER_NAMES = { encodeQuery: 'embedQuery', encodeDocument: 'embedDocument', embedImage: 'embedImages' };

/** Makes calls of a class's methods by former names errors that give the present ones. `prototype`: that of a class of models. */
export function refuseFormerNames(prototype: object): void {
  for (const [former, present] of Object.entries(FORMER_NAMES)) {
    const value = async () => {
      throw invalid('PretrainedModel', `${present}()`, `${former}(), its former name`, 'UNSUPPORTED');
    };
    Object.defineProperty(prototype, former, { value, configurable: true, writable: true });
  }
}

/** Makes the error for an image call of a model without an image encoder. */
export function withoutImages(owner: string, { family }: ModelConfig): HeedError {
  return invalid(owner, 'a model with an image encoder', `'${family}'`, 'UNSUPPORTED');
}
