/** The configuration and the header of a checkpoint with the shape of XLM-RoBERTa. */
export function xlmRoberta(vocabulary, width, layers) {
  const hidden = 4 * width;
  const config = {
    model_type: 'xlm-roberta',
    vocab_size: vocabulary,
    hidden_size: width,
    num_hidden_layers: layers,
    num_attention_heads: width / 32,
    intermediate_size: hidden,
    max_position_embeddings: 514,
    type_vocab_size: 1,
    pad_token_id: 1,
    hidden_act: 'gelu',
    layer_norm_eps: 1e-5,
  };
  const shapes = {
    'embeddings.word_embeddings.weight': [vocabulary, width],
    'embeddings.position_embeddings.weight': [514, width],
    'embeddings.token_type_embeddings.weight': [1, width],
  };
  const norm = (name) => Object.assign(shapes, { [`${name}.weight`]: [width], [`${name}.bias`]: [width] });
  const linear = (name, out, inputs) =>
    Object.assign(shapes, { [`${name}.weight`]: [out, inputs], [`${name}.bias`]: [out] });
  norm('embeddings.LayerNorm');
  for (let i = 0; i < layers; i++) {
    const layer = `encoder.layer.${i}`;
    for (const part of ['query', 'key', 'value']) linear(`${layer}.attention.self.${part}`, width, width);
    linear(`${layer}.attention.output.dense`, width, width);
    norm(`${layer}.attention.output.LayerNorm`);
    linear(`${layer}.intermediate.dense`, hidden, width);
    linear(`${layer}.output.dense`, width, hidden);
    norm(`${layer}.output.LayerNorm`);
  }
  let at = 0;
  const entries = Object.entries(shapes).map(([name, shape]) => {
    const begin = at;
    at += 4 * shape.reduce((a, b) => a * b, 1);
    return [name, { dtype: 'F32', shape, data_offsets: [begin, at] }];
  });
  let json = JSON.stringify(Object.fromEntries(entries));
  json += ' '.repeat(-json.length & 7);
  const prefix = Buffer.alloc(8);
  prefix.writeBigUInt64LE(BigInt(json.length));
  const header = Buffer.concat([prefix, Buffer.from(json)]);
  return { config, header, size: header.length + at };
}
