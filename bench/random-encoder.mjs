/** An encoder of MiniLM's shape with random weights, made where it is needed. */

import { writeSafetensors } from './safetensors.mjs';

/** config.json and model.safetensors of the encoder that models.py describes, by default with a smaller vocabulary; and what they contain. */
export function encoderFiles(layers = 6, vocab = 3000, { width = 384, heads = 12, positions = 512 } = {}) {
  const inner = 4 * width;
  let state = 12345;
  const next = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32 - 0.5;
  };
  const tensors = {};
  // Sums of four uniform draws are nearly normal; their deviation is that of models.py.
  const tensor = (name, shape, mean = 0) => {
    const data = new Float32Array(shape.reduce((a, b) => a * b));
    for (let i = 0; i < data.length; i++) data[i] = mean + 0.06 * Math.sqrt(3) * (next() + next() + next() + next());
    tensors[name] = { shape, data };
  };
  const norm = (name) => {
    tensor(`${name}.weight`, [width], 1);
    tensor(`${name}.bias`, [width]);
  };
  tensor('embeddings.word_embeddings.weight', [vocab, width]);
  tensor('embeddings.position_embeddings.weight', [positions, width]);
  tensor('embeddings.token_type_embeddings.weight', [2, width]);
  norm('embeddings.LayerNorm');
  for (let i = 0; i < layers; i++) {
    const layer = `encoder.layer.${i}`;
    for (const [name, out, inputs] of [
      ['attention.self.query', width, width],
      ['attention.self.key', width, width],
      ['attention.self.value', width, width],
      ['attention.output.dense', width, width],
      ['intermediate.dense', inner, width],
      ['output.dense', width, inner],
    ]) {
      tensor(`${layer}.${name}.weight`, [out, inputs]);
      tensor(`${layer}.${name}.bias`, [out]);
    }
    norm(`${layer}.attention.output.LayerNorm`);
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
  return {
    vocab,
    config,
    tensors,
    files: {
      'config.json': new TextEncoder().encode(JSON.stringify(config)),
      'model.safetensors': writeSafetensors(tensors),
    },
  };
}

/** config.json and model.safetensors of an encoder of ModernBERT-base's shape with random weights: of three layers, two attend to windows of 128 tokens. */
export function modernBertFiles(layers, vocab, positions) {
  const [width, inner] = [768, 1152];
  let state = 12345;
  const next = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32 - 0.5;
  };
  const tensors = {};
  const matrix = (name, rows, columns) => {
    tensors[name] = { shape: [rows, columns], data: Float32Array.from({ length: rows * columns }, () => 0.1 * next()) };
  };
  const norm = (name) => {
    tensors[name] = { shape: [width], data: new Float32Array(width).fill(1) };
  };
  matrix('embeddings.tok_embeddings.weight', vocab, width);
  norm('embeddings.norm.weight');
  for (let i = 0; i < layers; i++) {
    if (i > 0) norm(`layers.${i}.attn_norm.weight`);
    matrix(`layers.${i}.attn.Wqkv.weight`, 3 * width, width);
    matrix(`layers.${i}.attn.Wo.weight`, width, width);
    norm(`layers.${i}.mlp_norm.weight`);
    matrix(`layers.${i}.mlp.Wi.weight`, 2 * inner, width);
    matrix(`layers.${i}.mlp.Wo.weight`, width, inner);
  }
  norm('final_norm.weight');
  const config = {
    architectures: ['ModernBertModel'],
    model_type: 'modernbert',
    vocab_size: vocab,
    hidden_size: width,
    num_hidden_layers: layers,
    num_attention_heads: 12,
    intermediate_size: inner,
    max_position_embeddings: positions,
    global_attn_every_n_layers: 3,
    local_attention: 128,
    pad_token_id: 0,
  };
  return {
    files: {
      'config.json': new TextEncoder().encode(JSON.stringify(config)),
      'model.safetensors': writeSafetensors(tensors),
    },
  };
}
