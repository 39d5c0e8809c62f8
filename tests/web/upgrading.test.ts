/** What docs/upgrading.md says: heed rejects a former name with a message that has the present one. */
import { readFileSync } from 'node:fs';
import * as entry from 'heed';
import * as train from 'heed/train';
import { expect, test } from 'vitest';
import { run } from './cli/support.js';
import { tinyModel } from './models/tiny.js';

// biome-ignore lint/suspicious/noExplicitAny: calls that the declarations forbid
type Any = any;
const page = readFileSync(new URL('../../docs/upgrading.md', import.meta.url), 'utf8');
const heed: Any = await entry.load();
const training: Any = await train.load();
const model: Any = await heed.fromPretrained(tinyModel());
const vectors = [
  [1, 0],
  [0, 1],
];
const index = heed.TextIndex.of(['a', 'b'], vectors);

test.each<[former: string, present: string, call: () => unknown]>([
  ['heed.flops', "import `flops` from 'heed'", () => heed.flops(3, { dim: 2 })],
  ['heed.headImportance', "import `headImportance` from 'heed'", () => heed.headImportance(2, () => 0)],
  ['heed.maxSim', "import `maxSim` from 'heed'", () => heed.maxSim(vectors, [vectors])],
  ['heed.loadTokenizer', "import `loadTokenizer` from 'heed'", () => heed.loadTokenizer('folder')],
  ['model.encodeQuery', 'expected embedQuery()', () => model.encodeQuery('a')],
  ['model.encodeDocument', 'expected embedDocument()', () => model.encodeDocument('a')],
  ['model.embedImage(image)', 'expected embedImages()', () => model.embedImage(null)],
  ['TextIndex.of(...)', 'expected `heed.TextIndex`', () => (entry.TextIndex as Any).of(['a'], [[1]])],
  ['TextIndex.load(...)', 'expected `heed.TextIndex`', () => (entry.TextIndex as Any).load(new Uint8Array(8))],
  ['{ dtype }', "expected 'storage', got 'dtype'", () => heed.TextIndex.of(['a'], [[1]], { dtype: 'int8' })],
  ['rescoreMultiplier', "expected 'candidates'", () => index.search([1, 0], { rescoreMultiplier: 2 })],
  [
    'rescoreMultiplier',
    "expected 'candidates'",
    () => entry.semanticSearch(vectors, vectors, { rescoreMultiplier: 2 } as Any),
  ],
  ['{ runtime: heed }', 'heed', () => entry.semanticSearch(vectors, vectors, { runtime: heed } as Any)],
  ['host', "expected 'remoteHost', got 'host'", () => entry.load({ hub: { host: 'https://example.org' } } as Any)],
  ['`weight`', "expected 'classWeights'", () => training.losses.crossEntropy([[1, 2]], [0], { weight: [1, 1] })],
  ['`weights`', "expected 'exampleWeights'", () => training.losses.mse([1], [2], { weights: [1] })],
  [
    'heed.evaluateClassifier',
    "import `evaluateClassifier` from 'heed/evaluation'",
    () => training.evaluateClassifier(model, []),
  ],
  ['heed/node', "expected 'heed/corpus'", () => import('heed/node')],
])('%s: %s', async (former, present, call) => {
  expect(page).toContain(former);
  const error = await Promise.resolve()
    .then(call)
    .then(
      () => new Error('nothing was thrown'),
      (reason: Error) => reason,
    );
  expect(error.message.toLowerCase()).toContain(present.toLowerCase());
});

test.each([
  ['embed --plan', '`heed corpus plan`'],
  ['embed --work', '`heed corpus work`'],
  ['embed --status', '`heed corpus status`'],
  ['embed --finish', '`heed corpus finish`'],
  ['embed --output int8', '--type'],
  ['embed --resume', '`heed corpus`'],
  ['classify --resume', 'a run from the start'],
  ['search --host x', '--remote-host'],
])('heed %s: %s', async (former, present) => {
  const { code, err } = await run(former.split(' '), { input: '' });
  expect(err).toContain(`expected ${present}, which replaces it`);
  expect(code).toBe(2);
});
