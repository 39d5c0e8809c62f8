/**
 * The families that encode images.
 * - CLIP (Radford et al. 2021, arXiv:2103.00020) and SigLIP (Zhai et al. 2023, arXiv:2303.15343), which also encode
 *   texts. SigLIP 2's checkpoints of fixed resolution use SigLIP's format
 * - DINOv2 (Oquab et al. 2023, arXiv:2304.07193), also with registers (Darcet et al. 2023, arXiv:2309.16588) and as
 *   classifiers
 * - DINOv3's vision transformers (Siméoni et al. 2025, arXiv:2508.10104)
 * - ViT (Dosovitskiy et al. 2021, arXiv:2010.11929), also as classifiers. DINO's first checkpoints use this format
 * Notation: E width, {i} number of a layer.
 */

import type { RawEncoderModelConfig } from '../base/wasm/core.js';
import { Settings } from '../io/settings.js';
import type { FamilyConfig } from '../models/families/families.js';
import {
  activation,
  type Config,
  type CoreName,
  DEFAULTS,
  type Family,
  keyRows,
  MAX_LAYERS,
  MAX_WIDTH,
  type ParameterRows,
  queryRows,
  secondHalf,
  valueRows,
} from '../models/families/family.js';
import type { ImageFamily } from './image-family.js';
import { ImageTextEncoder, VISION } from './image-model.js';

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

const dinoLayerNames: Record<string, CoreName> = {
  'attention.attention.query': queryRows,
  'attention.attention.key': keyRows,
  'attention.attention.value': valueRows,
  'attention.output.dense': 'self_attn.out_proj.',
  norm1: 'norm1.',
  'mlp.fc1': 'linear1.',
  'mlp.fc2': 'linear2.',
  'mlp.weights_in': 'linear1.',
  'mlp.weights_out': 'linear2.',
  norm2: 'norm2.',
};

const vitLayerNames: Record<string, CoreName> = {
  'attention.attention.query': queryRows,
  'attention.attention.key': keyRows,
  'attention.attention.value': valueRows,
  'attention.output.dense': 'self_attn.out_proj.',
  layernorm_before: 'norm1.',
  'intermediate.dense': 'linear1.',
  'output.dense': 'linear2.',
  layernorm_after: 'norm2.',
};

const dinov3LayerNames: Record<string, CoreName> = {
  'attention.q_proj': queryRows,
  'attention.k_proj': keyRows,
  'attention.v_proj': valueRows,
  'attention.o_proj': 'self_attn.out_proj.',
  norm1: 'norm1.',
  norm2: 'norm2.',
  'mlp.down_proj': 'linear2.',
};

/** More than any checkpoint has. */
const MAX_REGISTERS = 256;

/** Hugging Face's default values for settings that config.json leaves out. */
const shared = { num_hidden_layers: 12, attention_dropout: 0, num_channels: 3, image_size: 224 };
const CLIP = { ...shared, hidden_act: 'quick_gelu', layer_norm_eps: 1e-5 };
const SIGLIP = { ...shared, hidden_act: 'gelu_pytorch_tanh', layer_norm_eps: 1e-6 };
const BASE = { hidden_size: 768, intermediate_size: 3072, num_attention_heads: 12 };
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

/** Encoder options that text and image encoders have in common; both are pre-norm. */
function sharedConfig(s: Settings) {
  const embedDim = s.count('hidden_size', undefined, 1, MAX_WIDTH);
  const numHeads = s.count('num_attention_heads', undefined, 1, embedDim);
  if (embedDim % numHeads !== 0)
    throw s.wrong('num_attention_heads', `a divisor of hidden_size (${embedDim})`, numHeads);
  return {
    ...DEFAULTS,
    embedDim,
    numHeads,
    keyValueHeads: numHeads,
    headDim: embedDim / numHeads,
    numLayers: s.count('num_hidden_layers', undefined, 1, MAX_LAYERS),
    activation: activation(s, 'hidden_act', 'gelu'),
    eps: s.between('layer_norm_eps', 0, 1),
    normFirst: true,
    embeddingNorm: false,
    finalNorm: true,
  };
}

const feedForwardOf = (s: Settings) => s.count('intermediate_size', undefined, 1, 4 * MAX_WIDTH);

/** The options of an image encoder, except the width of its feed-forward blocks. */
function visionConfig(s: Settings, { classRow, registers = 0 }: { classRow: boolean; registers?: number }) {
  const patchSize = s.count('patch_size', undefined, 1, 1024);
  const imageSize = s.count('image_size', undefined, patchSize, 2 ** 14);
  if (s.count('num_channels', 3) !== 3) throw s.unsupported('num_channels', '3', String(s.get('num_channels')));
  const maxPositions = Math.floor(imageSize / patchSize) ** 2 + (classRow ? 1 : 0) + registers;
  return {
    imageSize,
    vision: { ...sharedConfig(s), vocabSize: 0, maxPositions, patchSize, classRow, registers },
  };
}

