/** The metrics of `fit` and `evaluate`. */
import { describe, guarded, HeedError, invalid } from '../../base/error.js';
import { indexOfMax } from '../../base/lists.js';
import { knownNames, type Reader } from '../../base/options.js';
import { Tensor } from '../../base/tensor.js';
import { giniCoefficient, rocAucScore } from '../../evaluation/ranking.js';
import {
  d2GammaScore,
  d2PoissonScore,
  meanGammaDeviance,
  meanPoissonDeviance,
  r2Score,
} from '../../evaluation/regression.js';
import type { Batch, Weighted } from './batches.js';
import { IGNORED } from './fit-losses.js';

/** Metrics that are measured on all outputs of an epoch at once. */
const whole = {
  r2Score,
  meanPoissonDeviance,
  meanGammaDeviance,
  d2PoissonScore,
  d2GammaScore,
  rocAucScore,
  giniCoefficient,
};

const absolute = { of: (x: number, y: number) => Math.abs(x - y), made: (mean: number) => mean };
const squared = { of: (x: number, y: number) => (x - y) ** 2, made: (mean: number) => mean };
const root = { ...squared, made: Math.sqrt };

/**
 * Metrics that are means over entries: the value of an entry, and what is made of the mean. `accuracy` compares classes.
 */
const means = {
  meanAbsoluteError: absolute,
  mae: absolute,
  meanSquaredError: squared,
  mse: squared,
  rootMeanSquaredError: root,
  rmse: root,
};

/**
 * The name of a metric: `accuracy`, or a function of heed/evaluation for numbers; `mae`, `mse` and `rmse` are short names of
 * `meanAbsoluteError`, `meanSquaredError` and `rootMeanSquaredError`. `accuracy` is that of class logits [..., C] with labels
 * [...], or of one logit per label, which means 1 if it is positive. The others compare the outputs as they are with the
 * labels: for a model of logarithms, such as those of `poisson`, pass a function.
 */
export type MetricName = 'accuracy' | keyof typeof means | keyof typeof whole;

/**
 * A metric by name, or a function of the model's output and the labels of a batch, which is named by its `name`. The
 * results of a function are averaged over the batches, weighted by their numbers of examples.
 */
export type FitMetric =
  | MetricName
  // biome-ignore lint/suspicious/noExplicitAny: labels are whatever the data has
  | ((output: Tensor, labels: any, batch: Batch) => number);

/** A metric with its name. */
export interface MetricRead {
  readonly name: string;
  readonly metric: FitMetric;
}

const NAMES = ['accuracy', ...Object.keys(means), ...Object.keys(whole)];

export const metricsOption: Reader<MetricRead[]> = (value, name) =>
  guarded(name, () => {
    if (!Array.isArray(value)) throw invalid(name, 'an array of names and functions', describe(value));
    const read = value.map((metric: unknown, i): MetricRead => {
      if (typeof metric === 'function') return { name: metric.name || `metric${i}`, metric: metric as FitMetric };
      if (NAMES.includes(metric as string)) return { name: metric as string, metric: metric as MetricName };
      const expected = `a function, or ${knownNames(typeof metric === 'string' ? metric : '', NAMES)}`;
      throw invalid(`${name}[${i}]`, expected, describe(metric));
    });
    const twice = read.find((one, i) => read.findIndex((other) => other.name === one.name) < i);
    if (twice) throw invalid(name, 'metrics with different names', `'${twice.name}' twice`);
    return read;
  });

/** The value of one metric over the batches so far. */
interface Meter {
  add(output: Tensor, batch: Weighted): void;
  value(): number;
}

/** All numbers of labels: an array, nested or not, or a tensor. */
function numbersOf(labels: unknown): readonly number[] {
  const { data } = (labels ?? {}) as { data?: Iterable<number> | undefined };
  const values = Array.isArray(labels) ? (labels.flat(Infinity) as unknown[]) : [...(data ?? [])];
  const wrong = values.find((value) => typeof value !== 'number' && typeof value !== 'boolean');
  if (wrong !== undefined || values.length === 0)
    throw invalid('labels', 'numbers', wrong === undefined ? 'none' : describe(wrong));
  return values.map(Number);
}

