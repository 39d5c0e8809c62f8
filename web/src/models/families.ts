/**
 * The published encoder families: for each, how config.json describes the core's stack of layers, and to which of the core's parameters each of the checkpoint's tensors belongs.
 * To add a family, add an entry to FAMILIES; a new architecture may need a new option in the core's `EncoderModelConfig`.
 * Notation: E width, F feed-forward width, {i} a layer's number.
 */
import type { RawEncoderModelConfig } from '../core.js';
import { invalid } from '../error.js';
import type { Settings } from './config.js';
import { STATIC } from './static-embedding.js';

/** The core's bounds, far beyond any published encoder. */
const MAX_WIDTH = 2 ** 16;
const MAX_LAYERS = 1024;

/** The rows of a parameter of the core's `EncoderModel` that a tensor of the checkpoint fills, from `firstRow` on. */
export interface ParameterRows {
  parameter: string;
  firstRow: number;
}

type Rows = (config: RawEncoderModelConfig) => number;
/** A core name, to which `weight` or `bias` is appended. */
type CoreName = string | { name: string; firstRow: Rows };

/** The core's defaults of options that are also read here. */
const DEFAULTS = {
  positionOffset: 0,
  typeVocabSize: 0,
  activation: 'gelu',
  eps: 1e-12,
  positions: 'absolute' as RawEncoderModelConfig['positions'],
  int8: false,
};

/** The core's options; those without a default are required. */
type Config = Omit<RawEncoderModelConfig, keyof typeof DEFAULTS> & Partial<RawEncoderModelConfig>;

export interface Family {
  /** The prefix of the encoder's tensors in a checkpoint that also has a head; a bare encoder has none. */
  prefix: string;
  config(settings: Settings): Config;
  /** Modules outside the layers, by their names in the checkpoint. */
  modules: Record<string, CoreName>;
  /** The common prefix of the modules of layer {i}. */
  layerPrefix: string;
  /** The layer's modules: name in the checkpoint -> core name below `layers.{i}.` */
  layer: Record<string, CoreName>;
  /** The dense layer of `pooler_output`, if the family has one. */
  pooler?: string;
}

const packedQkv = 'self_attn.in_proj_';
const queryRows = { name: packedQkv, firstRow: () => 0 };
const keyRows = { name: packedQkv, firstRow: (c: RawEncoderModelConfig) => c.embedDim };
const valueRows = { name: packedQkv, firstRow: (c: RawEncoderModelConfig) => 2 * c.embedDim };
const secondHalf = { name: 'linear1.', firstRow: (c: RawEncoderModelConfig) => c.feedForwardDim };

type Keys = string | string[];

/** Keys of config.json that are not BERT's. */
interface SizeKeys {
  width?: Keys;
  heads?: Keys;
  layers?: Keys;
  feedForward?: Keys;
  positions?: Keys;
}

/** The sizes of the stack; the fallbacks are for values that config.json does not have. */
function sizesOf(
  s: Settings,
  fallback: { maxPositions: number; feedForwardFactor?: number; positionOffset?: number },
  {
    width = 'hidden_size',
    heads = 'num_attention_heads',
    layers = 'num_hidden_layers',
    feedForward = 'intermediate_size',
    positions = 'max_position_embeddings',
  }: SizeKeys = {},
): Config {
  const { maxPositions, feedForwardFactor, positionOffset = 0 } = fallback;
  const embedDim = s.count(width, undefined, 1, MAX_WIDTH);
  const numHeads = s.count(heads, undefined, 1, embedDim);
  if (embedDim % numHeads !== 0)
    throw s.wrong(s.keyOf(heads), `a divisor of ${s.keyOf(width)} (${embedDim})`, numHeads);
  return {
    vocabSize: s.count('vocab_size', undefined, 1),
    embedDim,
    numHeads,
    numLayers: s.count(layers, undefined, 0, MAX_LAYERS),
    feedForwardDim: s.count(feedForward, feedForwardFactor && feedForwardFactor * embedDim, 1, 4 * MAX_WIDTH),
    maxPositions: s.count(positions, maxPositions, positionOffset + 1),
    positionOffset,
  };
}

