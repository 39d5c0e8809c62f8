/** Weights of examples in `fit`: given for each example, or for each class. */
import { describe, formatShape, guarded, invalid } from '../../base/error.js';
import { notNegative, type Reader } from '../../base/options.js';
import { readTensor, type TensorLike } from '../../base/tensor.js';
import { lossDefinitions } from '../losses.js';
import type { Weighted } from './batches.js';
import type { LossRead } from './fit-losses.js';

const readWeights: Reader<TensorLike> = (value, name) => {
  const { data, shape } = readTensor(name, value);
  const wrong = data.findIndex((each) => !(each >= 0 && each < Infinity));
  if (wrong >= 0) throw invalid(name, 'finite numbers >= 0', `${data[wrong]} for example ${wrong}`);
  return { data: data.slice(), shape: [...shape] };
};

/** One weight per example. */
export const sampleWeightOption: Reader<TensorLike> = (value, name) => {
  const tensor = readTensor(name, value);
  const { shape } = tensor;
  if (shape.length === 1) return readWeights(tensor, name);
  throw invalid(name, '[N], one number for each example', formatShape(shape), 'SHAPE_MISMATCH');
};

/** Returns a reader of the weights of a batch, of its examples or of its labels. `loss`: null if none is computed. */
export const batchWeights =
  (loss: LossRead | null): Reader<TensorLike> =>
  (value, name) => {
    if (loss !== null) requireWeightable(name, loss);
    return readWeights(value, name);
  };

/** Weights by class; classes that are left out have weight 1. */
export type ClassWeight = Readonly<Record<number, number>>;

/** Returns a reader of weights by class, each of which `weight` reads. `expected`: what the option may be. */
export const weightsByClass =
  (weight: Reader<number>, expected: string): Reader<Record<string, number>> =>
  (value, name) =>
    guarded(name, () => {
      if (typeof value !== 'object' || value === null || Array.isArray(value))
        throw invalid(name, expected, describe(value));
      const entries = Object.entries(value);
      return Object.fromEntries(entries.map(([label, each]) => [label, weight(each, `${name}['${label}']`)]));
    });

export const classWeightOption: Reader<Record<string, number>> = (value, name) => {
  const read = weightsByClass(notNegative, 'an object { class: weight }')(value, name);
  const wrong = Object.keys(read).find((label) => !Number.isInteger(Number(label)) || label.trim() === '');
  if (wrong !== undefined) throw invalid(name, 'integers as classes', `'${wrong}'`);
  return read;
};

/** @throws HeedError for a loss that takes no weights */
export function requireWeightable(argument: string, loss: LossRead): void {
  if (typeof loss === 'function' || 'exampleWeights' in lossDefinitions[loss].schema) return;
  const names = Object.entries(lossDefinitions).flatMap(([name, { schema }]) =>
    'exampleWeights' in schema ? [name] : [],
  );
  throw invalid(argument, `one of the losses ${names.join(', ')}, or a function`, `'${loss}'`);
}

/** The extents of nested arrays of numbers, or of a tensor. */
function shapeOf(labels: unknown): number[] {
  if (!Array.isArray(labels)) return [...(labels as { shape: number[] }).shape];
  return [labels.length, ...(Array.isArray(labels[0]) ? shapeOf(labels[0]) : [])];
}

/** The weights of a batch: those of its examples, times those of the classes of its labels. */
function weightsOf({ labels, weights }: Weighted, classes: Record<string, number>): TensorLike {
  const flat = Array.isArray(labels) ? (labels.flat(Infinity) as number[]) : (labels as { data: Int32Array }).data;
  const data = Float32Array.from(flat, (label) => classes[Number(label)] ?? 1);
  const perExample = weights ? data.length / weights.data.length : 1;
  if (weights) for (let i = 0; i < data.length; i++) data[i]! *= weights.data[Math.floor(i / perExample)]!;
  return { data, shape: shapeOf(labels) };
}

/** Returns a function that adds the weights of classes to a batch. */
export function weighing(classes: Record<string, number> | null): (batch: Weighted) => Weighted {
  if (!classes) return (batch) => batch;
  return (batch) => {
    if (batch.labels === undefined) throw invalid('fit.classWeight', 'data with labels', 'inputs alone');
    return guarded('fit.classWeight', () => ({ ...batch, weights: weightsOf(batch, classes) }));
  };
}
