/** Names that transformers 5 uses in memory, and therefore in ONNX files, where safetensors files have older ones. */

/** Per model type: patterns of names in memory, and the names in safetensors files. */
const RENAMED: Record<string, [pattern: RegExp, older: string][]> = {
  vit: [
    [/^((?:vit\.)?)layers\.(\d+)\.attention\.([qkv])_proj\./, '$1encoder.layer.$2.attention.attention.$3_proj.'],
    [/^((?:vit\.)?)layers\.(\d+)\.attention\.o_proj\./, '$1encoder.layer.$2.attention.output.dense.'],
    [/^((?:vit\.)?)layers\.(\d+)\.mlp\.fc1\./, '$1encoder.layer.$2.intermediate.dense.'],
    [/^((?:vit\.)?)layers\.(\d+)\.mlp\.fc2\./, '$1encoder.layer.$2.output.dense.'],
    [/^((?:vit\.)?)layers\.(\d+)\./, '$1encoder.layer.$2.'],
  ],
  dinov2: [
    [/\.attention\.([qkv])_proj\./, '.attention.attention.$1_proj.'],
    [/\.attention\.o_proj\./, '.attention.output.dense.'],
  ],
  nomic_bert: [],
};

const PROJECTIONS: Record<string, string> = { q_proj: 'query', k_proj: 'key', v_proj: 'value' };

/** The name of a tensor in safetensors files, given its name in memory. */
export function olderName(type: string, name: string): string {
  for (const [pattern, older] of RENAMED[type] ?? []) {
    if (pattern.test(name))
      return name
        .replace(pattern, older)
        .replace(/attention\.attention\.([qkv]_proj)/, (_, part: string) => `attention.attention.${PROJECTIONS[part]}`);
  }
  return name;
}
