/** Parts of results, by Tensor.slice, Tensor.at and iteration, are differentiable like the results. */
import { load, type Tensor, type TrainingHeed } from 'heed/train';
import { beforeAll, describe, expect, it } from 'vitest';
import { draw } from '../layers/numbers.js';

let heed: TrainingHeed;
beforeAll(async () => {
  heed = await load();
});

const makeLayer = () => new heed.Linear({ inFeatures: 3, outFeatures: 4, seed: 1 }).train();
const x = draw(1, 2, 5, 3);

/** Gradients of the mean square of the selection by `part`. */
function gradientsOf(part: (output: Tensor) => Tensor): number[][] {
  const layer = makeLayer();
  const selected = part(layer.forward(x));
  heed.losses.mse(selected, draw(2, ...selected.shape)).backward();
  return layer.parameters().map(({ grad }) => [...grad!.data]);
}

describe('in a loss, the gradients are those of heed.slice', () => {
  const slice = (axis: number, start: number, end: number) => (y: Tensor) => heed.slice(y, { axis, start, end });
  const row = (n: number, i: number) => (y: Tensor) => heed.reshape(slice(1, i, i + 1)(slice(0, n, n + 1)(y)), [4]);

  it.each<[string, (y: Tensor) => Tensor, (y: Tensor) => Tensor]>([
    ['slice(1)', (y) => y.slice(1), slice(0, 1, 2)],
    ['slice(0, -1)', (y) => y.slice(0, -1), slice(0, 0, 1)],
    ['at(1)', (y) => y.at<Tensor>(1), (y) => heed.reshape(slice(0, 1, 2)(y), [5, 4])],
    ['at(-1, 2)', (y) => y.at<Tensor>(-1, 2), row(1, 2)],
    ['at(1).at(2)', (y) => y.at<Tensor>(1).at<Tensor>(2), row(1, 2)],
    ['at(0).slice(2)', (y) => y.at<Tensor>(0).slice(2, 3), (y) => heed.reshape(row(0, 2)(y), [1, 4])],
    [
      'iteration',
      (y) => heed.add([...y][0] as Tensor, [...y][1] as Tensor),
      (y) => heed.add(heed.reshape(slice(0, 0, 1)(y), [5, 4]), heed.reshape(slice(0, 1, 2)(y), [5, 4])),
    ],
  ])('%s', (_, part, expected) => {
    const got = gradientsOf(part);
    expect(got).toEqual(gradientsOf(expected));
    expect(got.flat().some((value) => value !== 0)).toBe(true);
  });
});

it('of a call with backward: true', () => {
  const [first, second] = [makeLayer(), makeLayer()].map((layer) => layer.eval());
  const part = new heed.Sequential([first!, (y: Tensor) => y.at<Tensor>(0).slice(1, 3)]);
  const whole = new heed.Sequential([
    second!,
    (y: Tensor) => heed.reshape(heed.slice(heed.slice(y, { end: 1 }), { axis: 1, start: 1, end: 3 }), [2, 4]),
  ]);
  const [a, b] = [part, whole].map((model) => {
    const { output, backward } = model.forward(x, { backward: true });
    return { output, ...backward(draw(3, 2, 4)) };
  });
  expect(a).toEqual(b);
  expect(a!.inputs.x.data.some((value) => value !== 0)).toBe(true);
});

it('of the input of such a call', () => {
  const { output, backward } = new heed.Sequential([(y: Tensor) => heed.multiply(y.slice(1), 2)]).forward(x, {
    backward: true,
  });
  expect(output.shape).toEqual([1, 5, 3]);
  const { inputs } = backward(draw(3, 1, 5, 3));
  expect(inputs.x.slice(0, 1).data.every((value) => value === 0)).toBe(true);
  expect(inputs.x.slice(1).data).toEqual(draw(3, 1, 5, 3).data.map((value) => 2 * value));
});

it('of a result whose pass has ended are refused by backward, as the result is', () => {
  const layer = makeLayer();
  const output = layer.forward(x);
  heed.losses.mse(output, draw(2, 2, 5, 4)).backward();
  const part = output.slice(0, 1);
  expect(part.data).toEqual(output.data.slice(0, 20));
  expect(() => heed.losses.mse(part, draw(2, 1, 5, 4)).backward()).toThrow(/the graph of the loss has been freed/);
});

it('of constants and after dispose() are copies', async () => {
  const other = await load();
  const layer = new other.Linear({ inFeatures: 3, outFeatures: 4 });
  const [constant, variable] = [layer.forward(x), layer.train().forward(x)];
  const single = variable.at(0, 0, 0);
  expect(single).toBeTypeOf('number');
  other.dispose();
  for (const output of [constant, variable]) {
    expect(output.slice(1).data).toEqual(output.data.slice(20));
    expect(output.slice(1, 1).shape).toEqual([0, 5, 4]);
    expect(output.at<Tensor>(0, 1).data).toEqual(output.data.slice(4, 8));
  }
});
