/** The families with Llama's names of modules: decoders, and encoders made from them. For rotary-families.ts. */
import type { Settings } from '../../io/settings.js';
import {
  activation,
  type Config,
  type Family,
  keyRows,
  localLayers,
  MAX_LAYERS,
  MAX_WIDTH,
  plainFrequencies,
  queryRows,
  rotaryDimOf,
  secondHalf,
  sizesOf,
  valueRows,
} from './family.js';
import { localRopeOptions, rope, ropeOptions, ropeSettings, ropeSettingsOf } from './rope.js';

/** Which parts have biases. */
export function biases(s: Settings): Partial<Config> {
  const [attentionBias, feedForwardBias] = [s.flag('attention_bias', false), s.flag('mlp_bias', false)];
  return { bias: attentionBias || feedForwardBias, attentionBias, feedForwardBias };
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

/** The options that most of these families have in common. */
function decoderConfig(s: Settings, headDim: number, eps = 1e-6): Config & { rotaryDim: number } {
  const sizes = sizesOf(s, { maxPositions: 32768, headDim });
  return {
    ...sizes,
    eps: s.between('rms_norm_eps', 0, 1, eps),
    positions: 'rotary',
    rotaryDim: rotaryDimOf(s, ['head_dim'], sizes),
    normFirst: true,
    embeddingNorm: false,
    finalNorm: true,
    bias: s.flag('attention_bias', false),
    feedForwardBias: false,
    rmsNorm: true,
    qkNorm: true,
    gated: true,
  };
}

/** The width of a head if config.json does not name one. */
const plainHeadDim = (s: Settings) =>
  Math.floor(s.count('hidden_size', undefined, 1) / s.count('num_attention_heads', undefined, 1));

/** The angles of a decoder whose layers all have the same ones, with or without a window. */
function decoderAngles(s: Settings, { rotaryDim, maxPositions }: Config & { rotaryDim: number }) {
  const all = rope(s, ropeSettings(s), { key: 'rope_theta', fallback: 10_000, dim: rotaryDim, maxPositions });
  return { ...ropeOptions(all), ...localRopeOptions(all) };
}

export const qwen3: Family = {
  ...decoder,
  config: (s) => {
    const config = decoderConfig(s, 128);
    const causal = s.flag('is_causal', true);
    const isNull = s.names().includes('sliding_window') && s.get('sliding_window') === undefined;
    const isLimited = s.flag('use_sliding_window', false) && !isNull;
    const first = s.count('max_window_layers', 28);
    const width = s.count('sliding_window', 4096, 1);
    const local = localLayers(s, config.numLayers, (i) => isLimited && i >= first);
    if (!isLimited && local.includes(true))
      throw s.unsupported('use_sliding_window', 'true, as layer_types has sliding_attention', 'false');
    return {
      ...config,
      activation: activation(s, 'hidden_act', 'silu'),
      ...decoderAngles(s, config),
      ...(local.includes(true) && { window: causal ? width - 1 : width, localLayers: local }),
      causal,
    };
  },
  layer: decoderLayer,
};

/** Llama, and EuroBERT, which is a Llama without causality. */
export const llama = (isCausal: boolean, eps: number, maxPositions: number): Family => ({
  ...decoder,
  config: (s) => {
    const config = decoderConfig(s.withDefaults({ max_position_embeddings: maxPositions }), plainHeadDim(s), eps);
    return {
      ...config,
      activation: activation(s, 'hidden_act', 'silu'),
      ...decoderAngles(s, config),
      ...biases(s),
      qkNorm: false,
      causal: isCausal && s.flag('is_causal', true),
    };
  },
  layer: decoderLayer,
});

export const gemma3: Family = {
  ...decoder,
  config: (s) => {
    const config = decoderConfig(s, 256);
    if (!s.flag('use_bidirectional_attention', false))
      throw s.unsupported('use_bidirectional_attention', 'true, as in EmbeddingGemma', 'false (a decoder)');
    const cap = s.get('attn_logit_softcapping');
    if (cap !== undefined)
      throw s.unsupported('attn_logit_softcapping', 'null, as scores are not capped', JSON.stringify(cap));
    const period = s.count('sliding_window_pattern', 6, 1, MAX_LAYERS);
    const angles = (kind: string, key: string, fallback: number, isScaled: boolean) =>
      rope(s, ropeSettingsOf(s, kind, isScaled), {
        key,
        fallback,
        dim: config.rotaryDim,
        maxPositions: config.maxPositions,
      });
    return {
      ...config,
      activation: activation(s, 'hidden_activation', 'gelu_pytorch_tanh'),
      ...ropeOptions(angles('full_attention', 'rope_theta', 1e6, true)),
      ...localRopeOptions(angles('sliding_attention', 'rope_local_base_freq', 10000, false)),
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

/** EmbeddingGemma 2: its texts. The towers for images and sounds are not read. */
export const embeddingGemma2: Family = {
  ...decoder,
  prefix: 'language_model.',
  modules: {
    ...decoderModules,
    'ple.per_layer_model_projection': 'layer_inputs.proj.',
    'ple.per_layer_projection_norm': 'layer_inputs.norm.',
    embedding_projection: 'output_projection.',
  },
  config: (whole) => {
    const s = whole.record('text_config') ?? whole;
    const { headDim, keyValueHeads, ...config } = decoderConfig(
      s.withDefaults({ max_position_embeddings: 262_144, num_key_value_heads: 2 }),
      256,
    );
    const period = s.count('sliding_window_pattern', 6, 1, MAX_LAYERS);
    const local = localLayers(s, config.numLayers, (i) => (i + 1) % period !== 0);
    local[config.numLayers - 1] = false; // transformers forces it
    const [own, others] = headsOfKinds(s, local, { headDim, keyValueHeads, numHeads: config.numHeads });
    const angles = (kind: string, fallback: number, dim: number) =>
      rope(s, ropeSettingsOf(s, kind, false), { fallback, dim, maxPositions: config.maxPositions });
    const full = angles('full_attention', 1e6, own.headDim);
    const sliding = angles('sliding_attention', 10_000, others.headDim);
    return {
      ...config,
      ...own,
      localHeadDim: others.headDim,
      localKeyValueHeads: others.keyValueHeads,
      activation: activation(s, 'hidden_activation', 'gelu_pytorch_tanh'),
      rotaryDim: own.headDim,
      ...ropeOptions(full),
      // Listed because rotaryDim is that of the other layers.
      ...localRopeOptions({
        ...sliding,
        frequencies: sliding.frequencies ?? plainFrequencies(sliding.base, others.headDim),
      }),
      window: s.count('sliding_window', 512),
      localLayers: local,
      attentionScale: 1,
      embeddingScale: Math.sqrt(config.embedDim),
      valueNorm: true,
      outputNorms: true,
      layerInputDim: s.count('hidden_size_per_layer_input', 512, 1, MAX_WIDTH),
      outputDim: s.count('embedding_dim', 768, 1, MAX_WIDTH),
    };
  },
  layer: {
    ...gemma3.layer,
    'ple_block.per_layer_input_gate': 'input.gate_proj.',
    'ple_block.per_layer_projection': 'input.out_proj.',
    'ple_block.post_per_layer_input_norm': 'input.norm.',
  },
  layerTensors: { layer_scalar: 'input.factor' },
  // The places of images, sounds and videos, which transformers reads as padding if there are none.
  replacedTokens: (s) => {
    if (s.get('model_type') !== 'embedding_gemma2') return new Map();
    const padding = (s.record('text_config') ?? s).count('pad_token_id', 0);
    const places = { image_token_id: 258_880, audio_token_id: 258_881, video_token_id: 258_884 };
    return new Map(Object.entries(places).map(([key, id]) => [s.count(key, id), padding]));
  },
};

type Heads = Pick<Config, 'headDim' | 'keyValueHeads' | 'numHeads'>;

/** The heads of layers with global attention, and of those with a window. */
function headsOfKinds(s: Settings, local: boolean[], base: Heads): [Heads, Heads] {
  const key = 'per_layer_config';
  const layers = s.record(key);
  const global = {
    headDim: s.count('global_head_dim', 512, 1, MAX_WIDTH),
    keyValueHeads: s.count('num_global_key_value_heads', 1, 1, base.numHeads),
  };
  const all = local.map((isLocal, i): Heads => {
    if (!layers) return isLocal ? base : { ...base, ...global };
    const own = layers.record(String(i));
    const other = own?.names().find((name) => !['head_dim', 'num_key_value_heads'].includes(name));
    if (other !== undefined) throw own!.unsupported(other, 'head_dim and num_key_value_heads only', `'${other}'`);
    return {
      ...base,
      headDim: own?.count('head_dim', base.headDim, 1, MAX_WIDTH) ?? base.headDim,
      keyValueHeads: own?.count('num_key_value_heads', base.keyValueHeads, 1, base.numHeads) ?? base.keyValueHeads,
    };
  });
  const ofKind = (isLocal: boolean): Heads => {
    const [first = base, ...rest] = all.filter((_, i) => local[i] === isLocal);
    if (rest.every(({ headDim, keyValueHeads }) => headDim === first.headDim && keyValueHeads === first.keyValueHeads))
      return first;
    throw s.unsupported(key, 'the same heads in all layers of a kind', JSON.stringify(layers?.entries()));
  };
  for (const { headDim, keyValueHeads } of all) {
    if (headDim % 2 !== 0) throw s.wrong(key, 'even widths of heads', headDim);
    if (base.numHeads % keyValueHeads !== 0)
      throw s.wrong(key, `key and value heads that divide ${base.numHeads}`, keyValueHeads);
  }
  return [ofKind(false), ofKind(true)];
}

/** UltraBERT: a bidirectional Llama with windows in some layers. */
export const ultraBert: Family = {
  ...decoder,
  config: (s) => {
    const config = decoderConfig(s, plainHeadDim(s));
    const { window, kinds } = windowsOf(s, config.numLayers);
    // Older files have one base per layer. The last one of each kind applies.
    const thetas = s.get('rope_theta');
    const angles = (kind: string, local: boolean, fallback: number) => {
      const settings = ropeSettings(s, kind);
      const about = { key: 'rope_theta', dim: config.rotaryDim, maxPositions: config.maxPositions };
      if (settings.outer && settings.records.length === 0 && kinds.includes(local))
        throw settings.outer.unsupported(kind, 'the settings of these layers', 'none');
      if (settings.records.length > 0) return rope(s, settings, { ...about, fallback: 10_000 });
      if (!Array.isArray(thetas)) return rope(s, settings, { ...about, fallback });
      const own = thetas.filter((_, i) => kinds[i] === local).at(-1) ?? fallback;
      if (typeof own === 'number' && own > 1) return { base: own, frequencies: undefined, factor: 1 };
      throw s.wrong('rope_theta', 'numbers above 1, one per layer', thetas);
    };
    return {
      ...config,
      activation: activation(s, 'hidden_act', 'silu'),
      ...ropeOptions(angles('full_attention', false, 2_560_000)),
      ...localRopeOptions(angles('sliding_attention', true, 10_000)),
      window,
      localLayers: kinds,
      ...biases(s),
      qkNorm: false,
    };
  },
  layer: decoderLayer,
};

/** The radius of UltraBERT's windows, and the layers that have one. Older files list a window per layer. */
function windowsOf(s: Settings, numLayers: number): { window: number; kinds: boolean[] } {
  const key = 'attention_windows';
  const windows = s.get(key);
  const isList = Array.isArray(windows);
  if (isList && (windows.length !== numLayers || windows.some((w) => w !== null && !(Number.isInteger(w) && w >= 0))))
    throw s.wrong(key, `a list of ${numLayers} whole numbers`, windows);
  const first = isList ? (windows.find((width) => width) as number | undefined) : undefined;
  return {
    window: first ?? s.count('sliding_window', 128, 0),
    kinds: localLayers(s, numLayers, (i) => (isList ? Boolean(windows[i]) : (i + 1) % 3 !== 0)),
  };
}
