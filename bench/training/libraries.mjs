/** One training step in each library that runs in JavaScript. Each function returns a step: () => Promise<loss>; without a loss it is a forward pass alone. */
import { ADAMW, batchOf, heedModel, readParameters, TASKS } from './task.mjs';

async function heed(name, build, forwardOnly = false) {
  const { load } = await import('../../dist/train.js');
  const runtime = await load({ build });
  const task = TASKS[name];
  const model = heedModel(runtime, task).train();
  const { positions: _, ...state } = await readParameters(name);
  model.loadStateDict(state);
  const optimizer = new runtime.optim.AdamW(model.parameters(), ADAMW);
  const { ids, labels } = batchOf(task);
  if (forwardOnly) {
    model.eval();
    return async () => void model.forward(ids);
  }
  return async () => {
    optimizer.zeroGrad();
    const loss = runtime.losses.crossEntropy(model.forward(ids), labels);
    loss.backward();
    optimizer.step();
    return loss.item();
  };
}

/** TensorFlow.js has neither layers for transformers nor AdamW: both are written with its operators. */
async function tfjs(name, backend) {
  const { default: tf } = await import('@tensorflow/tfjs'); // tfjs-core alone has no gradients
  if (backend === 'wasm') {
    const wasm = await import('@tensorflow/tfjs-backend-wasm');
    wasm.setWasmPaths(new URL('../node_modules/@tensorflow/tfjs-backend-wasm/dist/', import.meta.url).pathname);
    wasm.setThreadsCount(1);
  }
  await tf.setBackend(backend);
  await tf.ready();
  const { vocabulary, width, heads, layers, activation, texts, tokens } = TASKS[name];
  const { positions, ...parameters } = await readParameters(name);
  const w = Object.fromEntries(
    Object.entries(parameters).map(([key, { data, shape }]) => [key, tf.variable(tf.tensor(data, shape))]),
  );
  const { ids, labels } = batchOf(TASKS[name]);
  const oneHot = (rows) => tf.cast(tf.oneHot(tf.tensor1d(rows.flat(), 'int32'), vocabulary), 'float32');
  const [rows, [input, target]] = [texts * tokens, [oneHot(ids), oneHot(labels)]];
  const places = tf.tile(tf.tensor(positions.data, positions.shape), [texts, 1]);
  const linear = (x, key, bias = `${key}bias`, weight = `${key}weight`) =>
    tf.add(tf.matMul(x, w[weight], false, true), w[bias]);
  const norm = (x, key) => {
    const centred = tf.sub(x, tf.mean(x, -1, true));
    const variance = tf.mean(tf.square(centred), -1, true);
    return tf.add(tf.mul(tf.mul(centred, tf.rsqrt(tf.add(variance, 1e-5))), w[`${key}weight`]), w[`${key}bias`]);
  };
  const gelu = (x) => tf.mul(tf.mul(x, 0.5), tf.add(tf.erf(tf.mul(x, Math.SQRT1_2)), 1));
  const act = activation === 'gelu' ? gelu : tf.relu;
  const split = (x) => tf.transpose(tf.reshape(x, [texts, tokens, heads, width / heads]), [0, 2, 1, 3]);
  function forward() {
    let x = tf.add(tf.matMul(input, w['0.weight']), places);
    for (let i = 0; i < layers; i++) {
      const at = `2.layers.${i}.`;
      const projected = linear(x, '', `${at}self_attn.in_proj_bias`, `${at}self_attn.in_proj_weight`);
      const [q, k, v] = tf.split(projected, 3, 1).map(split);
      const scores = tf.mul(tf.matMul(q, k, false, true), 1 / Math.sqrt(width / heads));
      const mixed = tf.reshape(tf.transpose(tf.matMul(tf.softmax(scores), v), [0, 2, 1, 3]), [rows, width]);
      x = norm(tf.add(x, linear(mixed, `${at}self_attn.out_proj.`)), `${at}norm1.`);
      x = norm(tf.add(x, linear(act(linear(x, `${at}linear1.`)), `${at}linear2.`)), `${at}norm2.`);
    }
    return tf.losses.softmaxCrossEntropy(target, linear(x, '3.'));
  }
  const adam = tf.train.adam(ADAMW.lr, ...ADAMW.betas, ADAMW.eps);
  const kept = 1 - ADAMW.lr * ADAMW.weightDecay;
  return async () => {
    const { value, grads } = tf.variableGrads(forward);
    tf.tidy(() => {
      for (const variable of Object.values(w)) variable.assign(tf.mul(variable, kept));
      adam.applyGradients(grads);
    });
    const [loss] = await value.data();
    tf.dispose([value, grads]);
    return loss;
  };
}

