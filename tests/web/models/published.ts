/**
 * Published checkpoints: the relevant settings of config.json, and the names and shapes of the encoder's tensors. Taken
 * from the files themselves or, where docs/checkpoints.md says so, from the code that reads them; not from heed's
 * description of the families.
 */

import {
  bertConfig,
  deberta,
  ernie,
  euroBert,
  gemma3,
  gte,
  jina,
  modernBert,
  nomic,
  qwen3,
  roFormer,
  t5,
} from './published-configs.js';

export type Shapes = Record<string, number[]>;

export interface Published {
  /** Number of parameters according to the model's card or name, in millions. */
  millions: number;
  config: { model_type: string; vocab_size: number; layer_types?: string[] } & (
    | { num_hidden_layers: number }
    | { n_layer: number }
    | { num_layers: number }
  );
  /** Name of the token embeddings, which have one row per vocabulary entry. */
  words: string;
  width: number;
  /** Tensors other than the token embeddings and the layers. */
  others: Shapes;
  layerPrefix: string;
  layer: Shapes;
  /** A tensor that the first layer lacks. */
  notFirst?: string;
}

/** A weight [out, in] and, unless `bias` is false, a bias. */
export const dense = (name: string, out: number, inputs: number, bias = true): Shapes => ({
  [`${name}.weight`]: [out, inputs],
  ...(bias && { [`${name}.bias`]: [out] }),
});
export const norm = (name: string, width: number): Shapes => ({
  [`${name}.weight`]: [width],
  [`${name}.bias`]: [width],
});
const rms = (names: string[], width: number): Shapes =>
  Object.fromEntries(names.map((name) => [`${name}.weight`, [width]]));

/** Attention with `heads` query heads and `keyHeads` key heads of width `headDim`. */
const selfAttention = (width: number, heads: number, keyHeads: number, headDim: number): Shapes => ({
  ...dense('self_attn.q_proj', heads * headDim, width, false),
  ...dense('self_attn.k_proj', keyHeads * headDim, width, false),
  ...dense('self_attn.v_proj', keyHeads * headDim, width, false),
  ...dense('self_attn.o_proj', width, heads * headDim, false),
});
/** The same, with norms of queries and keys. */
const groupedAttention = (width: number, heads: number, keyHeads: number, headDim: number): Shapes => ({
  ...selfAttention(width, heads, keyHeads, headDim),
  ...rms(['self_attn.q_norm', 'self_attn.k_norm'], headDim),
});
const gatedMlp = (width: number, inner: number): Shapes => ({
  ...dense('mlp.gate_proj', inner, width, false),
  ...dense('mlp.up_proj', inner, width, false),
  ...dense('mlp.down_proj', width, inner, false),
});

const bertAttention = (self: string[], width: number): Shapes => ({
  ...Object.assign({}, ...self.map((name) => dense(`attention.self.${name}`, width, width))),
  ...dense('attention.output.dense', width, width),
  ...norm('attention.output.LayerNorm', width),
});

const bertLayer = (width: number): Shapes => ({
  ...bertAttention(['query', 'key', 'value'], width),
  ...dense('intermediate.dense', 4 * width, width),
  ...dense('output.dense', width, 4 * width),
  ...norm('output.LayerNorm', width),
});

/** The shape of MiniLM, for one of its vocabularies. */
const miniLm = (layers: number, vocab: number, millions: number): Published => ({
  millions,
  config: bertConfig(layers, vocab),
  words: 'embeddings.word_embeddings.weight',
  width: 384,
  others: {
    'embeddings.position_embeddings.weight': [512, 384],
    'embeddings.token_type_embeddings.weight': [2, 384],
    ...norm('embeddings.LayerNorm', 384),
  },
  layerPrefix: 'encoder.layer.{i}.',
  layer: {
    ...bertAttention(['query', 'key', 'value'], 384),
    ...dense('intermediate.dense', 1536, 384),
    ...dense('output.dense', 384, 1536),
    ...norm('output.LayerNorm', 384),
  },
});

