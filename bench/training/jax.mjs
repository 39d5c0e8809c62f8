/** jax-js on WebAssembly: the same encoder in its NumPy, compiled with `jit`. Functions take ownership of arrays; `.ref` keeps one for later. */
import { ADAMW, SYMBOLS } from './task.mjs';
import { timed } from './timed.mjs';

export async function jaxTraining(task) {
  const jax = await import('@jax-js/jax');
  await jax.init('wasm');
  jax.defaultDevice('wasm');
  const { numpy: np, nn, scipySpecial: special, tree } = jax;
  const { batch, length, width, heads, layers, activation } = task;
  const rows = batch * length;
  const array = ({ data, shape }) => np.array(data).reshape(shape);
  const oneHot = (symbols) => nn.oneHot(np.array(Int32Array.from(symbols.flat())), SYMBOLS);
  const [ids, labels] = [oneHot(task.ids), oneHot(task.labels)];
  const positions = array({ data: task.positions, shape: [1, length, width] });

  const linear = (x, weight, bias) => np.matmul(x, weight.transpose()).add(bias);
  const norm = (x, weight, bias) => {
    const centred = x.ref.sub(np.mean(x, -1, { keepdims: true }));
    const variance = np.mean(np.square(centred.ref), -1, { keepdims: true });
    return centred
      .div(np.sqrt(variance.add(1e-5)))
      .mul(weight)
      .add(bias);
  };
  const gelu = (x) => x.ref.mul(0.5).mul(special.erf(x.mul(Math.SQRT1_2)).add(1));
  const activate = activation === 'gelu' ? gelu : nn.relu;
  const split = (x) => x.reshape([batch, length, heads, width / heads]).transpose([0, 2, 1, 3]);

  /** Consumes `w`. */
  function lossOf(w, ids, labels, positions) {
    let x = np.matmul(ids, w['0.weight']).reshape([batch, length, width]).add(positions).reshape([rows, width]);
    for (let i = 0; i < layers; i++) {
      const p = `2.layers.${i}`;
      const projected = linear(x.ref, w[`${p}.self_attn.in_proj_weight`], w[`${p}.self_attn.in_proj_bias`]);
      const [q, k, v] = np.split(projected, 3, -1).map(split);
      const scores = np.matmul(q, k.transpose([0, 1, 3, 2])).mul(1 / Math.sqrt(width / heads));
      const mixed = np.matmul(nn.softmax(scores), v).transpose([0, 2, 1, 3]).reshape([rows, width]);
      const attended = linear(mixed, w[`${p}.self_attn.out_proj.weight`], w[`${p}.self_attn.out_proj.bias`]);
      x = norm(x.add(attended), w[`${p}.norm1.weight`], w[`${p}.norm1.bias`]);
      const hidden = activate(linear(x.ref, w[`${p}.linear1.weight`], w[`${p}.linear1.bias`]));
      const fed = linear(hidden, w[`${p}.linear2.weight`], w[`${p}.linear2.bias`]);
      x = norm(x.add(fed), w[`${p}.norm2.weight`], w[`${p}.norm2.bias`]);
    }
    const logits = linear(x, w['3.weight'], w['3.bias']);
    return np.mean(np.sum(nn.logSoftmax(logits).mul(labels), -1)).mul(-1);
  }

  const { lr, betas, eps, weightDecay } = ADAMW;
  /** One step; `rates` are the factors that correct the averages. Consumes its arguments. */
  const step = jax.jit((w, m, v, rates, ids, labels, positions) => {
    const [loss, g] = jax.valueAndGrad(lossOf)(tree.ref(w), ids, labels, positions);
    const [first, second] = np.split(rates, 2);
    const next = { w: {}, m: {}, v: {} };
    for (const name of Object.keys(w)) {
      next.m[name] = m[name].mul(betas[0]).add(g[name].ref.mul(1 - betas[0]));
      next.v[name] = v[name].mul(betas[1]).add(np.square(g[name]).mul(1 - betas[1]));
      const scaled = next.m[name].ref.mul(first.ref).div(np.sqrt(next.v[name].ref.mul(second.ref)).add(eps));
      next.w[name] = w[name].mul(1 - lr * weightDecay).sub(scaled.mul(lr));
    }
    first.dispose();
    second.dispose();
    return [loss, next.w, next.m, next.v];
  });

  let w = Object.fromEntries(Object.entries(task.weights).map(([name, weight]) => [name, array(weight)]));
  const zeros = () =>
    Object.fromEntries(Object.entries(task.weights).map(([name, { shape }]) => [name, np.zeros(shape)]));
  let [m, v, count] = [zeros(), zeros(), 0];
  return {
    about: 'jax-js, wasm',
    step: () =>
      timed(async () => {
        count++;
        const rates = np.array(Float32Array.of(1 / (1 - betas[0] ** count), 1 / (1 - betas[1] ** count)));
        let loss;
        [loss, w, m, v] = step(w, m, v, rates, ids.ref, labels.ref, positions.ref);
        await jax.blockUntilReady(tree.ref(w));
        const [value] = await loss.data();
        return value;
      }),
    dispose: () => tree.dispose([w, m, v, ids, labels, positions]),
  };
}
