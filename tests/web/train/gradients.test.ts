/**
 * Gradients of every function and of every layer with each option, compared with PyTorch's in float64
 * (tests/fixtures/training/).
 */
import { load, type Tensor, type TrainingHeed } from 'heed/train';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readFixtures, worstError } from '../layers/reading.js';
import {
  type AnyLayer,
  builds,
  call,
  type Differentiable,
  type DrawnState,
  drawState,
  joined,
  makeLayer,
  type Options,
  parameterNames,
  type Values,
} from './support.js';

interface Case {
  name: string;
  /** A function, or a layer with its options and the seed of its parameters. */
  call?: string;
  layer?: string;
  options?: Options;
  state?: DrawnState;
  mode?: 'train';
  /** Number of calls before the one that is differentiated. */
  before?: number;
  arguments: unknown[];
  given: Options;
  cotangent: Values;
  expected: {
    /** The output, if it differs from that in evaluation mode. */
    output?: Values;
    buffers?: Record<string, Values>;
    inputs: Record<string, Values>;
    /** By name, or concatenated for a layer. */
    parameters: Record<string, Values> | Values;
  };
}

const cases = [...readFixtures('training', 'gradients'), ...readFixtures('training', 'sequence-layers')] as Case[];

describe.each(builds)('gradients, %s build', (build) => {
  let heed: TrainingHeed;
  const errors: { name: string; error: number }[] = [];

  beforeAll(async () => {
    heed = await load({ build });
    expect(heed.info.build).toBe(build);
  });

  it.each(cases)('$name', (fixture) => {
    const error = fixture.layer === undefined ? ofFunction(heed, fixture) : ofLayer(heed, fixture);
    errors.push({ name: fixture.name, error });
    expect(error, 'largest error, in units of 1e-5 + 1e-4 |expected|').toBeLessThanOrEqual(1);
  });

  afterAll(() => {
    errors.sort((a, b) => b.error - a.error);
    const worst = errors.slice(0, 3).map(({ name, error }) => `${error.toFixed(3)} (${name})`);
    console.log(`${build}: ${errors.length} cases, largest errors in units of the tolerance: ${worst.join(', ')}`);
  });
});

function ofFunction(
  heed: TrainingHeed,
  { call: name, arguments: given, given: options, cotangent, expected }: Case,
): number {
  const run = (more: Options) => call(heed, name!, [...given, { ...options, ...more }]);
  const { output, backward } = run({ backward: true }) as Differentiable;
  expect(output.data, 'the output with and without `backward`').toEqual(outputOf(run({})).data);
  const found = backward(cotangent);
  expect(Object.keys(found.inputs).sort()).toEqual(Object.keys(expected.inputs).sort());
  expect(Object.keys(found.parameters).sort()).toEqual(Object.keys(expected.parameters).sort());
  return worstError({ output, ...found }, expected);
}

function ofLayer(heed: TrainingHeed, fixture: Case): number {
  const { layer: name, options, state, mode, before = 0, arguments: given, given: callOptions, expected } = fixture;
  const layer = makeLayer(heed, name!, options);
  try {
    drawState(layer, state!);
    const still = mode === 'train' ? null : outputOf(layer.forward(...given, callOptions));
    if (mode === 'train') layer.train();
    for (let i = 0; i < before; i++) layer.forward(...given, callOptions);
    const { output, backward } = layer.forward(...given, { ...callOptions, backward: true }) as Differentiable;
    if (still) expect(output.data, 'the output with and without `backward`').toEqual(still.data);
    const { inputs, parameters } = backward(fixture.cotangent);
    expect(Object.keys(inputs).sort()).toEqual(Object.keys(expected.inputs).sort());
    const names = parameterNames(layer);
    expect(Object.keys(parameters).sort()).toEqual(names);
    const found = {
      output,
      inputs,
      parameters: joined(names.map((each) => parameters[each]!)),
      buffers: buffers(layer),
    };
    return worstError(found, expected);
  } finally {
    layer.dispose();
  }
}

const outputOf = (result: unknown) => (result as { output?: Tensor }).output ?? (result as Tensor);

function buffers(layer: AnyLayer): Record<string, Tensor> {
  const trained = new Set(parameterNames(layer));
  return Object.fromEntries(Object.entries(layer.stateDict()).filter(([name]) => !trained.has(name)));
}
