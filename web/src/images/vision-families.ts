/**
 * The families that encode images only: DINOv2 (Oquab et al. 2023, arXiv:2304.07193), also with registers (Darcet et
 * al. 2023, arXiv:2309.16588), DINOv3's vision transformers (Siméoni et al. 2025, arXiv:2508.10104), and ViT
 * (Dosovitskiy et al. 2021, arXiv:2010.11929), whose form DINO's first checkpoints share. ViT and DINOv2 also have
 * classifiers.
 */
import { Settings } from '../io/settings.js';
import {
  type CoreName,
  keyRows,
  type ParameterRows,
  queryRows,
  secondHalf,
  valueRows,
} from '../models/families/family.js';
import type { ImageFamily } from './image-family.js';
import { BASE, type Described, feedForwardOf, shared, visionConfig, visionNames } from './vision-config.js';

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

const NO_TENSORS = /^$/;
const CLASSIFIER = 'classifier';

const DINO_SCALES = {
  'layer_scale1.lambda1': 'layer_scale1.weight',
  'layer_scale2.lambda1': 'layer_scale2.weight',
};

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
  about: Pick<ImageFamily, 'imageSize' | 'interpolates' | 'rotaryBase'> & { head?: ImageFamily['head'] | undefined },
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
export function dinov3(settings: Settings): Described {
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

export function dinov2(type: 'dinov2' | 'dinov2_with_registers', settings: Settings): Described {
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

export function vit(settings: Settings): Described {
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
