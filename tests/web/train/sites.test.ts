/**
 * Reading and editing sites in training, compared with PyTorch's hooks and retain_grad() in float64
 * (tests/fixtures/training/sites.py) and with the definitions.
 */
import { type Loss, load, type SiteEdit, type Tensor, type TrainingHeed } from 'heed/train';
import { beforeAll, describe, expect, it } from 'vitest';
import { siteNames } from '../layers/examples.js';
import { draw } from '../layers/numbers.js';
import { readFixtures, worstError } from '../layers/reading.js';
import { fixture } from '../models/fixtures.js';
import {
  builds,
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
  layer: string;
  options: Options;
  state: DrawnState;
  arguments: unknown[];
  given: Options;
  read: string[];
  edit: { site: string }[];
  cotangent: Values;
  expected: {
    output: Values;
    activations: Record<string, Values>;
    inputs: Record<string, Values>;
    parameters: Values;
    gradients: Record<string, Values>;
    edits: Record<string, Values>;
  };
}

type Named = Record<string, Tensor>;
interface Read {
  output: Tensor;
  activations: Named;
  backward(cotangent: Values): { inputs: Named; parameters: Named; activations: Named; edits: (Tensor | null)[] };
}

const fixtures = readFixtures('training', 'sites') as (Case | PretrainedCase)[];
const cases = fixtures.filter((each) => 'layer' in each);
const checkpoints = fixtures.filter((each) => 'folder' in each);

describe.each(builds)('sites in training, %s build', (build) => {
  let heed: TrainingHeed;

  beforeAll(async () => {
    heed = await load({ build });
  });

  it.each(cases)(
    '$name',
    ({ layer: name, options, state, arguments: values, given, read, edit, cotangent, expected }) => {
      const layer = makeLayer(heed, name, options);
      try {
        drawState(layer, state);
        const call = (more: Options) => layer.forward(...values, { ...given, read, edit, ...more }) as Read;
        const plain = call({});
        const { output, activations, backward } = call({ backward: true });
        expect(output.data, 'the output with and without `backward`').toEqual(plain.output.data);
        for (const site of read) expect(activations[site]!.data, site).toEqual(plain.activations[site]!.data);
        const found = backward(cotangent);
        const result = {
          output,
          activations,
          inputs: found.inputs,
          parameters: joined(parameterNames(layer).map((parameter) => found.parameters[parameter]!)),
          gradients: found.activations,
          edits: found.edits,
        };
        expect(Object.keys(found.activations).sort()).toEqual(Object.keys(activations).sort());
        expect(found.edits.map((gradient) => gradient !== null)).toEqual(edit.map((_, i) => `${i}` in expected.edits));
        expect(worstError(result, expected), 'largest error, in units of 1e-5 + 1e-4 |expected|').toBeLessThanOrEqual(
          1,
        );
      } finally {
        layer.dispose();
      }
    },
  );
});

interface PretrainedCase {
  name: string;
  folder: string;
  read: string[];
  edit: SiteEdit[];
  cotangent: Values;
  expected: { output: Values; gradients: Record<string, Values>; names: string[]; parameters: Values };
}

