/**
 * One step on several workers. A batch is cut into the same parts for any number of workers; each part has its own forward and backward pass, and the gradients of the parts are
 * added in the order of a binary tree. The result therefore has the same bits for any number of workers. Each worker adds its own parts as far as the tree allows.
 *
 * The first worker runs the loop of `fit` and has the optimizer; the others only compute gradients, with the parameters that they receive for each step.
 */
import { Tensor, type TensorLike } from '../../base/tensor.js';
import type { RawTensor } from '../../base/wasm/core.js';
import { allLayers, type Composite } from '../../layers/composition/composite.js';
import { operationsOf } from '../graph/operations.js';
import type { Tape } from '../graph/tape.js';
import type { RawGradient } from '../graph/train-core.js';
import { lossDefinitions } from '../losses.js';
import type { Optimizer } from '../optim/optimizer.js';
import { type Batch, readColumn, type Weighted } from './batches.js';
import { countOf, type LossName } from './fit-losses.js';
import { lossFunction, type Measured } from './passes.js';

/**
 * The number of parts of a batch, or fewer if it has fewer examples. Also the maximum number of workers that get work.
 */
export const PARTS = 8;

/** The examples [first, first + count) of a batch. */
interface Part extends Weighted {
  readonly index: number;
  readonly first: number;
  /** The weight of the part's mean loss in the mean over the batch. */
  readonly share: number;
}

/**
 * The sum of the gradients of some parts: a leaf or an inner node of the tree. The children of node i of a level are
 * nodes 2 i and 2 i + 1 of the level below.
 */
interface Node {
  readonly index: number;
  readonly level: number;
  /** The losses of its parts, each times its share, in order. */
  readonly losses: readonly number[];
  /** The model's outputs for its parts, in order, if the task asks for them. */
  readonly outputs: readonly RawTensor[];
  /** The gradients, in the order of the parameters. */
  readonly gradients: readonly (RawGradient | null)[];
}

/** The place of a parameter: the index of its layer, and its index in the layer. */
export type Place = readonly [layer: number, index: number];

/** The state at the start of a step: the values of the trained parameters, and the dropout state of each layer. */
interface State {
  readonly places: readonly Place[];
  readonly values: readonly Float32Array[];
  readonly dropout: readonly (readonly number[])[];
}

/** A task of a worker. */
export interface Task {
  readonly state: State;
  readonly parts: readonly Part[];
  /** Whether the model's outputs are returned. */
  readonly returnOutputs: boolean;
}

/** Computes the gradients of a task's parts. */
export type Assistant = (task: Task) => Promise<Node[]>;

/** Splits a batch of `count` examples into parts. */
function partsOf(loss: LossName, batch: Batch, count: number): Part[] {
  const { inputs, labels, weights } = batch;
  const parts = Math.min(PARTS, count);
  const taken = (values: unknown) => (values === undefined ? () => undefined : readColumn('fit: data', values).take);
  const [inputsAt, labelsAt, weightsAt] = [taken(inputs), taken(labels), taken(weights)];
  const whole = countOf(loss, batch, count);
  const total = weights && whole === 0 ? 1 : whole; // without any weight, the loss is 0
  return Array.from({ length: parts }, (_, index) => {
    const first = Math.floor((index * count) / parts);
    const indices = Array.from({ length: Math.floor(((index + 1) * count) / parts) - first }, (_, i) => first + i);
    const own = {
      inputs: inputsAt(indices),
      labels: labelsAt(indices),
      ...(weights && { weights: weightsAt(indices) as TensorLike }),
    };
    const share = countOf(loss, own, indices.length) / total;
    return { ...own, index, first, count: indices.length, share };
  });
}

/** Adds two gradients; null means no gradient. For tables, the result has the rows of both. */
function sum(a: RawGradient | null, b: RawGradient | null): RawGradient | null {
  if (!a?.values.length || !b?.values.length) return a?.values.length ? a : b;
  if (a.rows && !b.rows) return sum(b, a);
  const width = b.rows ? b.values.length / b.rows.length : b.values.length;
  let { rows, values } = a;
  const places = new Map(rows ? Array.from(rows, (row, i) => [row, i]) : []);
  if (rows) {
    for (const row of b.rows!) if (!places.has(row)) places.set(row, places.size);
    rows = Int32Array.from(places.keys());
    const wider = new Float32Array(rows.length * width);
    wider.set(values);
    values = wider;
  }
  const from = b.rows ?? [0];
  for (const [i, row] of from.entries()) {
    const to = (rows ? places.get(row)! : row) * width;
    for (let column = 0; column < width; column++) values[to + column]! += b.values[i * width + column]!;
  }
  return { rows, values };
}

function join(a: Node, b: Node, index: number, level: number): Node {
  return {
    index,
    level,
    losses: [...a.losses, ...b.losses],
    outputs: [...a.outputs, ...b.outputs],
    gradients: a.gradients.map((gradient, i) => sum(gradient, b.gradients[i]!)),
  };
}

/** Adds siblings, then their sums, and so on. `nodes` must be in order. */
function joined(nodes: readonly Node[]): Node[] {
  const done: Node[] = [];
  for (let node of nodes) {
    for (let left = done.at(-1); left?.level === node.level && left.index === node.index - 1; left = done.at(-1)) {
      if (left.index % 2 === 1) break;
      node = join(done.pop()!, node, left.index / 2, left.level + 1);
    }
    done.push(node);
  }
  return done;
}

