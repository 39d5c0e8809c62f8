/**
 * The published encoder families, one row each: how config.json's keys describe the one stack of layers, and where each of the checkpoint's tensors goes.
 * To add a family, add a row; where its architecture differs, the core's `EncoderModelConfig` has an option for it.
 * Letters: E width, F feed-forward width, {i} a layer's number.
 */
import type { RawEncoderModelConfig } from '../core.js';
import { HeedError } from '../error.js';
import type { Settings } from './config.js';

/** The core's bounds, far beyond any published encoder. */
const MAX_WIDTH = 2 ** 16;
const MAX_LAYERS = 1024;

/** Where a checkpoint's tensor goes: a parameter of the core's `EncoderModel`, and the row at which it starts there. */
export interface Place {
  parameter: string;
  firstRow: number;
}

type Rows = (config: RawEncoderModelConfig) => number;
/** `name` is completed by the tensor's last part, `weight` or `bias`. */
type Target = string | { name: string; firstRow: Rows };

export interface Family {
  /** What precedes the encoder's tensors in a checkpoint that also has a head; a bare encoder has none. */
  prefix: string;
  config(settings: Settings): Partial<RawEncoderModelConfig>;
  /** Modules outside the layers, checkpoint name -> core name. */
  modules: Record<string, Target>;
  /** Modules of layer {i}: their common prefix, then checkpoint name -> core name below `layers.{i}.` */
  layerPrefix: string;
  layer: Record<string, Target>;
  /** The dense layer of `pooler_output`, where the family has one. */
  pooler?: string;
}

const query = { name: 'self_attn.in_proj_', firstRow: () => 0 };
const key = { name: 'self_attn.in_proj_', firstRow: (c: RawEncoderModelConfig) => c.embedDim };
const value = { name: 'self_attn.in_proj_', firstRow: (c: RawEncoderModelConfig) => 2 * c.embedDim };
const secondHalf = { name: 'linear1.', firstRow: (c: RawEncoderModelConfig) => c.feedForwardDim };

/** The width and the number of heads, which divides it. */
function widthOf(
  s: Settings,
  widthKeys: string | string[] = 'hidden_size',
  headsKeys: string | string[] = 'num_attention_heads',
): { embedDim: number; numHeads: number } {
  const embedDim = s.count(widthKeys, undefined, 1, MAX_WIDTH);
  const numHeads = s.count(headsKeys, undefined, 1, embedDim);
  if (embedDim % numHeads !== 0)
    throw s.wrong(s.keyOf(headsKeys), numHeads, `a divisor of ${s.keyOf(widthKeys)}, ${embedDim}`);
  return { embedDim, numHeads };
}

/** The columns of a head that are rotated, in pairs. */
function rotaryDimOf(s: Settings, keys: string[], headDim: number, fraction = 1): number {
  const dim = Math.floor(headDim * fraction);
  if (dim >= 2 && dim <= headDim && dim % 2 === 0) return dim;
  const key = s.keyOf(keys);
  throw s.wrong(key, s.get(key), `an even number of rotated columns in heads of ${headDim}; that gives ${dim}`);
}

function bertSettings(s: Settings, positionOffset = 0): Partial<RawEncoderModelConfig> {
  const kind = s.text('position_embedding_type', 'absolute');
  if (kind !== 'absolute')
    throw new HeedError('UNSUPPORTED', `${s.file}: position_embedding_type: got '${kind}'; expected 'absolute'`);
  return {
    vocabSize: s.count('vocab_size', undefined, 1),
    ...widthOf(s),
    numLayers: s.count('num_hidden_layers', undefined, 0, MAX_LAYERS),
    feedForwardDim: s.count('intermediate_size', undefined, 1, 4 * MAX_WIDTH),
    maxPositions: s.count('max_position_embeddings', 512, positionOffset + 1),
    positionOffset,
    typeVocabSize: s.count('type_vocab_size', 2),
    activation: activation(s, 'hidden_act', 'gelu'),
    eps: s.between('layer_norm_eps', 0, 1, 1e-12),
  };
}

const bertModules = {
  'embeddings.word_embeddings': 'embeddings.word.',
  'embeddings.position_embeddings': 'embeddings.position.',
  'embeddings.token_type_embeddings': 'embeddings.token_type.',
  'embeddings.LayerNorm': 'embeddings.norm.',
};

