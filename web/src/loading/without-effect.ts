/**
 * The settings that have no effect on heed's results, with the reason. One table per file, and for config.json one per
 * family in addition. A key also stands for all keys below it. Keys that heed reads are not listed: `Settings` notes
 * them. A key that changes results is never listed; it is applied or rejected where it is read.
 */

type Table = Readonly<Record<string, string>>;

const TRAINING = 'only for training';
const GENERATION = 'only for generation';
const FORM = "only for the form of transformers' outputs";
const SPEED = 'only for speed and memory';
const DESCRIPTION = 'a description, which nothing reads';
const CODE = 'names the code that runs the model in Python';
const OLD = 'of older versions, which no code reads';
const STORAGE = 'how weights are stored, which their files say themselves';

/** Tables by names of keys. */
const table = (groups: Record<string, string>): Table =>
  Object.fromEntries(Object.entries(groups).flatMap(([reason, keys]) => keys.split(' ').map((key) => [key, reason])));

/** Keys of the configurations of all families. */
const COMMON = table({
  [TRAINING]:
    'initializer_range initializer_factor gradient_checkpointing attention_dropout attention_probs_dropout_prob ' +
    'hidden_dropout_prob hidden_dropout dropout activation_dropout classifier_dropout classifier_dropout_prob ' +
    'embedding_dropout mlp_dropout pooler_dropout cls_dropout qa_dropout seq_classif_dropout summary_last_dropout ' +
    'drop_path_rate embd_pdrop attn_pdrop resid_pdrop layerscale_value logit_scale_init_value ignore_index',
  [GENERATION]:
    'use_cache bos_token_id eos_token_id decoder_start_token_id forced_bos_token_id forced_eos_token_id sep_token_id ' +
    'cls_token_id mask_token_id max_length min_length do_sample early_stopping num_beams num_beam_groups ' +
    'diversity_penalty temperature top_k top_p typical_p repetition_penalty length_penalty no_repeat_ngram_size ' +
    'encoder_no_repeat_ngram_size bad_words_ids num_return_sequences output_scores return_dict_in_generate ' +
    'remove_invalid_values exponential_decay_length_penalty suppress_tokens begin_suppress_tokens prefix tokenizer_class ' +
    'cache_implementation is_encoder_decoder cross_attention_hidden_size tie_encoder_decoder',
  [FORM]: 'output_hidden_states output_attentions return_dict torchscript tie_last_hidden_states',
  [SPEED]:
    'chunk_size_feed_forward _attn_implementation attn_implementation _attn_implementation_autoset _flash_attn_2_enabled ' +
    'use_flash_attn reference_compile repad_logits_with_grad deterministic_flash_attn unpad_inputs ' +
    'use_memory_efficient_attention',
  [STORAGE]: 'dtype torch_dtype',
  [DESCRIPTION]:
    'transformers_version _name_or_path name_or_path finetuning_task task_specific_params language model_name _commit_hash',
  [CODE]: 'architectures auto_map',
  [OLD]: 'use_bfloat16 tf_legacy_loss pruned_heads output_past xla_device position_embedding_type',
  'the number or the inverse of id2label': 'num_labels label2id',
  'sentence-transformers has settings of its own': 'sentence_transformers',
  'rope_type takes precedence': 'rope_scaling.type rope_parameters.type',
});

/** Keys that families without rotary positions ignore, in transformers, too. */
const NOT_ROTARY = table({ 'the family has no rotary positions': 'rope_theta rope_scaling rope_parameters' });
const NOT_TYPED = table({ 'the family has no token types': 'type_vocab_size' });
/** Keys of BERT and similar families. Those of the pooler are from Google's checkpoints, whose pooler is always linear. */
const BERT = {
  ...NOT_ROTARY,
  ...table({
    [OLD]:
      'directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type',
    'only for the code of JinaBERT': 'emb_pooler',
  }),
};
const BACKBONE = table({
  'only for backbones of other models':
    'apply_layernorm reshape_hidden_states out_features out_indices _out_features _out_indices stage_names',
  [TRAINING]: 'use_mask_token pos_embed_shift pos_embed_jitter pos_embed_rescale encoder_stride',
  [STORAGE]: 'pooler_output_size',
});
const IMAGE_TEXT = {
  ...NOT_ROTARY,
  ...table({
    [STORAGE]: 'projection_dim projection_size text_config_dict vision_config_dict',
    [DESCRIPTION]: 'model_type',
    'sections have no classifier': 'id2label problem_type',
  }),
};

