/**
 * The WebAssembly module checks the sizes of its arguments, so that a mistake in the TypeScript API cannot make it read
 * out of bounds.
 */
import { load } from 'heed';
import { load as loadTraining } from 'heed/train';
import { expect, it } from 'vitest';
import type { TrainCore } from '../../web/src/train/graph/train-core.js';
import { draw } from './layers/numbers.js';
import { fixture } from './models/fixtures.js';

// biome-ignore lint/suspicious/noExplicitAny: the module's objects
type Anything = any;

const rawOf = (owned: object): Anything => (owned as Anything).raw;
const coreOf = (owned: object): TrainCore => (owned as Anything).runtime.core;

const refused = (call: () => unknown, message: RegExp, code = 'SHAPE_MISMATCH') =>
  expect(call).toThrow(expect.objectContaining({ code, message: expect.stringMatching(message) }));

it('checks ids', async () => {
  const heed = await load();
  using embedding = new heed.Embedding({ numEmbeddings: 5, embedDim: 8 });
  const look = (count: number, shape: number[]) =>
    rawOf(embedding).forward({ ids: { data: new Int32Array(count), shape } });
  expect(look(6, [2, 3]).shape).toEqual([2, 3, 8]);
  refused(() => look(1, [2, 3]), /ids: expected 6 values, got 1/);
  refused(() => look(7, [2, 3]), /ids: expected 6 values, got 7/);
});

it('checks the edits of sites', async () => {
  const heed = await load();
  using layer = new heed.EncoderLayer({ embedDim: 8, numHeads: 2, feedForwardDim: 4 });
  const x = draw(1, 2, 3, 8);
  const { raw } = layer as Anything;
  let given: Anything;
  // Records the arguments that the API passes.
  const spy = {
    forward(all: Anything) {
      given = all;
      return raw.forward(all);
    },
  };
  layer.forward.call(Object.create(layer, { raw: { value: spy } }), x, {
    edit: [{ site: 'output', add: draw(2, 2, 3, 8) }],
  });
  const run = (change: object, more: object = {}) =>
    raw.forward({ ...given, sites: { ...given.sites, ...more, edits: [{ ...given.sites.edits[0], ...change }] } });
  run({});
  const short = { data: new Float32Array(47), shape: [47] };
  refused(() => run({ operand: short }), /edit: expected one value per selected entry, got 47 values/);
  refused(() => run({ strides: [24, 0, 8] }), /edit: expected 4 values, got 3/);
  refused(() => run({ strides: [1e6, 0, 8, 1] }), /edit: expected one value per selected entry/);
  refused(() => run({ strides: [-24, 0, 8, 1] }), /strides >= 0/, 'INVALID_ARGUMENT');
  refused(
    () => run({ selected: [Int32Array.of(0, 5), null, null, null] }),
    /edit: expected one value per selected entry/,
  );
  const map = { verb: 4, extents: [2, 1, 3, 8], operand: null };
  run(map, { map: (_: number, values: Float32Array) => values });
  refused(() => run(map, { map: () => new Float32Array(3) }), /map: expected 48 values, got 3/);
  refused(
    () => run({ ...map, extents: [1, 1, 3, 8] }, { map: () => new Float32Array(24) }),
    /edit: expected one value per selected entry/,
  );
  refused(() => run({}, { columns: Int32Array.of(0, 1) }), /columns: expected \[6\]/);
  refused(() => run({}, { columns: Int32Array.of(0, 1, 2, 0, -1, 2) }), /columns/, 'INVALID_ARGUMENT');
});

