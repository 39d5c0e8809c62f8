/** Names and shapes of published image checkpoints, taken from their files; see published.ts. */
import { dense, norm, type Shapes } from './published.js';
import { randomTensors } from './random-checkpoint.js';

export interface PublishedImages {
  /** Number of parameters in the files, in thousands. */
  thousands: number;
  config: { model_type: string; [key: string]: unknown };
  preprocessor: object;
  /** Tensors that the model does not use for vectors. */
  unused: string[];
  shapes(sizes: { layers: number; vocab: number }): Shapes;
  layers: number;
  vocab: number;
}

const attention = (name: string, width: number): Shapes =>
  Object.assign({}, ...['q', 'k', 'v', 'out'].map((part) => dense(`${name}.${part}_proj`, width, width)));

const layer = (prefix: string, width: number, inner: number): Shapes => ({
  ...attention(`${prefix}self_attn`, width),
  ...norm(`${prefix}layer_norm1`, width),
  ...norm(`${prefix}layer_norm2`, width),
  ...dense(`${prefix}mlp.fc1`, inner, width),
  ...dense(`${prefix}mlp.fc2`, width, inner),
});

const stack = (count: number, of: (i: number) => Shapes): Shapes =>
  Object.assign({}, ...Array.from({ length: count }, (_, i) => of(i)));

const half = { image_mean: [0.5, 0.5, 0.5], image_std: [0.5, 0.5, 0.5] };

const siglip = (vocab: number, thousands: number, text: object): PublishedImages => ({
  thousands,
  layers: 12,
  vocab,
  // The files omit defaults.
  config: {
    model_type: 'siglip',
    text_config: { model_type: 'siglip_text_model', ...text },
    vision_config: { model_type: 'siglip_vision_model' },
  },
  preprocessor: {
    do_rescale: true,
    do_resize: true,
    image_processor_type: 'SiglipImageProcessor',
    resample: 3,
    rescale_factor: 0.00392156862745098,
    size: { height: 224, width: 224 },
    ...half,
  },
  unused: ['logit_bias', 'logit_scale'],
  shapes: ({ layers, vocab: words }) => ({
    logit_bias: [1],
    logit_scale: [1],
    'text_model.embeddings.position_embedding.weight': [64, 768],
    'text_model.embeddings.token_embedding.weight': [words, 768],
    ...stack(layers, (i) => layer(`text_model.encoder.layers.${i}.`, 768, 3072)),
    ...norm('text_model.final_layer_norm', 768),
    ...dense('text_model.head', 768, 768),
    'vision_model.embeddings.patch_embedding.bias': [768],
    'vision_model.embeddings.patch_embedding.weight': [768, 3, 16, 16],
    'vision_model.embeddings.position_embedding.weight': [196, 768],
    ...stack(layers, (i) => layer(`vision_model.encoder.layers.${i}.`, 768, 3072)),
    'vision_model.head.attention.in_proj_bias': [2304],
    'vision_model.head.attention.in_proj_weight': [2304, 768],
    ...dense('vision_model.head.attention.out_proj', 768, 768),
    ...norm('vision_model.head.layernorm', 768),
    ...dense('vision_model.head.mlp.fc1', 3072, 768),
    ...dense('vision_model.head.mlp.fc2', 768, 3072),
    'vision_model.head.probe': [1, 1, 768],
    ...norm('vision_model.post_layernorm', 768),
  }),
});

const vit: PublishedImages = {
  thousands: 86_568,
  layers: 12,
  vocab: 0,
  config: {
    model_type: 'vit',
    hidden_act: 'gelu',
    hidden_size: 768,
    id2label: Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [i, `class ${i}`])),
    image_size: 224,
    intermediate_size: 3072,
    layer_norm_eps: 1e-12,
    num_attention_heads: 12,
    num_channels: 3,
    num_hidden_layers: 12,
    patch_size: 16,
    qkv_bias: true,
  },
  preprocessor: { do_normalize: true, do_resize: true, ...half, size: 224 },
  unused: [],
  shapes: ({ layers }) => ({
    'vit.embeddings.cls_token': [1, 1, 768],
    'vit.embeddings.patch_embeddings.projection.bias': [768],
    'vit.embeddings.patch_embeddings.projection.weight': [768, 3, 16, 16],
    'vit.embeddings.position_embeddings': [1, 197, 768],
    ...stack(layers, (i) => ({
      ...dense(`vit.encoder.layer.${i}.attention.attention.key`, 768, 768),
      ...dense(`vit.encoder.layer.${i}.attention.attention.query`, 768, 768),
      ...dense(`vit.encoder.layer.${i}.attention.attention.value`, 768, 768),
      ...dense(`vit.encoder.layer.${i}.attention.output.dense`, 768, 768),
      ...dense(`vit.encoder.layer.${i}.intermediate.dense`, 3072, 768),
      ...norm(`vit.encoder.layer.${i}.layernorm_after`, 768),
      ...norm(`vit.encoder.layer.${i}.layernorm_before`, 768),
      ...dense(`vit.encoder.layer.${i}.output.dense`, 768, 3072),
    })),
    ...norm('vit.layernorm', 768),
    ...dense('classifier', 1000, 768),
  }),
};

