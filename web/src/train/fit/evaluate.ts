/** `model.evaluate` and `model.predict`: a model in evaluation mode, batch by batch. */
import { floatsOf, formatShape, invalid } from '../../base/error.js';
import { makeYield } from '../../base/event-loop.js';
import { optional, readOptions, type Schema, signal, size } from '../../base/options.js';
import type { SignalLike } from '../../base/platform.js';
import { Tensor } from '../../base/tensor.js';
import type { Composite } from '../../layers/composition/composite.js';
import { batching } from '../fit-data.js';
import type { Tape } from '../graph/tape.js';
import { type ExampleValues, readColumn, readFitData, type Weighted } from './batches.js';
import { type FitLoss, lossOption } from './fit-losses.js';
import { type FitMetric, Meters, metricsOption } from './metrics.js';
import { lossFunction, Mean, measuredOf, modesOf, outputOf, requireForward } from './passes.js';

/** Options of `evaluate`. */
export interface EvaluateOptions {
  /** The loss to measure. Default: none. */
  loss?: FitLoss | undefined;
  /** The metrics to measure. Default: none. */
  metrics?: readonly FitMetric[] | undefined;
  /** The number of examples per batch. Batches that arrive one by one keep their sizes. Default 32. */
  batchSize?: number | undefined;
  /** Stops between two batches. */
  signal?: SignalLike | undefined;
}

/** The result of `evaluate`. */
export interface Evaluation {
  /** The mean loss. Present if a loss was given. */
  loss?: number | undefined;
  /** The metrics by name. */
  metrics: Record<string, number>;
}

/** Options of `predict`. */
export interface PredictBatchesOptions {
  /** The number of examples per batch. Default 32. */
  batchSize?: number | undefined;
  /** Stops between two batches. */
  signal?: SignalLike | undefined;
}

const evaluateSchema = {
  loss: optional(lossOption, null),
  metrics: optional(metricsOption, []),
  batchSize: optional(size, 32),
  signal,
} satisfies Schema<EvaluateOptions>;

const predictSchema = { batchSize: optional(size, 32), signal } satisfies Schema<PredictBatchesOptions>;

/** Runs `body` in evaluation mode, and restores the modes of all layers. */
function inEvaluation<T>(model: Composite, body: () => T): T {
  const restoreModes = modesOf(model);
  try {
    model.eval();
    return body();
  } finally {
    restoreModes();
  }
}

export async function evaluate(tape: Tape, model: Composite, data: unknown, options: unknown): Promise<Evaluation> {
  const { loss, metrics, batchSize, signal } = readOptions('evaluate', evaluateSchema, options);
  requireForward('evaluate', model);
  const argument = 'evaluate: data';
  const batches = batching(argument, readFitData(argument, data), { loss, batchSize, signal });
  const meters = new Meters('evaluate', metrics);
  const observe = (output: Tensor, batch: Weighted) => meters.add(output, batch);
  const measure = loss === null ? null : lossFunction(tape, model, loss, observe);
  const mean = new Mean();
  const between = makeYield(signal);
  for await (const batch of batches()) {
    await between();
    inEvaluation(model, () => {
      if (measure) {
        mean.add(measuredOf(measure(batch), batch));
      } else {
        observe(outputOf(model, batch.inputs), batch);
        mean.add({ loss: 0, share: batch.count, onlyLabel: null });
      }
    });
  }
  const value = mean.value(argument);
  return { ...(measure && { loss: value }), metrics: meters.values() };
}

export async function predict(model: Composite, inputs: unknown, options: unknown): Promise<Tensor> {
  const { batchSize, signal } = readOptions('predict', predictSchema, options);
  requireForward('predict', model);
  const column = readColumn('predict: inputs', inputs as ExampleValues);
  if (column.length === 0) throw invalid('predict: inputs', 'at least one example', 'none');
  const between = makeYield(signal);
  let result: Tensor | null = null;
  for (let first = 0; first < column.length; first += batchSize) {
    await between();
    const count = Math.min(batchSize, column.length - first);
    const indices = Array.from({ length: count }, (_, i) => first + i);
    const { data, shape } = inEvaluation(model, () => outputOf(model, column.take(indices)));
    const whole = [column.length, ...shape.slice(1)];
    result ??= new Tensor(floatsOf('predict', whole), whole);
    const expected = [count, ...result.shape.slice(1)];
    if (formatShape(shape) !== formatShape(expected))
      throw invalid('predict: the output of a batch', formatShape(expected), formatShape(shape), 'SHAPE_MISMATCH');
    result.data.set(data, first * (data.length / count));
  }
  return result!;
}
