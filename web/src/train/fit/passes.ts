/** Forward passes of models that are trained or measured, and the state that they change. */
import { describe, invalid } from '../../base/error.js';
import { Tensor } from '../../base/tensor.js';
import { allLayers, type Composite } from '../../layers/composition/composite.js';
import { Loss } from '../graph/loss.js';
import type { Tape } from '../graph/tape.js';
import type { Batch, Weighted } from './batches.js';
import { type LossRead, makeLoss } from './fit-losses.js';

type Forward = Composite & { forward(inputs: unknown): Tensor | { output: Tensor } };

/** @throws HeedError for a model without `forward` */
export function requireForward(call: string, model: Composite): void {
  if (typeof (model as Forward).forward === 'function') return;
  throw invalid(call, 'a model with a method `forward`', describe(model));
}

/** The model's output for the inputs of a batch. */
export function outputOf(model: Composite, inputs: unknown): Tensor {
  const result: unknown = (model as Forward).forward(inputs);
  const output = result instanceof Tensor ? result : (result as { output?: unknown } | null)?.output;
  if (output instanceof Tensor) return output;
  throw invalid('forward', 'a model that returns a tensor, or an object with one as `output`', describe(result));
}

/** Returns a function that computes the loss of a batch. `observe` receives the model's output. */
export function lossFunction<B extends Batch>(
  tape: Tape,
  model: Composite,
  loss: LossRead,
  observe?: (output: Tensor, batch: B) => void,
): (batch: B) => Loss {
  const lossOf = makeLoss(tape, loss);
  return (batch) => {
    const output = outputOf(model, batch.inputs);
    const measured = lossOf(output, batch.labels, batch);
    if (!(measured instanceof Loss))
      throw invalid('fit.loss', 'a function that returns a loss', `a function that returns ${describe(measured)}`);
    observe?.(output, batch);
    return measured;
  };
}

/** Saves which layers are in training mode. The returned function restores their modes. */
export function modesOf(model: Composite): () => void {
  const before = model.training;
  const layers = model[allLayers]().map(([layer]) => [layer, layer.training] as const);
  return () => {
    if (layers.some(([layer]) => layer.disposed)) return;
    before ? model.train() : model.eval();
    for (const [layer, training] of layers) training ? layer.train() : layer.eval();
  };
}

/**
 * Saves the state that forward passes change (dropout counters, moving averages). The returned function restores it.
 */
export function changedByPasses(tape: Tape, model: Composite): () => void {
  const saved = model[allLayers]().map(([{ raw }]) => {
    const layer = tape.stateOf(raw);
    const gradients = tape.gradientsOf(layer);
    const buffers = layer
      .parameters()
      .flatMap((_, i) => (gradients.isBuffer(i) ? [[i, layer.readParameter(i)] as const] : []));
    return { layer, buffers, dropout: layer.dropoutState() };
  });
  return () => {
    for (const { layer, buffers, dropout } of saved) {
      for (const [i, values] of buffers) layer.writeParameter(i, 0, new Uint8Array(values.buffer), 'F32', null);
      layer.setDropoutState(dropout);
    }
  };
}

/** The loss of a batch. */
export interface Measured {
  readonly loss: number;
  /**
   * The weight of the batch in the mean loss of its epoch: the number of entries in its loss's mean; if it is not known,
   * the number of its examples, or with weights their sum.
   */
  readonly share: number;
  /** The ignored label if all labels of the batch are equal to it, so that the loss is NaN; otherwise null. */
  readonly onlyLabel: number | null;
}

export function measuredOf(loss: Loss, batch: Weighted): Measured {
  return { loss: loss.item(), share: loss.share ?? shareOf(batch.own ?? batch), onlyLabel: loss.onlyLabel };
}

function shareOf({ weights, count }: Weighted): number {
  if (!weights) return count;
  const sum = weights.data.reduce((total, each) => total + each, 0);
  return (sum * count) / weights.data.length;
}

/**
 * Averages the losses of batches as one loss of all their entries would: weighted by their shares. Batches without
 * entries, such as those whose labels are all ignored, have no weight.
 */
export class Mean {
  #sum = 0;
  #shares = 0;
  #batches = 0;
  /** The number of batches without entries. */
  #empty = 0;
  /** The number of batches whose labels are all ignored. */
  #unlabeled = 0;
  #ignored: number | null = null;

  add({ loss, share, onlyLabel }: Measured): void {
    this.#batches++;
    if (share === 0 && Number.isNaN(loss)) this.#empty++;
    else this.#sum += loss * share;
    this.#shares += share;
    if (onlyLabel === null) return;
    this.#unlabeled++;
    this.#ignored = onlyLabel;
  }

  /** The ignored label if all labels of all batches are ignored; otherwise null. */
  get onlyLabel(): number | null {
    return this.#batches === this.#unlabeled ? this.#ignored : null;
  }

  /** 0 if all weights are 0; NaN if there are no entries, as in PyTorch. @throws HeedError if there were no batches */
  value(argument: string): number {
    if (this.#batches > 0 && this.#batches === this.#empty) return Number.NaN;
    if (this.#batches > 0) return this.#shares > 0 ? this.#sum / this.#shares : 0;
    throw invalid(argument, 'batches in each epoch', 'none', 'INVALID_ARGUMENT', {
      hint: 'An iterator yields its batches once: give a function that makes one for each epoch',
    });
  }
}

/** The batches of a stream, which may be asynchronous. */
export type Stream = Iterable<Weighted> | AsyncIterable<Weighted>;