const bertLayer = {
  'attention.self.query': query,
  'attention.self.key': key,
  'attention.self.value': value,
  'attention.output.dense': 'self_attn.out_proj.',
  'attention.output.LayerNorm': 'norm1.',
  'intermediate.dense': 'linear1.',
  'output.dense': 'linear2.',
  'output.LayerNorm': 'norm2.',
};

const bert: Family = {
  prefix: 'bert.',
  config: bertSettings,
  modules: bertModules,
  layerPrefix: 'encoder.layer.{i}.',
  layer: bertLayer,
  pooler: 'pooler.dense',
};

/** Positions start behind the padding's: padding_idx + 1. */
const paddedSettings = (s: Settings) => bertSettings(s, s.count('pad_token_id', 1) + 1);

const roberta: Family = { ...bert, prefix: 'roberta.', config: paddedSettings };

/** MPNet's, which its configuration does not name; a quarter of the buckets are for single distances below it. */
const RELATIVE_DISTANCE = 128;

export const FAMILIES: Record<string, Family> = {
  bert,
  roberta,
  'xlm-roberta': roberta,
  camembert: roberta,

  distilbert: {
    prefix: 'distilbert.',
    config: (s) => ({
      vocabSize: s.count('vocab_size', undefined, 1),
      ...widthOf(s, 'dim', 'n_heads'),
      numLayers: s.count('n_layers', undefined, 0, MAX_LAYERS),
      feedForwardDim: s.count('hidden_dim', undefined, 1, 4 * MAX_WIDTH),
      maxPositions: s.count('max_position_embeddings', 512, 1),
      activation: activation(s, 'activation', 'gelu'),
      eps: 1e-12,
    }),
    modules: bertModules,
    layerPrefix: 'transformer.layer.{i}.',
    layer: {
      'attention.q_lin': query,
      'attention.k_lin': key,
      'attention.v_lin': value,
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
      if (relativeBuckets % 2 !== 0) throw s.wrong(key, relativeBuckets, 'an even number');
      return {
        ...paddedSettings(s),
        typeVocabSize: 0,
        positions: 'relative',
        relativeBuckets,
        relativeDistance: RELATIVE_DISTANCE,
      };
    },
    modules: { ...bertModules, 'encoder.relative_attention_bias': 'relative_attention_bias.' },
    layerPrefix: 'encoder.layer.{i}.',
    layer: {
      'attention.attn.q': query,
      'attention.attn.k': key,
      'attention.attn.v': value,
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
      const config = bertSettings(s);
      const width = s.count('embedding_size', config.embedDim, 1, MAX_WIDTH);
      return { ...config, embeddingDim: width === config.embedDim ? 0 : width };
    },
    modules: { ...bertModules, embeddings_project: 'embeddings.projection.' },
    pooler: undefined,
  },

  albert: {
    prefix: 'albert.',
    config: (s) => {
      if (s.count('num_hidden_groups', 1) !== 1 || s.count('inner_group_num', 1) !== 1) {
        throw new HeedError(
          'UNSUPPORTED',
          `${s.file}: num_hidden_groups, inner_group_num: got more than one group of layers; expected 1`,
        );
      }
      return {
        ...bertSettings(s),
        activation: activation(s, 'hidden_act', 'gelu_new'),
        embeddingDim: s.count('embedding_size', 128, 1, MAX_WIDTH),
        sharedLayers: true,
      };
    },
    modules: { ...bertModules, 'encoder.embedding_hidden_mapping_in': 'embeddings.projection.' },
    layerPrefix: 'encoder.albert_layer_groups.{i}.albert_layers.0.',
    layer: {
      'attention.query': query,
      'attention.key': key,
      'attention.value': value,
      'attention.dense': 'self_attn.out_proj.',
      'attention.LayerNorm': 'norm1.',
      ffn: 'linear1.',
      ffn_output: 'linear2.',
      full_layer_layer_norm: 'norm2.',
    },
    pooler: 'pooler',
  },

  modernbert: {
    prefix: 'model.',
    config: modernBertSettings,
    modules: {
      'embeddings.tok_embeddings': 'embeddings.word.',
      'embeddings.norm': 'embeddings.norm.',
      final_norm: 'norm.',
    },
    layerPrefix: 'layers.{i}.',
    layer: {
      attn_norm: 'norm1.',
      'attn.Wqkv': query,
      'attn.Wo': 'self_attn.out_proj.',
      mlp_norm: 'norm2.',
      'mlp.Wi': 'linear1.',
      'mlp.Wo': 'linear2.',
    },
  },

  nomic_bert: {
    prefix: 'bert.',
    config: nomicBertSettings,
    modules: {
      'embeddings.word_embeddings': 'embeddings.word.',
      'embeddings.token_type_embeddings': 'embeddings.token_type.',
      emb_ln: 'embeddings.norm.',
    },
    layerPrefix: 'encoder.layers.{i}.',
    layer: {
      'attn.Wqkv': query,
      'attn.out_proj': 'self_attn.out_proj.',
      norm1: 'norm1.',
      'mlp.fc12': 'linear1.', // the activated half
      'mlp.fc11': secondHalf,
      'mlp.fc1': 'linear1.', // where not gated
      'mlp.fc2': 'linear2.',
      norm2: 'norm2.',
    },
  },
};

