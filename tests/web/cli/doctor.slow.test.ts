import * as fs from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { load } from 'heed';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makeFolder, run } from './support.js';

let folder: string;
const path = (name: string) => join(folder, name);

beforeAll(() => {
  folder = makeFolder();
});
afterAll(() => fs.rmSync(folder, { recursive: true }));

/** A new folder with these files. `true` copies the tiny model's file of that name. */
function folderWith(name: string, files: Record<string, string | true>): string {
  for (const [file, content] of Object.entries(files)) {
    const to = join(path(name), file);
    fs.mkdirSync(join(to, '..'), { recursive: true });
    if (content === true) fs.copyFileSync(path(file), to);
    else fs.writeFileSync(to, content);
  }
  return path(name);
}

test('describes the machine and the build', async () => {
  using heed = await load();
  const { code, out, err } = await run(['doctor', '--json']);
  expect([code, err]).toEqual([0, '']);
  const report = JSON.parse(out);
  // docs/command-line.md has the keys.
  const page = fs.readFileSync(new URL('../../../docs/command-line.md', import.meta.url), 'utf8');
  const documented = page.match(/`doctor --json` \| `([^`]*)`/)![1]!.match(/\w+/g)!;
  const keysOf = (value: object): string[] =>
    Object.entries(value).flatMap(([key, inner]) => {
      const item = Array.isArray(inner) ? inner[0] : inner;
      return [key, ...(item && typeof item === 'object' ? keysOf(item) : [])];
    });
  expect(documented.sort()).toEqual(keysOf(report).sort());
  expect(report).toMatchObject({
    heed: heed.info.version,
    node: process.versions.node,
    cores: availableParallelism(),
    threads: Math.min(4, availableParallelism()),
    threadsReason: expect.stringContaining('cores'),
    buildReason: expect.stringContaining('relaxed SIMD'),
  });
  expect(report.build).toMatch(/^(relaxed-simd|simd128)$/);
});

test('prints the same for people', async () => {
  const { code, out } = await run(['doctor']);
  expect(code).toBe(0);
  for (const name of ['heed', 'engine', 'processor', 'threads']) expect(out).toMatch(new RegExp(`^${name} +\\S`, 'm'));
});

describe('doctor FOLDER', () => {
  const complete = { 'config.json': true, 'tokenizer.json': true, 'model.safetensors': true } as const;

  test('a folder that is whole', async () => {
    const { code, out } = await run(['doctor', folderWith('whole', complete)]);
    expect(code).toBe(0);
    expect(out).toMatch(/^pooling +ok +no modules\.json: the mean is used/m);
    expect(out).toMatch(/^loading +ok +bert, \d+ layers/m);
    expect(out).toContain('The folder can be used.');
    const shipped = fileURLToPath(new URL('../../../web/model', import.meta.url));
    expect((await run(['doctor', shipped])).out).toMatch(/^pooling +ok +mean, normalized$/m);
  });

  test("a folder whose modules.json places the model's files in a folder of their own", async () => {
    const inner = Object.fromEntries(Object.keys(complete).map((name) => [`0_Transformer/${name}`, '']));
    const modules = [{ type: 'sentence_transformers.models.Transformer', path: '0_Transformer' }];
    const placed = folderWith('placed', { ...inner, 'modules.json': JSON.stringify(modules) });
    for (const name of Object.keys(complete)) fs.copyFileSync(path(name), join(placed, '0_Transformer', name));
    const { code, out } = await run(['doctor', placed]);
    expect(code).toBe(0);
    expect(out).toMatch(/^0_Transformer\/tokenizer\.json +ok/m);
    expect(out).not.toContain('not ok');
  });

  test.each<[string, Record<string, string | true>, RegExp]>([
    ['config.json', { ...complete, 'config.json': '' }, /^loading +not ok +.*config\.json/m],
    ['nothing', { 'README.md': 'x' }, /^files +not ok +.*config\.json/m],
    [
      'old formats',
      { 'config.json': true, 'vocab.txt': '', 'pytorch_model.bin': '' },
      /^tokenizer\.json +not ok .*vocab\.txt[\s\S]*^model\.safetensors +not ok .*pytorch_model\.bin, a format/m,
    ],
    [
      'a missing shard',
      {
        'config.json': true,
        'tokenizer.json': true,
        'model.safetensors.index.json':
          '{"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}',
      },
      /^model-00001-of-00002\.safetensors +not ok +missing: a part of the weights[\s\S]*^model-00002-of-00002\.safetensors +not ok/m,
    ],
  ])('a folder with %s', async (name, files, message) => {
    const { code, out } = await run(['doctor', folderWith(`lacking ${name}`, files)]);
    expect(out).toMatch(message);
    expect(out).toContain('The folder cannot be used.');
    expect(code).toBe(1);
  });

  test("the Hub's cache, whose snapshots are checked", async () => {
    folderWith('hub/models--org--a/snapshots/1', {});
    for (const file of Object.keys(complete)) {
      fs.mkdirSync(path('hub/models--org--a/snapshots/1'), { recursive: true });
      fs.copyFileSync(path(file), path(`hub/models--org--a/snapshots/1/${file}`));
    }
    fs.mkdirSync(path('hub/models--org--b/snapshots/2'), { recursive: true });
    const { out, code } = await run(['doctor', path('hub'), '--json']);
    expect(code).toBe(1);
    expect(JSON.parse(out)).toMatchObject([
      { folder: path('hub/models--org--a/snapshots/1'), ok: true },
      { folder: path('hub/models--org--b/snapshots/2'), ok: false },
    ]);
  });

  test("heed's own cache", async () => {
    const [whole, half, weights, cut, absent] = ['a', 'b', 'c', 'd', 'e'].map((digit) => digit.repeat(64));
    const cache = folderWith('cache', { [whole!]: '{"a":1}', [half!]: '{"a":', [absent!]: '' });
    const bytes = fs.readFileSync(path('model.safetensors'));
    fs.writeFileSync(join(cache, weights!), bytes);
    expect((await run(['doctor', cache])).out).toMatch(new RegExp(`^${half} +not ok +damaged`, 'm'));
    fs.rmSync(join(cache, half!));
    expect((await run(['doctor', cache])).code).toBe(0);
    fs.writeFileSync(join(cache, cut!), bytes.subarray(0, -1));
    fs.writeFileSync(join(cache, `${absent}.12345678-1234-1234-1234-123456789012`), 'x');
    const { out, code } = await run(['doctor', cache]);
    expect(code).toBe(1);
    expect(out).toMatch(new RegExp(`^${cut} +not ok +damaged`, 'm'));
    expect(out).not.toContain(weights);
    expect(out).toMatch(/^unfinished +ok +1 /m);
  });

  test('a path that is none', async () => {
    const { code, err } = await run(['doctor', path('no/such')]);
    expect(code).toBe(1);
    expect(err).toMatch(/^heed: folder: expected a folder, got '.*', which does not exist\n$/);
  });
});
