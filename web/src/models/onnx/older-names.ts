/** Names that transformers 5 uses in memory, and therefore in ONNX files, where safetensors files have older ones. */

const DINO = {
  '.attention.q_proj.': '.attention.attention.query.',
  '.attention.k_proj.': '.attention.attention.key.',
  '.attention.v_proj.': '.attention.attention.value.',
  '.attention.o_proj.': '.attention.output.dense.',
};

/** Per model type, parts of names that are replaced one after the other. */
const RENAMED: Record<string, Record<string, string>> = {
  dinov2: DINO,
  dinov2_with_registers: DINO,
  vit: { 'layers.': 'encoder.layer.', '.mlp.fc1.': '.intermediate.dense.', '.mlp.fc2.': '.output.dense.', ...DINO },
  nomic_bert: {
    'layers.': 'encoder.layers.',
    'embeddings.LayerNorm.': 'emb_ln.',
    '.self_attn.': '.attn.',
    '.o_proj.': '.out_proj.',
    '.post_attention_layernorm.': '.norm1.',
    '.post_mlp_layernorm.': '.norm2.',
    '.gate_proj.': '.fc12.',
    '.up_proj.': '.fc11.',
    '.down_proj.': '.fc2.',
  },
};

/** The name of a tensor in safetensors files, given its name in memory. */
export function olderName(type: string, name: string): string {
  return Object.entries(RENAMED[type] ?? {}).reduce((text, [part, older]) => text.replace(part, older), name);
}
