/** Adafactor with clip thresholds below 1, which Keras has and PyTorch does not. Expected: the formula in double precision. */
import { load, type TrainingHeed } from 'heed/train';
import { beforeAll, describe, expect, it } from 'vitest';
import { draw } from '../layers/numbers.js';

let heed: TrainingHeed;
beforeAll(async () => {
  heed = await load();
});

const rms = (values: readonly number[]) => Math.sqrt(values.reduce((sum, v) => sum + v * v, 0) / values.length);
const [LR, EPS, DECAY] = [0.05, 1e-3, -0.8];

/** A parameter [rows, columns], or a vector if `rows` is null, and its steps. */
class Reference {
  #n = 0;
  #row: number[] = [];
  #column: number[] = [];
  #vector: number[] = [];

  constructor(
    public w: number[],
    readonly rows: number | null,
    readonly threshold: number,
  ) {}

  step(g: readonly number[]): void {
    const b = (++this.#n) ** DECAY;
    const columns = this.w.length / (this.rows ?? 1);
    const follow = (moment: number[], means: number[]) => means.map((m, i) => (moment[i] ?? 0) * (1 - b) + b * m);
    const squares = g.map((v) => v * v);
    let variance: number[];
    if (this.rows === null) {
      this.#vector = follow(this.#vector, squares);
      variance = this.#vector;
    } else {
      const mean = (indices: number[]) => indices.reduce((sum, i) => sum + squares[i]!, 0) / indices.length;
      const [rows, others] = [Array.from({ length: this.rows }), Array.from({ length: columns })].map((list) => [
        ...list.keys(),
      ]);
      this.#row = follow(
        this.#row,
        rows!.map((r) => mean(others!.map((c) => r * columns + c))),
      );
      this.#column = follow(
        this.#column,
        others!.map((c) => mean(rows!.map((r) => r * columns + c))),
      );
      const whole = this.#row.reduce((sum, r) => sum + r, 0) / this.rows;
      variance = g.map((_, i) => (this.#row[Math.floor(i / columns)]! * this.#column[i % columns]!) / whole);
    }
    const u = g.map((v, i) => v / Math.sqrt(variance[i]!));
    const rate =
      (Math.max(EPS, rms(this.w)) * Math.min(LR, 1 / Math.sqrt(this.#n))) / Math.max(1, rms(u) / this.threshold);
    this.w = this.w.map((v, i) => v - rate * u[i]!);
  }
}

describe('a clip threshold', () => {
  it.each([0.05, 0.5, 0.9, 1, 3])('of %d', (clipThreshold) => {
    const layer = new heed.Linear({ inFeatures: 4, outFeatures: 3, seed: 1 }).train();
    const parameters = layer.parameters();
    const [weight, bias] = parameters.map(
      ({ value }) => new Reference([...value.data], value.shape.length > 1 ? value.shape[0]! : null, clipThreshold),
    );
    const optimizer = new heed.optim.Adafactor(parameters, { lr: LR, clipThreshold });
    const [x, target] = [draw(1, 6, 4), draw(2, 6, 3)];
    for (let step = 0; step < 5; step++) {
      optimizer.zeroGrad();
      heed.losses.mse(layer.forward(x), target).backward();
      for (const [i, reference] of [weight!, bias!].entries()) reference.step([...parameters[i]!.grad!.data]);
      optimizer.step();
      for (const [i, reference] of [weight!, bias!].entries())
        for (const [k, value] of parameters[i]!.value.data.entries()) expect(value).toBeCloseTo(reference.w[k]!, 6);
    }
    optimizer.dispose();
  });

  it.each([0, -1, NaN, Infinity])('of %d is rejected', (clipThreshold) => {
    const layer = new heed.Linear({ inFeatures: 4, outFeatures: 3 });
    expect(() => new heed.optim.Adafactor(layer.parameters(), { clipThreshold })).toThrow(
      'optim.Adafactor.clipThreshold: expected a positive number',
    );
  });
});