const dinov2 = (thousands: number, registers: number): PublishedImages => ({
  thousands,
  layers: 12,
  vocab: 0,
  config: {
    model_type: registers > 0 ? 'dinov2_with_registers' : 'dinov2',
    ...(registers > 0 && { num_register_tokens: registers }),
    hidden_act: 'gelu',
    hidden_size: 384,
    image_size: 518,
    layer_norm_eps: 1e-6,
    layerscale_value: 1,
    mlp_ratio: 4,
    num_attention_heads: 6,
    num_channels: 3,
    num_hidden_layers: 12,
    patch_size: 14,
    qkv_bias: true,
    use_swiglu_ffn: false,
  },
  preprocessor: {
    crop_size: { height: 224, width: 224 },
    do_center_crop: true,
    do_convert_rgb: true,
    do_normalize: true,
    do_rescale: true,
    do_resize: true,
    image_mean: [0.485, 0.456, 0.406],
    image_processor_type: 'BitImageProcessor',
    image_std: [0.229, 0.224, 0.225],
    resample: 3,
    rescale_factor: 0.00392156862745098,
    size: { shortest_edge: 256 },
  },
  unused: ['embeddings.mask_token'],
  shapes: ({ layers }) => ({
    'embeddings.cls_token': [1, 1, 384],
    'embeddings.mask_token': [1, 384],
    'embeddings.patch_embeddings.projection.bias': [384],
    'embeddings.patch_embeddings.projection.weight': [384, 3, 14, 14],
    'embeddings.position_embeddings': [1, 1370, 384],
    ...(registers > 0 && { 'embeddings.register_tokens': [1, registers, 384] }),
    ...stack(layers, (i) => ({
      ...dense(`encoder.layer.${i}.attention.attention.key`, 384, 384),
      ...dense(`encoder.layer.${i}.attention.attention.query`, 384, 384),
      ...dense(`encoder.layer.${i}.attention.attention.value`, 384, 384),
      ...dense(`encoder.layer.${i}.attention.output.dense`, 384, 384),
      [`encoder.layer.${i}.layer_scale1.lambda1`]: [384],
      [`encoder.layer.${i}.layer_scale2.lambda1`]: [384],
      ...dense(`encoder.layer.${i}.mlp.fc1`, 1536, 384),
      ...dense(`encoder.layer.${i}.mlp.fc2`, 384, 1536),
      ...norm(`encoder.layer.${i}.norm1`, 384),
      ...norm(`encoder.layer.${i}.norm2`, 384),
    })),
    ...norm('layernorm', 384),
  }),
});

export const PUBLISHED_IMAGES: Record<string, PublishedImages> = {
  'openai/clip-vit-base-patch32': {
    thousands: 151_277,
    layers: 12,
    vocab: 49408,
    config: {
      model_type: 'clip',
      projection_dim: 512,
      text_config: {
        eos_token_id: 2,
        hidden_act: 'quick_gelu',
        hidden_size: 512,
        intermediate_size: 2048,
        num_attention_heads: 8,
      },
      vision_config: { hidden_act: 'quick_gelu', hidden_size: 768, image_size: 224, patch_size: 32 },
    },
    preprocessor: {
      crop_size: 224,
      do_center_crop: true,
      do_normalize: true,
      do_resize: true,
      feature_extractor_type: 'CLIPFeatureExtractor',
      image_mean: [0.48145466, 0.4578275, 0.40821073],
      image_std: [0.26862954, 0.26130258, 0.27577711],
      resample: 3,
      size: 224,
    },
    unused: ['logit_scale'],
    shapes: ({ layers, vocab }) => ({
      logit_scale: [],
      'text_model.embeddings.position_embedding.weight': [77, 512],
      'text_model.embeddings.token_embedding.weight': [vocab, 512],
      ...stack(layers, (i) => layer(`text_model.encoder.layers.${i}.`, 512, 2048)),
      ...norm('text_model.final_layer_norm', 512),
      'text_projection.weight': [512, 512],
      'vision_model.embeddings.class_embedding': [768],
      'vision_model.embeddings.patch_embedding.weight': [768, 3, 32, 32],
      'vision_model.embeddings.position_embedding.weight': [50, 768],
      ...stack(layers, (i) => layer(`vision_model.encoder.layers.${i}.`, 768, 3072)),
      ...norm('vision_model.post_layernorm', 768),
      ...norm('vision_model.pre_layrnorm', 768),
      'visual_projection.weight': [512, 768],
    }),
  },
  'google/siglip-base-patch16-224': siglip(32000, 203_156, {}),
  'google/siglip2-base-patch16-224': siglip(256000, 375_188, { vocab_size: 256000 }),
  'google/vit-base-patch16-224': vit,
  'facebook/dinov2-small': dinov2(22_057, 0),
  'facebook/dinov2-with-registers-small': dinov2(22_058, 4),
};

/** The checkpoint with fewer layers, a smaller vocabulary and random weights. */
export function imageFilesOf(
  model: PublishedImages,
  layers: number,
  vocab: number,
): Record<string, Uint8Array | string> {
  const { config } = model;
  const smaller = (part: string, more: object) =>
    part in config && { [part]: { ...(config[part] as object), num_hidden_layers: layers, ...more } };
  return {
    'config.json': JSON.stringify({
      ...config,
      ...(model.vocab === 0 && { num_hidden_layers: layers }),
      ...smaller('text_config', { vocab_size: vocab }),
      ...smaller('vision_config', {}),
    }),
    'preprocessor_config.json': JSON.stringify(model.preprocessor),
    'model.safetensors': randomTensors(model.shapes({ layers, vocab })),
  };
}
