/** Metrics of predicted numbers. Definitions and edge cases follow scikit-learn; sums are computed in double precision. */
import { type MetricData, type MetricOptions, NOT_NEGATIVE, type Numbers, POSITIVE, readMetric } from './numbers.js';

/** The weighted mean of f(expected, predicted). */
function mean({ expected, predicted, weights, total }: MetricData, f: (y: number, x: number) => number): number {
  return weights.reduce((sum, weight, i) => sum + weight * f(expected[i]!, predicted[i]!), 0) / total;
}

/** The same data with the weighted mean of `expected` as every prediction. */
function withMean(data: MetricData): MetricData {
  const average = mean(data, (y) => y);
  return { ...data, predicted: data.expected.map(() => average) };
}

const squared = (y: number, x: number) => (y - x) ** 2;
const poisson = (y: number, x: number) => 2 * ((y > 0 ? y * Math.log(y / x) : 0) - y + x);
const gamma = (y: number, x: number) => 2 * (Math.log(x / y) + y / x - 1);

/** The share of the deviance from the mean that the predictions explain; NaN if it is not defined. */
function explained(data: MetricData, deviance: (y: number, x: number) => number): number {
  if (data.expected.length < 2) return NaN;
  const whole = mean(withMean(data), deviance);
  return whole > 0 ? 1 - mean(data, deviance) / whole : NaN;
}

/**
 * The mean of |expected - predicted|: scikit-learn's `mean_absolute_error`.
 *
 * @example
 * meanAbsoluteError([1, 2, 4], [1, 3, 2]); // 1
 * @throws HeedError SHAPE_MISMATCH for lists of different lengths; INVALID_ARGUMENT for numbers that are not finite
 */
export function meanAbsoluteError(expected: Numbers, predicted: Numbers, options?: MetricOptions): number {
  return mean(readMetric('meanAbsoluteError', [expected, predicted, options]), (y, x) => Math.abs(y - x));
}

/**
 * The mean of (expected - predicted)^2: scikit-learn's `mean_squared_error`.
 *
 * @example
 * meanSquaredError([1, 2, 4], [1, 3, 2]); // 1.667
 * @throws HeedError as `meanAbsoluteError`
 */
export function meanSquaredError(expected: Numbers, predicted: Numbers, options?: MetricOptions): number {
  return mean(readMetric('meanSquaredError', [expected, predicted, options]), squared);
}

/**
 * The root of the mean of (expected - predicted)^2: scikit-learn's `root_mean_squared_error`.
 *
 * @example
 * rootMeanSquaredError([1, 2, 4], [1, 3, 2]); // 1.291
 * @throws HeedError as `meanAbsoluteError`
 */
export function rootMeanSquaredError(expected: Numbers, predicted: Numbers, options?: MetricOptions): number {
  return Math.sqrt(mean(readMetric('rootMeanSquaredError', [expected, predicted, options]), squared));
}

/**
 * The coefficient of determination R2: 1 minus the squared error over that of the mean: scikit-learn's `r2_score`. If
 * `expected` is constant, 1 for exact predictions and 0 for others; NaN for a single example.
 *
 * @example
 * r2Score([1, 2, 4], [1, 3, 4]); // 0.786
 * @throws HeedError as `meanAbsoluteError`
 */
export function r2Score(expected: Numbers, predicted: Numbers, options?: MetricOptions): number {
  const data = readMetric('r2Score', [expected, predicted, options]);
  if (data.expected.length < 2) return NaN;
  const [error, whole] = [mean(data, squared), mean(withMean(data), squared)];
  if (whole === 0) return error === 0 ? 1 : 0;
  return 1 - error / whole;
}

/**
 * The mean deviance of counts, or frequencies, under Poisson distributions with the predicted means: 2 (y log(y / x) - y +
 * x), with y >= 0 and x > 0: scikit-learn's `mean_poisson_deviance`. Frequencies are counts divided by the exposure, with
 * the exposure as weights.
 *
 * @example
 * meanPoissonDeviance([0, 1, 3], [0.5, 1, 2]); // 0.478
 * @throws HeedError SHAPE_MISMATCH for lists of different lengths; INVALID_ARGUMENT for numbers outside their range
 */
export function meanPoissonDeviance(expected: Numbers, predicted: Numbers, options?: MetricOptions): number {
  return mean(readMetric('meanPoissonDeviance', [expected, predicted, options], [NOT_NEGATIVE, POSITIVE]), poisson);
}

/**
 * The mean deviance of amounts under Gamma distributions with the predicted means: 2 (log(x / y) + y / x - 1), with x and y
 * > 0: scikit-learn's `mean_gamma_deviance`.
 *
 * @example
 * meanGammaDeviance([1, 2, 4], [1, 3, 3]); // 0.079
 * @throws HeedError as `meanPoissonDeviance`
 */
export function meanGammaDeviance(expected: Numbers, predicted: Numbers, options?: MetricOptions): number {
  return mean(readMetric('meanGammaDeviance', [expected, predicted, options], [POSITIVE, POSITIVE]), gamma);
}

/**
 * The share of the Poisson deviance that the predictions explain: 1 minus the deviance over that of the mean, as
 * scikit-learn's `d2_tweedie_score` with power 1. NaN for a single example or a constant `expected`.
 *
 * @example
 * d2PoissonScore([0, 1, 3], [0.5, 1, 2]); // 0.666
 * @throws HeedError as `meanPoissonDeviance`
 */
export function d2PoissonScore(expected: Numbers, predicted: Numbers, options?: MetricOptions): number {
  return explained(readMetric('d2PoissonScore', [expected, predicted, options], [NOT_NEGATIVE, POSITIVE]), poisson);
}

/**
 * The share of the Gamma deviance that the predictions explain, as scikit-learn's `d2_tweedie_score` with power 2. NaN for
 * a single example or a constant `expected`.
 *
 * @example
 * d2GammaScore([1, 2, 4], [1, 3, 3]); // 0.745
 * @throws HeedError as `meanPoissonDeviance`
 */
export function d2GammaScore(expected: Numbers, predicted: Numbers, options?: MetricOptions): number {
  return explained(readMetric('d2GammaScore', [expected, predicted, options], [POSITIVE, POSITIVE]), gamma);
}