describe('trainable checkpoints', () => {
  let heed: TrainingHeed;
  beforeAll(async () => {
    heed = await load();
  });

  const sumOf = (output: Tensor, cotangent: Values) => {
    const flat = heed.reshape(heed.multiply(output, cotangent), [1, output.data.length, 1]);
    return heed.reshape(heed.multiply(heed.mean(flat), output.data.length), []) as Loss;
  };

  it.each(checkpoints)('$name', async ({ folder, read, edit, cotangent, expected }) => {
    const { folder: path, input } = fixture(folder);
    const model = await heed.fromPretrained(path, { trainable: true, dropout: 0 });
    const encoded = await model.encode(input, { read, edit });
    // In both modes, and with recomputed layers.
    const again = await heed.fromPretrained(path, { trainable: true, dropout: 0, recompute: true });
    for (const one of [model, model.train(), again.train()]) {
      const { lastHiddenState: output, activations } = one.forward(input, { read, edit });
      expect(output.data).toEqual(encoded.lastHiddenState.data);
      for (const site of read) expect(activations![site]!.data, site).toEqual(encoded.activations![site]!.data);
      expect(Object.values(activations!).map(({ grad }) => grad)).toEqual(read.map(() => null));
      sumOf(output, cotangent).backward();
      const gradients = Object.fromEntries(read.map((site) => [site, activations![site]!.grad]));
      const byName = new Map(one.parameters().map((parameter) => [parameter.name, parameter.grad]));
      const parameters = joined(expected.names.map((name) => byName.get(name)!));
      const { names: _, ...values } = expected;
      expect(worstError({ output, gradients, parameters }, values)).toBeLessThanOrEqual(1);
      for (const { name, grad } of one.parameters())
        if (!expected.names.includes(name)) expect(grad?.data.every((value) => value === 0) ?? true, name).toBe(true);
      new heed.optim.SGD(one.parameters(), { lr: 0 }).zeroGrad();
    }
    model.dispose();
    again.dispose();
  });

  it('has gradients at sites if all parameters are frozen, and none of the parameters', async () => {
    const { folder, input } = fixture('bert');
    const model = (await heed.fromPretrained(folder, { trainable: true })).freeze();
    const { lastHiddenState, activations } = model.forward(input, { read: ['embeddings', 'layers.1.heads'] });
    const target = { data: new Float32Array(lastHiddenState.data.length), shape: lastHiddenState.shape };
    heed.losses.mse(lastHiddenState, target).backward();
    for (const { grad, shape } of Object.values(activations!)) {
      expect(grad!.shape).toEqual(shape);
      expect(grad!.data.some((value) => value !== 0)).toBe(true);
    }
    expect(model.parameters().every(({ grad }) => grad === null)).toBe(true);
    // Without `read`, evaluation mode records nothing.
    const plain = model.forward(input, { edit: [{ site: 'embeddings', scale: 2 }] });
    expect(() => heed.losses.mse(plain.lastHiddenState, target).backward()).toThrow('depends on a parameter');
    model.dispose();
  });

  it('differentiates by tensors that other layers computed, and by what was read', async () => {
    const { folder, input } = fixture('bert');
    const model = (await heed.fromPretrained(folder, { trainable: true, dropout: 0 })).train();
    const steer = new heed.Linear({ inFeatures: 2, outFeatures: 24, seed: 1 }).train();
    const direction = steer.forward([[1, 2]]);
    const read = ['layers.0.output', 'layers.2.weights'];
    const edit = [{ site: 'layers.*.output', add: direction }];
    const { activations } = model.forward(input, { read, edit });
    // A loss of activations only: the gradient reaches the preceding edit, whose tensor has the sum over its layers.
    const { data, shape } = activations!['layers.2.weights']!;
    heed.losses.mse(activations!['layers.2.weights']!, { data: data.map(() => 1), shape }).backward();
    const [weight] = steer.parameters();
    expect(weight!.grad!.data.some((value) => value !== 0)).toBe(true);
    expect(activations!['layers.2.weights']!.grad!.data.some((value) => value !== 0)).toBe(true);
    steer.dispose();
    model.dispose();
  });

  it('refuses what it refuses in inference, and goes on', async () => {
    const { folder, input } = fixture('bert');
    const model = (await heed.fromPretrained(folder, { trainable: true, dropout: 0 })).train();
    const before = model.forward(input).lastHiddenState.data;
    expect(() => model.forward(input, { read: ['layers.0.head'] })).toThrow('layers.0.heads');
    expect(() => model.forward(input, { edit: [{ site: 'layers.9.heads', scale: 0 }] })).toThrow('a layer from 0 to 2');
    const cause = new Error('own');
    const edit = [
      {
        site: 'layers.1.heads',
        map: () => {
          throw cause;
        },
      },
    ];
    expect(() => model.forward(input, { edit, read: ['layers.0.heads'] })).toThrow(expect.objectContaining({ cause }));
    expect(model.forward(input).lastHiddenState.data).toEqual(before);
    model.dispose();
  });
});