function textConfig(s: Settings): Config {
  return {
    ...sharedConfig(s),
    vocabSize: s.count('vocab_size', undefined, 1),
    feedForwardDim: feedForwardOf(s),
    maxPositions: s.count('max_position_embeddings', undefined, 1),
  };
}

/** A family's names of modules and tensors, mapped to heed's. */
interface VisionNames {
  modules: Record<string, CoreName>;
  tensors: Record<string, ParameterRows>;
}

/**
 * The parameter names of an image encoder: those outside the layers (`around`) and those of each layer {i}. `scales`:
 * the LayerScale factors on the outputs of a layer's blocks.
 */
function visionNames(
  vision: RawEncoderModelConfig,
  around: VisionNames,
  prefix: string,
  layer: Record<string, CoreName>,
  scales: Record<string, string> = {},
): VisionNames {
  const modules: Record<string, CoreName> = {};
  const tensors: Record<string, ParameterRows> = {};
  const add = (names: VisionNames, before: string, below: string) => {
    for (const [name, core] of Object.entries(names.modules)) {
      const at = (part: 'weight' | 'bias') =>
        typeof core === 'string' ? { name: core, firstRow: 0 } : core(vision, part);
      modules[before + name] = (_, part) => ({ ...at(part), name: below + at(part).name });
    }
    for (const [name, { parameter, firstRow }] of Object.entries(names.tensors))
      tensors[before + name] = { parameter: below + parameter, firstRow };
  };
  add(around, '', VISION);
  const factors = Object.entries(scales).map(([name, parameter]) => [name, { parameter, firstRow: 0 }]);
  for (let i = 0; i < vision.numLayers; i++)
    add(
      { modules: layer, tensors: Object.fromEntries(factors) },
      prefix.replace('{i}', String(i)),
      `${VISION}layers.${i}.`,
    );
  return { modules, tensors };
}

/** Tensors after the encoders of CLIP and SigLIP. */
const HEAD_TENSORS = {
  clip: /^(vision_model\.post_layernorm\.|(visual|text)_projection\.)/,
  siglip: /^(vision_model\.head\.|text_model\.head\.)/,
};
const NO_TENSORS = /^$/;
const CLASSIFIER = 'classifier';

const DINO_SCALES = {
  'layer_scale1.lambda1': 'layer_scale1.weight',
  'layer_scale2.lambda1': 'layer_scale2.weight',
};

export type ImageType = 'clip' | 'siglip' | 'vit' | 'dinov2' | 'dinov2_with_registers' | 'dinov3_vit';

/**
 * The family of a config.json, with the options of its text encoder or, for ViT and DINO, which have none, the sizes of
 * its image encoder.
 */
export function imageFamily(type: ImageType, settings: Settings): FamilyConfig {
  const described =
    type === 'clip' || type === 'siglip'
      ? imageText(type, settings)
      : type === 'dinov3_vit'
        ? dinov3(settings)
        : type === 'vit'
          ? vit(settings)
          : dinov2(type, settings);
  const { family, config, about } = described;
  return {
    type,
    family: {
      ...family,
      pooling: about.pooling,
      images: (core, _, make) => new ImageTextEncoder(core, about, config, make),
    },
    config,
  };
}

interface Described {
  family: Family;
  config: RawEncoderModelConfig;
  about: ImageFamily;
}

