/**
 * Gradients and training runs of tiny checkpoints of every family, compared with PyTorch's
 * (tests/fixtures/training/pretrained.py).
 */
import { load, type Parameter, type Tensor, type TokenIds, type TrainableModel, type TrainingHeed } from 'heed/train';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readFixtures, worstError } from '../layers/reading.js';
import { fixture } from '../models/fixtures.js';
import { setLora } from './pretrained.js';
import { builds, joined, type Values } from './support.js';

interface GradientCase {
  name: string;
  folder: string;
  pooling?: 'mean' | 'cls';
  head?: 'sequence' | 'token';
  cotangent: Values;
  expected: { output: Values; names: string[]; parameters: Values };
}

interface Run {
  name: string;
  folder: string;
  train: string;
  lora?: { rank: number; alpha: number; targets: string[]; seed: number; scale: number };
  options: { lr: number; weightDecay: number; eps?: number };
  steps: number;
  batches: [ids: number[][], labels: number[]][];
  expected: { losses: number[]; names: string[]; parameters: Values };
  single: { losses: number[]; distances: Record<string, number> };
}

const entries = readFixtures('training', 'pretrained') as (GradientCase | Run)[];
const cases = entries.filter((entry) => 'cotangent' in entry);
const runs = entries.filter((entry) => 'batches' in entry);

describe.each(builds)('pretrained encoders, %s build', (build) => {
  let heed: TrainingHeed;
  const errors: { name: string; error: number }[] = [];
  beforeAll(async () => {
    heed = await load({ build });
  });

  it.each(cases)('$name', async ({ name, folder, pooling, head, cotangent, expected }) => {
    const { folder: path, input } = fixture(folder);
    const model = await heed.fromPretrained(path, { trainable: true, dropout: 0 });
    const run = () =>
      pooling
        ? model.sentenceVectors(input, { pooling, normalize: false })
        : model.logits(head === 'sequence' ? 'sequence-classification' : 'token-classification', input);
    const still = run();
    const output = model.train() && run();
    expect(output.data, 'the output in evaluation and training mode').toEqual(still.data);
    await expectInference(model, input, output, pooling, head);
    sumOf(heed, output, cotangent).backward();
    const found = gradientsOf(model, expected.names);
    const { names: _, ...values } = expected;
    const error = worstError({ output, parameters: joined(found) }, values);
    errors.push({ name, error });
    expect(error, 'largest error, in units of 1e-5 + 1e-4 |expected|').toBeLessThanOrEqual(1);
    model.dispose();
  });

  it.each(runs)('$name: 50 steps', async (run) => {
    const { expected, single } = run;
    const model = await heed.fromPretrained(fixture(run.folder).folder, { trainable: true, dropout: 0 });
    if (run.lora) {
      const { rank, alpha, targets } = run.lora;
      setLora(model.addLora({ rank, alpha, targets }), run.lora);
    } else {
      model.freeze();
      model.unfreeze(new RegExp(run.train));
    }
    const frozen = model.parameters().filter(({ requiresGrad }) => !requiresGrad);
    const before = frozen.map(({ value }) => value.data);
    const optimizer = new heed.optim.AdamW(model.train().parameters(), run.options);
    let worst = 0;
    for (let step = 0; step < run.steps; step++) {
      const [inputIds, labels] = run.batches[step % run.batches.length]!;
      optimizer.zeroGrad();
      const loss = heed.losses.crossEntropy(model.logits('sequence-classification', { inputIds }), labels);
      loss.backward();
      optimizer.step();
      const exact = expected.losses[step]!;
      worst = Math.max(worst, Math.abs(single.losses[step]! / exact - 1));
      // Steps amplify rounding errors: three times those of PyTorch in single precision, well below 1e-4.
      expect(Math.abs(loss.item() / exact - 1), `loss of step ${step}`).toBeLessThanOrEqual(Math.max(3 * worst, 2e-5));
    }
    expect(frozen.map(({ value }) => value.data)).toEqual(before);
    const state = model.stateDict();
    let offset = 0;
    for (const name of expected.names) {
      const { data } = state[name]!;
      const exact = expected.parameters.data.subarray(offset, offset + data.length);
      offset += data.length;
      const distance = Math.hypot(...exact.map((value, i) => data[i]! - value));
      expect(distance, name).toBeLessThanOrEqual(Math.max(2 * single.distances[name]!, 1e-5 * Math.hypot(...exact)));
    }
    model.dispose();
  });

  afterAll(() => {
    errors.sort((a, b) => b.error - a.error);
    const worst = errors.slice(0, 3).map(({ name, error }) => `${error.toFixed(3)} (${name})`);
    console.log(`${build}: ${errors.length} cases, largest errors in units of the tolerance: ${worst.join(', ')}`);
  });
});

/** sum(cotangent * output). */
function sumOf(heed: TrainingHeed, output: Tensor, cotangent: Values) {
  const flat = heed.reshape(heed.multiply(output, cotangent), [1, output.data.length, 1]);
  return heed.reshape(heed.multiply(heed.mean(flat), output.data.length), []) as ReturnType<
    TrainingHeed['losses']['mse']
  >;
}

/** The gradients of the parameters `names`; all others must have none. */
function gradientsOf(model: TrainableModel, names: readonly string[]): Tensor[] {
  const byName = new Map(model.parameters().map((parameter) => [parameter.name, parameter] as const));
  const gradient = ({ name, grad }: Parameter) => {
    if (grad === null) throw new Error(`${name} has no gradient`);
    return grad;
  };
  for (const [name, { grad }] of byName) {
    if (!names.includes(name)) expect(grad?.data.some((value) => value !== 0) ?? false, name).toBe(false);
  }
  return names.map((name) => gradient(byName.get(name)!));
}

async function expectInference(
  model: TrainableModel,
  input: TokenIds,
  { data }: Tensor,
  pooling: 'mean' | 'cls' | undefined,
  head: 'sequence' | 'token' | undefined,
): Promise<void> {
  const inferred = pooling
    ? await model.embed(input, { pooling, normalize: false })
    : (await model.predict(head === 'sequence' ? 'sequence-classification' : 'token-classification', input)).logits;
  expect(data, 'the output in training and in inference').toEqual(inferred.data);
}