describe('edits in training', () => {
  const sites = siteNames.map((site) => `layers.*.${site}`);
  const sizes = { embedDim: 8, numHeads: 2, feedForwardDim: 12, numLayers: 2, dropout: 0.25, seed: 4 };
  const x = draw(1, 2, 5, 8);
  const keyMask = [
    [1, 1, 1, 1, 1],
    [1, 1, 1, 0, 0],
  ].map((row) => row.map(Boolean));

  it.each(builds)('that leave a site as it is change no bit of results and gradients, %s build', async (build) => {
    const heed = await load({ build });
    const run = (options: object) => {
      const encoder = new heed.Encoder(sizes).train();
      const result = encoder.forward(x, { keyMask, causal: true, returnWeights: true, ...options, backward: true });
      return { ...result, found: result.backward(draw(2, 2, 5, 8)) };
    };
    const plain = run({});
    const bits = ({ output, weights, found }: ReturnType<typeof run>, withGradients: boolean) => [
      output.data,
      ...weights.map(({ data }) => data),
      ...(withGradients ? Object.values({ ...found.inputs, ...found.parameters }).map(({ data }) => data) : []),
    ];
    const read = run({ read: sites });
    expect(bits(read, false)).toEqual(bits(plain, false));
    const outside = sites.filter((site) => !/scores|weights/.test(site));
    expect(bits(run({ read: outside }), true)).toEqual(bits(plain, true));
    expect(bits(run({ edit: outside.map((site) => ({ site, scale: 1 })) }), true)).toEqual(bits(plain, true));
    expect(bits(run({ edit: sites.map((site) => ({ site, map: () => {} })) }), false)).toEqual(bits(plain, false));
    const set = Object.entries(read.activations!).map(([site, value]) => ({ site, set: value }));
    expect(bits(run({ edit: set }), false)).toEqual(bits(plain, false));
    // If attention weights are separate operations, gradients are the same up to rounding.
    const gradients = ({ inputs, parameters }: (typeof plain)['found']) => ({ ...inputs, ...parameters });
    expect(worstError(gradients(read.found), gradients(plain.found))).toBeLessThanOrEqual(1);
  });

  it('with map pass gradients where values stay as they were', async () => {
    const heed = await load();
    using layer = new heed.EncoderLayer({ embedDim: 8, numHeads: 2, feedForwardDim: 12, dropout: 0, seed: 4 });
    const edit = (map: (rows: Tensor) => unknown) => [{ site: 'input', map: map as () => void }];
    const gradient = (edits: object[]) =>
      layer.forward(x, { edit: edits as SiteEdit[], backward: true }).backward(draw(2, 2, 5, 8)).inputs.x!;
    const plain = gradient([]);
    expect(gradient(edit(() => undefined)).data).toEqual(plain.data);
    const first = gradient(edit(({ data }) => void data.fill(0, 0, 8)));
    expect([...first.data.subarray(0, 8)]).toEqual(new Array(8).fill(0));
    const set = gradient([{ site: 'input', texts: [0], positions: [0], set: 0 }]);
    expect(first.data).toEqual(set.data);
  });

  it('have an entry in backward().edits each, whether or not they select texts', async () => {
    const heed = await load();
    using layer = new heed.EncoderLayer({ embedDim: 8, numHeads: 2, feedForwardDim: 12, dropout: 0, seed: 4 });
    const edit = [
      { site: 'input', texts: [], add: 1 },
      { site: 'input', scale: 2 },
      { site: 'output', texts: [], add: 1 },
    ];
    const { edits } = layer.forward(x, { edit, backward: true }).backward(draw(2, 2, 5, 8));
    expect(edits!.map((gradient) => gradient?.shape)).toEqual([undefined, [], undefined]);
  });

  it('do not keep what was read from being collected', async () => {
    const heed = await load();
    const encoder = new heed.Encoder({ ...sizes, embedDim: 64, numHeads: 4 }).train();
    const long = draw(1, 1, 128, 64);
    const edit = [{ site: 'layers.*.heads', heads: [1], scale: 0.5 }];
    const read = ['layers.*.weights']; // the largest site; retaining 24 passes would take several times the memory of these three
    for (let i = 0; i < 3; i++) encoder.forward(long, { read, edit });
    new heed.optim.SGD(encoder.parameters(), { lr: 1 }).zeroGrad();
    const before = heed.info.memoryBytes;
    for (let i = 0; i < 24; i++) {
      const { output } = encoder.forward(long, { read, edit });
      heed.losses.mse(output, long).backward();
      if (i % 2) new heed.optim.SGD(encoder.parameters(), { lr: 1 }).zeroGrad();
    }
    expect(heed.info.memoryBytes).toBeLessThanOrEqual(2 * before);
    encoder.dispose();
  });
});
