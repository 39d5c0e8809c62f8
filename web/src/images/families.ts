/**
 * The families that encode images: CLIP (Radford et al. 2021, arXiv:2103.00020) and SigLIP (Zhai et al. 2023, arXiv:2303.15343; SigLIP 2's checkpoints of fixed resolution have its
 * form), which encode texts, too, DINOv2 (Oquab et al. 2023, arXiv:2304.07193), also with registers (Darcet et al. 2023, arXiv:2309.16588), and DINOv3's vision transformers
 * (Siméoni et al. 2025, arXiv:2508.10104).
 * Notation: E width, {i} a layer's number.
 */
import type { RawEncoderModelConfig } from '../core.js';
import { invalid } from '../error.js';
import { Settings } from '../models/config.js';
import type { FamilyConfig } from '../models/families.js';
import {
  activation,
  type Config,
  type CoreName,
  DEFAULTS,
  type Family,
  keyRows,
  MAX_LAYERS,
  MAX_WIDTH,
  queryRows,
  secondHalf,
  valueRows,
} from '../models/family.js';
import { ImageTextEncoder } from './encoder.js';
import type { ImageFamily, VisionConfig } from './family.js';

/** The activation that CLIP's files call quick_gelu is computed as silu(1.702 x) / 1.702, with the factors in the weights. */
const QUICK = 'quick_gelu';

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

/** What Hugging Face's configuration classes add to files that leave settings out. */
const shared = { num_hidden_layers: 12, attention_dropout: 0, num_channels: 3, image_size: 224 };
const CLIP = { ...shared, hidden_act: QUICK, layer_norm_eps: 1e-5 };
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

/** A part of config.json, with the defaults of its family. */
function partOf(settings: Settings, key: string, defaults: object): Settings {
  const given = settings.record(key);
  return new Settings(
    { ...defaults, ...Object.fromEntries((given?.entries() ?? []).filter(([, value]) => value !== null)) },
    `${settings.file}: ${key}`,
    '',
    '',
  );
}

function sharedSizes(s: Settings) {
  const embedDim = s.count('hidden_size', undefined, 1, MAX_WIDTH);
  const numHeads = s.count('num_attention_heads', undefined, 1, embedDim);
  if (embedDim % numHeads !== 0)
    throw s.wrong('num_attention_heads', `a divisor of hidden_size (${embedDim})`, numHeads);
  const quick = s.get('hidden_act') === QUICK;
  return {
    embedDim,
    numHeads,
    numLayers: s.count('num_hidden_layers', undefined, 1, MAX_LAYERS),
    activation: quick ? 'silu' : activation(s, 'hidden_act', 'gelu'),
    quick,
    eps: s.between('layer_norm_eps', 0, 1),
  };
}

function visionSizes(s: Settings) {
  const patch = s.count('patch_size', undefined, 1, 1024);
  const image = s.count('image_size', undefined, patch, 2 ** 14);
  if (s.count('num_channels', 3) !== 3) throw s.unsupported('num_channels', '3', String(s.get('num_channels')));
  return { ...sharedSizes(s), patch, image };
}

function textConfig(s: Settings): Config & { quick: boolean } {
  const sizes = sharedSizes(s);
  return {
    ...sizes,
    headDim: sizes.embedDim / sizes.numHeads,
    keyValueHeads: sizes.numHeads,
    vocabSize: s.count('vocab_size', undefined, 1),
    feedForwardDim: s.count('intermediate_size', undefined, 1, 4 * MAX_WIDTH),
    maxPositions: s.count('max_position_embeddings', undefined, 1),
    normFirst: true,
    embeddingNorm: false,
    finalNorm: true,
  };
}

/** The parameters of each layer of an encoder of images, as ImageTextEncoder names them. */
function visionModules(
  layers: number,
  prefix: string,
  names: Record<string, CoreName>,
  { embedDim, numHeads, feedForwardDim }: VisionConfig,
) {
  // Only these are read by the functions for queries, keys and values.
  const headDim = embedDim / numHeads;
  const config = { embedDim, numHeads, keyValueHeads: numHeads, headDim, feedForwardDim } as RawEncoderModelConfig;
  const modules: Record<string, CoreName> = {};
  for (let i = 0; i < layers; i++) {
    for (const [name, core] of Object.entries(names)) {
      const at = (part: 'weight' | 'bias') =>
        typeof core === 'string' ? { name: core, firstRow: 0 } : core(config, part);
      modules[prefix.replace('{i}', String(i)) + name] = (_, part) => ({
        ...at(part),
        name: `vision.${i}.${at(part).name}`,
      });
    }
  }
  return modules;
}

