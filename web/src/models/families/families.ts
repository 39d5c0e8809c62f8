/**
 * The published encoder families. For each, how config.json describes the layers, and which of heed's parameters each
 * tensor of the checkpoint belongs to. To add a family, add an entry to FAMILIES; a new architecture may need a new
 * option in the C++ `EncoderModelConfig`.
 * Notation: E width, F feed-forward width, {i} number of a layer.
 */
import { importing, invalid } from '../../base/error.js';
import { nearestHint } from '../../base/options.js';
import type { RawEncoderModelConfig } from '../../base/wasm/core.js';
import type { Settings } from '../../io/settings.js';
import { STATIC } from '../static-embedding.js';
import {
  activation,
  type Config,
  type CoreName,
  DEFAULTS,
  type Family,
  keyRows,
  MAX_WIDTH,
  type ParameterRows,
  queryRows,
  ROTARY_FAMILIES,
  sizesOf,
  valueRows,
} from './family.js';
import type { GlinerConfig } from './gliner-config.js';

function bertConfig(s: Settings, positionOffset = 0): Config {
  const key = POSITION_KIND;
  const kind = s.text(key, 'absolute');
  if (kind !== 'absolute') throw s.unsupported(key, "'absolute'", `'${kind}'`);
  return sharedBertConfig(s, positionOffset);
}

function sharedBertConfig(s: Settings, positionOffset = 0): Config {
  return {
    ...sizesOf(s, { maxPositions: 512, positionOffset }),
    typeVocabSize: s.count('type_vocab_size', 2),
    activation: activation(s, 'hidden_act', 'gelu'),
    eps: s.between('layer_norm_eps', 0, 1, 1e-12),
  };
}

const POSITION_KIND = 'position_embedding_type';

/** Whether a checkpoint whose model_type is 'bert' is a JinaBERT v2. */
export function isJinaBert(type: string, settings: Settings): boolean {
  return type === 'bert' && settings.get(POSITION_KIND) === 'alibi';
}

const bertModules = {
  'embeddings.word_embeddings': 'embeddings.word.',
  'embeddings.position_embeddings': 'embeddings.position.',
  'embeddings.token_type_embeddings': 'embeddings.token_type.',
  'embeddings.LayerNorm': 'embeddings.norm.',
};

const bertLayer = {
  'attention.self.query': queryRows,
  'attention.self.key': keyRows,
  'attention.self.value': valueRows,
  'attention.output.dense': 'self_attn.out_proj.',
  'attention.output.LayerNorm': 'norm1.',
  'intermediate.dense': 'linear1.',
  'output.dense': 'linear2.',
  'output.LayerNorm': 'norm2.',
};

