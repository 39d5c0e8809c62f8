/** The families with rotary positions, which families.ts imports when a model has one of their names. */
import { invalid } from '../../base/error.js';
import type { Settings } from '../../io/settings.js';
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
  rotaryBase,
  rotaryDimOf,
  rotarySettings,
  rotaryTheta,
  rotaryType,
  secondHalf,
  sizesOf,
  valueRows,
} from './family.js';

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
  const bias = s.flag('attention_bias', false);
  if (s.flag('mlp_bias', false) !== bias) throw s.unsupported('mlp_bias', `${bias}, as attention_bias`, `${!bias}`);
  const period = s.count('global_attn_every_n_layers', 3, 1, MAX_LAYERS);
  return {
    ...sizes,
    activation: activation(s, 'hidden_activation', 'gelu'),
    eps: s.between('norm_eps', 0, 1, 1e-5),
    positions: 'rotary',
    rotaryDim: rotaryDimOf(s, ['num_attention_heads'], sizes),
    rotaryBase: rotaryBase(s, 'global_rope_theta', 160000, 'full_attention'),
    localRotaryBase: rotaryBase(s, 'local_rope_theta', 10000, 'sliding_attention'),
    window: Math.floor(s.count('local_attention', 128) / 2),
    localLayers: localLayers(s, sizes.numLayers, (i) => i % period !== 0),
    normFirst: true,
    finalNorm: true,
    bias,
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

/** The activation of the gate, by Hugging Face's name. */
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
  const isNative = s.get(key) === undefined && s.get('hidden_act') !== undefined; // transformers 5 writes such files
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
    activation: isNative ? activation(s, 'hidden_act', 'silu') : gated ? GATES[kind]! : activation(s, key, 'gelu'),
    eps: s.between(['layer_norm_epsilon', 'layer_norm_eps'], 0, 1, 1e-12),
    positions: 'rotary',
    rotaryDim: rotaryDimOf(s, ['rotary_emb_fraction', ...heads], sizes, fraction),
    rotaryBase: rotaryBase(s, 'rotary_emb_base', 10000),
    bias,
    gated,
  };
}

const decoderModules = { embed_tokens: 'embeddings.word.', norm: 'norm.' };

/** The modules of a decoder layer by Llama's names, with norms of queries and keys. */
const decoderLayer = {
  input_layernorm: 'norm1.',
  'self_attn.q_proj': queryRows,
  'self_attn.k_proj': keyRows,
  'self_attn.v_proj': valueRows,
  'self_attn.q_norm': 'self_attn.q_norm.',
  'self_attn.k_norm': 'self_attn.k_norm.',
  'self_attn.o_proj': 'self_attn.out_proj.',
  post_attention_layernorm: 'norm2.',
  'mlp.gate_proj': 'linear1.',
  'mlp.up_proj': secondHalf,
  'mlp.down_proj': 'linear2.',
};

const decoder = { prefix: 'model.', modules: decoderModules, layerPrefix: 'layers.{i}.' };

/** The common options of decoders that were turned into encoders. */
function decoderConfig(s: Settings, headDim: number): Config {
  const sizes = sizesOf(s, { maxPositions: 32768, headDim });
  if (s.flag('attention_bias', false)) throw s.unsupported('attention_bias', 'false', 'true');
  return {
    ...sizes,
    eps: s.between('rms_norm_eps', 0, 1, 1e-6),
    positions: 'rotary',
    rotaryDim: rotaryDimOf(s, ['head_dim'], sizes),
    normFirst: true,
    embeddingNorm: false,
    finalNorm: true,
    bias: false,
    rmsNorm: true,
    qkNorm: true,
    gated: true,
  };
}

const qwen3: Family = {
  ...decoder,
  config: (s) => {
    const config = decoderConfig(s, 128);
    if (s.flag('use_sliding_window', false) || localLayers(s, config.numLayers, () => false).includes(true))
      throw s.unsupported('use_sliding_window', 'false, and no sliding_attention in layer_types', 'sliding windows');
    return {
      ...config,
      activation: activation(s, 'hidden_act', 'silu'),
      rotaryBase: rotaryBase(s, 'rope_theta', 10000),
      causal: true,
    };
  },
  layer: decoderLayer,
};

