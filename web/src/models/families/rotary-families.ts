/** The families with rotary positions, which families.ts imports when a model has one of their names. */
import { invalid } from '../../base/error.js';
import type { Settings } from '../../io/settings.js';
import { biases, embeddingGemma2, gemma3, llama, qwen3, ultraBert } from './decoder-families.js';
import {
  activation,
  type Config,
  type Family,
  keyRows,
  localLayers,
  MAX_LAYERS,
  packedQkv,
  queryRows,
  type RotaryFamilyName,
  rotaryDimOf,
  secondHalf,
  sizesOf,
  valueRows,
} from './family.js';
import { localRopeOptions, rope, ropeOptions, ropeSettings, ropeSettingsOf } from './rope.js';

const modernBert: Family = {
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
};

function modernBertConfig(s: Settings): Config {
  const sizes = sizesOf(s, { maxPositions: 8192 });
  const rotaryDim = rotaryDimOf(s, ['num_attention_heads'], sizes);
  const angles = (kind: string, key: string, fallback: number) =>
    rope(s, ropeSettingsOf(s, kind), { key, fallback, dim: rotaryDim, maxPositions: sizes.maxPositions });
  const period = s.count('global_attn_every_n_layers', 3, 1, MAX_LAYERS);
  return {
    ...sizes,
    activation: activation(s, 'hidden_activation', 'gelu'),
    eps: s.between('norm_eps', 0, 1, 1e-5),
    positions: 'rotary',
    rotaryDim,
    ...ropeOptions(angles('full_attention', 'global_rope_theta', 160000)),
    ...localRopeOptions(angles('sliding_attention', 'local_rope_theta', 10000)),
    window: s.count('sliding_window', Math.floor(s.count('local_attention', 128) / 2)), // on each side
    localLayers: localLayers(s, sizes.numLayers, (i) => i % period !== 0),
    normFirst: true,
    finalNorm: true,
    ...biases(s),
    normBias: s.flag('norm_bias', false),
    gated: true,
    firstAttentionNorm: false,
  };
}

const nomicBert: Family = {
  prefix: 'bert.',
  config: nomicBertConfig,
  modules: {
    'embeddings.word_embeddings': 'embeddings.word.',
    'embeddings.token_type_embeddings': 'embeddings.token_type.',
    emb_ln: 'embeddings.norm.',
  },
  layerPrefix: 'encoder.layers.{i}.',
  layer: {
    'attn.Wqkv': packedQkv, // in ONNX files of transformers 5, the following three instead
    'attn.q_proj': queryRows,
    'attn.k_proj': keyRows,
    'attn.v_proj': valueRows,
    'attn.out_proj': 'self_attn.out_proj.',
    norm1: 'norm1.',
    'mlp.fc12': 'linear1.', // the activated half; fc1 if there is no gate
    'mlp.fc11': secondHalf,
    'mlp.fc1': 'linear1.',
    'mlp.fc2': 'linear2.',
    norm2: 'norm2.',
  },
};

/** The sizes of an encoder whose heads together have its width, so that `head_dim` adds nothing. */
function plainSizesOf(...given: Parameters<typeof sizesOf>): Config {
  const [s] = given;
  const sizes = sizesOf(...given);
  const headDim = s.count('head_dim', sizes.headDim);
  if (headDim === sizes.headDim) return sizes;
  throw s.unsupported('head_dim', `${sizes.headDim}, the width of the encoder by its number of heads`, `${headDim}`);
}

/** The activation of the gate, by Hugging Face's name. */
const GATES: Record<string, string> = { swiglu: 'silu', geglu: 'gelu', glu: 'sigmoid' };

