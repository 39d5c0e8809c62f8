/** The dropout rates in config.json, for the places where each family's published model applies dropout. */
import { HeedError } from '../../base/error.js';
import type { Settings } from '../../io/settings.js';
import { isJinaBert } from '../../models/families/families.js';
import { STATIC } from '../../models/static-embedding.js';
import type { RawDropoutRates } from '../graph/train-core.js';

/** A key of config.json, and the rate if the key is absent. */
type Rate = readonly [key: string, fallback: number];

interface Places extends Partial<Record<keyof RawDropoutRates, Rate>> {
  /** On the inputs of the classifier's layers. The first key that is present applies. */
  classifier: readonly Rate[];
}

const hidden: Rate = ['hidden_dropout_prob', 0.1];

const bert: Places = {
  embedding: hidden,
  attention: ['attention_probs_dropout_prob', 0.1],
  attentionOutput: hidden,
  output: hidden,
  classifier: [['classifier_dropout', 0.1], hidden],
};

/** JinaBERT v2. */
const jinaBert: Places = {
  embedding: hidden,
  attention: ['attention_probs_dropout_prob', 0.1],
  attentionOutput: hidden,
  hidden,
  classifier: [['classifier_dropout', 0.1], hidden],
};

const modernAttention: Rate = ['attention_dropout', 0];
const attentionOnly: Places = { attention: modernAttention, classifier: [] };
const gated: Places = { ...bert, attention: ['attention_probs_dropout_prob', 0], hidden };
/** T5 without its dropout after the final norm. */
const t5Rate: Rate = ['dropout_rate', 0.1];
const t5: Places = {
  embedding: t5Rate,
  attention: t5Rate,
  attentionOutput: t5Rate,
  hidden: t5Rate,
  output: t5Rate,
  classifier: [['classifier_dropout', 0]],
};
const nomicResidual: Rate = ['resid_pdrop', 0.1];

const FAMILIES: Record<string, Places> = {
  [STATIC]: { classifier: [] },
  bert,
  roberta: bert,
  'xlm-roberta': bert,
  camembert: bert,
  jina_embeddings_v3: bert,
  electra: bert,
  ernie: bert,
  'data2vec-text': bert,
  roformer: bert,
  'megatron-bert': { ...bert, classifier: [hidden] },
  'roberta-prelayernorm': bert,
  'xlm-roberta-xl': bert,
  mpnet: { ...bert, classifier: [hidden] },
  albert: {
    embedding: ['hidden_dropout_prob', 0],
    attention: ['attention_probs_dropout_prob', 0],
    attentionOutput: ['hidden_dropout_prob', 0],
    classifier: [['classifier_dropout_prob', 0.1]],
  },
  distilbert: {
    embedding: ['dropout', 0.1],
    attention: ['attention_dropout', 0.1],
    output: ['dropout', 0.1],
    classifier: [['seq_classif_dropout', 0.2]],
  },
  'deberta-v2': { ...bert, position: hidden, classifier: [['cls_dropout', 0.1], hidden] },
  new: gated,
  gte: gated,
  t5,
  mt5: t5,
  umt5: t5,
  qwen3: attentionOnly,
  ultrabert: { attention: modernAttention, classifier: [['classifier_dropout', 0]] },
  gemma3_text: attentionOnly,
  eurobert: attentionOnly,
  llama: attentionOnly,
  embedding_gemma2: attentionOnly,
  embedding_gemma2_text: attentionOnly,
  modernbert: {
    embedding: ['embedding_dropout', 0],
    attention: modernAttention,
    attentionOutput: modernAttention,
    hidden: ['mlp_dropout', 0],
    classifier: [['classifier_dropout', 0]],
  },
  nomic_bert: {
    embedding: ['embd_pdrop', 0.1],
    attention: ['attn_pdrop', 0.1],
    attentionOutput: nomicResidual,
    output: nomicResidual,
    classifier: [],
  },
};

/**
 * @param given the rate for all of the family's places; null: the rates in config.json
 * @throws HeedError `UNSUPPORTED` for a family whose places of dropout are not known
 */
export function dropoutRates(
  type: string,
  settings: Settings,
  given: number | null,
): RawDropoutRates & { classifier: number } {
  const own = settings.record('text_config') ?? settings;
  const read = ([key, fallback]: Rate) => given ?? own.between(key, -1e-9, 1, fallback);
  if (!Object.hasOwn(FAMILIES, type))
    throw new HeedError(
      'UNSUPPORTED',
      `fromPretrained.trainable: training ${type} is not supported, because its dropout rates are not known`,
    );
  const { classifier, ...places } = isJinaBert(type, settings) ? jinaBert : FAMILIES[type]!;
  const rates = { embedding: 0, attention: 0, attentionOutput: 0, hidden: 0, output: 0, position: 0 };
  for (const [place, rate] of Object.entries(places)) rates[place as keyof RawDropoutRates] = read(rate as Rate);
  const last = classifier.find(([key]) => own.get(key) !== undefined) ?? classifier.at(-1);
  return { ...rates, classifier: last ? read(last) : 0 };
}
