/** Calls of heed from a callback of another call, and what a callback cannot do: at every site of every layer and of pretrained encoders, in inference and in training. */
import { load } from 'heed';
import { load as loadTraining } from 'heed/train';
import { describe, expect, it } from 'vitest';
import { layers } from '../../web/src/layers/classes.js';
import { layerExamples } from './layers/examples.js';
import { draw } from './layers/numbers.js';
import { fixture, siteFixtures } from './models/fixtures.js';
import { tiny } from './train/tiny-models.js';

// biome-ignore lint/suspicious/noExplicitAny: layers of all classes and of both entries
type Anything = any;

interface Numbers {
  data: Float32Array;
  shape: readonly number[];
}
const outputOf = (result: Anything): Numbers => result.output ?? result;
const dataOf = (result: Anything) => outputOf(result).data;

/** Returns the error that a call throws. */
function caught(call: () => unknown): unknown {
  try {
    call();
  } catch (error) {
    return error;
  }
  throw new Error('nothing was thrown');
}

/** The sites of a layer, taken from an error message that lists them; empty if its calls have no sites. */
function sitesOf(layer: Anything, given: unknown[]): string[] {
  const { message } = caught(() => layer.forward(...given, { read: ['?'] })) as Error;
  return /a site: one of (.*), got/.exec(message)?.[1]?.split(', ') ?? [];
}

/** Arguments with more rows than any in the examples. */
const longer = (given: unknown[]) => given.map((_, i) => draw(20 + i, 2, 150, 8));

/** How a layer is called. `gradients`: the gradients of a result, which are compared in addition to its output. */
const modes: Record<
  string,
  { load: () => Promise<Anything>; isTraining?: boolean; more?: object; gradients?: (call: Anything) => unknown }
> = {
  inference: { load },
  'evaluation in heed/train': { load: loadTraining },
  training: {
    load: loadTraining,
    isTraining: true,
    gradients({ heed, layer, result }) {
      const optimizer = new heed.optim.SGD(layer.parameters(), { lr: 0 });
      const { data, shape } = outputOf(result);
      heed.losses.mse({ data, shape }, { data: data.map(() => 0), shape }).backward();
      const all = layer.parameters().map(({ grad }: Anything) => grad.data);
      optimizer.zeroGrad();
      optimizer.dispose();
      return all;
    },
  },
  'backward: true': {
    load: loadTraining,
    more: { backward: true },
    gradients({ result }) {
      const { inputs, parameters } = result.backward(outputOf(result));
      return Object.values({ ...inputs, ...parameters }).map(({ data }: Anything) => data);
    },
  },
};

const heedHere: Anything = await load();
/**
 * The layers that have sites, in examples without random numbers and with position tables that depend on the length.
 */
const withSites = Object.entries(layerExamples).flatMap(([name, { options, given }]) => {
  const { schema } = layers[name as keyof typeof layers] as unknown as { schema: object };
  const own = { ...options, ...('rotary' in schema && { rotary: {} }), ...('dropout' in schema && { dropout: 0 }) };
  const sites = name === 'Embedding' ? [] : sitesOf(new heedHere[name](own), given);
  return sites.length === 0 ? [] : [{ name, given, sites, options: { ...own, seed: 1 } }];
});

it('finds the layers with sites', () => {
  expect(withSites.map(({ name }) => name)).toEqual(expect.arrayContaining(['MultiHeadAttention', 'Transformer']));
});