/** jax-js: functions of trees, compiled by `jit`. Every use of an array but its last takes a reference. */
async function jax(name) {
  const { numpy: np, nn, scipySpecial, valueAndGrad, jit, tree, init, defaultDevice } = await import('@jax-js/jax');
  await init('wasm');
  defaultDevice('wasm');
  const { vocabulary, width, heads, layers, activation, texts, tokens } = TASKS[name];
  const { positions, ...parameters } = await readParameters(name);
  const array = ({ data, shape }) => np.array(data).reshape(shape);
  const { ids, labels } = batchOf(TASKS[name]);
  const integers = (rows) => np.array(Int32Array.from(rows.flat()), { dtype: np.int32 });
  const linear = (x, weight, bias) => np.matmul(x, weight.transpose()).add(bias);
  const norm = (x, w, key) =>
    nn.standardize(x, -1, { epsilon: 1e-5 }).mul(w[`${key}weight`].ref).add(w[`${key}bias`].ref);
  const gelu = (x) => x.ref.mul(0.5).mul(scipySpecial.erf(x.mul(Math.SQRT1_2)).add(1));
  const act = activation === 'gelu' ? gelu : nn.relu;
  function lossOf(w, input, target, places) {
    let x = np.matmul(nn.oneHot(input, vocabulary), w['0.weight'].ref).reshape([texts, tokens, width]).add(places);
    for (let i = 0; i < layers; i++) {
      const at = `2.layers.${i}.`;
      const of = (key) => w[`${at}${key}`].ref;
      const projected = linear(x.ref, of('self_attn.in_proj_weight'), of('self_attn.in_proj_bias'));
      const [q, k, v] = np.split(projected, 3, -1).map((part) => part.reshape([texts, tokens, heads, width / heads]));
      const mixed = nn.dotProductAttention(q, k, v).reshape([texts, tokens, width]);
      x = norm(x.add(linear(mixed, of('self_attn.out_proj.weight'), of('self_attn.out_proj.bias'))), w, `${at}norm1.`);
      const hidden = act(linear(x.ref, of('linear1.weight'), of('linear1.bias')));
      x = norm(x.add(linear(hidden, of('linear2.weight'), of('linear2.bias'))), w, `${at}norm2.`);
    }
    const logits = linear(x, w['3.weight'].ref, w['3.bias'].ref).reshape([texts * tokens, vocabulary]);
    tree.dispose(w);
    return nn
      .logSoftmax(logits, -1)
      .mul(nn.oneHot(target, vocabulary))
      .sum()
      .mul(-1 / (texts * tokens));
  }
  const { lr, betas: [beta1, beta2], eps, weightDecay } = ADAMW; // biome-ignore format: one line
  const step = jit(function step(w, m, v, corrections, input, target, places) {
    const [loss, gradients] = valueAndGrad(lossOf)(tree.ref(w), input, target, places);
    const [one, two] = [corrections.ref.slice(0), corrections.slice(1)];
    const next = { w: {}, m: {}, v: {} };
    for (const [key, g] of Object.entries(gradients)) {
      next.m[key] = m[key].mul(beta1).add(g.ref.mul(1 - beta1));
      next.v[key] = v[key].mul(beta2).add(g.ref.mul(g).mul(1 - beta2));
      const update = next.m[key].ref.mul(one.ref).div(np.sqrt(next.v[key].ref.mul(two.ref)).add(eps));
      next.w[key] = w[key].mul(1 - lr * weightDecay).sub(update.mul(lr));
    }
    tree.dispose([one, two]);
    return { loss, ...next };
  });
  let w = Object.fromEntries(Object.entries(parameters).map(([key, tensor]) => [key, array(tensor)]));
  let [m, v] = [0, 1].map(() => tree.map((x) => np.zeros(x.shape), w));
  const [input, target, places] = [integers(ids), integers(labels), array(positions)];
  let done = 0;
  return async () => {
    done++;
    const corrections = np.array(Float32Array.of(1 / (1 - beta1 ** done), 1 / (1 - beta2 ** done)));
    const result = step(w, m, v, corrections, input.ref, target.ref, places.ref);
    ({ w, m, v } = result);
    const [loss] = await result.loss.data();
    return loss;
  };
}

export const libraries = {
  'heed (relaxed-simd)': (name) => heed(name, 'relaxed-simd'),
  'heed (simd128)': (name) => heed(name, 'simd128'),
  'heed, forward pass alone': (name) => heed(name, 'simd128', true),
  'tfjs-wasm': (name) => tfjs(name, 'wasm'),
  'tfjs-cpu': (name) => tfjs(name, 'cpu'),
  'jax-js': jax,
};
