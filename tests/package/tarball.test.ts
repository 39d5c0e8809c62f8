import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, inject, test } from 'vitest';
import { install } from './installed.js';

let heed: string;
let manifest: Record<string, unknown> & { exports: Record<string, unknown>; scripts?: Record<string, string> };

beforeAll(async () => {
  heed = join(install('tarball'), 'node_modules/heed');
  manifest = JSON.parse(fs.readFileSync(join(heed, 'package.json'), 'utf8'));
});

test('has no dependencies but optional peers, and no install scripts', () => {
  for (const field of ['dependencies', 'optionalDependencies', 'bundledDependencies']) {
    expect(manifest[field]).toBeUndefined();
  }
  // Queues and databases for corpora larger than one machine.
  const optional = { bullmq: { optional: true }, ioredis: { optional: true }, pg: { optional: true } };
  expect(manifest.peerDependenciesMeta).toEqual(optional);
  expect(Object.keys(manifest.peerDependencies as object)).toEqual(Object.keys(optional));
  for (const script of ['preinstall', 'install', 'postinstall', 'prepare']) {
    expect(manifest.scripts?.[script]).toBeUndefined();
  }
});

test('contains the files that its manifest names, but no sources and no native binaries', () => {
  const names = inject('packed').files.map(({ path }) => path);
  for (const needed of [
    'LICENSE',
    'README.md',
    'CHANGELOG.md',
    'THIRD_PARTY.md',
    'dist/index.js',
    'dist/worker.js',
    'dist/thread.js',
    'dist/cli.js',
    'dist/node.js',
    'dist/embed-worker.js',
  ]) {
    expect(names).toContain(needed);
  }
  expect(names.filter((name) => /^(cpp|web|tests|tools|demo|bench)\/|\.(node|so|dll|dylib|exe)$/.test(name))).toEqual(
    [],
  );

  const targets =
    JSON.stringify([manifest.exports, manifest.main, manifest.types, manifest.bin]).match(/"\.?\/?dist\/[^"*]*"/g) ??
    [];
  expect(targets.length).toBeGreaterThan(4);
  for (const target of targets) expect(fs.existsSync(join(heed, JSON.parse(target))), target).toBe(true);
});

// Bundlers that make one script of a worker, as Vite does before version 8, refuse to if it imports at run time.
test('the scripts of workers import nothing at run time', () => {
  const names = ['worker.js', 'train-worker.js'];
  for (const name of names) {
    const script = fs.readFileSync(join(heed, 'dist', name), 'utf8');
    expect(script, name).not.toMatch(/\bimport\s*\(/);
    for (const [, found] of script.matchAll(/\bfrom\s*["'`]\.\/([^"'`]+)/g))
      if (!names.includes(found!)) names.push(found!);
  }
  expect(names.length).toBeGreaterThan(2);
});

test('records the compiler, flags and sources of its modules', () => {
  const { version, compiler, sources, modules } = JSON.parse(fs.readFileSync(join(heed, 'dist/wasm.json'), 'utf8'));
  expect(version).toBe(manifest.version);
  expect(compiler).toEqual({
    emscripten: expect.stringMatching(/^\d+\.\d+\.\d+$/),
    clang: expect.stringMatching(/^\d+\./),
  });
  expect(sources).toMatch(/^[0-9a-f]{64}$/);
  const names = ['simd128', 'relaxed-simd', 'threads-simd128', 'threads-relaxed-simd'].map(
    (build) => `heed-${build}.wasm`,
  );
  for (const name of names) {
    const bytes = fs.readFileSync(join(heed, 'dist', name));
    expect(modules[name].bytes).toBe(bytes.length);
    expect(modules[name].sha256).toBe(createHash('sha256').update(bytes).digest('hex'));
    expect(modules[name].flags.link).toContain('-sDYNAMIC_EXECUTION=0');
    expect(modules[name].flags.compile.includes('-mrelaxed-simd')).toBe(name.includes('relaxed-simd'));
    expect(modules[name].flags.compile.includes('-DHEED_THREADS')).toBe(name.includes('threads'));
  }
});

test('contains no eval, no URL of another host and no path of the build machine', () => {
  for (const file of fs.readdirSync(join(heed, 'dist')).filter((name) => name.endsWith('.js'))) {
    const code = fs.readFileSync(join(heed, 'dist', file), 'utf8');
    expect(code, file).not.toMatch(/\bnew Function\b|[^.\w]eval\((?!\))/);
    expect(code.match(/https?:\/\/(?!www\.w3\.org)[\w.-]+\.\w+[^"'`\s]*/g) ?? [], file).toEqual([]);
    expect(code, file).not.toContain(process.cwd());
  }
});
