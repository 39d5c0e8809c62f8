/** The commands that write or describe a model's folder. */
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { modelFolder, run, script, start } from './support.js';

const { folder, path } = modelFolder();

test('heed quantize writes a new folder and reports the loss', async () => {
  const out = path('quantized');
  const quantized = await run(['quantize', folder, '--out', out, '--tables', 'int4', '--texts', path('texts.txt')]);
  expect(quantized.err).not.toContain('heed:');
  expect(quantized.out).toMatch(/before .* bytes\nafter .* bytes in .*quantized\ntensors .* int8, 1 int4/);
  expect(quantized.out).toMatch(/cosine, fp32 +mean 0\.9\d+, worst 0\.9\d+ \(.+\)\ncosine, q8/);
  const inspected = await run(['inspect', out]);
  expect(inspected.out).toMatch(/stored as +.*U8/);
  expect(inspected.out).toMatch(/missing .*modules\.json/);
  const again = await run(['quantize', folder, '--out', out]);
  expect(again).toMatchObject({
    code: 2,
    err: expect.stringContaining(`out: expected a new folder's path, got '${out}', which exists`),
  });
  expect(await run(['quantize', folder, '--out', path('texts.txt/below')])).toMatchObject({
    code: 1,
    err: expect.stringMatching(/^heed: --out: .* cannot be written \((ENOTDIR|EEXIST)[^\n]+\n$/),
  });
});

test('heed prune writes a new folder and reports the loss', async () => {
  const [out, corpus] = [path('pruned'), path('corpus.txt')];
  writeFileSync(corpus, 'the quick fox\na x\n');
  const pruned = await run(['prune', folder, '--keep', corpus, '--out', out, '--texts', path('texts.txt')]);
  expect(pruned.err).not.toContain('heed:');
  expect(pruned.out).toMatch(/before .* bytes, 80 tokens\nafter .* bytes, \d\d tokens in .*pruned\n/);
  expect(pruned.out).toMatch(
    /corpus +2 texts with the same vectors\nunknown +[\d.]+ % of the tokens, [\d.]+ % before\n/,
  );
  expect((await run(['inspect', out])).out).toMatch(/missing .*modules\.json/);
  writeFileSync(corpus, '');
  expect(await run(['prune', folder, '--keep', corpus, '--out', path('none')])).toMatchObject({
    code: 1,
    err: expect.stringContaining('expected at least one text, got none'),
  });
});

test('heed quantize --matrices int4 and heed prune --positions write smaller files', async () => {
  const bytes = (name: string) => statSync(join(path(name), 'model.safetensors')).size;
  for (const matrices of ['int8', 'int4'])
    expect(await run(['quantize', folder, '--out', path(matrices), '--matrices', matrices])).toMatchObject({ code: 0 });
  expect(bytes('int4')).toBeLessThan(bytes('int8'));
  const corpus = path('few.txt');
  writeFileSync(corpus, 'the quick fox\n');
  for (const [name, ...options] of [['all'], ['eight', '--positions', '8']])
    expect(await run(['prune', folder, '--keep', corpus, '--out', path(name!), ...options])).toMatchObject({ code: 0 });
  expect(bytes('eight')).toBeLessThan(bytes('all'));
  expect(JSON.parse(readFileSync(join(path('eight'), 'config.json'), 'utf8')).max_position_embeddings).toBe(8);
});

// Windows has neither signals nor ulimit.
describe.skipIf(process.platform === 'win32')('heed quantize leaves nothing behind', () => {
  const left = () => readdirSync(folder).filter((name) => name.startsWith('unfinished'));

  test('if the disk is full', () => {
    // A limit on the size of files has the same effect.
    const args = ['quantize', folder, '--out', path('unfinished')];
    const limited = ['-c', 'ulimit -f 1; exec "$@"', 'bash', process.execPath, script, ...args];
    const { status, stderr } = spawnSync('bash', limited, { encoding: 'utf8' });
    expect(stderr).toMatch(/^heed: --out: .* cannot be written \(EFBIG[^\n]+\n$/);
    expect([status, left()]).toEqual([1, []]);
  });

  test('if a signal stops it', async () => {
    writeFileSync(path('many.txt'), `${'the quick brown fox '.repeat(6)}\n`.repeat(5000));
    const { child, ended } = start(['quantize', folder, '--out', path('unfinished'), '--texts', path('many.txt')]);
    await expect.poll(left, { interval: 1, timeout: 60_000 }).toHaveLength(1);
    child.kill('SIGINT');
    expect(await ended).toEqual({ code: 130, out: '', err: 'heed: stopped by SIGINT; nothing was written\n' });
    expect(left()).toEqual([]);
  });
});

test('heed inspect describes a checkpoint', async () => {
  const { out } = await run(['inspect', '--model', folder]);
  expect(out).toMatch(/family +bert/);
  expect(out).toMatch(/parameters +[\d,]+/);
});
