/**
 * The families that encode images and texts: CLIP (Radford et al. 2021, arXiv:2103.00020) and SigLIP (Zhai et al. 2023,
 * arXiv:2303.15343). SigLIP 2's checkpoints of fixed resolution have the same form as SigLIP's.
 */
import { Settings } from '../io/settings.js';
import { type Config, type CoreName, DEFAULTS, keyRows, queryRows, valueRows } from '../models/families/family.js';
import {
  BASE,
  type Described,
  feedForwardOf,
  shared,
  sharedConfig,
  type VisionNames,
  visionConfig,
  visionNames,
} from './vision-config.js';

const layerNames: Record<string, CoreName> = {
  'self_attn.q_proj': queryRows,
  'self_attn.k_proj': keyRows,
  'self_attn.v_proj': valueRows,
  'self_attn.out_proj': 'self_attn.out_proj.',
  layer_norm1: 'norm1.',
  'mlp.fc1': 'linear1.',
  'mlp.fc2': 'linear2.',
  layer_norm2: 'norm2.',
};

const CLIP = { ...shared, hidden_act: 'quick_gelu', layer_norm_eps: 1e-5 };
const SIGLIP = { ...shared, hidden_act: 'gelu_pytorch_tanh', layer_norm_eps: 1e-6 };
const PARTS = {
  clip: {
    text_config: {
      ...CLIP,
      hidden_size: 512,
      intermediate_size: 2048,
      num_attention_heads: 8,
      vocab_size: 49408,
      max_position_embeddings: 77,
      eos_token_id: 49407,
    },
    vision_config: { ...CLIP, ...BASE, patch_size: 32 },
  },
  siglip: {
    text_config: { ...SIGLIP, ...BASE, vocab_size: 32000, max_position_embeddings: 64, pad_token_id: 1 },
    vision_config: { ...SIGLIP, ...BASE, patch_size: 16 },
  },
};

/** A section of config.json, completed by its family's defaults. */
function partOf(settings: Settings, key: string, defaults: object): Settings {
  const given = settings.record(key);
  return new Settings(
    { ...defaults, ...Object.fromEntries((given?.entries() ?? []).filter(([, value]) => value !== null)) },
    `${settings.file}: ${key}`,
    '',
    '',
  );
}

function textConfig(s: Settings): Config {
  return {
    ...sharedConfig(s),
    vocabSize: s.count('vocab_size', undefined, 1),
    feedForwardDim: feedForwardOf(s),
    maxPositions: s.count('max_position_embeddings', undefined, 1),
  };
}

/** Tensors after the encoders of CLIP and SigLIP. */
const HEAD_TENSORS = {
  clip: /^(vision_model\.post_layernorm\.|(visual|text)_projection\.)/,
  siglip: /^(vision_model\.head\.|text_model\.head\.)/,
};

export function imageText(type: 'clip' | 'siglip', settings: Settings): Described {
  const isClip = type === 'clip';
  const [textSettings, visionSettings] = (['text_config', 'vision_config'] as const).map((key) =>
    partOf(settings, key, PARTS[type][key]),
  ) as [Settings, Settings];
  const { vision: sizes, imageSize } = visionConfig(visionSettings, { classRow: isClip });
  const vision = {
    ...sizes,
    feedForwardDim: feedForwardOf(visionSettings),
    embeddingNorm: isClip,
    finalNorm: !isClip, // CLIP's final norm is applied only to the pooled row
  };
  const config = { ...DEFAULTS, ...textConfig(textSettings), causal: isClip };
  const end = textSettings.count('eos_token_id', 2);
  const around: VisionNames = {
    modules: {
      'vision_model.embeddings.patch_embedding': 'embeddings.patch.',
      'vision_model.embeddings.position_embedding': 'embeddings.position.',
      ...(isClip ? { 'vision_model.pre_layrnorm': 'embeddings.norm.' } : { 'vision_model.post_layernorm': 'norm.' }),
    },
    tensors: isClip
      ? { 'vision_model.embeddings.class_embedding': { parameter: 'embeddings.class.weight', firstRow: 0 } }
      : {},
  };
  const names = visionNames(vision, around, 'vision_model.encoder.layers.{i}.', layerNames);
  return {
    config,
    family: {
      prefix: '',
      config: () => config,
      modules: {
        'text_model.embeddings.token_embedding': 'embeddings.word.',
        'text_model.embeddings.position_embedding': 'embeddings.position.',
        'text_model.final_layer_norm': 'norm.',
        ...names.modules,
      },
      tensors: names.tensors,
      ...(isClip && { optionalBiases: /^vision_model\.embeddings\.patch_embedding\.bias$/ }),
      layerPrefix: 'text_model.encoder.layers.{i}.',
      layer: layerNames,
      headTensors: HEAD_TENSORS[type],
    },
    about: {
      type,
      vision,
      imageSize,
      head: isClip
        ? { norm: 'vision_model.post_layernorm', projection: 'visual_projection' }
        : { pooling: 'vision_model.head.' },
      pooling: 'last',
      text: isClip
        ? { projection: 'text_projection', end: end === 2 ? null : end } // old files have 2, which is not the end token
        : { projection: 'text_model.head', padId: textSettings.count('pad_token_id', 1) },
    },
  };
}