const DECODER = table({
  [SPEED]: 'pretraining_tp',
  'rope_parameters takes precedence': 'rope_theta',
  [OLD]: 'partial_rotary_factor',
});
const GEMMA2 = table({
  'texts only': 'vision_config audio_config pad_token_id',
  [GENERATION]: 'boi_token_id eoi_token_id boa_token_id eoa_token_index',
  [DESCRIPTION]: 'model_type',
  [OLD]: 'rope_theta rope_scaling',
  'only without layer_types': 'sliding_window_pattern',
  'only without per_layer_config': 'global_head_dim num_global_key_value_heads',
});
const T5 = {
  ...NOT_ROTARY,
  ...table({
    [TRAINING]: 'dropout_rate',
    'only for the decoder': 'num_decoder_layers scale_decoder_outputs tie_word_embeddings',
    [OLD]: 'n_positions',
  }),
};
const JINA_V3 = table({
  [TRAINING]: 'lora_dropout_p lora_main_params_trainable use_reentrant',
  'only in published files, whose model_type is xlm-roberta':
    'load_trained_adapters lora_adaptations lora_alpha lora_rank rotary_emb_base rotary_emb_dim rotary_emb_scale_base ' +
    'rotary_emb_interleaved last_layer_subset',
  "only for the published code's own encode()": 'task_instructions emb_pooler matryoshka_dimensions truncate_dim',
});

/** Keys of families, in addition to COMMON. */
const FAMILIES: Record<string, Table> = {
  bert: BERT,
  roberta: BERT,
  'xlm-roberta': BERT,
  camembert: BERT,
  ernie: {
    ...BERT,
    ...table({ 'only with use_task_id': 'task_type_vocab_size' }),
  },
  'data2vec-text': BERT,
  'megatron-bert': BERT,
  'roberta-prelayernorm': BERT,
  'xlm-roberta-xl': BERT,
  mpnet: { ...BERT, ...NOT_TYPED },
  distilbert: {
    ...NOT_ROTARY,
    ...NOT_TYPED,
    ...table({
      [TRAINING]: 'sinusoidal_pos_embds',
      [OLD]: 'tie_weights_ pad_token_type_id',
    }),
  },
  electra: {
    ...BERT,
    ...table({ 'only for multiple choice': 'summary_type summary_use_proj summary_activation' }),
  },
  albert: {
    ...BERT,
    ...table({ [OLD]: 'down_scale_factor gap_size net_structure_type num_memory_blocks layers_to_keep' }),
  },
  roformer: NOT_ROTARY,
  'deberta-v2': {
    ...BERT,
    ...table({
      [STORAGE]: 'pooler_hidden_size legacy',
      [OLD]: 'pooling talking_head z_steps',
      'only with conv_kernel_size': 'conv_act conv_groups',
      'only with relative attention': 'norm_rel_ebd share_att_key',
    }),
  },
  modernbert: table({
    [TRAINING]: 'initializer_cutoff_factor sparse_prediction sparse_pred_ignore_index',
    [STORAGE]: 'classifier_bias',
    [OLD]: 'layer_norm_eps embedding_norm rope_theta',
    'only without layer_types': 'global_attn_every_n_layers',
    'rope_parameters takes precedence': 'global_rope_theta local_rope_theta',
    'sliding_window takes precedence': 'local_attention',
  }),
  nomic_bert: table({
    'rope_parameters takes precedence': 'rope_theta',
    [FORM]: 'dense_seq_output',
    [SPEED]: 'fused_bias_fc fused_dropout_add_ln pad_vocab_size_multiple reorder_and_upcast_attn use_xentropy',
    [OLD]:
      'parallel_block_tied_norm summary_activation summary_first_dropout summary_proj_to_labels summary_type summary_use_proj',
    'only with rotary_scaling_factor': 'max_trained_positions',
  }),
  new: table({ [STORAGE]: 'pack_qkv' }),
  gte: table({ [STORAGE]: 'pack_qkv', 'rope_parameters takes precedence': 'rope_theta' }),
  qwen3: DECODER,
  llama: DECODER,
  eurobert: {
    ...DECODER,
    ...table({
      'the tokenizer has them': 'bos_token eos_token mask_token pad_token',
      'only for the published code; transformers reads classifier_pooling': 'clf_pooling',
    }),
  },
  gemma3_text: table({
    [GENERATION]: 'final_logit_softcapping',
    [OLD]: '_sliding_window_pattern hidden_act',
    'only without layer_types': 'sliding_window_pattern',
    'rope_parameters takes precedence': 'rope_theta rope_local_base_freq',
  }),
  embedding_gemma2: GEMMA2,
  embedding_gemma2_text: GEMMA2,
  model2vec: table({
    [DESCRIPTION]:
      'tokenizer_name apply_pca apply_zipf pca_dims sif_coefficient seq_length cache_dir embedding_dtype ' +
      'vocabulary_quantization pooling token_remove_pattern',
  }),
  t5: T5,
  mt5: T5,
  umt5: T5,
  jina_embeddings_v3: JINA_V3,
  ultrabert: table({ [STORAGE]: 'prediction_head_size' }),
  clip: { ...IMAGE_TEXT, ...table({ 'texts are not padded': 'pad_token_id' }) },
  siglip: IMAGE_TEXT,
  vit: { ...NOT_ROTARY, ...BACKBONE },
  dinov2: { ...NOT_ROTARY, ...BACKBONE },
  dinov2_with_registers: { ...NOT_ROTARY, ...BACKBONE },
  dinov3_vit: { ...BACKBONE, ...table({ 'rope_theta alone counts': 'rope_scaling' }) },
};

