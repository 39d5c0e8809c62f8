/**
 * Families whose layers are BERT's with small differences, and what heed lacks for other encoders. families.ts imports
 * them when a model has one of their names.
 */
import type { Settings } from '../../io/settings.js';
import { bert, bertConfig, bertLayer, bertModules, causalOf, robertaConfig, sharedBertConfig } from './bert.js';
import {
  activation,
  type BertLikeFamilyName,
  type Config,
  type Family,
  keyRows,
  MAX_WIDTH,
  queryRows,
  rotaryDimOf,
  sizesOf,
  valueRows,
} from './family.js';

const normFirst = { normFirst: true, finalNorm: true };

/** The width of the embeddings, before they are projected; 0 if it is the encoder's. */
function embeddingDimOf(s: Settings, { embedDim }: Config): number {
  const width = s.count('embedding_size', embedDim, 1, MAX_WIDTH);
  return width === embedDim ? 0 : width;
}

const ernie: Family = {
  ...bert,
  prefix: 'ernie.',
  config: (s) => ({
    ...bertConfig(s),
    ...causalOf(s),
    taskVocabSize: s.flag('use_task_id', false) ? s.count('task_type_vocab_size', 3, 1) : 0,
  }),
  modules: { ...bertModules, 'embeddings.task_type_embeddings': 'embeddings.task_type.' },
};

const data2vec: Family = {
  ...bert,
  prefix: 'data2vec_text.',
  config: (s) => ({ ...robertaConfig(s), ...causalOf(s) }),
};

/** RoFormer: pairs of neighboring features of queries and keys are rotated, and of values if `rotary_value` is true. */
const roformer: Family = {
  ...bert,
  prefix: 'roformer.',
  config: (s) => {
    const config = { ...sharedBertConfig(s), ...causalOf(s) };
    return {
      ...config,
      maxPositions: s.count('max_position_embeddings', 1536, 1),
      embeddingDim: embeddingDimOf(s, config),
      positions: 'rotary',
      rotaryDim: rotaryDimOf(s, ['num_attention_heads'], config),
      rotaryInterleaved: true,
      rotaryValues: s.flag('rotary_value', false),
    };
  },
  modules: { ...bertModules, embeddings_project: 'embeddings.projection.' },
  pooler: undefined,
};

const megatronBert: Family = {
  ...bert,
  config: (s) => ({ ...bertConfig(s), ...causalOf(s), ...normFirst, embeddingNorm: false }),
  modules: { ...bertModules, 'encoder.ln': 'norm.' },
  layer: {
    ...bertLayer,
    'attention.ln': 'norm1.',
    ln: 'norm2.',
  },
};

const preLayerNorm: Family = {
  ...bert,
  prefix: 'roberta_prelayernorm.',
  config: (s) => ({ ...robertaConfig(s), ...causalOf(s), ...normFirst }),
  modules: { ...bertModules, LayerNorm: 'norm.' },
  layer: {
    ...bertLayer,
    'attention.LayerNorm': 'norm1.',
    'intermediate.LayerNorm': 'norm2.',
  },
};

const xlmRobertaXl: Family = {
  ...bert,
  prefix: 'roberta.',
  config: (s) => ({
    ...robertaConfig(s),
    ...causalOf(s),
    ...normFirst,
    typeVocabSize: s.count('type_vocab_size', 1),
    eps: s.between('layer_norm_eps', 0, 1, 1e-5),
    embeddingNorm: false,
  }),
  modules: { ...bertModules, 'encoder.LayerNorm': 'norm.' },
  layer: {
    ...bertLayer,
    'attention.self_attn_layer_norm': 'norm1.',
    LayerNorm: 'norm2.',
  },
};

const distilbert: Family = {
  prefix: 'distilbert.',
  config: (s) => ({
    ...sizesOf(
      s,
      { maxPositions: 512 },
      { width: 'dim', heads: 'n_heads', layers: 'n_layers', feedForward: 'hidden_dim' },
    ),
    activation: activation(s, 'activation', 'gelu'),
  }),
  modules: bertModules,
  layerPrefix: 'transformer.layer.{i}.',
  layer: {
    'attention.q_lin': queryRows,
    'attention.k_lin': keyRows,
    'attention.v_lin': valueRows,
    'attention.out_lin': 'self_attn.out_proj.',
    sa_layer_norm: 'norm1.',
    'ffn.lin1': 'linear1.',
    'ffn.lin2': 'linear2.',
    output_layer_norm: 'norm2.',
  },
};

/**
 * MPNet's maximum relative distance, which its configuration does not contain. Half of the buckets on each side hold a
 * single distance.
 */