/** The labels of a batch, which must have an entry for each entry of the output. */
function labelsLike({ data }: Tensor, labels: unknown): readonly number[] {
  const numbers = numbersOf(labels);
  if (numbers.length === data.length) return numbers;
  throw invalid('labels', `${data.length}, one for each entry of the output`, `${numbers.length}`, 'SHAPE_MISMATCH');
}

function accuracy(): Meter {
  let [correct, count] = [0, 0];
  return {
    add({ data, shape }, { labels }) {
      const expected = numbersOf(labels);
      const classes = data.length / expected.length;
      if (classes !== 1 && classes !== shape.at(-1))
        throw invalid(
          'labels',
          `one for each row of the output, or for each entry, ${data.length}`,
          `${expected.length}`,
          'SHAPE_MISMATCH',
        );
      for (const [i, label] of expected.entries()) {
        if (classes > 1 && label === IGNORED) continue;
        const row = data.subarray(i * classes, (i + 1) * classes);
        const predicted = classes === 1 ? Number(row[0]! > 0) : indexOfMax(row);
        if (predicted === label && !Number.isNaN(row[predicted])) correct++;
        count++;
      }
    },
    value: () => correct / count,
  };
}

function meanMeter({ of, made }: (typeof means)['mae']): Meter {
  let [sum, count] = [0, 0];
  return {
    add(output, { labels }) {
      for (const [i, label] of labelsLike(output, labels).entries()) sum += of(output.data[i]!, label);
      count += output.data.length;
    },
    value: () => made(sum / count),
  };
}

function wholeMeter(metric: typeof r2Score): Meter {
  const [expected, predicted]: [number[], number[]] = [[], []];
  return {
    add(output, { labels }) {
      for (const [i, label] of labelsLike(output, labels).entries()) {
        expected.push(label);
        predicted.push(output.data[i]!);
      }
    },
    value: () => metric(expected, predicted),
  };
}

function ownMeter(metric: (output: Tensor, labels: unknown, batch: Batch) => unknown): Meter {
  let [sum, count] = [0, 0];
  return {
    add(output, { count: examples, own: _, ...batch }) {
      const result = metric(output, batch.labels, batch);
      const value = result instanceof Tensor && result.data.length === 1 ? result.data[0] : result;
      if (typeof value !== 'number') throw invalid('its result', 'a number', describe(value));
      sum += value * examples;
      count += examples;
    },
    value: () => sum / count,
  };
}

function meterOf({ metric }: MetricRead): Meter {
  if (typeof metric === 'function') return ownMeter(metric);
  if (metric === 'accuracy') return accuracy();
  return metric in means ? meanMeter(means[metric as 'mae']) : wholeMeter(whole[metric as 'r2Score']);
}

/** Measures metrics on the batches of an epoch. `call`: `fit` or `evaluate`, for messages. */
export class Meters {
  readonly #call: string;
  readonly #meters: readonly (readonly [name: string, meter: Meter])[];

  constructor(call: string, metrics: readonly MetricRead[]) {
    this.#call = call;
    this.#meters = metrics.map((metric) => [metric.name, meterOf(metric)] as const);
  }

  /** Adds a batch without the examples that it shares with other batches, so that each example counts once. */
  add(output: Tensor, batch: Weighted): void {
    if (this.#meters.length === 0) return;
    const { own } = batch;
    const rows = own ? output.slice(0, own.count) : output;
    for (const [name, meter] of this.#meters) this.#named(name, () => meter.add(rows, own ?? batch));
  }

  values(): Record<string, number> {
    return Object.fromEntries(this.#meters.map(([name, meter]) => [name, this.#named(name, () => meter.value())]));
  }

  /** Runs a part of a metric. Its errors name the metric. */
  #named<T>(name: string, body: () => T): T {
    try {
      return body();
    } catch (cause) {
      const what = `${this.#call}.metrics: the metric '${name}'`;
      if (cause instanceof HeedError) throw new HeedError(cause.code, `${what}: ${cause.message}`, { cause });
      throw new HeedError('INVALID_ARGUMENT', `${what} threw ${describe(cause)}`, { cause });
    }
  }
}
