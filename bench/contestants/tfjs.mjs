/** TensorFlow.js on its WebAssembly backend: the same encoder written with its operators, as no converter for it is kept up. */

import { readSafetensors } from '../safetensors.mjs';

/**
 * @param {object} options
 * @param {any} options.tf @tensorflow/tfjs-core with the wasm backend ready
 * @param {Record<string, Uint8Array>} options.files the model folder's files
 * @returns {Promise<import('../harness.mjs').Contestant>}
 */
export async function tfjsContestant({ tf, files }) {
  const config = JSON.parse(new TextDecoder().decode(files['config.json']));
  const { hidden_size: width, num_attention_heads: heads, num_hidden_layers: layers } = config;
  const w = {};
  for (const [name, { data, shape }] of Object.entries(readSafetensors(files['model.safetensors']))) {
    const t = tf.tensor(data, shape);
    const isMatrix = shape.length === 2 && !name.startsWith('embeddings');
    w[name] = isMatrix ? tf.transpose(t) : t; // [in,out], transposed once, at load
  }

  const linear = (x, name) => tf.add(tf.matMul(x, w[`${name}.weight`]), w[`${name}.bias`]);
  const norm = (x, name) => {
    const mean = tf.mean(x, -1, true);
    const centred = tf.sub(x, mean);
    const variance = tf.mean(tf.square(centred), -1, true);
    const unit = tf.mul(centred, tf.rsqrt(tf.add(variance, config.layer_norm_eps)));
    return tf.add(tf.mul(unit, w[`${name}.weight`]), w[`${name}.bias`]);
  };
  const gelu = (x) => tf.mul(tf.mul(x, 0.5), tf.add(tf.erf(tf.mul(x, Math.SQRT1_2)), 1));

  function forward(batch) {
    const [n, l] = [batch.length, batch[0].length];
    const rows = n * l;
    const split = (x) => tf.transpose(tf.reshape(x, [n, l, heads, width / heads]), [0, 2, 1, 3]);
    const words = tf.gather(w['embeddings.word_embeddings.weight'], tf.tensor(batch.flat(), [n, l], 'int32'));
    const positions = tf.slice(w['embeddings.position_embeddings.weight'], [0, 0], [l, width]);
    const types = tf.slice(w['embeddings.token_type_embeddings.weight'], [0, 0], [1, width]);
    let x = tf.reshape(norm(tf.add(tf.add(words, positions), types), 'embeddings.LayerNorm'), [rows, width]);
    for (let i = 0; i < layers; i++) {
      const p = `encoder.layer.${i}`;
      const [q, k, v] = ['query', 'key', 'value'].map((name) => split(linear(x, `${p}.attention.self.${name}`)));
      const scores = tf.mul(tf.matMul(q, k, false, true), 1 / Math.sqrt(width / heads));
      const mixed = tf.reshape(tf.transpose(tf.matMul(tf.softmax(scores), v), [0, 2, 1, 3]), [rows, width]);
      x = norm(tf.add(linear(mixed, `${p}.attention.output.dense`), x), `${p}.attention.output.LayerNorm`);
      const hidden = gelu(linear(x, `${p}.intermediate.dense`));
      x = norm(tf.add(linear(hidden, `${p}.output.dense`), x), `${p}.output.LayerNorm`);
    }
    return x;
  }

  return {
    name: 'tfjs-wasm fp32',
    async run(batch) {
      const result = tf.tidy(() => forward(batch));
      const data = await result.data();
      result.dispose();
      return data;
    },
    dispose: () => tf.dispose(w),
  };
}