const RELATIVE_DISTANCE = 128;

const mpnet: Family = {
  prefix: 'mpnet.',
  config: (s) => {
    const key = 'relative_attention_num_buckets';
    const relativeBuckets = s.count(key, 32, 4, 4 * RELATIVE_DISTANCE - 2);
    if (relativeBuckets % 2 !== 0) throw s.wrong(key, 'an even number', relativeBuckets);
    return {
      ...bertConfig(s, 2), // in transformers, the positions of every MPNet begin at 2
      typeVocabSize: 0,
      positions: 'relative',
      positionEmbeddings: true,
      relativeBuckets,
      relativeDistance: RELATIVE_DISTANCE,
    };
  },
  modules: { ...bertModules, 'encoder.relative_attention_bias': 'relative_attention_bias.' },
  layerPrefix: 'encoder.layer.{i}.',
  layer: {
    'attention.attn.q': queryRows,
    'attention.attn.k': keyRows,
    'attention.attn.v': valueRows,
    'attention.attn.o': 'self_attn.out_proj.',
    'attention.LayerNorm': 'norm1.',
    'intermediate.dense': 'linear1.',
    'output.dense': 'linear2.',
    'output.LayerNorm': 'norm2.',
  },
  pooler: 'pooler.dense',
};

const electra: Family = {
  ...bert,
  prefix: 'electra.',
  config: (s) => {
    const config = bertConfig(s);
    return { ...config, ...causalOf(s), embeddingDim: embeddingDimOf(s, config) };
  },
  modules: { ...bertModules, embeddings_project: 'embeddings.projection.' },
  pooler: undefined,
};

const albert: Family = {
  prefix: 'albert.',
  config: (s) => {
    const keys = ['num_hidden_groups', 'inner_group_num'];
    for (const key of keys) {
      const groups = s.count(key, 1);
      if (groups !== 1) throw s.unsupported(key, '1 (one group of layers)', `${groups}`);
    }
    return {
      ...bertConfig(s),
      activation: activation(s, 'hidden_act', 'gelu_new'),
      embeddingDim: s.count('embedding_size', 128, 1, MAX_WIDTH),
      sharedLayers: true,
    };
  },
  modules: { ...bertModules, 'encoder.embedding_hidden_mapping_in': 'embeddings.projection.' },
  layerPrefix: 'encoder.albert_layer_groups.{i}.albert_layers.0.',
  layer: {
    'attention.query': queryRows,
    'attention.key': keyRows,
    'attention.value': valueRows,
    'attention.dense': 'self_attn.out_proj.',
    'attention.LayerNorm': 'norm1.',
    ffn: 'linear1.',
    ffn_output: 'linear2.',
    full_layer_layer_norm: 'norm2.',
  },
  pooler: 'pooler',
};

/** The maximum kernel width of a convolution. */
const MAX_KERNEL = 63;

