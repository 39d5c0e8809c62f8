/** Attributions: how much each token contributes to a number that is computed from a text's hidden state. */
import { describe, formatShape, guarded, HeedError, invalid } from '../base/error.js';
import { makeYield } from '../base/event-loop.js';
import { legal, oneOf, optional, readOptions, size } from '../base/options.js';
import { Tensor } from '../base/tensor.js';
import type { ModelInput } from '../models/index.js';
import type { ForwardResult, Loss, TrainableModel } from '../train/index.js';
import { type LensOptions, lensSchema, oneText } from './call.js';

export interface AttributeOptions extends LensOptions {
  /** Maps the result of `forward` for the text to a differentiable scalar tensor, such as a loss of `heed.losses`. */
  metric: (result: ForwardResult) => Loss;
  /**
   * 'gradientTimesInput': the gradient at the embeddings times the embeddings. 'integratedGradients' (Sundararajan et
   * al. 2017, arXiv:1703.01365): the mean gradient along the line from zeros to the embeddings, times the embeddings;
   * the tokens' sum is the difference of the metric between both ends. Default 'integratedGradients'.
   */
  method?: 'gradientTimesInput' | 'integratedGradients' | undefined;
  /** Number of points at which 'integratedGradients' computes gradients (Gauss-Legendre quadrature). Default 50. */
  steps?: number | undefined;
}

type Metric = (result: ForwardResult) => unknown;

const schema = {
  ...lensSchema,
  metric: legal<Metric>('a function', (value) => typeof value === 'function'),
  method: optional(oneOf(['gradientTimesInput', 'integratedGradients']), 'integratedGradients' as const),
  steps: optional(size, 50),
};

const site = 'embeddings';

/**
 * Returns the contribution of each token of one text to `metric`, [L]: contributions of the entries of the site
 * `embeddings`, summed over its width, with zeros as the baseline. The model runs in evaluation mode, and the gradients
 * of its parameters do not change.
 *
 * @param model a model of heed/train, loaded with `trainable: true`
 * @example
 * const teachable = await heed.fromPretrained(undefined, { trainable: true });
 * const target = new Float32Array(384);
 * const shares = await attribute(teachable, 'a fox', {
 *   metric: ({ lastHiddenState }) => heed.losses.mse(heed.mean(lastHiddenState), { data: target, shape: [1, 384] }),
 * });
 * shares.shape; // [4]
 * @throws HeedError INVALID_ARGUMENT if the model was loaded without `trainable`, or if the metric does not return a
 *   differentiable scalar
 */
export async function attribute(model: TrainableModel, text: ModelInput, options: AttributeOptions): Promise<Tensor> {
  if (typeof guarded('attribute: model', () => (model as TrainableModel | null)?.forward) !== 'function')
    throw invalid('attribute: model', 'a model of heed/train, loaded with `trainable: true`', describe(model));
  const { signal, onProgress, metric, method, steps } = readOptions('attribute', schema, options);
  const input = oneText(text, 'attribute: text');
  const points = method === 'integratedGradients' ? gaussLegendre(steps) : [{ at: 1, weight: 1 }];
  const pause = makeYield(signal);
  let sums = new Float64Array();
  for (const [done, { at, weight }] of points.entries()) {
    await pause();
    const { values, gradient } = differentiated(model, input, metric, at);
    const [, length, width] = values.shape as [number, number, number];
    if (done === 0) sums = new Float64Array(length);
    // `values` are `at` times the embeddings.
    values.data.forEach((value, i) => (sums[Math.floor(i / width)]! += (weight / at) * value * gradient[i]!));
    onProgress?.({ done: done + 1, total: points.length });
  }
  return new Tensor(Float32Array.from(sums), [sums.length]);
}

/**
 * Returns `scale` times the embeddings and the metric's gradient there. Synchronous, so that no other code sees the
 * model in evaluation mode.
 */
function differentiated(model: TrainableModel, input: ModelInput, metric: Metric, scale: number) {
  const isTraining = model.training;
  const trained = model.parameters().filter(({ requiresGrad }) => requiresGrad);
  const require = (required: boolean) => {
    for (const parameter of trained) parameter.requiresGrad = required;
  };
  model.eval();
  require(false);
  try {
    const result = model.forward(input, { read: [site], edit: [{ site, scale }] });
    const values = result.activations![site]!;
    backward(metric, result);
    const { grad } = values;
    if (!grad) throw unrelated();
    return { values, gradient: grad.data };
  } finally {
    require(true);
    if (isTraining) model.train();
  }
}

function backward(metric: Metric, result: ForwardResult): void {
  let loss: unknown;
  try {
    loss = metric(result);
  } catch (cause) {
    throw new HeedError('INVALID_ARGUMENT', `attribute.metric: threw ${describe(cause)}`, { cause });
  }
  if (!(loss instanceof Tensor) || loss.shape.length > 0 || !('backward' in loss)) {
    const got = loss instanceof Tensor ? `a tensor of shape ${formatShape(loss.shape)}` : describe(loss);
    throw invalid('attribute.metric', 'a function that returns a differentiable scalar, a tensor without axes', got);
  }
  try {
    (loss as Loss).backward();
  } catch (error) {
    throw (error as HeedError).code === 'INVALID_ARGUMENT' ? unrelated() : error;
  }
}

const unrelated = () =>
  invalid('attribute.metric', 'a tensor that is computed from its argument by differentiable operations', 'a constant');

/**
 * Points and weights of Gauss-Legendre quadrature over [0, 1]: the roots of the Legendre polynomial of degree n, by
 * Newton's method (Numerical Recipes, 4.6).
 */
function gaussLegendre(n: number): { at: number; weight: number }[] {
  return Array.from({ length: n }, (_, i) => {
    let x = Math.cos((Math.PI * (i + 0.75)) / (n + 0.5));
    let slope = 0;
    for (let round = 0; round < 100; round++) {
      let [value, before] = [1, 0];
      for (let k = 0; k < n; k++) [value, before] = [((2 * k + 1) * x * value - k * before) / (k + 1), value];
      slope = (n * (x * value - before)) / (x * x - 1);
      const change = value / slope;
      x -= change;
      if (Math.abs(change) < 1e-15) break;
    }
    return { at: (1 - x) / 2, weight: 1 / ((1 - x * x) * slope * slope) };
  });
}
