/** The training task of the benchmark: the model's shapes, its first weights under PyTorch's names, and one batch. */

export const SHAPES = {
  /** The model that learns to reverse sequences. */
  toy: { batch: 64, length: 16, width: 32, heads: 2, inner: 64, layers: 2, activation: 'relu' },
  minilm: { batch: 8, length: 128, width: 384, heads: 12, inner: 1536, layers: 6, activation: 'gelu' },
};

export const SYMBOLS = 10;
export const ADAMW = { lr: 1e-4, betas: [0.9, 0.999], eps: 1e-8, weightDecay: 0.01 };

/** Uniform in [-0.5, 0.5), from a fixed seed. */
function generator() {
  let state = 12345;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32 - 0.5;
  };
}

/** sin and cos of Vaswani et al. 2017, [length, width]. */
function positions(length, width) {
  const data = new Float32Array(length * width);
  for (let i = 0; i < length; i++) {
    for (let k = 0; k < width; k++) {
      const angle = i * 10000 ** (-(k - (k % 2)) / width);
      data[i * width + k] = k % 2 ? Math.cos(angle) : Math.sin(angle);
    }
  }
  return data;
}

/** @param {keyof typeof SHAPES} name */
export function makeTask(name) {
  const shape = SHAPES[name];
  const { batch, length, width, inner, layers } = shape;
  const next = generator();
  /** @type {Record<string, { shape: number[], data: Float32Array }>} */
  const weights = {};
  const matrix = (key, rows, columns) => {
    const scale = 2 * Math.sqrt(3 / columns);
    weights[key] = {
      shape: [rows, columns],
      data: Float32Array.from({ length: rows * columns }, () => scale * next()),
    };
  };
  const vector = (key, size, value) => {
    weights[key] = { shape: [size], data: new Float32Array(size).fill(value) };
  };
  matrix('0.weight', SYMBOLS, width);
  for (let i = 0; i < layers; i++) {
    const layer = `2.layers.${i}`;
    matrix(`${layer}.self_attn.in_proj_weight`, 3 * width, width);
    vector(`${layer}.self_attn.in_proj_bias`, 3 * width, 0);
    matrix(`${layer}.self_attn.out_proj.weight`, width, width);
    vector(`${layer}.self_attn.out_proj.bias`, width, 0);
    matrix(`${layer}.linear1.weight`, inner, width);
    vector(`${layer}.linear1.bias`, inner, 0);
    matrix(`${layer}.linear2.weight`, width, inner);
    vector(`${layer}.linear2.bias`, width, 0);
    for (const norm of ['norm1', 'norm2']) {
      vector(`${layer}.${norm}.weight`, width, 1);
      vector(`${layer}.${norm}.bias`, width, 0);
    }
  }
  matrix('3.weight', SYMBOLS, width);
  vector('3.bias', SYMBOLS, 0);
  const ids = Array.from({ length: batch }, () => Array.from({ length }, () => Math.floor((next() + 0.5) * SYMBOLS)));
  return {
    name,
    ...shape,
    weights,
    ids,
    labels: ids.map((row) => [...row].reverse()),
    positions: positions(length, width),
  };
}
