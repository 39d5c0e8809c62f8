/**
 * The settings of published checkpoints that do not matter to heed: with those in published.ts, all keys of their
 * config.json, and other files of their folders. Values of labels and of remote code are shortened.
 */

const classes = (names: string[]) =>
  Object.fromEntries(names.map((name) => [name, `repository--modeling.${name}`] as const));

const bert = (version: string, more: object = {}) => ({
  'config.json': {
    architectures: ['BertModel'],
    attention_probs_dropout_prob: 0.1,
    gradient_checkpointing: false,
    hidden_dropout_prob: 0.1,
    initializer_range: 0.02,
    pad_token_id: 0,
    position_embedding_type: 'absolute',
    transformers_version: version,
    use_cache: true,
    ...more,
  },
  'config_sentence_transformers.json': {
    __version__: { sentence_transformers: '2.0.0', transformers: '4.6.1', pytorch: '1.8.1' },
  },
  'sentence_bert_config.json': { max_seq_length: 256, do_lower_case: false },
  '1_Pooling/config.json': {
    word_embedding_dimension: 384,
    pooling_mode_cls_token: false,
    pooling_mode_mean_tokens: true,
    pooling_mode_max_tokens: false,
    pooling_mode_mean_sqrt_len_tokens: false,
  },
});