it('checks the rows of vector indexes', async () => {
  const heed = await load();
  const index = new (coreOf(new heed.Dropout()).VectorIndex)('float32', 4);
  const vectors = (count: number) => new Uint8Array(count * 16);
  index.append(vectors(3), new Float32Array(3).fill(1));
  refused(() => index.append(vectors(2), new Float32Array(3)), /rows: expected 48 values, got 32/);
  for (const rows of [[3], [1, 1], [2, 0]])
    refused(() => index.keep(Uint32Array.from(rows)), /rows: expected/, 'INVALID_ARGUMENT');
  refused(() => index.rows(0, 4), /count/, 'INVALID_ARGUMENT');
  refused(() => index.rows(-1, 2), /first/, 'INVALID_ARGUMENT');
  const search = (count: number, topK: number, thresholds = 1) =>
    index.search(new Float32Array(count), {
      topK,
      thresholds: new Float32Array(thresholds).fill(-Infinity),
      candidates: 0,
      allowed: null,
    });
  refused(() => search(5, 1), /queries: expected 4 values, got 5/);
  refused(() => search(8, 1), /queries: expected 4 values, got 8/);
  refused(() => search(4, -1), /topK/, 'INVALID_ARGUMENT');
  expect([...search(4, 0).counts]).toEqual([0]);
  expect(index.count()).toBe(3);
  index.keep(Uint32Array.of(0, 2));
  expect(index.count()).toBe(2);
  index.delete();
});

it('checks the batches of encoders', async () => {
  const heed = await load();
  using model = await heed.fromPretrained(fixture('bert').folder);
  const { encoder } = rawOf(model);
  const begin = (lengths: number[], keyMask: number[] | null) =>
    encoder.begin(
      Int32Array.of(3, 4, 5, 6),
      null,
      null,
      Int32Array.from(lengths),
      keyMask && Float32Array.from(keyMask),
      null,
      -1,
    );
  begin([2, 2], [0, 0, 0, -Infinity]).delete();
  refused(() => begin([2, 2], [0, 0]), /keyMask: expected 4 values, got 2/);
  refused(() => begin([1, 3], [0, 0, 0, 0]), /keyMask: expected 6 values, got 4/);
  refused(() => begin([2, 3], null), /ids/);
  const encoding = begin([2, 2], null);
  refused(() => encoding.pool('mean', Int32Array.of(1)), /skipped/);
  encoding.delete();
  const bad = { data: new Float32Array(3), shape: [1, 3] };
  refused(() => encoder.wordLogits(bad), /x: expected/);
});

it('checks what heed/train passes', async () => {
  const heed = await loadTraining();
  using layer = new heed.Linear({ inFeatures: 2, outFeatures: 3 });
  const core = coreOf(layer);
  const { inner } = rawOf(layer);
  const graph = new core.Graph();
  const x = graph.leaf({ data: new Float32Array(6), shape: [3, 2] }, true);
  const indices = (count: number) => ({ data: new Int32Array(count), shape: [3] });
  const labelled = { ignoreIndex: -100, labelSmoothing: 0, classWeights: null };
  core.recordLoss(graph, 'crossEntropy', { ...labelled, logits: x, labels: indices(3) }).delete();
  refused(
    () => core.recordLoss(graph, 'crossEntropy', { ...labelled, logits: x, labels: indices(2) }),
    /labels: expected 3/,
  );
  refused(() => core.recordPool(graph, x, Int32Array.of(2, 2), null, 'mean'), /x: expected \[4, 2\]/);
  refused(() => core.recordGatherRows(graph, x, Int32Array.of(3)), /indices/, 'INVALID_ARGUMENT');
  refused(() => core.setDropoutState(inner, [1, 2]), /dropout: expected 0 values, got 2/);
  const gradients = new core.Gradients(inner);
  core.addGradient(gradients, 0, { rows: null, values: new Float32Array(6) });
  refused(
    () => core.addGradient(gradients, 0, { rows: null, values: new Float32Array(4) }),
    /gradient: expected 6 values/,
  );
  const rows = (row: number) => ({ rows: Int32Array.of(row), values: new Float32Array(2) });
  refused(() => core.addGradient(gradients, 0, rows(3)), /gradient/, 'INVALID_ARGUMENT');
  for (const one of [x, graph, gradients]) one.delete();
});

it('checks the scales of int8 rows', async () => {
  const heed = await load();
  using layer = new heed.Linear({ inFeatures: 2, outFeatures: 3 });
  const write = (scales: number) =>
    rawOf(layer).writeParameter(0, 0, new Uint8Array(6), 'I8', new Float32Array(scales));
  write(3);
  refused(() => write(2), /scales: expected 3 values, got 2/);
});