export const PUBLISHED: Record<string, Published> = {
  'all-MiniLM-L6-v2': miniLm(6, 30522, 23),
  'multilingual-e5-small': miniLm(12, 250037, 118),
  'nomic-embed-text-v1.5': {
    millions: 137,
    config: nomic,
    words: 'embeddings.word_embeddings.weight',
    width: 768,
    others: { 'embeddings.token_type_embeddings.weight': [2, 768], ...norm('emb_ln', 768) },
    layerPrefix: 'encoder.layers.{i}.',
    layer: {
      ...dense('attn.Wqkv', 2304, 768, false),
      ...dense('attn.out_proj', 768, 768, false),
      ...dense('mlp.fc11', 3072, 768, false),
      ...dense('mlp.fc12', 3072, 768, false),
      ...dense('mlp.fc2', 768, 3072, false),
      ...norm('norm1', 768),
      ...norm('norm2', 768),
    },
  },
  'gte-modernbert-base': {
    millions: 149,
    config: modernBert,
    words: 'embeddings.tok_embeddings.weight',
    width: 768,
    others: rms(['embeddings.norm', 'final_norm'], 768),
    layerPrefix: 'layers.{i}.',
    layer: {
      ...rms(['attn_norm', 'mlp_norm'], 768),
      ...dense('attn.Wqkv', 2304, 768, false),
      ...dense('attn.Wo', 768, 768, false),
      ...dense('mlp.Wi', 2304, 768, false),
      ...dense('mlp.Wo', 768, 1152, false),
    },
    notFirst: 'attn_norm.weight',
  },
  'Qwen3-Embedding-0.6B': {
    millions: 596,
    config: qwen3,
    words: 'embed_tokens.weight',
    width: 1024,
    others: rms(['norm'], 1024),
    layerPrefix: 'layers.{i}.',
    layer: {
      ...rms(['input_layernorm', 'post_attention_layernorm'], 1024),
      ...groupedAttention(1024, 16, 8, 128),
      ...gatedMlp(1024, 3072),
    },
  },
  'embeddinggemma-300m': {
    millions: 303, // 308 with its two Dense layers
    config: gemma3,
    words: 'embed_tokens.weight',
    width: 768,
    others: rms(['norm'], 768),
    layerPrefix: 'layers.{i}.',
    layer: {
      ...rms(
        ['input_layernorm', 'post_attention_layernorm', 'pre_feedforward_layernorm', 'post_feedforward_layernorm'],
        768,
      ),
      ...groupedAttention(768, 3, 1, 256),
      ...gatedMlp(768, 1152),
    },
  },
  'deberta-v3-base': {
    millions: 184,
    config: deberta,
    words: 'deberta.embeddings.word_embeddings.weight',
    width: 768,
    others: {
      ...norm('deberta.embeddings.LayerNorm', 768),
      'deberta.encoder.rel_embeddings.weight': [512, 768],
      ...norm('deberta.encoder.LayerNorm', 768),
    },
    layerPrefix: 'deberta.encoder.layer.{i}.',
    layer: {
      ...bertAttention(['query_proj', 'key_proj', 'value_proj'], 768),
      ...dense('intermediate.dense', 3072, 768),
      ...dense('output.dense', 768, 3072),
      ...norm('output.LayerNorm', 768),
    },
  },
  'ernie-3.0-base-zh': {
    millions: 117, // 118 with its pooler
    config: ernie,
    words: 'ernie.embeddings.word_embeddings.weight',
    width: 768,
    others: {
      'ernie.embeddings.position_embeddings.weight': [2048, 768],
      'ernie.embeddings.token_type_embeddings.weight': [4, 768],
      'ernie.embeddings.task_type_embeddings.weight': [3, 768],
      ...norm('ernie.embeddings.LayerNorm', 768),
    },
    layerPrefix: 'ernie.encoder.layer.{i}.',
    layer: bertLayer(768),
  },
  'jina-embeddings-v2-base-en': {
    millions: 137,
    config: jina,
    words: 'embeddings.word_embeddings.weight',
    width: 768,
    others: { 'embeddings.token_type_embeddings.weight': [2, 768], ...norm('embeddings.LayerNorm', 768) },
    layerPrefix: 'encoder.layer.{i}.',
    layer: {
      ...bertAttention(['query', 'key', 'value'], 768),
      ...dense('mlp.gated_layers', 6144, 768, false),
      ...dense('mlp.wo', 768, 3072),
      ...norm('mlp.layernorm', 768),
    },
  },
  'gte-multilingual-base': {
    millions: 305,
    config: gte,
    words: 'new.embeddings.word_embeddings.weight',
    width: 768,
    others: { 'new.embeddings.token_type_embeddings.weight': [1, 768], ...norm('new.embeddings.LayerNorm', 768) },
    layerPrefix: 'new.encoder.layer.{i}.',
    layer: {
      ...dense('attention.qkv_proj', 2304, 768),
      ...dense('attention.o_proj', 768, 768),
      ...norm('attn_ln', 768),
      ...dense('mlp.up_gate_proj', 6144, 768, false),
      ...dense('mlp.down_proj', 768, 3072),
      ...norm('mlp_ln', 768),
    },
  },
  'sentence-t5-base': {
    millions: 110,
    config: t5,
    words: 'shared.weight',
    width: 768,
    others: {
      'encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight': [32, 12],
      ...rms(['encoder.final_layer_norm'], 768),
    },
    layerPrefix: 'encoder.block.{i}.',
    layer: {
      ...Object.assign({}, ...['q', 'k', 'v', 'o'].map((n) => dense(`layer.0.SelfAttention.${n}`, 768, 768, false))),
      ...dense('layer.1.DenseReluDense.wi', 3072, 768, false),
      ...dense('layer.1.DenseReluDense.wo', 768, 3072, false),
      ...rms(['layer.0.layer_norm', 'layer.1.layer_norm'], 768),
    },
  },
  'EuroBERT-210m': {
    millions: 212, // 310 with the head that predicts tokens
    config: euroBert,
    words: 'model.embed_tokens.weight',
    width: 768,
    others: rms(['model.norm'], 768),
    layerPrefix: 'model.layers.{i}.',
    layer: {
      ...rms(['input_layernorm', 'post_attention_layernorm'], 768),
      ...selfAttention(768, 12, 12, 64),
      ...gatedMlp(768, 3072),
    },
  },
  roformer_chinese_base: {
    millions: 123, // 124 with its pooler
    config: roFormer,
    words: 'roformer.embeddings.word_embeddings.weight',
    width: 768,
    others: {
      'roformer.embeddings.token_type_embeddings.weight': [2, 768],
      ...norm('roformer.embeddings.LayerNorm', 768),
    },
    layerPrefix: 'roformer.encoder.layer.{i}.',
    layer: bertLayer(768),
  },
};

/** The setting of config.json that is the number of layers. */
export const layersKeyOf = (config: Published['config']) =>
  (['n_layer', 'num_layers', 'num_hidden_layers'] as const).find((key) => key in config)!;

export const layersOf = (config: Published['config']): number =>
  (config as unknown as Record<string, number>)[layersKeyOf(config)]!;

/** The shapes of all tensors, optionally with another number of layers and another vocabulary size. */
export function shapesOf(
  { config, words, width, others, layerPrefix, layer, notFirst }: Published,
  { layers = layersOf(config), vocab = config.vocab_size } = {},
): Shapes {
  const shapes: Shapes = { [words]: [vocab, width], ...others };
  for (let i = 0; i < layers; i++) {
    for (const [name, shape] of Object.entries(layer))
      if (i > 0 || name !== notFirst) shapes[layerPrefix.replace('{i}', String(i)) + name] = shape;
  }
  return shapes;
}
