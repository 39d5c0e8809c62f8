/** Operations in heed and heed/train compared with PyTorch's values and gradients (tests/fixtures/training/operations.py). */
import { readFileSync } from 'node:fs';
import { type Heed, load, type TensorInput } from 'heed';
import { type Loss, load as loadTraining, Tensor, type TrainingHeed } from 'heed/train';
import { beforeAll, describe, expect, it } from 'vitest';

type Values = { data: (number | string)[]; shape: number[] };
type Argument = Values | Values[] | number[] | number;
interface Case {
  name: string;
  call: 'add';
  arguments: Argument[];
  options?: { mask?: unknown };
  output: Values;
  cotangent?: Values;
  gradients?: Values[];
}

const cases = JSON.parse(
  readFileSync(new URL('../../fixtures/training/operations.json', import.meta.url), 'utf8'),
) as Case[];

let heed: Heed;
let training: TrainingHeed;
beforeAll(async () => {
  heed = await load();
  training = await loadTraining();
});

const isValues = (value: unknown): value is Values => typeof value === 'object' && value !== null && 'data' in value;
const tensorOf = ({ data, shape }: Values) => new Tensor(Float32Array.from(data, Number), shape);

/** Runs a case with `make` in place of its tensors. */
function run(entry: Heed | TrainingHeed, { call, arguments: given, options }: Case, make: (x: Values) => TensorInput) {
  const converted = given.map((one) => {
    if (Array.isArray(one) && isValues(one[0])) return (one as Values[]).map(make);
    return isValues(one) ? make(one) : one;
  });
  const f = entry[call] as (...given: unknown[]) => Tensor | { scores: Tensor };
  const { mask, ...rest } = options ?? {};
  const read = mask ? { ...rest, mask: isValues(mask) ? tensorOf(mask) : mask } : rest;
  const result = f.call(entry, ...converted, ...(options ? [read] : []));
  return 'scores' in result ? result.scores : result;
}

function expectClose(found: { data: Float32Array; shape: readonly number[] }, expected: Values): void {
  expect([...found.shape]).toEqual(expected.shape);
  expected.data.map(Number).forEach((value, i) => {
    const got = found.data[i]!;
    if (Number.isFinite(value)) expect(Math.abs(got - value)).toBeLessThanOrEqual(1e-5 + 1e-4 * Math.abs(value));
    else expect(got).toBe(value);
  });
}

describe.each(cases)('$name', (fixture) => {
  it('has the values of PyTorch, the same bits in both entries', () => {
    const output = run(heed, fixture, tensorOf);
    expectClose(output, fixture.output);
    expect([...run(training, fixture, tensorOf).data]).toEqual([...output.data]);
  });

  it.skipIf(!fixture.cotangent)('has the gradients of PyTorch', () => {
    // Empty tensors cannot be parameters; they have no gradient to compare.
    const leaves: { value: InstanceType<TrainingHeed['Parameter']>; expected: Values }[] = [];
    let next = 0;
    const output = run(training, fixture, (values) => {
      const expected = fixture.gradients![next++]!;
      if (values.data.length === 0) return tensorOf(values);
      const value = new training.Parameter(tensorOf(values));
      leaves.push({ value, expected });
      return value;
    });
    if (leaves.length === 0) return;
    (training.sum(training.multiply(output, tensorOf(fixture.cotangent!))) as Loss).backward();
    for (const { value, expected } of leaves) {
      expectClose(value.grad ?? { data: new Float32Array(value.value.data.length), shape: value.shape }, expected);
      value.dispose();
    }
  });
});
