/** Names that transformers 5 uses in memory, and therefore in ONNX files, where safetensors files have older ones. */

/** Part `index` of `of` parts of a tensor, along its rows. */
export interface Part {
  index: number;
  of: number;
}

type Replacement = [pattern: RegExp, older: string];

const dino: Replacement[] = [
  [/\.attention\.q_proj\./, '.attention.attention.query.'],
  [/\.attention\.k_proj\./, '.attention.attention.key.'],
  [/\.attention\.v_proj\./, '.attention.attention.value.'],
  [/\.attention\.o_proj\./, '.attention.output.dense.'],
];

/** Per model type, replacements that are applied one after the other. */
const RENAMED: Record<string, Replacement[]> = {
  dinov2: dino,
  dinov2_with_registers: dino,
  vit: [
    [/^(vit\.)?layers\./, '$1encoder.layer.'],
    [/\.mlp\.fc1\./, '.intermediate.dense.'],
    [/\.mlp\.fc2\./, '.output.dense.'],
    ...dino,
  ],
  nomic_bert: [
    [/^(bert\.)?layers\./, '$1encoder.layers.'],
    [/embeddings\.LayerNorm\./, 'emb_ln.'],
    [/\.self_attn\./, '.attn.'],
    [/\.attn\.o_proj\./, '.attn.out_proj.'],
    [/\.post_attention_layernorm\./, '.norm1.'],
    [/\.post_mlp_layernorm\./, '.norm2.'],
    [/\.mlp\.gate_proj\./, '.mlp.fc12.'],
    [/\.mlp\.up_proj\./, '.mlp.fc11.'],
    [/\.mlp\.down_proj\./, '.mlp.fc2.'],
  ],
};

const PROJECTION = /\.attn\.([qkv])_proj\./;

/** The name of a tensor in safetensors files, given its name in memory; with `part` if it is a part of that tensor. */
export function olderName(type: string, name: string): { name: string; part: Part | null } {
  const older = (RENAMED[type] ?? []).reduce((text, [pattern, by]) => text.replace(pattern, by), name);
  const projection = type === 'nomic_bert' && PROJECTION.exec(older)?.[1];
  if (!projection) return { name: older, part: null };
  return { name: older.replace(PROJECTION, '.attn.Wqkv.'), part: { index: 'qkv'.indexOf(projection), of: 3 } };
}