/** DeBERTa v2 and v3, which have the same model_type. */
const deberta: Family = {
  prefix: 'deberta.',
  config: (s) => {
    const config = sharedBertConfig(s);
    const key = 'pos_att_type';
    const given = s.get(key) ?? [];
    const terms = (typeof given === 'string' ? given.toLowerCase().split('|') : [given].flat()).map((term) =>
      String(term).trim(),
    );
    const [contentToPosition, positionToContent] = ['c2p', 'p2c'].map((term) => terms.includes(term));
    // Values below 1 mean the default.
    const positive = (key: string) => {
      const value = s.get(key);
      return typeof value === 'number' && value < 1 ? 0 : s.count(key, 0);
    };
    const isRelative = s.flag('relative_attention', false) && (contentToPosition || positionToContent);
    const distance = positive('max_relative_positions') || config.maxPositions;
    const buckets = positive('position_buckets');
    if (isRelative && buckets > 0 && (buckets < 2 || Math.floor(buckets / 2) >= distance - 1)) {
      const expected = `0, or from 2 to less than twice max_relative_positions - 1 (${distance - 1})`;
      throw s.wrong('position_buckets', expected, buckets);
    }
    const convolution = positive('conv_kernel_size');
    if (convolution > MAX_KERNEL || convolution % 2 === (convolution > 0 ? 0 : 1))
      throw s.unsupported('conv_kernel_size', `0, or an odd width up to ${MAX_KERNEL}`, String(convolution));
    if (convolution > 0 && s.count('conv_groups', 1) !== 1)
      throw s.unsupported('conv_groups', '1 (every output has all inputs)', String(s.get('conv_groups')));
    const headDim = s.count('attention_head_size', config.headDim);
    if (headDim !== config.headDim)
      throw s.unsupported('attention_head_size', `${config.headDim} (hidden_size / num_attention_heads)`, `${headDim}`);
    const embeddingDim = embeddingDimOf(s, config);
    return {
      ...config,
      typeVocabSize: s.count('type_vocab_size', 0),
      eps: s.between('layer_norm_eps', 0, 1, 1e-7),
      ...(embeddingDim > 0 && { embeddingDim, projectionFirst: true }),
      positions: 'disentangled',
      relativeBuckets: isRelative ? buckets || distance : 0,
      relativeDistance: isRelative && buckets > 0 ? distance : 0,
      relativeNorm: isRelative && s.text('norm_rel_ebd', 'none').toLowerCase().includes('layer_norm'),
      positionEmbeddings: s.flag('position_biased_input', true),
      positionProjections: isRelative && !s.flag('share_att_key', false),
      contentToPosition: contentToPosition ?? false,
      positionToContent: positionToContent ?? false,
      convolution,
      ...(convolution > 0 && { convolutionActivation: activation(s, 'conv_act', 'tanh') }),
      // Scores are sums of one to three terms, divided by sqrt(terms * headDim).
      attentionScale: ((1 + Number(contentToPosition) + Number(positionToContent)) * config.headDim) ** -0.5,
    };
  },
  modules: {
    ...bertModules,
    'embeddings.embed_proj': 'embeddings.projection.',
    'encoder.rel_embeddings': 'relative_embeddings.',
    'encoder.LayerNorm': 'relative_norm.',
    'encoder.conv.conv': 'convolution.',
    'encoder.conv.LayerNorm': 'convolution.norm.',
  },
  layerPrefix: 'encoder.layer.{i}.',
  layer: {
    ...bertLayer,
    'attention.self.query_proj': queryRows,
    'attention.self.key_proj': keyRows,
    'attention.self.value_proj': valueRows,
    'attention.self.pos_key_proj': 'self_attn.pos_key_proj.',
    'attention.self.pos_query_proj': 'self_attn.pos_query_proj.',
  },
};

export const bertLikeFamilies: Readonly<Record<BertLikeFamilyName, Family>> = {
  distilbert,
  mpnet,
  electra,
  albert,
  'deberta-v2': deberta,
  ernie,
  'data2vec-text': data2vec,
  roformer,
  'megatron-bert': megatronBert,
  'roberta-prelayernorm': preLayerNorm,
  'xlm-roberta-xl': xlmRobertaXl,
};

/**
 * JinaBERT v2, whose model_type is BERT's: ALiBi penalties instead of position embeddings, and a gated feed-forward
 * block.
 */
const jinaBert: Family = {
  ...bert,
  config: (s) => {
    const key = 'feed_forward_type';
    const gate = s.text(key, 'original');
    if (!Object.hasOwn(JINA_GATES, gate))
      throw s.unsupported(key, `one of ${Object.keys(JINA_GATES).join(', ')}`, `'${gate}'`);
    return {
      ...sharedBertConfig(s),
      activation: JINA_GATES[gate]!,
      positions: 'alibi',
      gated: true,
      linear1Bias: false,
    };
  },
  layer: {
    ...bertLayer,
    'mlp.gated_layers': 'linear1.',
    'mlp.wo': 'linear2.',
    'mlp.layernorm': 'norm2.',
  },
};

/**
 * Whether a JinaBERT v2 has the layers of jina-embeddings-v2-base-code. Only the name of the code to which its
 * configuration refers tells.
 */
const hasQkNorm = (s: Settings) => /qk-post-norm/.test(JSON.stringify([s.get('auto_map'), s.get('_name_or_path')]));

/** JinaBERT v2 with norms of queries and keys, and two norms after the attention. */
const jinaBertCode: Family = {
  ...jinaBert,
  config: (s) => ({ ...jinaBert.config(s), gateSecond: true, jointQkNorm: true, nestedNorm: true }),
  layer: {
    ...bertLayer,
    'attention.self.layer_norm_q': 'self_attn.q_norm.',
    'attention.self.layer_norm_k': 'self_attn.k_norm.',
    'attention.output.LayerNorm': 'nested_norm.',
    layer_norm_1: 'norm1.',
    'mlp.up_gated_layer': 'linear1.',
    'mlp.down_layer': 'linear2.',
    layer_norm_2: 'norm2.',
  },
};

/** The activations of JinaBERT's gates. */
const JINA_GATES: Record<string, string> = { geglu: 'gelu', reglu: 'relu' };

/** The kind of JinaBERT v2 that a configuration describes. */
export const jinaBertOf = (settings: Settings): Family => (hasQkNorm(settings) ? jinaBertCode : jinaBert);
