/** TensorFlow.js: the same encoder written with its operators. Its WebAssembly backend has no gradient of embeddings, so symbols are multiplied as one-hot rows. Its Adam has no decay. */
import { ADAMW, SYMBOLS } from './task.mjs';
import { timed } from './timed.mjs';

export async function tfjsTraining(task, backend) {
  const { default: tf } = await import('@tensorflow/tfjs'); // tfjs-core by itself has no gradients
  const library = await import(backend === 'wasm' ? '@tensorflow/tfjs-backend-wasm' : '@tensorflow/tfjs-backend-cpu');
  if (backend === 'wasm') {
    library.setThreadsCount(1);
    const folder = new URL('../node_modules/@tensorflow/tfjs-backend-wasm/dist/', import.meta.url);
    library.setWasmPaths(folder.pathname);
  }
  await tf.setBackend(backend);
  const { batch, length, width, heads, layers, activation } = task;
  const rows = batch * length;
  const w = Object.fromEntries(
    Object.entries(task.weights).map(([name, { data, shape }]) => [name, tf.variable(tf.tensor(data, shape))]),
  );
  const oneHot = (symbols) => tf.cast(tf.oneHot(tf.tensor1d(symbols.flat(), 'int32'), SYMBOLS), 'float32');
  const [ids, labels] = [oneHot(task.ids), oneHot(task.labels)];
  const positions = tf.tensor(task.positions, [1, length, width]);

  const linear = (x, weight, bias) => tf.add(tf.matMul(x, weight, false, true), bias);
  const norm = (x, name) => {
    const centred = tf.sub(x, tf.mean(x, -1, true));
    const variance = tf.mean(tf.square(centred), -1, true);
    const unit = tf.mul(centred, tf.rsqrt(tf.add(variance, 1e-5)));
    return tf.add(tf.mul(unit, w[`${name}.weight`]), w[`${name}.bias`]);
  };
  const gelu = (x) => tf.mul(tf.mul(x, 0.5), tf.add(tf.erf(tf.mul(x, Math.SQRT1_2)), 1));
  const activate = activation === 'gelu' ? gelu : tf.relu;
  const split = (x) => tf.transpose(tf.reshape(x, [batch, length, heads, width / heads]), [0, 2, 1, 3]);

  function lossOf() {
    const embedded = tf.reshape(tf.matMul(ids, w['0.weight']), [batch, length, width]);
    let x = tf.reshape(tf.add(embedded, positions), [rows, width]);
    for (let i = 0; i < layers; i++) {
      const p = `2.layers.${i}`;
      const projected = linear(x, w[`${p}.self_attn.in_proj_weight`], w[`${p}.self_attn.in_proj_bias`]);
      const [q, k, v] = tf.split(projected, 3, -1).map(split);
      const scores = tf.mul(tf.matMul(q, k, false, true), 1 / Math.sqrt(width / heads));
      const mixed = tf.reshape(tf.transpose(tf.matMul(tf.softmax(scores), v), [0, 2, 1, 3]), [rows, width]);
      const attended = linear(mixed, w[`${p}.self_attn.out_proj.weight`], w[`${p}.self_attn.out_proj.bias`]);
      x = norm(tf.add(x, attended), `${p}.norm1`);
      const hidden = activate(linear(x, w[`${p}.linear1.weight`], w[`${p}.linear1.bias`]));
      x = norm(tf.add(x, linear(hidden, w[`${p}.linear2.weight`], w[`${p}.linear2.bias`])), `${p}.norm2`);
    }
    const logits = linear(x, w['3.weight'], w['3.bias']);
    return tf.neg(tf.mean(tf.sum(tf.mul(tf.logSoftmax(logits), labels), -1)));
  }

  const optimizer = tf.train.adam(ADAMW.lr, ...ADAMW.betas, ADAMW.eps);
  return {
    about: `tfjs ${tf.version.tfjs}`,
    step: async () => {
      await tf.setBackend(backend); // wasm and cpu share one tfjs
      return timed(async () => {
        const loss = optimizer.minimize(lossOf, true, Object.values(w));
        const [value] = await loss.data();
        loss.dispose();
        return value;
      });
    },
    dispose: () => tf.dispose([w, ids, labels, positions]),
  };
}
