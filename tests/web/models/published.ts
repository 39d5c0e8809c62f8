/**
 * Published checkpoints: the relevant settings of config.json, and the names and shapes of the encoder's tensors. Taken
 * from the files themselves or, where docs/checkpoints.md says so, from the code that reads them; not from heed's
 * description of the families.
 */

export type Shapes = Record<string, number[]>;

export interface Published {
  /** Number of parameters according to the model's card or name, in millions. */
  millions: number;
  config: { model_type: string; vocab_size: number; layer_types?: string[] } & (
    | { num_hidden_layers: number }
    | { n_layer: number }
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

const qwen3 = {
  model_type: 'qwen3',
  attention_bias: false,
  head_dim: 128,
  hidden_act: 'silu',
  hidden_size: 1024,
  intermediate_size: 3072,
  max_position_embeddings: 32768,
  max_window_layers: 28,
  num_attention_heads: 16,
  num_hidden_layers: 28,
  num_key_value_heads: 8,
  rms_norm_eps: 1e-6,
  rope_scaling: null,
  rope_theta: 1000000,
  sliding_window: null,
  tie_word_embeddings: true,
  use_sliding_window: false,
  vocab_size: 151669,
};

const gemma3 = {
  model_type: 'gemma3_text',
  _sliding_window_pattern: 6,
  attention_bias: false,
  attn_logit_softcapping: null,
  final_logit_softcapping: null,
  head_dim: 256,
  hidden_activation: 'gelu_pytorch_tanh',
  hidden_size: 768,
  intermediate_size: 1152,
  layer_types: Array.from({ length: 24 }, (_, i) => (i % 6 === 5 ? 'full_attention' : 'sliding_attention')),
  max_position_embeddings: 2048,
  num_attention_heads: 3,
  num_hidden_layers: 24,
  num_key_value_heads: 1,
  query_pre_attn_scalar: 256,
  rms_norm_eps: 1e-6,
  rope_local_base_freq: 10000,
  rope_scaling: null,
  rope_theta: 1000000,
  sliding_window: 512,
  use_bidirectional_attention: true,
  vocab_size: 262144,
};

const deberta = {
  model_type: 'deberta-v2',
  attention_head_size: 64,
  hidden_act: 'gelu',
  hidden_size: 768,
  intermediate_size: 3072,
  layer_norm_eps: 1e-7,
  max_position_embeddings: 512,
  max_relative_positions: -1,
  norm_rel_ebd: 'layer_norm',
  num_attention_heads: 12,
  num_hidden_layers: 12,
  pos_att_type: 'p2c|c2p',
  position_biased_input: false,
  position_buckets: 256,
  relative_attention: true,
  share_att_key: true,
  type_vocab_size: 0,
  vocab_size: 128100,
};

const ernie = {
  model_type: 'ernie',
  hidden_act: 'gelu',
  hidden_size: 768,
  intermediate_size: 3072,
  max_position_embeddings: 2048,
  num_attention_heads: 12,
  num_hidden_layers: 12,
  task_type_vocab_size: 3,
  type_vocab_size: 4,
  use_task_id: true,
  vocab_size: 40000,
};

const jina = {
  model_type: 'bert',
  emb_pooler: 'mean',
  feed_forward_type: 'geglu',
  hidden_act: 'gelu',
  hidden_size: 768,
  intermediate_size: 3072,
  layer_norm_eps: 1e-12,
  max_position_embeddings: 8192,
  num_attention_heads: 12,
  num_hidden_layers: 12,
  position_embedding_type: 'alibi',
  type_vocab_size: 2,
  vocab_size: 30528,
};

const gte = {
  model_type: 'new',
  hidden_act: 'gelu',
  hidden_size: 768,
  intermediate_size: 3072,
  layer_norm_eps: 1e-12,
  layer_norm_type: 'layer_norm',
  logn_attention_clip1: false,
  logn_attention_scale: false,
  max_position_embeddings: 8192,
  num_attention_heads: 12,
  num_hidden_layers: 12,
  pack_qkv: true,
  position_embedding_type: 'rope',
  rope_scaling: { factor: 8, type: 'ntk' },
  rope_theta: 20000,
  type_vocab_size: 1,
  vocab_size: 250048,
};

/** The configuration of a BERT, without the pooler, on which vectors do not depend. */
const bertConfig = (layers: number, vocab: number) => ({
  model_type: 'bert',
  hidden_act: 'gelu',
  hidden_size: 384,
  intermediate_size: 1536,
  layer_norm_eps: 1e-12,
  max_position_embeddings: 512,
  num_attention_heads: 12,
  num_hidden_layers: layers,
  type_vocab_size: 2,
  vocab_size: vocab,
});

const modernBert = {
  model_type: 'modernbert',
  attention_bias: false,
  global_attn_every_n_layers: 3,
  global_rope_theta: 160000,
  hidden_activation: 'gelu',
  hidden_size: 768,
  intermediate_size: 1152,
  layer_norm_eps: 1e-5,
  local_attention: 128,
  local_rope_theta: 10000,
  max_position_embeddings: 8192,
  mlp_bias: false,
  norm_bias: false,
  norm_eps: 1e-5,
  num_attention_heads: 12,
  num_hidden_layers: 22,
  position_embedding_type: 'absolute',
  vocab_size: 50368,
};

const nomic = {
  model_type: 'nomic_bert',
  activation_function: 'swiglu',
  causal: false,
  layer_norm_epsilon: 1e-12,
  mlp_fc1_bias: false,
  mlp_fc2_bias: false,
  n_embd: 768,
  n_head: 12,
  n_inner: 3072,
  n_layer: 12,
  n_positions: 8192,
  prenorm: false,
  qkv_proj_bias: false,
  rotary_emb_base: 1000,
  rotary_emb_fraction: 1,
  rotary_emb_interleaved: false,
  rotary_emb_scale_base: null,
  rotary_scaling_factor: null,
  type_vocab_size: 2,
  vocab_size: 30528,
};

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
};

export const layersOf = (config: Published['config']): number =>
  'n_layer' in config ? config.n_layer : config.num_hidden_layers;

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
