/** Settings that heed does not know: `config.unread`, `heed.inspect` and the option `strict`. */
import { existsSync, readdirSync } from 'node:fs';
import { load, pipeline } from 'heed';
import { load as loadTraining } from 'heed/train';
import { expect, test } from 'vitest';
import { fixtures } from './fixtures.js';
import { tinyModel } from './tiny.js';

const heed = await load();
const folder = tinyModel();

/** The folder's files, with more settings in some of them. */
function withSettings(more: Record<string, object>): Record<string, Uint8Array | string> {
  const files: Record<string, Uint8Array | string> = { ...folder };
  for (const [path, settings] of Object.entries(more)) {
    const own = files[path] ?? '{}';
    const text = typeof own === 'string' ? own : new TextDecoder().decode(own);
    files[path] = JSON.stringify({ ...JSON.parse(text), ...settings });
  }
  return files;
}

const unknown = withSettings({
  'config.json': { foo: 1, rope_theta: 500, absent: null, nested: { a: 1 } },
  'sentence_bert_config.json': { bar: { baz: true } },
  'config_sentence_transformers.json': { prompts: { query: 'q: ' }, qux: [] },
  'tokenizer_config.json': { quux: 'x' },
  '1_Pooling/config.json': { pooling_mode: 'cls', grault: 1 },
});
const listed = [
  '1_Pooling/config.json: grault',
  'config.json: foo',
  'config.json: nested',
  'config_sentence_transformers.json: qux',
  'sentence_bert_config.json: bar',
  'tokenizer_config.json: quux',
];

test('settings that heed does not know are listed by file and key', async () => {
  using model = await heed.fromPretrained(unknown);
  expect([...model.config.unread].sort()).toEqual(listed);
  expect([...(await heed.inspect(unknown)).unread].sort()).toEqual(listed);
});

test('`strict` rejects them by name, and nothing else', async () => {
  await expect(heed.fromPretrained(unknown, { strict: true })).rejects.toMatchObject({
    code: 'UNSUPPORTED',
    message: expect.stringMatching(/^fromPretrained\.strict: .*config\.json: foo/),
  });
  using model = await heed.fromPretrained(folder, { strict: true });
  expect(model.config.unread).toEqual([]);
  await expect(heed.fromPretrained(folder, { strict: 'yes' } as object)).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
  });
  await expect(pipeline('feature-extraction', unknown, { strict: true })).rejects.toMatchObject({
    code: 'UNSUPPORTED',
  });
  const training = await loadTraining();
  const options = { trainable: true, strict: true } as const;
  await expect(training.fromPretrained(unknown, options)).rejects.toMatchObject({ code: 'UNSUPPORTED' });
});

test.each([{ worker: true }, { workers: 2 }])('in workers: %j', async (how) => {
  using model = await heed.fromPretrained(unknown, how);
  expect([...model.config.unread].sort()).toEqual(listed);
  await expect(heed.fromPretrained(unknown, { ...how, strict: true })).rejects.toMatchObject({
    code: 'UNSUPPORTED',
    message: expect.stringContaining('config.json: foo'),
  });
});

test('settings of single layers are rejected', async () => {
  const files = withSettings({ 'config.json': { per_layer_config: { '0': { hidden_act: 'relu' } } } });
  await expect(heed.fromPretrained(files)).rejects.toThrow('config.json: per_layer_config: expected');
});

const folders = ['models', 'families'].flatMap((group) => {
  const root = `${fixtures}../${group}/`;
  return readdirSync(root).flatMap((name) => (existsSync(`${root}${name}/config.json`) ? [root + name] : []));
});

test.each(folders.map((path) => [path.replace(/.*fixtures\//, ''), path]))(
  '%s: every setting is known, and inspect agrees',
  async (_, path) => {
    using model = await heed.fromPretrained(path);
    expect(model.config.unread).toEqual([]);
    expect((await heed.inspect(path)).unread).toEqual([]);
  },
);