function modernBertSettings(s: Settings): Partial<RawEncoderModelConfig> {
  const { embedDim, numHeads } = widthOf(s);
  const bias = s.flag('attention_bias', false);
  if (s.flag('mlp_bias', false) !== bias)
    throw new HeedError(
      'UNSUPPORTED',
      `${s.file}: mlp_bias: got ${!bias} with attention_bias ${bias}; expected the same in both`,
    );
  const rope = s.record('rope_parameters');
  const globalBase =
    rope?.record('full_attention')?.between('rope_theta', 1, Infinity) ??
    s.between('global_rope_theta', 1, Infinity, 160000);
  const localBase =
    rope?.record('sliding_attention')?.between('rope_theta', 1, Infinity) ??
    s.between('local_rope_theta', 1, Infinity, 10000);
  return {
    vocabSize: s.count('vocab_size', undefined, 1),
    embedDim,
    numLayers: s.count('num_hidden_layers', undefined, 0, MAX_LAYERS),
    numHeads,
    feedForwardDim: s.count('intermediate_size', undefined, 1, 4 * MAX_WIDTH),
    maxPositions: s.count('max_position_embeddings', 8192, 1),
    activation: activation(s, 'hidden_activation', 'gelu'),
    eps: s.between('norm_eps', 0, 1, 1e-5),
    positions: 'rotary',
    rotaryDim: rotaryDimOf(s, ['num_attention_heads'], embedDim / numHeads),
    rotaryBase: globalBase,
    localRotaryBase: localBase,
    window: Math.floor(s.count('local_attention', 128) / 2),
    globalEvery: globalEvery(s),
    normFirst: true,
    finalNorm: true,
    bias,
    normBias: s.flag('norm_bias', false),
    gated: true,
    firstAttentionNorm: false,
  };
}

/** The period of global layers; newer configs list every layer's kind instead. */
function globalEvery(s: Settings): number {
  const types = s.get('layer_types');
  if (types === undefined) return s.count('global_attn_every_n_layers', 3, 1, MAX_LAYERS);
  if (!Array.isArray(types) || types.length > MAX_LAYERS)
    throw s.wrong('layer_types', types, `a list of at most ${MAX_LAYERS} entries`);
  const second = types.indexOf('full_attention', 1);
  const period = second < 0 ? Math.max(types.length, 1) : second;
  if (types.some((type, i) => type !== (i % period === 0 ? 'full_attention' : 'sliding_attention'))) {
    throw new HeedError(
      'UNSUPPORTED',
      `${s.file}: layer_types: got an irregular pattern; expected 'full_attention' in every n-th layer from the first, 'sliding_attention' in the others`,
    );
  }
  return period;
}