function nomicBertConfig(s: Settings): Config {
  const heads = ['n_head', 'num_attention_heads'];
  const sizes = plainSizesOf(
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
  // Files of transformers 5 have BERT's keys instead of GPT-2's.
  const isNative = s.get(key) === undefined && (s.get('hidden_act') !== undefined || s.get('n_embd') === undefined);
  const kind = s.text(key, 'swiglu');
  const gated = Object.hasOwn(GATES, kind);
  const bias = s.flag('qkv_proj_bias', false);
  const isOn = (key: string) => s.flag(key, false);
  const refused = [
    ...['prenorm', 'rotary_emb_interleaved', 'causal', 'parallel_block', 'use_rms_norm'].filter(isOn),
    ...['scale_attn_by_inverse_layer_idx'].filter(isOn),
    ...['scale_attn_weights'].filter((key) => !s.flag(key, true)).map((key) => `${key}: false`),
    ...['mlp_fc1_bias', 'mlp_fc2_bias']
      .filter((key) => s.flag(key, bias) !== bias)
      .map((key) => `${key} unlike qkv_proj_bias`),
    ...['rotary_scaling_factor', 'rotary_emb_scale_base'].filter((key) => s.get(key) !== undefined),
    ...['num_experts'].filter((key) => (s.get(key) ?? 0) !== 0),
  ];
  if (refused.length > 0) throw invalid(s.file, 'the layout of nomic-embed-text', refused.join(', '), 'UNSUPPORTED');
  const fraction = s.between('rotary_emb_fraction', 0, Infinity, 1);
  const rotaryDim = rotaryDimOf(s, ['rotary_emb_fraction', ...heads], sizes, fraction);
  const angles = rope(s, ropeSettings(s), {
    key: isNative ? 'rope_theta' : 'rotary_emb_base',
    fallback: isNative ? 1000 : 10000,
    dim: rotaryDim,
    maxPositions: sizes.maxPositions,
  });
  return {
    ...sizes,
    typeVocabSize: s.count('type_vocab_size', 2),
    activation: isNative ? activation(s, 'hidden_act', 'silu') : gated ? GATES[kind]! : activation(s, key, 'gelu'),
    eps: s.between(['layer_norm_epsilon', 'layer_norm_eps'], 0, 1, 1e-12),
    positions: 'rotary',
    rotaryDim,
    ...ropeOptions(angles),
    bias,
    gated,
  };
}

/** The angles of GTE, whose own code also has the type 'ntk'. */
function newAngles(s: Settings, about: Parameters<typeof rope>[2]): Partial<Config> {
  const given = ropeSettings(s);
  const [scaling] = given.records;
  const key = scaling?.keyOf(['rope_type', 'type']) ?? '';
  if (scaling?.get(key) !== 'ntk') return ropeOptions(rope(s, given, about));
  if (scaling.get('mixed_b') !== undefined)
    throw scaling.unsupported('mixed_b', 'null', JSON.stringify(scaling.get('mixed_b')));
  const factor = scaling.between('factor', 0, Infinity);
  const { base } = rope(s, { ...given, records: [], typeKeys: [] }, about);
  return { rotaryBase: base * factor, rotaryScale: factor ** (-2 / about.dim) };
}

/** GTE v1.5 and multilingual GTE, whose model_type is 'new', and Arctic Embed 2.0 M ('gte'). */
const gte: Family = {
  prefix: 'new.',
  config: (s) => {
    const sizes = plainSizesOf(s, { maxPositions: 2048 });
    const rotaryDim = rotaryDimOf(s, ['num_attention_heads'], sizes);
    const kinds = { position_embedding_type: 'rope', layer_norm_type: 'layer_norm' };
    for (const [key, only] of Object.entries(kinds)) {
      const kind = s.text(key, only);
      if (kind !== only) throw s.unsupported(key, `'${only}'`, `'${kind}'`);
    }
    for (const key of ['logn_attention_scale', 'logn_attention_clip1'])
      if (s.flag(key, false)) throw s.unsupported(key, 'false', 'true');
    const isNative = s.get('model_type') === 'gte';
    const about = { key: 'rope_theta', fallback: isNative ? 160_000 : 10_000, dim: rotaryDim };
    return {
      ...sizes,
      typeVocabSize: s.count('type_vocab_size', 1),
      activation: activation(s, 'hidden_act', 'gelu'),
      eps: s.between('layer_norm_eps', 0, 1, 1e-12),
      positions: 'rotary',
      rotaryDim,
      ...newAngles(s, { ...about, maxPositions: sizes.maxPositions }),
      gated: true,
      gateSecond: true,
      linear1Bias: false,
    };
  },
  modules: {
    'embeddings.word_embeddings': 'embeddings.word.',
    'embeddings.token_type_embeddings': 'embeddings.token_type.',
    'embeddings.LayerNorm': 'embeddings.norm.',
  },
  layerPrefix: 'encoder.layer.{i}.',
  layer: {
    'attention.qkv_proj': packedQkv, // if pack_qkv is false, the checkpoint has the following three instead
    'attention.q_proj': queryRows,
    'attention.k_proj': keyRows,
    'attention.v_proj': valueRows,
    'attention.o_proj': 'self_attn.out_proj.',
    attn_ln: 'norm1.',
    'mlp.up_gate_proj': 'linear1.',
    'mlp.down_proj': 'linear2.',
    mlp_ln: 'norm2.',
  },
  pooler: 'pooler.dense',
};

/** The limits of adapters, as in the core. */
const MAX_TASKS = 256;
const MAX_RANK = 4096;

/** The tasks whose adapters a file has, in their order. */
function adaptersIn(s: Settings): string[] {
  const key = 'lora_adaptations';
  const tasks = s.get(key) ?? [];
  if (!Array.isArray(tasks) || tasks.length > MAX_TASKS || !tasks.every((task) => typeof task === 'string'))
    throw s.wrong(key, `a list of up to ${MAX_TASKS} names`, tasks);
  return s.flag('load_trained_adapters', false) ? tasks : [];
}

/** The options that only published files have. */
function publishedJinaV3(s: Settings, sizes: Config): Partial<Config> {
  for (const key of ['rotary_emb_interleaved', 'last_layer_subset'])
    if (s.flag(key, false)) throw s.unsupported(key, 'false', 'true');
  const scale = 'rotary_emb_scale_base';
  if (s.get(scale) !== undefined) throw s.unsupported(scale, 'null', JSON.stringify(s.get(scale)));
  const rotaryDim = s.count('rotary_emb_dim', rotaryDimOf(s, ['num_attention_heads'], sizes), 2, sizes.headDim);
  if (rotaryDim % 2 !== 0) throw s.wrong('rotary_emb_dim', 'an even number', rotaryDim);
  const rank = s.count('lora_rank', 4, 1, MAX_RANK);
  const adapterScale = s.between('lora_alpha', -Infinity, Infinity, 1) / rank;
  const { length } = adaptersIn(s);
  return { rotaryDim, ...(length > 0 && { adapterTasks: length, adapterRank: rank, adapterScale }) };
}

/** The names of a module's adapters as torch's parametrizations name them. */
const adaptersOf = (modules: Record<string, string>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(modules).flatMap(([module, name]) =>
      ['lora_A', 'lora_B'].map((part) => [`${module}.parametrizations.weight.0.${part}`, `${name}.${part}`]),
    ),
  );

/**
 * Jina Embeddings v3: XLM-RoBERTa with rotary positions, and low-rank adapters of all matrices and tables, one set per
 * task. Files of transformers have no adapters. Published ones have model_type 'xlm-roberta' and other names.
 */
const jinaV3: Family = {
  prefix: 'roberta.',
  config: (s) => {
    const isPublished = s.get('model_type') !== 'jina_embeddings_v3';
    const about = { maxPositions: isPublished ? 512 : 8194 };
    const sizes = isPublished ? sizesOf(s, about) : plainSizesOf(s, about);
    const own: Partial<Config> = isPublished ? publishedJinaV3(s, sizes) : {};
    const rotaryDim = own.rotaryDim ?? rotaryDimOf(s, ['num_attention_heads'], sizes);
    const angles = rope(s, ropeSettings(s), {
      key: isPublished ? 'rotary_emb_base' : 'rope_theta',
      fallback: isPublished ? 10000 : 20000,
      dim: rotaryDim,
      maxPositions: sizes.maxPositions,
    });
    return {
      ...sizes,
      typeVocabSize: s.count('type_vocab_size', isPublished ? 2 : 1),
      activation: activation(s, 'hidden_act', 'gelu'),
      eps: s.between('layer_norm_eps', 0, 1, isPublished ? 1e-12 : 1e-5),
      positions: 'rotary',
      ...ropeOptions(angles),
      ...own,
      rotaryDim,
    };
  },
  modules: {
    'embeddings.word_embeddings': 'embeddings.word.',
    'embeddings.token_type_embeddings': 'embeddings.token_type.',
    emb_ln: 'embeddings.norm.',
    'embeddings.LayerNorm': 'embeddings.norm.',
  },
  tensors: adaptersOf({
    'embeddings.word_embeddings': 'embeddings.word',
    'embeddings.token_type_embeddings': 'embeddings.token_type',
  }),
  layerPrefix: ['encoder.layers.{i}.', 'layers.{i}.'],
  layer: {
    'mixer.Wqkv': packedQkv, // in files of transformers, the following three instead
    'self_attn.q_proj': queryRows,
    'self_attn.k_proj': keyRows,
    'self_attn.v_proj': valueRows,
    'mixer.out_proj': 'self_attn.out_proj.',
    'self_attn.o_proj': 'self_attn.out_proj.',
    norm1: 'norm1.',
    post_attention_layernorm: 'norm1.',
    'mlp.fc1': 'linear1.',
    'mlp.fc2': 'linear2.',
    norm2: 'norm2.',
    post_mlp_layernorm: 'norm2.',
  },
  layerTensors: adaptersOf({
    'mixer.Wqkv': 'self_attn.in_proj',
    'mixer.out_proj': 'self_attn.out_proj',
    'mlp.fc1': 'linear1',
    'mlp.fc2': 'linear2',
  }),
  pooler: 'pooler.dense',
};

export const rotaryFamilies: Readonly<Record<RotaryFamilyName, Family>> = {
  modernbert: modernBert,
  nomic_bert: nomicBert,
  qwen3,
  gemma3_text: gemma3,
  new: gte,
  gte,
  ultrabert: ultraBert,
  jina_embeddings_v3: jinaV3,
  eurobert: llama(false, 1e-5, 8192),
  llama: llama(true, 1e-6, 2048),
  embedding_gemma2: embeddingGemma2,
  embedding_gemma2_text: embeddingGemma2,
};