/**
 * Settings of tokenizers. The settings of a class are read for this class, see tokenizer-classes.ts; other classes ignore
 * them in transformers, too.
 */
const TOKENIZER = table({
  [DESCRIPTION]:
    'name_or_path _name_or_path _commit_hash transformers_version tags is_local local_files_only files_loaded verbose',
  [CODE]: 'processor_class auto_map backend',
  [OLD]:
    'do_basic_tokenize never_split use_fast tokenizer_file vocab_file merges_file special_tokens_map_file added_tokens_file ' +
    'sp_model_kwargs tokenize_kwargs remove_space max_length stride truncation truncation_strategy pad_to_max_length',
  [GENERATION]:
    'chat_template response_template response_schema use_default_system_prompt chat_control_tokens ' +
    'spaces_between_special_tokens clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output',
  'texts are not padded': 'padding padding_side pad_to_multiple_of pad_token_type_id mask_padding',
  'only for reading files that are not UTF-8': 'errors',
  'only some tokenizer classes read it':
    'add_prefix_space add_bos_token add_eos_token clean_text do_lower_case extra_ids keep_accents lang_codes legacy ' +
    'legacy_behaviour mask_token_sent offset split_by_punct strip_accents tokenize_chinese_chars trim_offsets unk_id ' +
    'wordpieces_prefix src_lang tgt_lang language task predict_timestamps fix_mistral_regex ' +
    'cls_token_box sep_token_box pad_token_box pad_token_label only_label_first_subword',
});

/** config_sentence_transformers.json. */
const GENERAL = table({ [DESCRIPTION]: '__version__ model_type' });

/** sentence_bert_config.json, also under its older names. */
const TRANSFORMER = table({
  [SPEED]: 'unpad_inputs',
});

/** The configurations of modules. */
const MODULE = table({
  [CODE]: 'auto_map',
  [TRAINING]: 'frozen k_aux dead_threshold',
  [SPEED]: 'chunk_size',
  'the width of the values counts': 'embedding_dimension word_embedding_dimension',
  'only with the hidden states of all layers': 'layer_start num_hidden_layers',
});

/** preprocessor_config.json and processor_config.json. */
const IMAGES = table({
  [CODE]: 'processor_class auto_map image_processor_type feature_extractor_type',
  'images always have three channels': 'do_convert_rgb',
  'only with do_resize, do_center_crop or do_pad': 'size crop_size pad_size',
  [FORM]: 'return_tensors data_format input_data_format device disable_grouping image_seq_length',
  [OLD]: 'do_flip_channel_order',
  'the order in which a processor takes its settings': '_valid_processor_keys',
});

