/** The files of a BERT of any size, with reproducible weights and no tokenizer. */

export interface Sizes {
  width: number;
  inner: number;
  heads: number;
  layers: number;
  vocab: number;
  positions: number;
}

export function bertFiles({ width, inner, heads, layers, vocab, positions }: Sizes): Record<string, Uint8Array> {
  let state = 12345;
  const draw = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32 - 0.5;
  };
  const header: Record<string, unknown> = {};
  const values: number[] = [];
  const add = (name: string, shape: number[], mean = 0) => {
    const count = shape.reduce((a, b) => a * b);
    header[name] = { dtype: 'F32', shape, data_offsets: [4 * values.length, 4 * (values.length + count)] };
    for (let i = 0; i < count; i++) values.push(mean + 0.3 * draw());
  };
  const linear = (name: string, out: number, inputs: number) => {
    add(`${name}.weight`, [out, inputs]);
    add(`${name}.bias`, [out]);
  };
  const norm = (name: string) => {
    add(`${name}.weight`, [width], 1);
    add(`${name}.bias`, [width]);
  };
  add('embeddings.word_embeddings.weight', [vocab, width]);
  add('embeddings.position_embeddings.weight', [positions, width]);
  add('embeddings.token_type_embeddings.weight', [2, width]);
  norm('embeddings.LayerNorm');
  for (let i = 0; i < layers; i++) {
    const layer = `encoder.layer.${i}`;
    for (const part of ['self.query', 'self.key', 'self.value', 'output.dense'])
      linear(`${layer}.attention.${part}`, width, width);
    norm(`${layer}.attention.output.LayerNorm`);
    linear(`${layer}.intermediate.dense`, inner, width);
    linear(`${layer}.output.dense`, width, inner);
    norm(`${layer}.output.LayerNorm`);
  }
  const config = {
    architectures: ['BertModel'],
    model_type: 'bert',
    hidden_act: 'gelu',
    hidden_size: width,
    intermediate_size: inner,
    layer_norm_eps: 1e-12,
    max_position_embeddings: positions,
    num_attention_heads: heads,
    num_hidden_layers: layers,
    pad_token_id: 0,
    type_vocab_size: 2,
    vocab_size: vocab,
  };
  const encode = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
  const json = encode(header);
  const bytes = new Uint8Array(8 + json.length + 4 * values.length);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(json.length), true);
  bytes.set(json, 8);
  bytes.set(new Uint8Array(new Float32Array(values).buffer), 8 + json.length);
  return { 'config.json': encode(config), 'model.safetensors': bytes };
}

/** Token ids of texts with these lengths. */
export function idsOf(lengths: readonly number[], vocab: number): number[][] {
  return lengths.map((length, n) => Array.from({ length }, (_, i) => (7 * n + 13 * i + i * i) % vocab));
}
