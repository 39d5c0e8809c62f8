/**
 * The families that encode images and texts: CLIP (Radford et al. 2021, arXiv:2103.00020) and SigLIP (Zhai et al. 2023,
 * arXiv:2303.15343). SigLIP 2's checkpoints of fixed resolution have the same form as SigLIP's.
 */
import { Settings } from '../io/settings.js';
import { type CoreName, keyRows, queryRows, valueRows } from '../models/families/family.js';
import { BASE, type Described, shared, sharedConfig, visionConfig } from './vision-config.js';

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

/** A section of config.json, completed by its family's defaults. In CLIP's old files, `<key>_dict` takes precedence. */
function partOf(settings: Settings, key: string, type: 'clip' | 'siglip'): Settings {
  const old = type === 'clip' ? settings.record(`${key}_dict`) : undefined;
  if (old) settings.get(key);
  const own = old ?? settings.record(key) ?? new Settings({}, `${settings.file}: ${key}`);
  return own.withDefaults(PARTS[type][key as keyof (typeof PARTS)['clip']]);
}

/** Tensors after the encoders of CLIP and SigLIP. */
const HEAD_TENSORS = {
  clip: /^(vision_model\.post_layernorm\.|(visual|text)_projection\.)/,
  siglip: /^(vision_model\.head\.|text_model\.head\.)/,
};

export function imageText(type: 'clip' | 'siglip', settings: Settings): Described {
  const isClip = type === 'clip';
  const [textSettings, visionSettings] = (['text_config', 'vision_config'] as const).map((key) =>
    partOf(settings, key, type),
  ) as [Settings, Settings];
  if (!isClip && !visionSettings.flag('vision_use_head', true))
    throw visionSettings.unsupported('vision_use_head', 'true: attention pooling', 'false');
  const { vision: sizes, imageSize } = visionConfig(visionSettings, { classRow: isClip });
  const vision = {
    ...sizes,
    embeddingNorm: isClip,
    finalNorm: !isClip, // CLIP's final norm is applied only to the pooled row
  };
  const config = { ...sharedConfig(textSettings, { maxPositions: 1 }), causal: isClip };
  const end = textSettings.count('eos_token_id', 2);
  return {
    config,
    family: {
      prefix: '',
      config: () => config,
      modules: {
        'text_model.embeddings.token_embedding': 'embeddings.word.',
        'text_model.embeddings.position_embedding': 'embeddings.position.',
        'text_model.final_layer_norm': 'norm.',
      },
      vision: {
        config: vision,
        modules: {
          'vision_model.embeddings.patch_embedding': 'embeddings.patch.',
          'vision_model.embeddings.position_embedding': 'embeddings.position.',
          ...(isClip
            ? { 'vision_model.pre_layrnorm': 'embeddings.norm.' }
            : { 'vision_model.post_layernorm': 'norm.' }),
        },
        tensors: { 'vision_model.embeddings.class_embedding': 'embeddings.class.weight' },
        layerPrefix: 'vision_model.encoder.layers.{i}.',
        layer: layerNames,
      },
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
