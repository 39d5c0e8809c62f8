/** jax-js on its WebAssembly backend: the same encoder as a function of trees, compiled by `jit` once per shape. Every use of an array but its last takes a reference. */

import { readSafetensors } from '../safetensors.mjs';

function transposed(data, [rows, columns]) {
  const result = new Float32Array(data.length);
  for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) result[j * rows + i] = data[i * columns + j];
  return result;
}

/**
 * @param {object} options
 * @param {any} options.jax @jax-js/jax
 * @param {Record<string, Uint8Array>} options.files the model folder's files
 * @returns {Promise<import('../harness.mjs').Contestant>}
 */
export async function jaxContestant({ jax, files }) {
  const { numpy: np, nn, scipySpecial, jit, tree, init, defaultDevice } = jax;
  if (!(await init('wasm')).includes('wasm')) throw new Error('jax-js has no WebAssembly backend here');
  defaultDevice('wasm');
  const config = JSON.parse(new TextDecoder().decode(files['config.json']));
  const { hidden_size: width, num_attention_heads: heads, num_hidden_layers: layers, layer_norm_eps: epsilon } = config;
  const w = {};
  for (const [name, { data, shape }] of Object.entries(readSafetensors(files['model.safetensors']))) {
    const isMatrix = shape.length === 2 && !name.startsWith('embeddings');
    // [in,out], transposed once, at load: products are twice as fast as with a transposed view.
    w[name] = isMatrix
      ? np.array(transposed(data, shape)).reshape([...shape].reverse())
      : np.array(data).reshape(shape);
  }

  const forward = jit(function forward(w, ids) {
    const [n, l] = ids.shape;
    const linear = (x, name) => np.matmul(x, w[`${name}.weight`].ref).add(w[`${name}.bias`].ref);
    const norm = (x, name) =>
      nn.standardize(x, -1, { epsilon }).mul(w[`${name}.weight`].ref).add(w[`${name}.bias`].ref);
    const gelu = (x) => x.ref.mul(0.5).mul(scipySpecial.erf(x.mul(Math.SQRT1_2)).add(1));
    const table = (name) => w[`embeddings.${name}_embeddings.weight`].ref;
    const embeddings = np
      .take(table('word'), ids, 0)
      .add(table('position').slice([0, l]))
      .add(table('token_type').slice(0));
    let x = norm(embeddings, 'embeddings.LayerNorm');
    for (let i = 0; i < layers; i++) {
      const p = `encoder.layer.${i}`;
      const [q, k, v] = ['query', 'key', 'value'].map((name) =>
        linear(x.ref, `${p}.attention.self.${name}`).reshape([n, l, heads, width / heads]),
      );
      const mixed = nn.dotProductAttention(q, k, v).reshape([n, l, width]);
      x = norm(linear(mixed, `${p}.attention.output.dense`).add(x), `${p}.attention.output.LayerNorm`);
      const hidden = gelu(linear(x.ref, `${p}.intermediate.dense`));
      x = norm(linear(hidden, `${p}.output.dense`).add(x), `${p}.output.LayerNorm`);
    }
    tree.dispose(w);
    return x;
  });

  return {
    name: 'jax-js fp32',
    run: (batch) =>
      forward(
        tree.ref(w),
        np.array(Int32Array.from(batch.flat()), { dtype: np.int32 }).reshape([batch.length, batch[0].length]),
      ).data(),
    dispose() {
      forward.dispose();
      tree.dispose(w);
    },
  };
}