/** The number of rotated features per head. */
function rotaryDimOf(s: Settings, keys: string[], { embedDim, numHeads }: Config, fraction = 1): number {
  const headDim = embedDim / numHeads;
  const dim = Math.floor(headDim * fraction);
  if (dim >= 2 && dim <= headDim && dim % 2 === 0) return dim;
  const key = s.keyOf(keys);
  throw s.wrong(key, `a value for an even number of rotated columns, not ${dim} of ${headDim}`, s.get(key));
}

function bertConfig(s: Settings, positionOffset = 0): Config {
  const key = 'position_embedding_type';
  const kind = s.text(key, 'absolute');
  if (kind !== 'absolute') throw s.unsupported(key, "'absolute'", `'${kind}'`);
  return {
    ...sizesOf(s, { maxPositions: 512, positionOffset }),
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

/** Positions start at padding_idx + 1. */
const robertaConfig = (s: Settings) => bertConfig(s, s.count('pad_token_id', 1) + 1);

const roberta: Family = { ...bert, prefix: 'roberta.', config: robertaConfig };

/** MPNet's largest relative distance, which its configuration does not contain; on each side, half of the buckets hold one distance each. */
const RELATIVE_DISTANCE = 128;

const FAMILIES: Record<string, Family> = {
  // Static embeddings: a table without layers, positions or norms.
  [STATIC]: {
    prefix: '',
    config: (s) => ({
      vocabSize: s.count('vocab_size', undefined, 1),
      embedDim: s.count('hidden_dim', undefined, 2, MAX_WIDTH),
      numHeads: 1,
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
      if (keys.some((key) => s.count(key, 1) !== 1))
        throw s.unsupported(keys.join(', '), 'one group of layers', 'several');
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

  modernbert: {
    prefix: 'model.',
    config: modernBertConfig,
    modules: {
      'embeddings.tok_embeddings': 'embeddings.word.',
      'embeddings.norm': 'embeddings.norm.',
      final_norm: 'norm.',
    },
    layerPrefix: 'layers.{i}.',
    layer: {
      attn_norm: 'norm1.',
      'attn.Wqkv': packedQkv,
      'attn.Wo': 'self_attn.out_proj.',
      mlp_norm: 'norm2.',
      'mlp.Wi': 'linear1.',
      'mlp.Wo': 'linear2.',
    },
  },

  nomic_bert: {
    prefix: 'bert.',
    config: nomicBertConfig,
    modules: {
      'embeddings.word_embeddings': 'embeddings.word.',
      'embeddings.token_type_embeddings': 'embeddings.token_type.',
      emb_ln: 'embeddings.norm.',
    },
    layerPrefix: 'encoder.layers.{i}.',
    layer: {
      'attn.Wqkv': packedQkv,
      'attn.out_proj': 'self_attn.out_proj.',
      norm1: 'norm1.',
      'mlp.fc12': 'linear1.', // the activated half; fc1 if not gated
      'mlp.fc11': secondHalf,
      'mlp.fc1': 'linear1.',
      'mlp.fc2': 'linear2.',
      norm2: 'norm2.',
    },
  },
};

function modernBertConfig(s: Settings): Config {
  const sizes = sizesOf(s, { maxPositions: 8192 });
  const bias = s.flag('attention_bias', false);
  if (s.flag('mlp_bias', false) !== bias) throw s.unsupported('mlp_bias', `${bias}, as attention_bias`, `${!bias}`);
  const rope = s.record('rope_parameters');
  const base = (group: string, key: string, fallback: number) =>
    rope?.record(group)?.between('rope_theta', 1, Infinity) ?? s.between(key, 1, Infinity, fallback);
  return {
    ...sizes,
    activation: activation(s, 'hidden_activation', 'gelu'),
    eps: s.between('norm_eps', 0, 1, 1e-5),
    positions: 'rotary',
    rotaryDim: rotaryDimOf(s, ['num_attention_heads'], sizes),
    rotaryBase: base('full_attention', 'global_rope_theta', 160000),
    localRotaryBase: base('sliding_attention', 'local_rope_theta', 10000),
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

/** The period of layers with global attention; newer files list the kind of every layer instead. */
function globalEvery(s: Settings): number {
  const key = 'layer_types';
  const types = s.get(key);
  if (types === undefined) return s.count('global_attn_every_n_layers', 3, 1, MAX_LAYERS);
  if (!Array.isArray(types) || types.length > MAX_LAYERS)
    throw s.wrong(key, `a list of at most ${MAX_LAYERS} entries`, types);
  const second = types.indexOf('full_attention', 1);
  const period = second < 0 ? Math.max(types.length, 1) : second;
  if (types.some((type, i) => type !== (i % period === 0 ? 'full_attention' : 'sliding_attention')))
    throw s.unsupported(
      key,
      "'full_attention' in every n-th layer from the first, 'sliding_attention' in the others",
      'an irregular pattern',
    );
  return period;
}

/** Activation of the gate, by Hugging Face's name. */
const GATES: Record<string, string> = { swiglu: 'silu', geglu: 'gelu', glu: 'sigmoid' };

function nomicBertConfig(s: Settings): Config {
  const heads = ['n_head', 'num_attention_heads'];
  const sizes = sizesOf(
    s,
    { maxPositions: 2048, feedForwardFactor: 4 },
    {
      width: ['n_embd', 'hidden_size'],
      heads,
      layers: ['n_layer', 'num_hidden_layers'],
      feedForward: ['n_inner', 'intermediate_size'],
      positions: ['n_positions', 'max_position_embeddings'],
    },
  );
  const key = 'activation_function';
  const kind = s.text(key, 'swiglu');
  const gated = Object.hasOwn(GATES, kind);
  const bias = s.flag('qkv_proj_bias', false);
  const refused = [
    ...['prenorm', 'rotary_emb_interleaved', 'causal'].filter((key) => s.flag(key, false)),
    ...['mlp_fc1_bias', 'mlp_fc2_bias']
      .filter((key) => s.flag(key, bias) !== bias)
      .map((key) => `${key} unlike qkv_proj_bias`),
    ...['rotary_scaling_factor'].filter((key) => s.get(key) !== undefined),
    ...['num_experts'].filter((key) => (s.get(key) ?? 0) !== 0),
  ];
  if (refused.length > 0) throw invalid(s.file, 'the layout of nomic-embed-text', refused.join(', '), 'UNSUPPORTED');
  const fraction = s.between('rotary_emb_fraction', 0, Infinity, 1);
  return {
    ...sizes,
    typeVocabSize: s.count('type_vocab_size', 2),
    activation: gated ? GATES[kind]! : activation(s, key, 'gelu'),
    eps: s.between(['layer_norm_epsilon', 'layer_norm_eps'], 0, 1, 1e-12),
    positions: 'rotary',
    rotaryDim: rotaryDimOf(s, ['rotary_emb_fraction', ...heads], sizes, fraction),
    rotaryBase: s.between('rotary_emb_base', 1, Infinity, 10000),
    bias,
    gated,
  };
}

/** The core's activations by Hugging Face's names. */
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
  if (Object.hasOwn(ACTIVATIONS, name)) return ACTIVATIONS[name]!;
  throw s.unsupported(key, `one of ${Object.keys(ACTIVATIONS).join(', ')}`, `'${name}'`);
}

/** The family that config.json's model_type names, and the core's options for the model. */
export function familyOf(settings: Settings): { type: string; family: Family; config: RawEncoderModelConfig } {
  const key = 'model_type';
  const type = settings.get(key);
  if (typeof type !== 'string' || !Object.hasOwn(FAMILIES, type))
    throw settings.unsupported(key, `one of ${Object.keys(FAMILIES).join(', ')}`, JSON.stringify(type));
  const family = FAMILIES[type]!;
  return { type, family, config: { ...DEFAULTS, ...family.config(settings) } };
}

/** The rows that each tensor of the encoder fills, by its name without the family's prefix. */
export function parameterRowsOf(family: Family, config: RawEncoderModelConfig): Map<string, ParameterRows> {
  const rows = new Map<string, ParameterRows>();
  const add = (modules: Record<string, CoreName>, prefix: string, below: string) => {
    for (const [module, core] of Object.entries(modules)) {
      const [name, firstRow] = typeof core === 'string' ? [core, 0] : [core.name, core.firstRow(config)];
      for (const part of ['weight', 'bias'])
        rows.set(`${prefix}${module}.${part}`, { parameter: `${below}${name}${part}`, firstRow });
    }
  };
  add(family.modules, '', '');
  const layers = config.sharedLayers ? Math.min(1, config.numLayers) : config.numLayers;
  for (let i = 0; i < layers; i++) add(family.layer, family.layerPrefix.replace('{i}', String(i)), `layers.${i}.`);
  return rows;
}