function imageText(type: 'clip' | 'siglip', settings: Settings): Described {
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

interface ImageNames {
  prefix: string;
  /** The names of modules outside the layers. */
  around: Record<string, CoreName>;
  layerPrefix: string;
  layer: Record<string, CoreName>;
}

/** Describes a model that encodes only images. */
function imagesOnly(
  type: string,
  vision: ImageFamily['vision'],
  names: ImageNames,
  about: Pick<ImageFamily, 'imageSize' | 'interpolates' | 'rotaryBase'> & { head?: ImageFamily['head'] },
  optionalBiases?: RegExp,
): Described {
  const { head = {} } = about;
  const after = [head.pooler, head.classifier?.name].filter((name) => name !== undefined);
  const tensors: Record<string, ParameterRows> = {
    'embeddings.cls_token': { parameter: 'embeddings.class.weight', firstRow: 0 },
    'embeddings.register_tokens': { parameter: 'embeddings.registers.weight', firstRow: 0 },
    'embeddings.position_embeddings': { parameter: 'embeddings.position.weight', firstRow: 0 },
  };
  return {
    config: vision,
    family: {
      prefix: names.prefix,
      config: () => vision,
      ...visionNames(vision, { modules: names.around, tensors }, names.layerPrefix, names.layer, DINO_SCALES),
      ...(optionalBiases && { optionalBiases }),
      layerPrefix: '',
      layer: {},
      headTensors: after.length > 0 ? new RegExp(`^(${after.join('|')})\\.(weight|bias)$`) : NO_TENSORS,
    },
    about: { type, vision, ...about, head, pooling: 'cls', text: null },
  };
}

/** Describes DINOv3's vision transformers: rotary positions of the patches and, by default, keys without biases. */
function dinov3(settings: Settings): Described {
  const defaults = { num_channels: 3, layer_norm_eps: 1e-5, hidden_act: 'gelu', patch_size: 16, image_size: 224 };
  const s = new Settings({ ...defaults, ...Object.fromEntries(settings.entries()) }, settings.file, '', '');
  const registers = s.count('num_register_tokens', 0, 0, MAX_REGISTERS);
  const { vision: sizes, imageSize } = visionConfig(s, { classRow: true, registers });
  const gated = s.flag('use_gated_mlp', false);
  const { headDim } = sizes;
  if (headDim % 4 !== 0)
    throw s.wrong('num_attention_heads', 'heads whose width is a multiple of 4', s.get('num_attention_heads'));
  const feedForwardDim = feedForwardOf(s);
  const vision = {
    ...sizes,
    feedForwardDim,
    gated,
    layerScale: true,
    positions: 'rotary' as const,
    rotaryDim: headDim,
  };
  const up: Record<string, CoreName> = gated
    ? { 'mlp.gate_proj': 'linear1.', 'mlp.up_proj': secondHalf }
    : { 'mlp.up_proj': 'linear1.' };
  const biased = { q: 'query_bias', k: 'key_bias', v: 'value_bias', o: 'proj_bias', up: 'mlp_bias' };
  const without = Object.entries(biased).flatMap(([part, key]) => {
    if (s.flag(key, key !== 'key_bias')) return [];
    return part === 'up' ? ['mlp\\.(gate|up|down)_proj'] : [`attention\\.${part}_proj`];
  });
  const names = {
    prefix: 'dinov3_vit.',
    around: { 'embeddings.patch_embeddings': 'embeddings.patch.', norm: 'norm.' },
    layerPrefix: 'layer.{i}.',
    layer: { ...dinov3LayerNames, ...up },
  };
  const rotaryBase = s.between('rope_theta', 0, Infinity, 100);
  return imagesOnly(
    'dinov3_vit',
    vision,
    names,
    { imageSize, rotaryBase, interpolates: { antialias: false } },
    without.length > 0 ? new RegExp(`\\.(${without.join('|')})\\.bias$`) : undefined,
  );
}

function dinov2(type: 'dinov2' | 'dinov2_with_registers', settings: Settings): Described {
  const hasRegisters = type !== 'dinov2';
  const defaults = {
    num_channels: 3,
    layer_norm_eps: 1e-6,
    hidden_act: 'gelu',
    patch_size: hasRegisters ? 16 : 14,
    image_size: 224,
  };
  const s = new Settings({ ...defaults, ...Object.fromEntries(settings.entries()) }, settings.file, '', '');
  if (!s.flag('qkv_bias', true)) throw s.unsupported('qkv_bias', 'true', 'false');
  const registers = hasRegisters ? s.count('num_register_tokens', 4, 0, MAX_REGISTERS) : 0;
  const { vision: sizes, imageSize } = visionConfig(s, { classRow: true, registers });
  const gated = s.flag('use_swiglu_ffn', false);
  const ratio = s.between('mlp_ratio', 0, 1024, 4);
  const inner = Math.trunc(sizes.embedDim * ratio);
  const feedForwardDim = gated ? Math.floor((Math.trunc((inner * 2) / 3) + 7) / 8) * 8 : inner;
  if (feedForwardDim < 1)
    throw s.unsupported(
      'mlp_ratio',
      `at least one column in hidden layers, with hidden_size ${sizes.embedDim}`,
      `${ratio}`,
    );
  const vision = {
    ...sizes,
    feedForwardDim,
    gated,
    layerScale: true,
    activation: gated ? 'silu' : sizes.activation,
  };
  const names = {
    prefix: `${type}.`,
    around: { 'embeddings.patch_embeddings.projection': 'embeddings.patch.', layernorm: 'norm.' },
    layerPrefix: 'encoder.layer.{i}.',
    layer: dinoLayerNames,
  };
  const head = { classifier: { name: CLASSIFIER, rows: 'class and mean' as const } };
  return imagesOnly(type, vision, names, { imageSize, interpolates: { antialias: hasRegisters }, head });
}

function vit(settings: Settings): Described {
  const defaults = { ...shared, ...BASE, layer_norm_eps: 1e-12, hidden_act: 'gelu', patch_size: 16 };
  const s = new Settings({ ...defaults, ...Object.fromEntries(settings.entries()) }, settings.file, '', '');
  const { vision: sizes, imageSize } = visionConfig(s, { classRow: true });
  const names = {
    prefix: 'vit.',
    around: { 'embeddings.patch_embeddings.projection': 'embeddings.patch.', layernorm: 'norm.' },
    layerPrefix: 'encoder.layer.{i}.',
    layer: vitLayerNames,
  };
  const biases = s.flag('qkv_bias', true) ? undefined : /\.attention\.attention\.(query|key|value)\.bias$/;
  const head = { pooler: 'pooler.dense', classifier: { name: CLASSIFIER, rows: 'class' as const } };
  return imagesOnly('vit', { ...sizes, feedForwardDim: feedForwardOf(s) }, names, { imageSize, head }, biases);
}
