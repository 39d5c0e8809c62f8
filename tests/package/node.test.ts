// The installed package in Node: ES modules, CommonJS, worker threads, the command line, and newer versions of Node if
// they are installed.
import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { install, run, runNode } from './installed.js';

let folder: string;
beforeAll(async () => {
  folder = install('node');
  for (const [name, text] of Object.entries(kScripts)) fs.writeFileSync(join(folder, name), text);
});

// All scripts do the same and print their results as JSON.
const body = `
const heed = await load();
const model = await heed.fromPretrained();
const vectors = await model.embed(['A quiet street.', 'Boiled eggs']);
model.dispose();
const { output } = heed.attention([[1, 0]], [[1, 0], [0, 1]], [[1, 2], [3, 4]]);
const result = JSON.stringify({ shape: vectors.shape, first: vectors.data[0], output: output.toArray() });`;
const kScripts: Record<string, string> = {
  'esm.mjs': `import { load } from 'heed';${body} console.log(result);`,
  'import.cjs': `(async () => { const { load } = await import('heed');${body} console.log(result); })();`,
  'require.cjs': `const { load } = require('heed');(async () => {${body} console.log(result); })();`,
  'thread.mjs': `import { Worker } from 'node:worker_threads';
    new Worker(new URL('./inside.mjs', import.meta.url)).on('message', (result) => console.log(result));`,
  'inside.mjs': `import { parentPort } from 'node:worker_threads'; import { load } from 'heed';
    ${body} parentPort.postMessage(result);`,
};

// The expected weights, computed by hand: softmax([1/sqrt(2), 0]).
const weight = 1 / (1 + Math.exp(-Math.SQRT1_2));
const attended = [weight * 1 + (1 - weight) * 3, weight * 2 + (1 - weight) * 4];

function check(printed: string) {
  const { shape, first, output } = JSON.parse(printed);
  expect(shape).toEqual([2, expect.any(Number)]);
  expect(Math.abs(first)).toBeGreaterThan(0);
  expect(output[0][0]).toBeCloseTo(attended[0], 5);
  expect(output[0][1]).toBeCloseTo(attended[1], 5);
}

describe.each(nodes())('Node $version', ({ program, supportsRequire }) => {
  const scripts = Object.keys(kScripts).filter(
    (name) => name !== 'inside.mjs' && (supportsRequire || name !== 'require.cjs'),
  );
  test.each(scripts)('%s', async (name) => check(await run(program, ['--no-warnings', name], { cwd: folder })));
});

test('heed/corpus plans, works and finishes', async () => {
  fs.writeFileSync(join(folder, 'corpus.txt'), 'A quiet street.\nBoiled eggs\n');
  const script = `import { finishEmbedding, planEmbedding, workEmbedding } from 'heed/corpus';
    await planEmbedding(['corpus.txt'], { out: 'vectors', chunk: 1 });
    await workEmbedding('vectors', { workers: 2 });
    console.log(JSON.stringify(await finishEmbedding('vectors')));
    // Without the optional packages, it says what to install.
    await workEmbedding('vectors', { queue: 'redis://127.0.0.1:1' });
    await planEmbedding(['corpus.txt'], { out: 'more' });
    await workEmbedding('more', { queue: 'redis://127.0.0.1:1' }).catch(({ message }) => console.log(message));`;
  fs.writeFileSync(join(folder, 'scale.mjs'), script);
  const [finished, message] = (await runNode([join(folder, 'scale.mjs')], { cwd: folder })).trim().split('\n');
  expect(JSON.parse(finished!)).toMatchObject({ complete: true, rows: 2, parts: 2 });
  expect(message).toBe('queue: expected the package bullmq, got none. Install it: npm install bullmq ioredis');
});

test('heed/node names heed/corpus', async () => {
  const script = `await import('heed/node').catch(({ name, message }) => console.log(name, message));`;
  fs.writeFileSync(join(folder, 'former.mjs'), script);
  const printed = await runNode([join(folder, 'former.mjs')], { cwd: folder });
  expect(printed).toMatch(/^HeedError heed\/node: expected 'heed\/corpus'/);
});

describe('an uncaught error is printed in less than 2 KB, with its class and message', () => {
  const calls = {
    'an option': `await load({ builds: 'auto' })`,
    'a tensor': `(await load()).softmax('x')`,
    'a model': `await (await load()).fromPretrained('./nowhere')`,
    'a file': `await (await load()).fromPretrained({ 'config.json': '{}' })`,
    'a layer': `new (await load()).Linear({ inFeatures: 3 })`,
  };

  test.each(Object.entries(calls))('%s', (_, call) => {
    fs.writeFileSync(join(folder, 'wrong.mjs'), `import { load } from 'heed';\n${call};\n`);
    const options = { cwd: folder, encoding: 'utf8' } as const;
    const { stderr: printed } = spawnSync(process.execPath, ['--no-warnings', 'wrong.mjs'], options);
    expect(printed).toMatch(/^HeedError: /m);
    expect(printed.length).toBeLessThan(2048);
  });
});

test('console.log says what objects are', async () => {
  const script = `import { load } from 'heed';
    const heed = await load({ build: 'simd128' });
    const model = await heed.fromPretrained();
    const vectors = await model.embed(['a fox', 'a dog']);
    console.log(heed);
    console.log(model);
    console.log(heed.TextIndex.of(['a fox', 'a dog'], vectors));
    console.log(new heed.MultiHeadAttention({ embedDim: 8, numHeads: 2 }));
    console.log(JSON.stringify(heed.softmax([[0, 0]])));`;
  fs.writeFileSync(join(folder, 'print.mjs'), script);
  const lines = (await runNode(['--no-warnings', 'print.mjs'], { cwd: folder })).trim().split('\n');
  expect(lines).toEqual([
    expect.stringMatching(/^heed \d+\.\d+\.\d+ \(simd128\)$/),
    expect.stringMatching(
      /^PretrainedModel 'bert': \d+ layers of width \d+, [\d,]+ parameters, q8, texts up to \d+ tokens$/,
    ),
    expect.stringMatching(/^TextIndex: 2 texts, \d+ dimensions, int8$/),
    "MultiHeadAttention { embedDim: 8, numHeads: 2, keyDim: 4, valueDim: 4, keyInputDim: 8, valueInputDim: 8, bias: true, activation: 'identity', dropout: 0 }, 288 parameters",
    '[[0.5,0.5]]',
  ]);
});

test('the command line runs', async () => {
  expect(await runNode([join(folder, 'node_modules/.bin/heed'), '--help'], { cwd: folder })).toMatch(/heed/);
});

/** The running Node, and those that are installed for the bundler tests (see bundlers.test.ts). */
function nodes() {
  const extra = ['node-22', 'node-24'].map((name) =>
    join(import.meta.dirname, 'bundlers/node_modules', name, 'bin/node'),
  );
  const require = (version: string) => {
    const [major, minor] = version.split('.').map(Number);
    return major > 22 || (major === 22 && minor >= 12) || (major === 20 && minor >= 19);
  };
  return [process.execPath, ...extra.filter((path) => fs.existsSync(path))].map((program) => {
    const version = program === process.execPath ? process.versions.node : `${program.match(/node-(\d+)/)![1]}.99.0`;
    return { program, version, supportsRequire: require(version) };
  });
}
