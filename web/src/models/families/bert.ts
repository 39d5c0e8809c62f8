/** BERT's configuration and names, which other families share in part. */
import type { Settings } from '../../io/settings.js';
import { activation, type Config, type Family, keyRows, queryRows, sizesOf, valueRows } from './family.js';

/** Whether the model is a decoder, for the families whose published models are then causal. */
export function causalOf(s: Settings): Pick<Config, 'causal'> {
  const key = 'add_cross_attention';
  if (s.flag(key, false)) throw s.unsupported(key, 'false, as an encoder has no other states to attend to', 'true');
  return { causal: s.flag('is_decoder', false) };
}

export function bertConfig(s: Settings, positionOffset = 0): Config {
  const key = POSITION_KIND;
  const kind = s.text(key, 'absolute');
  if (kind !== 'absolute') throw s.unsupported(key, "'absolute'", `'${kind}'`);
  return sharedBertConfig(s, positionOffset);
}

export function sharedBertConfig(s: Settings, positionOffset = 0): Config {
  return {
    ...sizesOf(s, { maxPositions: 512, positionOffset }),
    typeVocabSize: s.count('type_vocab_size', 2),
    activation: activation(s, 'hidden_act', 'gelu'),
    eps: s.between('layer_norm_eps', 0, 1, 1e-12),
  };
}

export const POSITION_KIND = 'position_embedding_type';

export const bertModules = {
  'embeddings.word_embeddings': 'embeddings.word.',
  'embeddings.position_embeddings': 'embeddings.position.',
  'embeddings.token_type_embeddings': 'embeddings.token_type.',
  'embeddings.LayerNorm': 'embeddings.norm.',
};

export const bertLayer = {
  'attention.self.query': queryRows,
  'attention.self.key': keyRows,
  'attention.self.value': valueRows,
  'attention.output.dense': 'self_attn.out_proj.',
  'attention.output.LayerNorm': 'norm1.',
  'intermediate.dense': 'linear1.',
  'output.dense': 'linear2.',
  'output.LayerNorm': 'norm2.',
};

export const bert: Family = {
  prefix: 'bert.',
  config: (s) => ({ ...bertConfig(s), ...causalOf(s) }),
  modules: bertModules,
  layerPrefix: 'encoder.layer.{i}.',
  layer: bertLayer,
  pooler: 'pooler.dense',
};

/** RoBERTa's configuration: positions start at padding_idx + 1. */
export const robertaConfig = (s: Settings): Config => bertConfig(s, s.count('pad_token_id', 1) + 1);
