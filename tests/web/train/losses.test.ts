/** Values and gradients of the losses, compared with PyTorch's in float64 (tests/fixtures/training/losses.py). */
import { load, type TrainingHeed } from 'heed/train';
import { beforeAll, describe, expect, it } from 'vitest';
import { readFixtures, worstError } from '../layers/reading.js';
import { type AnyLoss, builds, call, countedIds, gradients, makeLayer, type Options, type Values } from './support.js';

interface Case {
  name: string;
  loss: string;
  inputs: Values[];
  given: unknown[];
  options: Options;
  expected: { value: number; gradients: Values[] };
}

const cases = readFixtures('training', 'losses') as Case[];

describe.each(builds)('losses, %s build', (build) => {
  let heed: TrainingHeed;
  beforeAll(async () => {
    heed = await load({ build });
  });

  it.each(cases)('$name', ({ loss: name, inputs, given, options, expected }) => {
    // Each input is the output of an embedding whose table holds its rows, so the gradient of the table is that of the input.
    const tables = inputs.map(({ data, shape }) => {
      const width = shape.at(-1)!;
      const numEmbeddings = data.length / width;
      const table = makeLayer(heed, 'Embedding', { numEmbeddings, embedDim: width }).train();
      table.loadStateDict({ weight: { data, shape: [numEmbeddings, width] } });
      return table;
    });
    const rows = tables.map((table, i) => table.forward(countedIds(withRows(inputs[i]!).shape.slice(0, -1))));
    const others = given.map((each) => (inputs[0]!.shape.length > 1 ? each : withRows(each as Values)));
    const loss = call(heed.losses, name, [...rows, ...others, options]) as AnyLoss;
    expect(distance(loss.item(), expected.value)).toBeLessThanOrEqual(1);
    loss.backward();
    for (const [i, table] of tables.entries()) {
      const { weight } = gradients(table);
      expect(distance(weight!.data, expected.gradients[i]!.data), `gradient of input ${i}`).toBeLessThanOrEqual(1);
      table.dispose();
    }
  });

  it.each(cases)('$name, of plain tensors', ({ loss: name, inputs, given, options, expected }) => {
    const loss = call(heed.losses, name, [...inputs, ...given, options]) as AnyLoss;
    expect(distance(loss.item(), expected.value)).toBeLessThanOrEqual(1);
  });

  it.each([
    ['weight', 'classWeights'],
    ['weights', 'exampleWeights'],
  ])('rejects the former name %s, and names %s', (former, name) => {
    const message = `losses.crossEntropy: expected '${name}', got '${former}', its former name`;
    expect(() => heed.losses.crossEntropy([[1, 2]], [0], { [former]: [1] })).toThrow(message);
  });
});

/** A vector as one row. */
const withRows = ({ data, shape }: Values): Values => ({ data, shape: shape.length > 1 ? shape : [1, ...shape] });

function distance(actual: number | Float32Array, expected: number | Float32Array): number {
  const tensor = (values: number | Float32Array) => {
    const data = typeof values === 'number' ? new Float32Array([values]) : values;
    return { data, shape: [data.length] };
  };
  return worstError(tensor(actual), tensor(expected));
}
