/**
 * Training runs of 100 steps, compared with PyTorch's from the same start (tests/fixtures/training/trajectories.py):
 * the distance from its float64 run is at most twice that of its float32 run, or 1e-5 of the value.
 */
import { load, type Tensor, type TrainingHeed } from 'heed/train';
import { beforeAll, describe, expect, it } from 'vitest';
import { readFixtures } from '../layers/reading.js';
import {
  type AnyLayer,
  type AnyLoss,
  type AnyParameter,
  builds,
  call,
  type DrawnState,
  drawState,
  makeLayer,
  type Options,
  parameterNames,
  type Values,
} from './support.js';

interface Problem {
  name: string;
  model: [layer: string, options: Options][];
  state: DrawnState;
  batches: [inputs: unknown, targets: unknown][];
  loss: string;
}

interface Run {
  name: string;
  problem: string;
  optimizer: string;
  options: Options;
  groups?: { matrices: Options; vectors: Options };
  clip?: number;
  schedule?: [name: string, options: Options];
  steps: number;
  expected: { losses: number[]; norms?: number[]; parameters: Values };
  single: { losses: number[]; distances: Record<string, number> };
}

interface Optimizer {
  zeroGrad(): unknown;
  step(): unknown;
}

const entries = readFixtures('training', 'trajectories') as (Problem | Run)[];
const problems = new Map(entries.filter((entry) => 'model' in entry).map((problem) => [problem.name, problem]));
const runs = entries.filter((entry) => 'problem' in entry);

describe.each(builds)('training runs, %s build', (build) => {
  let heed: TrainingHeed;
  beforeAll(async () => {
    heed = await load({ build });
  });

  it.each(runs)('$name', (run) => {
    const { expected, single } = run;
    const model = makeModel(heed, problems.get(run.problem)!);
    const { losses, norms } = train(heed, model, run);
    // A diverging run may come close again by chance, so each loss is compared with PyTorch's worst so far.
    let worst = 0;
    for (const [step, loss] of expected.losses.entries()) {
      worst = Math.max(worst, Math.abs(single.losses[step]! / loss - 1));
      expect(Math.abs(losses[step]! / loss - 1), `loss of step ${step}`).toBeLessThanOrEqual(Math.max(2 * worst, 1e-5));
    }
    for (const [step, norm] of (expected.norms ?? []).entries())
      expect(Math.abs(norms[step]! / norm - 1), `norm of step ${step}`).toBeLessThanOrEqual(1e-4);
    const final = model.stateDict();
    let offset = 0;
    for (const name of parameterNames(model)) {
      const { data } = final[name]!;
      const exact = expected.parameters.data.subarray(offset, offset + data.length);
      offset += data.length;
      const { distance, length } = apart(name, data, exact);
      const allowed = Math.max(2 * single.distances[name]!, 1e-5 * length);
      expect(distance, name).toBeLessThanOrEqual(allowed);
    }
    expect(offset).toBe(expected.parameters.data.length);
    model.dispose();
  });

  it('stores nothing and moves nothing without a step', () => {
    const problem = problems.get('pre-norm tokens')!;
    const model = makeModel(heed, problem);
    const before = model.stateDict();
    const loss = lossOf(heed, model, problem, 0);
    loss.backward();
    expect(model.stateDict()).toEqual(before);
    expect(lossOf(heed, model, problem, 0).item()).toBe(loss.item());
    model.dispose();
  });
});

function makeModel(heed: TrainingHeed, problem: Problem): AnyLayer {
  const layers = problem.model.map(([layer, options]) => makeLayer(heed, layer, options));
  const model = new heed.Sequential(layers as never, { seed: 1 }) as unknown as AnyLayer;
  drawState(model, problem.state);
  return model.train();
}

function lossOf(heed: TrainingHeed, model: AnyLayer, { batches, loss }: Problem, step: number): AnyLoss {
  const [inputs, targets] = batches[step % batches.length]!;
  return call(heed.losses, loss, [model.forward(inputs), targets]) as AnyLoss;
}

function train(heed: TrainingHeed, model: AnyLayer, run: Run): { losses: number[]; norms: number[] } {
  const problem = problems.get(run.problem)!;
  const parameters = [...model.parameters()];
  const given = run.groups ? groupsOf(parameters, run.groups) : parameters;
  const constructors = heed.optim as unknown as Record<string, new (params: unknown, options: Options) => Optimizer>;
  const optimizer = new constructors[run.optimizer]!(given, run.options);
  const schedule =
    run.schedule && (call(heed.optim.schedules, run.schedule[0], [optimizer, run.schedule[1]]) as { step(): unknown });
  const [losses, norms]: [number[], number[]] = [[], []];
  for (let step = 0; step < run.steps; step++) {
    optimizer.zeroGrad();
    const loss = lossOf(heed, model, problem, step);
    loss.backward();
    if (run.clip !== undefined) norms.push(heed.optim.clipGradNorm(model.parameters() as never, run.clip) as number);
    optimizer.step();
    schedule?.step();
    losses.push(loss.item());
  }
  return { losses, norms };
}

function groupsOf(parameters: AnyParameter[], { matrices, vectors }: NonNullable<Run['groups']>): Options[] {
  const ofRank = (test: (rank: number) => boolean) => parameters.filter(({ shape }) => test(shape.length));
  return [
    { params: ofRank((rank) => rank > 1), ...matrices },
    { params: ofRank((rank) => rank === 1), ...vectors },
  ];
}

/** The norms of the difference and of the expected values, without the biases of keys (see trajectories.py). */
function apart(name: string, actual: Tensor['data'], expected: Float32Array): { distance: number; length: number } {
  const width = expected.length / 3;
  const counts = (i: number) => !name.endsWith('in_proj_bias') || i < width || i >= 2 * width;
  let [distance, length] = [0, 0];
  expected.forEach((value, i) => {
    length += value ** 2;
    if (counts(i)) distance += (actual[i]! - value) ** 2;
  });
  return { distance: Math.sqrt(distance), length: Math.sqrt(length) };
}