const IMAGE_TENSORS =
  /^(vision_model\.(embeddings\.(class_embedding|patch_embedding\.|position_embedding\.)|pre_layrnorm\.|post_layernorm\.|head\.)|(visual|text)_projection\.|text_model\.head\.)/;
const DINO_TENSORS =
  /^(embeddings\.(cls_token|register_tokens|position_embeddings|patch_embeddings\.)|encoder\.layer\.\d+\.layer_scale[12]\.|layernorm\.)/;

const DINOV3_TENSORS =
  /^(embeddings\.(cls_token|register_tokens|patch_embeddings\.)|layer\.\d+\.layer_scale[12]\.|norm\.)/;

export type ImageType = 'clip' | 'siglip' | 'dinov2' | 'dinov2_with_registers' | 'dinov3_vit';

/** The family of a config.json, and the core's options for its encoder of texts; of DINOv2, which has none, the sizes of its encoder of images. */
export function imageFamily(type: ImageType, settings: Settings): FamilyConfig {
  const described =
    type === 'clip' || type === 'siglip'
      ? imageText(type, settings)
      : type === 'dinov3_vit'
        ? dinov3(settings)
        : dinov2(type, settings);
  const { family, config, about } = described;
  return {
    type,
    family: {
      ...family,
      pooling: about.pooling,
      images: (core, _, makeText) => new ImageTextEncoder(core, about, config, makeText),
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
  const text = textConfig(textSettings);
  const vision: VisionConfig = {
    ...visionSizes(visionSettings),
    feedForwardDim: visionSettings.count('intermediate_size', undefined, 1, 4 * MAX_WIDTH),
    gated: false,
  };
  const { quick, ...config } = { ...DEFAULTS, ...text, causal: isClip };
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
        ...visionModules(vision.numLayers, 'vision_model.encoder.layers.{i}.', layerNames, vision),
      },
      layerPrefix: 'text_model.encoder.layers.{i}.',
      layer: layerNames,
      imageTensors: IMAGE_TENSORS,
    },
    about: {
      type,
      vision,
      names: {
        patch: 'vision_model.embeddings.patch_embedding',
        positions: 'vision_model.embeddings.position_embedding.weight',
        lastNorm: 'vision_model.post_layernorm',
        ...(isClip
          ? {
              classRow: 'vision_model.embeddings.class_embedding',
              firstNorm: 'vision_model.pre_layrnorm',
              normsPooled: true,
              projection: 'visual_projection',
            }
          : { head: 'vision_model.head.' }),
      },
      pooling: 'last',
      text: isClip
        ? { projection: 'text_projection', end: end === 2 ? null : end, quick } // 2 stands for the end of texts in old files, wrongly
        : { projection: 'text_model.head', padId: textSettings.count('pad_token_id', 1), quick },
    },
  };
}

/** The sizes of a model that encodes images only. */
function imageConfig(vision: VisionConfig, registers: number): RawEncoderModelConfig {
  const { embedDim, numHeads, numLayers, feedForwardDim, image, patch } = vision;
  return {
    ...DEFAULTS,
    embedDim,
    numHeads,
    keyValueHeads: numHeads,
    headDim: embedDim / numHeads,
    numLayers,
    feedForwardDim,
    vocabSize: 0,
    maxPositions: Math.floor(image / patch) ** 2 + 1 + registers,
  };
}