function nomicBertSettings(s: Settings): Partial<RawEncoderModelConfig> {
  const headsKeys = ['n_head', 'num_attention_heads'];
  const { embedDim, numHeads } = widthOf(s, ['n_embd', 'hidden_size'], headsKeys);
  const kind = s.text('activation_function', 'swiglu');
  const bias = s.flag('qkv_proj_bias', false);
  const refused = [
    s.flag('prenorm', false) && 'prenorm',
    s.flag('rotary_emb_interleaved', false) && 'rotary_emb_interleaved',
    s.flag('causal', false) && 'causal',
    s.flag('mlp_fc1_bias', bias) !== bias && 'mlp_fc1_bias unlike qkv_proj_bias',
    s.flag('mlp_fc2_bias', bias) !== bias && 'mlp_fc2_bias unlike qkv_proj_bias',
    (s.get('rotary_scaling_factor') ?? null) !== null && 'rotary_scaling_factor',
    (s.get('num_experts') ?? 0) !== 0 && 'num_experts',
  ].filter(Boolean);
  if (refused.length > 0)
    throw new HeedError('UNSUPPORTED', `${s.file}: got ${refused.join(', ')}; expected the layout of nomic-embed-text`);
  const fraction = s.between('rotary_emb_fraction', 0, Infinity, 1);
  return {
    vocabSize: s.count('vocab_size', undefined, 1),
    embedDim,
    numLayers: s.count(['n_layer', 'num_hidden_layers'], undefined, 0, MAX_LAYERS),
    numHeads,
    feedForwardDim: s.count(['n_inner', 'intermediate_size'], 4 * embedDim, 1, 4 * MAX_WIDTH),
    maxPositions: s.count(['n_positions', 'max_position_embeddings'], 2048, 1),
    typeVocabSize: s.count('type_vocab_size', 2),
    activation:
      kind === 'swiglu'
        ? 'silu'
        : kind === 'geglu'
          ? 'gelu'
          : kind === 'glu'
            ? 'sigmoid'
            : activation(s, 'activation_function', 'gelu'),
    eps: s.between(['layer_norm_epsilon', 'layer_norm_eps'], 0, 1, 1e-12),
    positions: 'rotary',
    rotaryDim: rotaryDimOf(s, ['rotary_emb_fraction', ...headsKeys], embedDim / numHeads, fraction),
    rotaryBase: s.between('rotary_emb_base', 1, Infinity, 10000),
    bias,
    gated: kind === 'swiglu' || kind === 'geglu' || kind === 'glu',
  };
}

/** Hugging Face's names of activations, and the core's. */
const ACTIVATIONS: Record<string, string> = {
  gelu: 'gelu',
  gelu_new: 'gelu_tanh',
  gelu_pytorch_tanh: 'gelu_tanh',
  gelu_fast: 'gelu_tanh',
  relu: 'relu',
  silu: 'silu',
  swish: 'silu',
  tanh: 'tanh',
};

export function activation(s: Settings, key: string, fallback: string): string {
  const name = s.text(key, fallback);
  const found = Object.hasOwn(ACTIVATIONS, name) ? ACTIVATIONS[name] : undefined;
  if (!found)
    throw new HeedError(
      'UNSUPPORTED',
      `${s.file}: ${key}: got '${name}'; expected ${Object.keys(ACTIVATIONS).join(', ')}`,
    );
  return found;
}

/** The row for config.json's model_type, and the core's config that follows from it. */
export function familyOf(settings: Settings): { type: string; family: Family; config: RawEncoderModelConfig } {
  const type = settings.get('model_type');
  if (typeof type !== 'string' || !Object.hasOwn(FAMILIES, type)) {
    throw new HeedError(
      'UNSUPPORTED',
      `${settings.file}: model_type: got ${JSON.stringify(type)}; expected ${Object.keys(FAMILIES).join(', ')}`,
    );
  }
  const family = FAMILIES[type]!;
  const config: RawEncoderModelConfig = {
    vocabSize: 0,
    embedDim: 0,
    embeddingDim: 0,
    numLayers: 0,
    numHeads: 0,
    feedForwardDim: 0,
    maxPositions: 0,
    positionOffset: 0,
    typeVocabSize: 0,
    activation: 'gelu',
    eps: 1e-12,
    positions: 'absolute',
    relativeBuckets: 0,
    relativeDistance: 128,
    rotaryDim: 0,
    rotaryBase: 10000,
    localRotaryBase: 10000,
    window: -1,
    globalEvery: 1,
    normFirst: false,
    embeddingNorm: true,
    finalNorm: false,
    bias: true,
    normBias: true,
    gated: false,
    firstAttentionNorm: true,
    sharedLayers: false,
    int8: false,
    ...family.config(settings),
  };
  return { type, family, config };
}

/** Where every tensor of the encoder goes, by its name without the family's prefix. */
export function placesOf(family: Family, config: RawEncoderModelConfig): Map<string, Place> {
  const places = new Map<string, Place>();
  const add = (module: string, target: Target, below: string) => {
    const [name, firstRow] = typeof target === 'string' ? [target, 0] : [target.name, target.firstRow(config)];
    for (const part of ['weight', 'bias'])
      places.set(`${module}.${part}`, { parameter: `${below}${name}${part}`, firstRow });
  };
  for (const [module, target] of Object.entries(family.modules)) add(module, target, '');
  const layers = config.sharedLayers ? Math.min(1, config.numLayers) : config.numLayers;
  for (let i = 0; i < layers; i++) {
    for (const [module, target] of Object.entries(family.layer))
      add(family.layerPrefix.replace('{i}', String(i)) + module, target, `layers.${i}.`);
  }
  return places;
}