/** Keys of `quantization_config`. An asterisk stands for the name of a group. */
const QUANTIZATION = prefixed('quantization_config.', {
  [DESCRIPTION]: 'version global_compression_ratio',
  [SPEED]: 'run_compressed dequantize use_optimized_inference',
  'encoders have no cache of keys and values': 'kv_cache_scheme',
  'activations are computed in fp32, as with the option dequantize of transformers, or in int8 with the option dtype':
    'config_groups.*.input_activations config_groups.*.output_activations',
  'how the stored scales and zero points were found':
    'config_groups.*.weights.observer config_groups.*.weights.observer_kwargs ' +
    'config_groups.*.weights.scale_dtype config_groups.*.weights.zp_dtype',
  'heed and compressed-tensors have no experts here': 'moe_sparsity_config',
});

function prefixed(prefix: string, groups: Record<string, string>): Table {
  return Object.fromEntries(Object.entries(table(groups)).map(([key, reason]) => [prefix + key, reason]));
}

/** gliner_config.json. */
const GLINER = table({
  [TRAINING]:
    'dropout num_steps train_batch_size eval_every warmup_ratio scheduler_type loss_alpha loss_gamma loss_reduction ' +
    'loss_prob_margin label_smoothing lr_encoder lr_others weight_decay_encoder weight_decay_other max_grad_norm ' +
    'max_types max_neg_type_ratio shuffle_types random_drop masking neg_spans_ratio represent_spans ' +
    'freeze_token_rep save_total_limit size_sup train_data val_data_dir prev_path root_dir log_dir',
  [DESCRIPTION]: 'model_name name class_token_index vocab_size has_rnn',
});

/** artifact.metadata of Stanford's ColBERTs: the settings of the run that trained them. */
const STANFORD = table({
  [TRAINING]:
    'accumsteps amp bsize distillation_alpha ignore_scores lr maxsteps nway relu reranker resume save_every triples ' +
    'use_ib_negatives warmup warmup_bert',
  'only for its index and search':
    'avoid_fork_if_possible centroid_score_threshold collection gpus index_bsize index_name index_path index_root ' +
    'index_on_gpu interaction kmeans_niters load_index_with_mmap nbits ncells ndocs nprobe nranks queries rank similarity',
  [DESCRIPTION]: 'checkpoint configs experiment meta model_name name overwrite query_token doc_token root run',
  [STORAGE]: 'dim',
});

/** The tables of files, by the ends of their paths. */
const FILES: [RegExp, Table][] = [
  [/(^|\/)gliner_config\.json$/, GLINER],
  [/(^|\/)artifact\.metadata$/, STANFORD],
  [/(^|\/)(tokenizer_config|special_tokens_map)\.json$/, TOKENIZER],
  [/(^|\/)config_sentence_transformers\.json$/, GENERAL],
  [/(^|\/)sentence_\w+_config\.json$/, TRANSFORMER],
  [/(^|\/)(preprocessor|processor)_config\.json$/, IMAGES],
  [/\.index\.json$/, { metadata: 'a description of the weights' }],
  [/(^|\/)config\.json$/, MODULE],
];

/** Sections of config.json with the settings of an encoder. */
const SECTION = /^(text_config|vision_config|encoder_config|image_processor)\./;

/**
 * Why a setting that nothing reads has no effect; null if that is not known. `type`: the model's family, for the file
 * with its configuration; null for other files.
 */
export function reasonFor(file: string, key: string, type: string | null): string | null {
  const own = FILES.find(([files]) => files.test(file))?.[1] ?? {};
  const tables = type === null ? [own] : [own, COMMON, QUANTIZATION, FAMILIES[type] ?? {}];
  const parts = key
    .replace(SECTION, '')
    .replace(/(?<=\bconfig_groups\.)[^.]+/, '*')
    .split('.');
  const paths = parts.map((_, i) => parts.slice(0, i + 1).join('.'));
  for (const each of tables) for (const path of paths) if (Object.hasOwn(each, path)) return each[path]!;
  return null;
}