const bert: Family = {
  prefix: 'bert.',
  config: bertConfig,
  modules: bertModules,
  layerPrefix: 'encoder.layer.{i}.',
  layer: bertLayer,
  pooler: 'pooler.dense',
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
 * Whether a JinaBERT v2 is of the kind of jina-embeddings-v2-base-code, which only the code that its configuration
 * refers to reveals.
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

/** RoBERTa's configuration: positions start at padding_idx + 1. */
const robertaConfig = (s: Settings) => bertConfig(s, s.count('pad_token_id', 1) + 1);

const roberta: Family = { ...bert, prefix: 'roberta.', config: robertaConfig };

/** The maximum kernel width of a convolution. */
const MAX_KERNEL = 63;

/** DeBERTa v2 and v3, which have the same model_type. */
const deberta: Family = {
  prefix: 'deberta.',
  config: (s) => {
    const key = 'pos_att_type';
    const given = s.get(key) ?? [];
    const terms = (typeof given === 'string' ? given.toLowerCase().split('|') : [given].flat()).map(String).sort();
    const convolution = s.count('conv_kernel_size', 0, 0, MAX_KERNEL);
    const refused = [
      !s.flag('relative_attention', false) && 'relative_attention: false',
      String(terms) !== 'c2p,p2c' && `${key}: ${JSON.stringify(given)}`,
      convolution > 0 && convolution % 2 === 0 && `conv_kernel_size: ${convolution}`,
      convolution > 0 && s.count('conv_groups', 1) !== 1 && 'conv_groups',
      s.count('embedding_size', s.count('hidden_size')) !== s.count('hidden_size') && 'embedding_size',
    ].filter((each) => each !== false);
    if (refused.length > 0)
      throw invalid(s.file, 'the layout of deberta-v2-xlarge or of deberta-v3', refused.join(', '), 'UNSUPPORTED');
    const config = sharedBertConfig(s);
    // -1 means the default.
    const positive = (key: string, fallback: number) => (s.get(key) === -1 ? fallback : s.count(key, fallback, 2));
    const relativeDistance = positive('max_relative_positions', config.maxPositions);
    const relativeBuckets = positive('position_buckets', relativeDistance);
    if (relativeBuckets > relativeDistance)
      throw s.wrong('position_buckets', `at most max_relative_positions (${relativeDistance})`, relativeBuckets);
    return {
      ...config,
      typeVocabSize: s.count('type_vocab_size', 0),
      eps: s.between('layer_norm_eps', 0, 1, 1e-7),
      positions: 'disentangled',
      relativeDistance,
      relativeBuckets,
      relativeNorm: s.text('norm_rel_ebd', 'none').includes('layer_norm'),
      positionEmbeddings: s.flag('position_biased_input', true),
      positionProjections: !s.flag('share_att_key', false),
      convolution,
      ...(convolution > 0 && { convolutionActivation: activation(s, 'conv_act', 'tanh') }),
      attentionScale: (3 * config.headDim) ** -0.5, // the scores are a sum of three terms
    };
  },
  modules: {
    ...bertModules,
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

/**
 * MPNet's maximum relative distance, which its configuration does not contain. Half of the buckets on each side hold a
 * single distance.
 */
const RELATIVE_DISTANCE = 128;

const FAMILIES: Record<string, Family> = {
  // Static embeddings: a table, without layers, positions or norms.
  [STATIC]: {
    prefix: '',
    config: (s) => ({
      vocabSize: s.count('vocab_size', undefined, 1),
      embedDim: s.count('hidden_dim', undefined, 2, MAX_WIDTH),
      numHeads: 1,
      keyValueHeads: 1,
      headDim: 2,
      numLayers: 0,
      feedForwardDim: 1,
      maxPositions: 2 ** 16,
      positions: 'rotary',
      rotaryDim: 2,
      embeddingNorm: false,
    }),
    modules: { embedding: 'embeddings.word.' },
    layerPrefix: '',
    layer: {},
  },

  bert,
  roberta,
  'xlm-roberta': roberta,
  camembert: roberta,

  distilbert: {
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
  },

  mpnet: {
    prefix: 'mpnet.',
    config: (s) => {
      const key = 'relative_attention_num_buckets';
      const relativeBuckets = s.count(key, 32, 4, 4 * RELATIVE_DISTANCE - 2);
      if (relativeBuckets % 2 !== 0) throw s.wrong(key, 'an even number', relativeBuckets);
      return {
        ...robertaConfig(s),
        typeVocabSize: 0,
        positions: 'relative',
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
  },

  electra: {
    ...bert,
    prefix: 'electra.',
    config: (s) => {
      const config = bertConfig(s);
      const width = s.count('embedding_size', config.embedDim, 1, MAX_WIDTH);
      return { ...config, embeddingDim: width === config.embedDim ? 0 : width };
    },
    modules: { ...bertModules, embeddings_project: 'embeddings.projection.' },
    pooler: undefined,
  },

  albert: {
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
  },

  'deberta-v2': deberta,
};

/** The families that encode images. */
export const IMAGE_FAMILIES = ['clip', 'siglip', 'vit', 'dinov2', 'dinov2_with_registers', 'dinov3_vit'] as const;
export type ImageFamilyName = (typeof IMAGE_FAMILIES)[number];

/** The `model_type` of the families that encode only texts. */
export const textFamilies: readonly string[] = [...Object.keys(FAMILIES), ...ROTARY_FAMILIES];

export interface FamilyConfig {
  type: string;
  family: Family;
  config: RawEncoderModelConfig;
  /** The settings of a GLiNER, for its encoder. */
  gliner?: GlinerConfig | undefined;
}

/** The key of config.json that names the family. */
export const TYPE = 'model_type';

/** Returns the family of a configuration, like `familyOf`, but only for families that encode only texts. */
export async function textFamilyOf(settings: Settings): Promise<FamilyConfig> {
  const type = settings.get(TYPE);
  const rotary = ROTARY_FAMILIES.find((name) => name === type);
  if (rotary) {
    const { rotaryFamilies } = await importing('rotary-families', () => import('./rotary-families.js'));
    return configured(rotary, rotaryFamilies[rotary], settings);
  }
  if (typeof type !== 'string' || !Object.hasOwn(FAMILIES, type)) {
    const known = [...textFamilies, ...IMAGE_FAMILIES];
    throw settings.unsupported(TYPE, `one of ${known.join(', ')}${nearestHint(type, known)}`, JSON.stringify(type));
  }
  const jina = hasQkNorm(settings) ? jinaBertCode : jinaBert;
  return configured(type, isJinaBert(type, settings) ? jina : FAMILIES[type]!, settings);
}

function configured(type: string, family: Family, settings: Settings): FamilyConfig {
  return { type, family, config: { ...DEFAULTS, ...family.config(settings) } };
}

/** The rows of a parameter that each tensor of the encoder fills, by the tensor's name without the family's prefix. */
export function parameterRowsOf(family: Family, config: RawEncoderModelConfig): Map<string, ParameterRows> {
  const rows = new Map(Object.entries(family.tensors ?? {}));
  const add = (modules: Record<string, CoreName>, prefix: string, below: string) => {
    for (const [module, core] of Object.entries(modules)) {
      for (const part of ['weight', 'bias'] as const) {
        const { name, firstRow } = typeof core === 'string' ? { name: core, firstRow: 0 } : core(config, part);
        rows.set(`${prefix}${module}.${part}`, { parameter: `${below}${name}${part}`, firstRow });
      }
    }
  };
  add(family.modules, '', '');
  const layers = config.sharedLayers ? Math.min(1, config.numLayers) : config.numLayers;
  for (let i = 0; i < layers; i++) add(family.layer, family.layerPrefix.replace('{i}', String(i)), `layers.${i}.`);
  return rows;
}
