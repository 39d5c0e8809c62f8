// Follows the README from the tarball, in empty folders and with its blocks as they are: a Node script, Deno, Bun, a page with Vite, a script tag, and a
// checkpoint of a host, for which a server stands in.
import * as fs from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { build as viteBuild } from 'vite';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { launchChromium } from '../../tools/chromium.mjs';
import { install, root, run, runNode } from './installed.js';
import { serve } from './serve.js';

const readme = fs.readFileSync(join(root, 'README.md'), 'utf8');
const blocks = (language: string) =>
  [...readme.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms'))].map(([, code]) => code!);
const [script, remote] = blocks('js') as [string, string];
const [page, tagPage] = blocks('html') as [string, string];
const answer = /^console\.log\(.*\); \/\/ (.*)$/m.exec(script)![1]!;

let browser: Browser;
beforeAll(async () => {
  browser = await launchChromium();
});
afterAll(() => browser?.close());

/** A folder with the installed package and the README's script. */
function withScript(name: string): string {
  const folder = install(name);
  fs.writeFileSync(join(folder, 'search.mjs'), script);
  return folder;
}

test('the README names the package and the address that this test replaces', () => {
  expect(blocks('sh')[0]).toBe('npm install heed\n');
  expect(answer).toMatch(/\w/);
  expect(page).toContain('src="/search.mjs"');
  expect(tagPage).toContain('https://cdn.jsdelivr.net/npm/heed/dist/heed.min.js');
});

test('Node', async () => {
  expect(await runNode(['search.mjs'], { cwd: withScript('readme-node') })).toBe(`${answer}\n`);
});

describe.each([
  ['Deno', 'deno/deno', ['run', '-A', '--node-modules-dir=manual', '--no-lock', 'search.mjs']],
  ['Bun', 'bun/bin/bun', ['search.mjs']],
])('%s', (name, path, args) => {
  const program = join(import.meta.dirname, 'bundlers/node_modules', path);
  const found = fs.existsSync(program);
  test.skipIf(!found)(found ? 'prints it' : `skipped: \`npm run test:bundlers\` installs ${name}`, async () => {
    const cwd = withScript(`readme-${name}`);
    expect(await run(program, args, { cwd, env: { NO_COLOR: '1' } })).toBe(`${answer}\n`);
  });
});

test('a page built by Vite', async () => {
  const folder = withScript('readme-vite');
  fs.writeFileSync(join(folder, 'index.html'), page);
  await viteBuild({ root: folder, configFile: false, logLevel: 'error' });
  await using server = await serve(join(folder, 'dist'));
  const tab = await browser.newPage();
  const said = tab.waitForEvent('console', (message) => message.text() === answer);
  await tab.goto(server.url);
  await said;
  await tab.close();
  expect(server.missing).toEqual([]);
});

test('a script tag that imports from the CDN', async () => {
  const tab = await browser.newPage();
  const dist = join(inject('packed').installed, 'heed/dist');
  await tab.route('https://cdn.jsdelivr.net/npm/heed/dist/**', (route) => {
    const path = join(dist, new URL(route.request().url()).pathname.replace('/npm/heed/dist/', ''));
    const contentType = path.endsWith('.wasm')
      ? 'application/wasm'
      : path.endsWith('.js')
        ? 'text/javascript'
        : 'application/octet-stream';
    if (!fs.existsSync(path)) return route.fulfill({ status: 404 });
    return route.fulfill({ path, contentType, headers: { 'access-control-allow-origin': '*' } });
  });
  const folder = install('readme-tag');
  fs.writeFileSync(join(folder, 'index.html'), tagPage);
  await using server = await serve(folder);
  await tab.goto(server.url);
  await tab.getByText(answer).waitFor({ timeout: 120_000 });
  await tab.close();
  expect(server.missing).toEqual([]);
});

/** One layer of all-MiniLM-L6-v2's widths with meaningless weights, and the shipped model's tokenizer. */
function standIn(): Record<string, Buffer> {
  const [width, inner] = [384, 1536];
  const tokenizer = fs.readFileSync(join(root, 'web/model/tokenizer.json'));
  const vocabulary = Object.keys(JSON.parse(tokenizer.toString()).model.vocab).length;
  const layer = 'encoder.layer.0.';
  const linear = (name: string, out: number, into: number): [string, number[]][] => [
    [`${name}.weight`, [out, into]],
    [`${name}.bias`, [out]],
  ];
  const norm = (name: string): [string, number[]][] => [
    [`${name}.weight`, [width]],
    [`${name}.bias`, [width]],
  ];
  const shapes: [string, number[]][] = [
    ['embeddings.word_embeddings.weight', [vocabulary, width]],
    ['embeddings.position_embeddings.weight', [512, width]],
    ['embeddings.token_type_embeddings.weight', [2, width]],
    ...norm('embeddings.LayerNorm'),
    ...['query', 'key', 'value'].flatMap((part) => linear(`${layer}attention.self.${part}`, width, width)),
    ...linear(`${layer}attention.output.dense`, width, width),
    ...norm(`${layer}attention.output.LayerNorm`),
    ...linear(`${layer}intermediate.dense`, inner, width),
    ...linear(`${layer}output.dense`, width, inner),
    ...norm(`${layer}output.LayerNorm`),
  ];
  const header: Record<string, object> = {};
  let end = 0;
  for (const [name, shape] of shapes) {
    const bytes = 4 * shape.reduce((product, extent) => product * extent, 1);
    header[name] = { dtype: 'F32', shape, data_offsets: [end, end + bytes] };
    end += bytes;
  }
  const json = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  const weights = Float32Array.from({ length: end / 4 }, (_, i) => Math.sin(i) / 10);
  const config = {
    model_type: 'bert',
    vocab_size: vocabulary,
    hidden_size: width,
    num_hidden_layers: 1,
    num_attention_heads: 12,
    intermediate_size: inner,
    max_position_embeddings: 512,
    type_vocab_size: 2,
    hidden_act: 'gelu',
    layer_norm_eps: 1e-12,
  };
  return {
    'config.json': Buffer.from(JSON.stringify(config)),
    'tokenizer.json': tokenizer,
    'model.safetensors': Buffer.concat([length, json, Buffer.from(weights.buffer)]),
  };
}

test('a checkpoint of a named host, fetched once', async () => {
  const files = standIn();
  const requested: string[] = [];
  const server = createServer((request, response) => {
    requested.push(request.url!);
    const body = files[request.url!.replace('/sentence-transformers/all-MiniLM-L6-v2/resolve/main/', '')];
    response.writeHead(body ? 200 : 404, { 'content-length': body?.length ?? 0 }).end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const host = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  expect(remote).toContain("remoteHost: 'https://huggingface.co'");
  const folder = install('readme-remote');
  const lines = remote
    .replace('https://huggingface.co', host)
    .replace(/^(\w+\.\w+); \/\/ .*$/gm, 'console.log(JSON.stringify($1));');
  const expected = [...remote.matchAll(/^\w+\.\w+; \/\/ (.*)$/gm)].map(([, value]) => value!.replaceAll(' ', ''));
  expect(expected).toEqual(['3', '384']);
  fs.writeFileSync(join(folder, 'remote.mjs'), lines);
  try {
    const env = { HOME: folder }; // where the cache is
    for (const weights of [1, 1]) {
      const printed = await runNode(['remote.mjs'], { cwd: folder, env });
      expect(printed.trim().split('\n')).toEqual(expected);
      expect(requested.filter((path) => path.endsWith('/model.safetensors'))).toHaveLength(weights);
    }
  } finally {
    server.closeAllConnections();
    server.close();
  }
});