const gemma3: Family = {
  ...decoder,
  config: (s) => {
    const config = decoderConfig(s, 256);
    if (!s.flag('use_bidirectional_attention', false))
      throw s.unsupported('use_bidirectional_attention', 'true, as in EmbeddingGemma', 'false (a decoder)');
    const cap = s.get('attn_logit_softcapping');
    if (cap !== undefined)
      throw s.unsupported('attn_logit_softcapping', 'null, as scores are not capped', JSON.stringify(cap));
    const period = s.count(['sliding_window_pattern', '_sliding_window_pattern'], 6, 1, MAX_LAYERS);
    return {
      ...config,
      activation: activation(s, 'hidden_activation', 'gelu_pytorch_tanh'),
      rotaryBase: rotaryBase(s, 'rope_theta', 1e6, 'full_attention'),
      localRotaryBase: rotaryBase(s, 'rope_local_base_freq', 10000, 'sliding_attention'),
      // `sliding_window` counts both sides: the published code allows |i - j| < window / 2 + 1.
      window: Math.floor(s.count('sliding_window', 4096, 1) / 2),
      localLayers: localLayers(s, config.numLayers, (i) => (i + 1) % period !== 0),
      attentionScale: s.between('query_pre_attn_scalar', 0, Infinity, 256) ** -0.5,
      embeddingScale: Math.sqrt(config.embedDim),
      normWeightOffset: 1,
      outputNorms: true,
    };
  },
  layer: {
    ...decoderLayer,
    post_attention_layernorm: 'output_norm1.',
    pre_feedforward_layernorm: 'norm2.',
    post_feedforward_layernorm: 'output_norm2.',
  },
};

/** GTE v1.5 and multilingual GTE, whose model_type is 'new', and Arctic Embed 2.0 M ('gte'). */
const gte: Family = {
  prefix: 'new.',
  config: (s) => {
    const sizes = sizesOf(s, { maxPositions: 2048 });
    const rotaryDim = rotaryDimOf(s, ['num_attention_heads'], sizes);
    const kinds = { position_embedding_type: 'rope', layer_norm_type: 'layer_norm' };
    for (const [key, only] of Object.entries(kinds)) {
      const kind = s.text(key, only);
      if (kind !== only) throw s.unsupported(key, `'${only}'`, `'${kind}'`);
    }
    for (const key of ['logn_attention_scale', 'logn_attention_clip1'])
      if (s.flag(key, false)) throw s.unsupported(key, 'false', 'true');
    let factor = 1;
    for (const scaling of rotarySettings(s)) {
      const type = rotaryType(scaling);
      if (!['default', 'ntk'].includes(type) || scaling.get('mixed_b') !== undefined) {
        const expected = "none, or type 'ntk' without mixed_b, or 'default'";
        throw invalid(scaling.file, expected, JSON.stringify(Object.fromEntries(scaling.entries())), 'UNSUPPORTED');
      }
      if (type === 'ntk') factor = scaling.between('factor', 0, Infinity);
    }
    return {
      ...sizes,
      typeVocabSize: s.count('type_vocab_size', 1),
      activation: activation(s, 'hidden_act', 'gelu'),
      eps: s.between('layer_norm_eps', 0, 1, 1e-12),
      positions: 'rotary',
      rotaryDim,
      rotaryBase: rotaryTheta(s, 'rope_theta', 10000) * factor,
      rotaryScale: factor ** (-2 / rotaryDim),
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

export const rotaryFamilies: Readonly<Record<RotaryFamilyName, Family>> = {
  modernbert: modernBert,
  nomic_bert: nomicBert,
  qwen3,
  gemma3_text: gemma3,
  new: gte,
  gte,
};
