/**
 * The families that encode images only: DINOv2 (Oquab et al. 2023, arXiv:2304.07193), also with registers (Darcet et
 * al. 2023, arXiv:2309.16588), DINOv3's vision transformers (Siméoni et al. 2025, arXiv:2508.10104), and ViT
 * (Dosovitskiy et al. 2021, arXiv:2010.11929), whose form DINO's first checkpoints share. ViT and DINOv2 also have
 * classifiers.
 */
import type { Settings } from '../io/settings.js';
import {
  activation,
  type CoreName,
  type EncoderNames,
  keyRows,
  queryRows,
  secondHalf,
  valueRows,
} from '../models/families/family.js';
import { BASE, type Described, type ImageFamily, shared, visionConfig } from './vision-config.js';

const attentionNames: Record<string, CoreName> = {
  'attention.attention.query': queryRows,
  'attention.attention.key': keyRows,
  'attention.attention.value': valueRows,
  'attention.output.dense': 'self_attn.out_proj.',
};

const dinoLayerNames: Record<string, CoreName> = {
  ...attentionNames,
  norm1: 'norm1.',
  'mlp.fc1': 'linear1.',
  'mlp.fc2': 'linear2.',
  'mlp.weights_in': 'linear1.',
  'mlp.weights_out': 'linear2.',
  norm2: 'norm2.',
};

const vitLayerNames: Record<string, CoreName> = {
  ...attentionNames,
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

const TENSORS = {
  'embeddings.cls_token': 'embeddings.class.weight',
  'embeddings.register_tokens': 'embeddings.registers.weight',
  'embeddings.position_embeddings': 'embeddings.position.weight',
};

/** Describes a model that encodes only images. */
function imagesOnly(
  type: string,
  vision: ImageFamily['vision'],
  names: EncoderNames,
  about: Pick<ImageFamily, 'imageSize' | 'interpolates' | 'rotaryBase'> & { head?: ImageFamily['head'] | undefined },
  withoutBiases?: RegExp,
): Described {
  const { head = {} } = about;
  const after = [head.pooler?.name, head.classifier?.name].filter((name) => name !== undefined);
  return {
    config: vision,
    family: {
      prefix: `${type}.`,
      config: () => vision,
      modules: {},
      layerPrefix: '',
      layer: {},
      vision: { tensors: TENSORS, layerTensors: DINO_SCALES, ...names, config: vision },
      ...(withoutBiases && { withoutBiases }),
      headTensors: after.length > 0 ? new RegExp(`^(${after.join('|')})\\.(weight|bias)$`) : NO_TENSORS,
    },
    about: { type, vision, ...about, head, pooling: 'cls', text: null },
  };
}

/** Describes DINOv3's vision transformers: rotary positions of the patches and, by default, keys without biases. */
export function dinov3(settings: Settings): Described {
  const defaults = { num_channels: 3, layer_norm_eps: 1e-5, hidden_act: 'gelu', patch_size: 16, image_size: 224 };
  const s = settings.withDefaults(defaults);
  const registers = s.count('num_register_tokens', 0, 0, MAX_REGISTERS);
  const { vision: sizes, imageSize } = visionConfig(s, { classRow: true, registers });
  const gated = s.flag('use_gated_mlp', false);
  const { headDim } = sizes;
  if (headDim % 4 !== 0)
    throw s.wrong('num_attention_heads', 'heads whose width is a multiple of 4', s.get('num_attention_heads'));
  const vision = { ...sizes, gated, layerScale: true, positions: 'rotary' as const, rotaryDim: headDim };
  const up: Record<string, CoreName> = gated
    ? { 'mlp.gate_proj': 'linear1.', 'mlp.up_proj': secondHalf }
    : { 'mlp.up_proj': 'linear1.' };
  const biased = { q: 'query_bias', k: 'key_bias', v: 'value_bias', o: 'proj_bias', up: 'mlp_bias' };
  const without = Object.entries(biased).flatMap(([part, key]) => {
    if (s.flag(key, key !== 'key_bias')) return [];
    return part === 'up' ? ['mlp\\.(gate|up|down)_proj'] : [`attention\\.${part}_proj`];
  });
  const names = {
    modules: { 'embeddings.patch_embeddings': 'embeddings.patch.', norm: 'norm.' },
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
  const s = settings.withDefaults(defaults);
  if (!s.flag('qkv_bias', true)) throw s.unsupported('qkv_bias', 'true', 'false');
  const registers = hasRegisters ? s.count('num_register_tokens', 4, 0, MAX_REGISTERS) : 0;
  const { vision: sizes, imageSize } = visionConfig(s, { classRow: true, registers, feedForwardFactor: 4 });
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
    modules: { 'embeddings.patch_embeddings.projection': 'embeddings.patch.', layernorm: 'norm.' },
    layerPrefix: 'encoder.layer.{i}.',
    layer: dinoLayerNames,
  };
  const head = { classifier: { name: CLASSIFIER, rows: 'class and mean' as const } };
  return imagesOnly(type, vision, names, { imageSize, interpolates: { antialias: hasRegisters }, head });
}

export function vit(settings: Settings): Described {
  const defaults = { ...shared, ...BASE, layer_norm_eps: 1e-12, hidden_act: 'gelu', patch_size: 16 };
  const s = settings.withDefaults(defaults);
  const { vision, imageSize } = visionConfig(s, { classRow: true });
  const names = {
    modules: { 'embeddings.patch_embeddings.projection': 'embeddings.patch.', layernorm: 'norm.' },
    layerPrefix: 'encoder.layer.{i}.',
    layer: vitLayerNames,
  };
  const biases = s.flag('qkv_bias', true) ? undefined : /\.attention\.attention\.(query|key|value)\.bias$/;
  const head = {
    pooler: { name: 'pooler.dense', activation: activation(s, 'pooler_act', 'tanh') },
    classifier: { name: CLASSIFIER, rows: 'class' as const },
  };
  return imagesOnly('vit', vision, names, { imageSize, head }, biases);
}