/** Computes gradients with the model and the loss of this thread. */
export function assistant(tape: Tape, model: Composite, loss: LossName): Assistant {
  const layers = model[allLayers]().map(([layer]) => layer);
  const { multiply } = operationsOf(tape);
  const { ignored } = lossDefinitions[loss];

  function compute({ state: { places, dropout }, returnOutputs }: Task, part: Part): Node {
    const gradients = places.map(([layer, index]) => ({
      index,
      of: tape.gradientsOf(tape.stateOf(layers[layer]!.raw)),
    }));
    tape.endPasses();
    for (const { of, index } of gradients) of.zero(index);
    // All parts use the dropout state of the same step.
    for (const [i, { raw }] of layers.entries()) tape.stateOf(raw).setDropoutState(dropout[i]!);
    const outputs: RawTensor[] = [];
    const measure = lossFunction(tape, model, loss, ({ data, shape }) => {
      if (returnOutputs) outputs.push({ data, shape });
    });
    tape.part = part;
    let measured: ReturnType<typeof measure>;
    try {
      measured = measure(part);
    } finally {
      tape.part = null;
    }
    const { share, index } = part;
    // A part whose labels are all ignored adds nothing, because its loss is NaN. If all weights of a part are 0, its loss
    // and gradients are 0, as in training without `workers`.
    const node = { index, level: 0, outputs };
    if (ignored !== undefined && share === 0 && !part.weights)
      return { ...node, losses: [], gradients: places.map(() => null) };
    multiply(measured, share).backward();
    return {
      ...node,
      losses: [share * measured.item()],
      gradients: gradients.map(({ of, index }) => tape.core.takeGradient(of, index)),
    };
  }

  return async (task) => joined(task.parts.map((part) => compute(task, part)));
}

/** Makes an assistant for a worker other than the one that runs the loop: it first writes the parameters. */
export function remoteAssistant(tape: Tape, model: Composite, loss: LossName): Assistant {
  const layers = model[allLayers]().map(([layer]) => layer);
  const compute = assistant(tape, model, loss);
  return (task) => {
    for (const [i, [layer, index]] of task.state.places.entries()) {
      const { buffer, byteOffset, byteLength } = task.state.values[i]!;
      const bytes = new Uint8Array(buffer, byteOffset, byteLength);
      layers[layer]!.raw.writeParameter(index, 0, bytes, 'F32', null);
    }
    return compute(task);
  };
}

/**
 * Returns a function that sets the gradients of the optimizer's parameters to those of a batch and returns its loss.
 * `assistants`: the first one is that of this thread. `observe` receives the model's output for each part of the batch.
 */
export function divided(
  tape: Tape,
  model: Composite,
  optimizer: Optimizer,
  loss: LossName,
  assistants: Assistant[],
  observe: ((output: Tensor, part: Weighted) => void) | null,
) {
  const layers = model[allLayers]().map(([layer]) => layer);
  const states = layers.map(({ raw }) => tape.stateOf(raw));
  const { ignored } = lossDefinitions[loss];
  return async (batch: Batch, count: number): Promise<Measured> => {
    const share = countOf(loss, batch, count);
    if (ignored !== undefined && share === 0 && !batch.weights) return { loss: Number.NaN, share, onlyLabel: ignored };
    const trained = optimizer.paramGroups.flatMap(({ params }) => params.filter(({ requiresGrad }) => requiresGrad));
    const places = trained.map(({ state, index }): Place => [states.indexOf(state), index]);
    const state: State = {
      places,
      values: places.map(([layer, index]) => layers[layer]!.raw.readParameter(index)),
      dropout: states.map((layer) => layer.dropoutState()),
    };
    const parts = partsOf(loss, batch, count);
    const returnOutputs = observe !== null;
    const from = (worker: number) => Math.ceil((worker * parts.length) / assistants.length);
    const [own, ...others] = assistants.map((_, i) => parts.slice(from(i), from(i + 1)));
    // Start the others first, because this thread cannot process messages while it computes.
    const answers = Promise.all(
      others.map((parts, i) => (parts.length > 0 ? assistants[i + 1]!({ state, parts, returnOutputs }) : [])),
    );
    answers.catch(() => {}); // handled in case this thread's part fails first
    const nodes = joined([...(await assistants[0]!({ state, parts: own!, returnOutputs })), ...(await answers).flat()]);
    const whole = nodes.reduce((a, b) => join(a, b, 0, 0));
    for (const [i, { data, shape }] of whole.outputs.entries()) observe!(new Tensor(data, shape), parts[i]!);
    optimizer.zeroGrad();
    for (const [i, gradient] of whole.gradients.entries())
      if (gradient) tape.core.addGradient(trained[i]!.gradients, trained[i]!.index, gradient);
    return { loss: whole.losses.reduce((a, b) => a + b, 0), share, onlyLabel: null };
  };
}

/** The arrays of an answer that are transferred instead of copied. */
export function buffersOf(nodes: readonly Node[]): ArrayBuffer[] {
  return nodes.flatMap(({ gradients }) =>
    gradients.flatMap((part) => (part ? [part.values.buffer as ArrayBuffer] : [])),
  );
}
