/** The activations of torch.nn that heed's linear layers do not have. Imported on demand. */

const softplus = (x: number) => (x > 20 ? x : Math.log1p(Math.exp(x)));
const SELU = { alpha: 1.6732632423543772, scale: 1.0507009873554805 };
const RELU_SLOPE = (1 / 8 + 1 / 3) / 2;
const clamp = (x: number, low: number, high: number) => Math.min(high, Math.max(low, x));

/** Functions of one value: the classes of torch.nn that are made without arguments, with their defaults. */
export const TORCH_ACTIVATIONS: Record<string, (x: number) => number> = {
  CELU: (x) => (x > 0 ? x : Math.expm1(x)),
  ELU: (x) => (x > 0 ? x : Math.expm1(x)),
  Hardshrink: (x) => (Math.abs(x) <= 0.5 ? 0 : x),
  Hardsigmoid: (x) => clamp(x + 3, 0, 6) / 6,
  Hardswish: (x) => (x * clamp(x + 3, 0, 6)) / 6,
  Hardtanh: (x) => clamp(x, -1, 1),
  LeakyReLU: (x) => (x > 0 ? x : 0.01 * x),
  LogSigmoid: (x) => Math.min(0, x) - Math.log1p(Math.exp(-Math.abs(x))),
  Mish: (x) => x * Math.tanh(softplus(x)),
  ReLU6: (x) => clamp(x, 0, 6),
  RReLU: (x) => (x >= 0 ? x : RELU_SLOPE * x), // the mean of the slopes, in evaluation
  SELU: (x) => SELU.scale * (x > 0 ? x : SELU.alpha * Math.expm1(x)),
  Softplus: softplus,
  Softshrink: (x) => (x > 0.5 ? x - 0.5 : x < -0.5 ? x + 0.5 : 0),
  Softsign: (x) => x / (1 + Math.abs(x)),
  Tanhshrink: (x) => x - Math.tanh(x),
};

/** Subtracts the maximum and returns the logarithm of the sum of the exponentials. */
function logSum(row: Float32Array): number {
  const max = row.reduce((a, b) => Math.max(a, b), -Infinity);
  return max + Math.log(row.reduce((sum, x) => sum + Math.exp(x - max), 0));
}
const softmax = (row: Float32Array): Float32Array => {
  const log = logSum(row);
  return row.map((x) => Math.exp(x - log));
};

/** Functions of a row, for vectors. Of values with more axes, torch takes the softmax over another axis. */
export const TORCH_ROW_ACTIVATIONS: Record<string, (row: Float32Array) => Float32Array> = {
  LogSoftmax: (row) => {
    const log = logSum(row);
    return row.map((x) => x - log);
  },
  Softmax: softmax,
  Softmin: (row) => softmax(row.map((x) => -x)),
};

/** Those of heed's linear layers, for scores. */
const SCORES: Partial<Record<string, (x: number) => number>> = {
  ReLU: (x) => Math.max(0, x),
  SiLU: (x) => x / (1 + Math.exp(-x)),
  Tanh: Math.tanh,
};

/** The activation of a single score, which has no other axis; undefined for other classes. */
export function scoreActivation(name: string): ((x: number) => number) | undefined {
  return SCORES[name] ?? (Object.hasOwn(TORCH_ACTIVATIONS, name) ? TORCH_ACTIVATIONS[name] : undefined);
}