describe.each(Object.entries(modes))('%s', (_, { load, isTraining = false, more = {}, gradients }) => {
  describe.each(withSites)('$name', ({ name, given, sites, options }) => {
    const start = async () => {
      const heed: Anything = await load();
      const make = () => {
        const layer = new heed[name](options);
        return isTraining ? layer.train() : layer;
      };
      return { heed, make, layer: make() };
    };
    const run = (layer: Anything, site: string, map: (selection: Anything) => unknown = () => {}) =>
      layer.forward(...given, { ...more, edit: [{ site, map }] });

    it('gives the right results within a call, and to it', async () => {
      const { heed, layer, make } = await start();
      const sibling = make();
      const x = draw(7, 3, 8);
      const within = () => {
        using linear = new heed.Linear({ inFeatures: 8, outFeatures: 3, seed: 2 });
        return [
          dataOf(layer.forward(...longer(given))),
          dataOf(sibling.forward(...longer(given))),
          dataOf(linear.forward(x)),
          heed.softmax(x).data,
          heed.attention(x, x, x, { dropout: { p: 0.5, seed: 3 } }).output.data,
        ];
      };
      const expectedWithin = within();
      for (const site of sites) {
        const fresh = make();
        const alone = run(fresh, site);
        const expected = [dataOf(alone), gradients?.({ heed, layer: fresh, result: alone })];
        const found: unknown[] = [];
        const own = make(); // with tables for short sequences
        const result = run(own, site, () => {
          own.forward(...longer(given));
          for (let i = 0; i < 100; i++)
            expect(caught(() => own.forward(...given.map(() => draw(1, 2, 3, 9))))).toMatchObject({
              code: 'SHAPE_MISMATCH',
            });
          found.push(within());
        });
        expect([dataOf(result), gradients?.({ heed, layer: own, result })], site).toEqual(expected);
        expect(found, site).toEqual([expectedWithin]);
        own.dispose();
      }
    });

    it('frees what a callback disposes of after the call', async () => {
      const { heed, make, layer } = await start();
      for (const site of sites) {
        const expected = dataOf(run(layer, site));
        const own = make();
        const result = run(own, site, () => {
          own.dispose();
          expect(own.disposed).toBe(true);
          expect(caught(() => own.forward(...given))).toMatchObject({ code: 'DISPOSED' });
        });
        expect(dataOf(result), site).toEqual(expected);
        expect(caught(() => own.forward(...given))).toMatchObject({ code: 'DISPOSED' });
        if (gradients)
          expect(caught(() => gradients({ heed, layer: own, result }))).toMatchObject({ code: 'DISPOSED' });
      }
    });

    it('frees a runtime that a callback disposes of after the call', async () => {
      const { layer } = await start();
      for (const site of sites) {
        const expected = dataOf(run(layer, site));
        const other = await start();
        const result = run(other.layer, site, () => other.heed.dispose());
        expect(dataOf(result), site).toEqual(expected);
        expect(caught(() => other.layer.forward(...given))).toMatchObject({ code: 'DISPOSED' });
      }
    });

    it('cannot be changed by a callback', async () => {
      const { heed, make, layer } = await start();
      const state = layer.stateDict();
      const other = new heed[name]({ ...options, seed: 9 }).stateDict();
      const optimizer = load === loadTraining && new heed.optim.SGD(layer.parameters(), { lr: 1 });
      const model = new heed.Sequential([make(), layer]);
      const wasTraining = layer.training;
      const changes: Record<string, () => unknown> = {
        train: () => layer.train(),
        eval: () => layer.eval(),
        loadStateDict: () => layer.loadStateDict(other),
        'train of a model': () => model.train(),
        'eval of a model': () => model.eval(),
        'loadStateDict of a model': () => model.loadStateDict({ ...prefixed('0.', state), ...prefixed('1.', other) }),
        ...(optimizer && { step: () => optimizer.step() }),
      };
      for (const site of sites) {
        const expected = dataOf(run(layer, site));
        for (const [change, call] of Object.entries(changes)) {
          const result = run(layer, site, () => {
            expect(caught(call), change).toMatchObject({ code: 'INVALID_ARGUMENT' });
          });
          expect(dataOf(result), `${site} ${change}`).toEqual(expected);
        }
      }
      expect(layer.stateDict()).toEqual(state);
      expect([layer.training, model.parts[0].training]).toEqual([wasTraining, wasTraining]);
      layer.eval(); // again possible
    });

    it('limits calls within calls', async () => {
      const { layer } = await start();
      for (const site of sites.slice(0, 2)) {
        const expected = dataOf(run(layer, site));
        let depth = 0;
        const again = (): unknown => {
          depth++;
          return run(layer, site, again);
        };
        expect(caught(again)).toMatchObject({ message: expect.stringContaining('calls within calls') });
        expect(depth).toBeGreaterThan(10);
        expect(dataOf(run(layer, site))).toEqual(expected);
      }
    });
  });
});

const prefixed = (prefix: string, state: object) =>
  Object.fromEntries(Object.entries(state).map(([name, value]) => [prefix + name, value]));

describe('pretrained encoders', () => {
  const folders = [...new Set(siteFixtures().cases.map(({ folder }) => folder))];
  const pixels = { data: Float32Array.from({ length: 3 * 20 * 20 }, (_, i) => Math.sin(i)), shape: [1, 3, 20, 20] };
  const ids = Array.from({ length: 8 }, (_, i) => i + 3);
  const hiddenOf = (model: Anything, options: object = {}) =>
    model.config.hasImageEncoder && !model.config.hasTokenizer && model.config.vocabSize === 0
      ? model.encodeImage(pixels, options)
      : model.encode({ inputIds: [ids.slice(0, 3)] }, options);

  it.each(folders)('%s: calls and disposal within calls', async (folder) => {
    const heed: Anything = await load();
    const model = await heed.fromPretrained(fixture(folder).folder);
    const sites = [...sitesOfModel(model), 'embeddings', 'output'];
    const expected = (await hiddenOf(model)).lastHiddenState.data;
    const layer = new heed.EncoderLayer({ embedDim: 8, numHeads: 2, feedForwardDim: 4, rotary: {}, seed: 1 });
    const x = draw(1, 2, 3, 8);
    const inner = dataOf(layer.forward(x));
    for (const site of sites) {
      const within: Promise<Anything>[] = [];
      const map = () => {
        expect(dataOf(layer.forward(x))).toEqual(inner);
        layer.forward(draw(2, 2, 150, 8));
        within.push(hiddenOf(model));
      };
      const { lastHiddenState } = await hiddenOf(model, { edit: [{ site, map }] });
      expect(lastHiddenState.data, site).toEqual(expected);
      for (const each of within) expect((await each).lastHiddenState.data).toEqual(expected);
    }
    for (const site of ['embeddings', `layers.${model.config.numLayers - 1}.hidden`, 'output']) {
      const own = await heed.fromPretrained(fixture(folder).folder);
      await expect(hiddenOf(own, { edit: [{ site, map: () => own.dispose() }] }), site).rejects.toMatchObject({
        code: 'DISPOSED',
      });
    }
  });
});