/** DINOv3's vision transformers: rotary positions of the patches, and by default keys without biases. */
function dinov3(settings: Settings): Described {
  const defaults = { num_channels: 3, layer_norm_eps: 1e-5, hidden_act: 'gelu', patch_size: 16, image_size: 224 };
  const s = new Settings({ ...defaults, ...Object.fromEntries(settings.entries()) }, settings.file, '', '');
  const sizes = visionSizes(s);
  const gated = s.flag('use_gated_mlp', false);
  const feedForwardDim = s.count('intermediate_size', undefined, 1, 4 * MAX_WIDTH);
  if (sizes.quick) throw s.unsupported('hidden_act', 'another activation', QUICK);
  const headDim = sizes.embedDim / sizes.numHeads;
  if (headDim % 4 !== 0)
    throw s.wrong('num_attention_heads', 'heads whose width is a multiple of 4', s.get('num_attention_heads'));
  const vision = { ...sizes, feedForwardDim, gated };
  const registers = s.count('num_register_tokens', 0, 0, MAX_REGISTERS);
  const config = imageConfig(vision, registers);
  const up: Record<string, CoreName> = gated
    ? { 'mlp.gate_proj': 'linear1.', 'mlp.up_proj': secondHalf }
    : { 'mlp.up_proj': 'linear1.' };
  const biased = { q: 'query_bias', k: 'key_bias', v: 'value_bias', o: 'proj_bias', up: 'mlp_bias' };
  const without = Object.entries(biased).flatMap(([part, key]) => {
    if (s.flag(key, key !== 'key_bias')) return [];
    return part === 'up' ? ['mlp\\.(gate|up|down)_proj'] : [`attention\\.${part}_proj`];
  });
  return {
    config,
    family: {
      prefix: 'dinov3_vit.',
      config: () => config,
      modules: visionModules(vision.numLayers, 'layer.{i}.', { ...dinov3LayerNames, ...up }, vision),
      ...(without.length > 0 && { optionalBiases: new RegExp(`\\.(${without.join('|')})\\.bias$`) }),
      layerPrefix: '',
      layer: {},
      imageTensors: DINOV3_TENSORS,
    },
    about: {
      type: 'dinov3_vit',
      vision,
      names: {
        patch: 'embeddings.patch_embeddings',
        classRow: 'embeddings.cls_token',
        ...(registers > 0 && { registers: { name: 'embeddings.register_tokens', count: registers } }),
        rotaryBase: s.between('rope_theta', 0, Infinity, 100),
        lastNorm: 'norm',
        layerScales: (i) => [`layer.${i}.layer_scale1.lambda1`, `layer.${i}.layer_scale2.lambda1`],
        interpolates: { antialias: false },
      },
      pooling: 'cls',
      text: null,
    },
  };
}

function dinov2(type: 'dinov2' | 'dinov2_with_registers', settings: Settings): Described {
  const hasRegisters = type !== 'dinov2';
  const s = new Settings(
    {
      num_channels: 3,
      layer_norm_eps: 1e-6,
      hidden_act: 'gelu',
      patch_size: hasRegisters ? 16 : 14,
      image_size: 224,
      ...Object.fromEntries(settings.entries()),
    },
    settings.file,
    '',
    '',
  );
  if (!s.flag('qkv_bias', true)) throw s.unsupported('qkv_bias', 'true', 'false');
  const sizes = visionSizes(s);
  const gated = s.flag('use_swiglu_ffn', false);
  const inner = Math.trunc(sizes.embedDim * s.between('mlp_ratio', 0, 1024, 4));
  const feedForwardDim = gated ? Math.floor((Math.trunc((inner * 2) / 3) + 7) / 8) * 8 : inner;
  if (feedForwardDim < 1 || sizes.quick) throw invalid(s.file, `the layout of ${type}`, 'another', 'UNSUPPORTED');
  const vision = { ...sizes, feedForwardDim, gated, activation: gated ? 'silu' : sizes.activation };
  const registers = hasRegisters ? s.count('num_register_tokens', 4, 0, MAX_REGISTERS) : 0;
  const config = imageConfig(vision, registers);
  return {
    config,
    family: {
      prefix: `${type}.`,
      config: () => config,
      modules: visionModules(vision.numLayers, 'encoder.layer.{i}.', dinoLayerNames, vision),
      layerPrefix: '',
      layer: {},
      imageTensors: DINO_TENSORS,
    },
    about: {
      type,
      vision,
      names: {
        patch: 'embeddings.patch_embeddings.projection',
        classRow: 'embeddings.cls_token',
        ...(registers > 0 && { registers: { name: 'embeddings.register_tokens', count: registers } }),
        positions: 'embeddings.position_embeddings',
        lastNorm: 'layernorm',
        layerScales: (i) => [`encoder.layer.${i}.layer_scale1.lambda1`, `encoder.layer.${i}.layer_scale2.lambda1`],
        interpolates: { antialias: hasRegisters },
      },
      pooling: 'cls',
      text: null,
    },
  };
}