export const OTHER_SETTINGS: Record<string, Record<string, object>> = {
  'all-MiniLM-L6-v2': bert('4.8.2', { _name_or_path: 'nreimers/MiniLM-L6-H384-uncased' }),
  'multilingual-e5-small': bert('4.30.2', { classifier_dropout: null, tokenizer_class: 'XLMRobertaTokenizer' }),
  'nomic-embed-text-v1.5': {
    'config.json': {
      architectures: ['NomicBertModel'],
      attn_pdrop: 0,
      auto_map: classes(['AutoConfig', 'AutoModel', 'AutoModelForMaskedLM']),
      bos_token_id: null,
      dense_seq_output: true,
      embd_pdrop: 0,
      eos_token_id: null,
      fused_bias_fc: true,
      fused_dropout_add_ln: true,
      initializer_range: 0.02,
      max_trained_positions: 2048,
      pad_vocab_size_multiple: 64,
      parallel_block: false,
      parallel_block_tied_norm: false,
      reorder_and_upcast_attn: false,
      resid_pdrop: 0,
      scale_attn_by_inverse_layer_idx: false,
      scale_attn_weights: true,
      summary_activation: null,
      summary_first_dropout: 0,
      summary_proj_to_labels: true,
      summary_type: 'cls_index',
      summary_use_proj: true,
      torch_dtype: 'float32',
      transformers_version: '4.37.2',
      use_cache: true,
      use_flash_attn: true,
      use_rms_norm: false,
      use_xentropy: true,
    },
  },
  'gte-modernbert-base': {
    'config.json': {
      architectures: ['ModernBertModel'],
      attention_dropout: 0,
      bos_token_id: 50281,
      classifier_activation: 'gelu',
      classifier_bias: false,
      classifier_dropout: 0,
      classifier_pooling: 'mean',
      cls_token_id: 50281,
      decoder_bias: true,
      deterministic_flash_attn: false,
      embedding_dropout: 0,
      eos_token_id: 50282,
      gradient_checkpointing: false,
      initializer_cutoff_factor: 2,
      initializer_range: 0.02,
      mlp_dropout: 0,
      pad_token_id: 50283,
      sep_token_id: 50282,
      sparse_pred_ignore_index: -100,
      sparse_prediction: false,
      torch_dtype: 'float16',
      transformers_version: '4.48.0.dev0',
    },
  },
  'Qwen3-Embedding-0.6B': {
    'config.json': {
      architectures: ['Qwen3ForCausalLM'],
      attention_dropout: 0,
      bos_token_id: 151643,
      eos_token_id: 151643,
      initializer_range: 0.02,
      torch_dtype: 'bfloat16',
      transformers_version: '4.51.3',
      use_cache: true,
    },
    'config_sentence_transformers.json': {
      prompts: { query: 'Instruct: find\nQuery:', document: '' },
      default_prompt_name: null,
      similarity_fn_name: 'cosine',
    },
  },
  'embeddinggemma-300m': {
    'config.json': {
      architectures: ['Gemma3TextModel'],
      attention_dropout: 0,
      bos_token_id: 2,
      dtype: 'float32',
      eos_token_id: 1,
      initializer_range: 0.02,
      pad_token_id: 0,
      transformers_version: '4.57.0.dev0',
      use_cache: true,
    },
  },
  'deberta-v3-base': {
    'config.json': {
      attention_probs_dropout_prob: 0.1,
      hidden_dropout_prob: 0.1,
      initializer_range: 0.02,
      pad_token_id: 0,
      pooler_dropout: 0,
      pooler_hidden_act: 'gelu',
      pooler_hidden_size: 768,
    },
  },
  'jina-embeddings-v2-base-en': {
    'config.json': {
      _name_or_path: 'jinaai/jina-bert-implementation',
      architectures: ['JinaBertForMaskedLM'],
      attention_probs_dropout_prob: 0,
      attn_implementation: null,
      auto_map: classes(['AutoConfig', 'AutoModelForMaskedLM', 'AutoModel', 'AutoModelForSequenceClassification']),
      classifier_dropout: null,
      gradient_checkpointing: false,
      hidden_dropout_prob: 0.1,
      initializer_range: 0.02,
      pad_token_id: 0,
      torch_dtype: 'float32',
      transformers_version: '4.26.0',
      use_cache: true,
    },
  },
  'gte-multilingual-base': {
    'config.json': {
      architectures: ['NewModel', 'NewForTokenClassification'],
      attention_probs_dropout_prob: 0,
      auto_map: classes(['AutoConfig', 'AutoModel', 'AutoModelForMaskedLM', 'AutoModelForTokenClassification']),
      classifier_dropout: 0,
      hidden_dropout_prob: 0.1,
      id2label: { '0': 'LABEL_0' },
      initializer_range: 0.02,
      label2id: { LABEL_0: 0 },
      pad_token_id: 1,
      torch_dtype: 'float16',
      transformers_version: '4.39.1',
      unpad_inputs: false,
      use_memory_efficient_attention: false,
    },
  },
  'sentence-t5-base': {
    'config.json': {
      architectures: ['T5EncoderModel'],
      decoder_start_token_id: 0,
      dropout_rate: 0.1,
      eos_token_id: 1,
      gradient_checkpointing: false,
      initializer_factor: 1,
      n_positions: 512,
      num_decoder_layers: 12,
      output_past: true,
      pad_token_id: 0,
      task_specific_params: { summarization: { early_stopping: true, num_beams: 4, prefix: 'summarize: ' } },
      transformers_version: '4.7.0',
      use_cache: true,
    },
  },
  'EuroBERT-210m': {
    'config.json': {
      architectures: ['EuroBertForMaskedLM'],
      attention_dropout: 0,
      auto_map: classes(['AutoConfig', 'AutoModel', 'AutoModelForMaskedLM', 'AutoModelForSequenceClassification']),
      bos_token: '<|begin_of_text|>',
      bos_token_id: 128000,
      clf_pooling: 'late',
      eos_token: '<|end_of_text|>',
      eos_token_id: 128001,
      hidden_dropout: 0,
      initializer_range: 0.02,
      mask_token: '<|mask|>',
      mask_token_id: 128002,
      pad_token: '<|end_of_text|>',
      pad_token_id: 128001,
      pretraining_tp: 1,
      tie_word_embeddings: false,
      torch_dtype: 'bfloat16',
      transformers_version: '4.40.0.dev0',
      use_cache: false,
    },
  },
  roformer_chinese_base: {
    'config.json': {
      architectures: ['RoFormerForMaskedLM'],
      attention_probs_dropout_prob: 0.1,
      eos_token_id: 102,
      gradient_checkpointing: false,
      hidden_dropout_prob: 0.1,
      initializer_range: 0.02,
      pad_token_id: 0,
      tokenizer_class: 'RoFormerTokenizer',
      use_cache: true,
    },
  },
  'openai/clip-vit-base-patch32': {
    'config.json': {
      _commit_hash: null,
      architectures: ['CLIPModel'],
      initializer_factor: 1,
      logit_scale_init_value: 2.6592,
      torch_dtype: 'float32',
      transformers_version: null,
    },
  },
  'google/siglip-base-patch16-224': {
    'config.json': {
      architectures: ['SiglipModel'],
      initializer_factor: 1,
      torch_dtype: 'float32',
      transformers_version: '4.37.0.dev0',
    },
    'preprocessor_config.json': { processor_class: 'SiglipProcessor', do_convert_rgb: null },
  },
  'google/vit-base-patch16-224': {
    'config.json': {
      architectures: ['ViTForImageClassification'],
      attention_probs_dropout_prob: 0,
      encoder_stride: 16,
      hidden_dropout_prob: 0,
      initializer_range: 0.02,
      label2id: { 'class 0': 0 },
      transformers_version: '4.13.0.dev0',
    },
    'preprocessor_config.json': { feature_extractor_type: 'ViTFeatureExtractor' },
  },
  'facebook/dinov2-small': {
    'config.json': {
      apply_layernorm: true,
      architectures: ['Dinov2Model'],
      attention_probs_dropout_prob: 0,
      drop_path_rate: 0,
      hidden_dropout_prob: 0,
      initializer_range: 0.02,
      out_features: ['stage12'],
      out_indices: [12],
      reshape_hidden_states: true,
      stage_names: ['stem', 'stage1'],
      torch_dtype: 'float32',
      transformers_version: '4.32.0.dev0',
    },
  },
};

/** Adds these settings to a folder. `files`: the folder, whose settings take precedence. */
export function withOtherSettings<F extends Record<string, Uint8Array | string>>(name: string, files: F): F {
  const all: Record<string, Uint8Array | string> = { ...files };
  for (const [path, others] of Object.entries(OTHER_SETTINGS[name] ?? {})) {
    const own = all[path] ?? '{}';
    const text = typeof own === 'string' ? own : new TextDecoder().decode(own);
    all[path] = JSON.stringify({ ...others, ...JSON.parse(text) });
  }
  return all as F;
}