const sitesOfModel = (model: Anything) =>
  ['queries', 'scores', 'weights', 'heads', 'hidden', 'output'].map(
    (site) => `layers.${model.config.numLayers - 1}.${site}`,
  );

describe('trainable encoders', () => {
  const texts = ['x y', 'the quick fox'];
  const longTexts = ['a x y z the quick brown fox a x y z'];

  it.each([false, true])('training: %s', async (isTraining) => {
    const heed: Anything = await loadTraining();
    const make = async () => {
      const model: Anything = await tiny(heed);
      return isTraining ? model.train() : model;
    };
    const model = await make();
    const expected = model.forward(texts).lastHiddenState.data;
    const expectedWithin = model.forward(longTexts).lastHiddenState.data;
    const state = model.stateDict();
    const optimizer = new heed.optim.SGD(model.parameters(), { lr: 1 });
    const refused: Record<string, () => unknown> = {
      loadStateDict: () => model.loadStateDict(state),
      addLora: () => model.addLora(),
      step: () => optimizer.step(),
    };
    for (const site of [...sitesOfModel(model), 'embeddings', 'output']) {
      const map = () => {
        for (const [name, call] of Object.entries(refused))
          expect(caught(call), name).toMatchObject({ code: 'INVALID_ARGUMENT' });
        model.eval();
        expect(model.forward(longTexts).lastHiddenState.data).toEqual(expectedWithin);
        if (isTraining) model.train();
        expect(model.forward(longTexts).lastHiddenState.data).toEqual(expectedWithin);
      };
      const read = model.forward(texts, { edit: [{ site, map }], read: ['output'] });
      expect(read.lastHiddenState.data, site).toEqual(expected);
      // Also with the gradient of the result.
      heed.losses
        .mse(read.lastHiddenState, { data: expected.map(() => 0), shape: read.lastHiddenState.shape })
        .backward();
      expect(read.activations.output.grad.data.some((value: number) => value !== 0)).toBe(true);

      const own = await make();
      const result = own.forward(texts, { edit: [{ site, map: () => own.dispose() }] });
      expect(result.lastHiddenState.data, site).toEqual(expected);
      expect(caught(() => own.forward(texts))).toMatchObject({ code: 'DISPOSED' });
    }
    expect(model.stateDict()).toEqual(state);
  });

  it('keeps dropout active after a call in evaluation mode', async () => {
    const heed: Anything = await loadTraining();
    const { tinyModel } = await import('./models/tiny.js');
    const make = () => heed.fromPretrained(tinyModel(), { trainable: true, dropout: 0.5, seed: 1 });
    const [one, other] = [(await make()).train(), (await make()).train()];
    const edit = (map: () => void) => ({ edit: [{ site: 'layers.0.output', map }] });
    const expected = one.forward(
      texts,
      edit(() => {}),
    ).lastHiddenState.data;
    const map = () => {
      other.eval().forward(longTexts);
      other.train();
    };
    expect(other.forward(texts, edit(map)).lastHiddenState.data).toEqual(expected);
  });
});

it('ends a runtime with threads, of which it is the last user, after the call', async () => {
  const heed: Anything = await load({ threads: 2 });
  const layer = new heed.EncoderLayer({ embedDim: 64, numHeads: 4, feedForwardDim: 128, seed: 1 });
  const x = draw(1, 4, 40, 64);
  const expected = dataOf(layer.forward(x));
  expect(dataOf(layer.forward(x, { edit: [{ site: 'queries', map: () => heed.dispose() }] }))).toEqual(expected);
});

it('keeps the graph of a backward pass whose custom function disposes of the runtime', async () => {
  const heed: Anything = await loadTraining();
  const layer = new heed.Linear({ inFeatures: 8, outFeatures: 2, seed: 1 });
  const x = draw(1, 3, 8);
  const identity = heed.custom({
    forward: (y: Anything) => y,
    backward(dy: Anything) {
      heed.dispose();
      return dy;
    },
  });
  const model = new heed.Sequential([layer, identity]);
  const { output, backward } = model.forward(x, { backward: true });
  const { inputs, parameters } = backward(output);
  expect(inputs.x.data.some((value: number) => value !== 0)).toBe(true);
  expect(Object.keys(parameters)).toEqual(['0.weight', '0.bias']);
  expect(caught(() => layer.forward(x))).toMatchObject({ code: 'DISPOSED' });
});
