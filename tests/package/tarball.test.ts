import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join, posix } from 'node:path';
import { pathToFileURL } from 'node:url';
import { beforeAll, describe, expect, inject, test } from 'vitest';
import { install, root, runNode } from './installed.js';

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
    'dist/worker-parts.js',
    'dist/gpu-worker.js',
    'dist/thread.js',
    'dist/cli.js',
    'dist/corpus.js',
    'dist/node.js',
    'dist/embed-worker.js',
  ]) {
    expect(names).toContain(needed);
  }
  expect(names.filter((name) => /^(cpp|web|tests|tools|demo|bench)\/|\.(node|so|dll|dylib|exe)$/.test(name))).toEqual(
    [],
  );
  // Every file has a purpose: documents at the root, and in dist/ scripts with maps, modules, declarations and the model.
  const known =
    /^((LICENSE|(README|CHANGELOG|THIRD_PARTY)\.md|package\.json)|dist\/((adapters\/)?[\w.-]+\.js(\.map)?|[\w-]+\.wasm|wasm\.json|types(-5\.6)?\/(adapters\/)?[\w-]+\.d\.ts|model\/(LICENSE|README\.md|model\.safetensors)))$/;
  expect(names.filter((name) => !known.test(name))).toEqual([]);

  const targets =
    JSON.stringify([manifest.exports, manifest.main, manifest.types, manifest.bin]).match(/"\.?\/?dist\/[^"*]*"/g) ??
    [];
  expect(targets.length).toBeGreaterThan(4);
  for (const target of targets) expect(fs.existsSync(join(heed, JSON.parse(target))), target).toBe(true);
});

test('takes at most 9.3 MB as a file, 13 MB on disk, and has at most 250 files', () => {
  const { files, size: packed } = inject('packed');
  console.log(`the package: ${packed} bytes, ${files.length} files`);
  expect(packed).toBeLessThanOrEqual(9_300_000);
  expect(files.reduce((sum, { size }) => sum + size, 0)).toBeLessThanOrEqual(13_000_000);
  expect(files.length).toBeLessThanOrEqual(250);
});

test('has no script that only passes on the names of one other, except for entries', () => {
  const entries = JSON.stringify(manifest.exports);
  for (const { path } of inject('packed').files)
    if (/^dist\/[^/]*\.js$/.test(path) && !entries.includes(`"./${path}"`))
      expect(fs.readFileSync(join(heed, path), 'utf8'), path).not.toMatch(
        /^export\s*\{[^}]*\}\s*from\s*["'`][^"'`]*["'`];?\s*$/,
      );
});

test('worker.js and worker-parts.js are files of their own, which bundlers can copy', () => {
  for (const name of ['worker.js', 'worker-parts.js']) {
    const code = fs.readFileSync(join(heed, 'dist', name), 'utf8');
    expect(code, name).not.toMatch(/(^|[;}\n])\s*(?:import|export)\b(?![(.])/);
    const imports = code.match(/\bimport\s*\([^)]*\)/g) ?? [];
    expect(imports.length, name).toBe(name === 'worker.js' ? 1 : 0);
    for (const found of imports)
      expect(found).toMatch(/^import\(\/\* webpackIgnore: true \*\/ \/\* @vite-ignore \*\/ \w+\)$/);
  }
});

/** An entry's script and those that it imports, as [name, code]; names are relative to dist/. */
function closureOf(entry: string): [name: string, code: string][] {
  const names = [entry];
  const found: [string, string][] = [];
  for (const name of names) {
    const code = fs.readFileSync(join(heed, 'dist', name), 'utf8');
    found.push([name, code]);
    for (const [, imported] of code.matchAll(/\b(?:from|import)\s*["'`](\.[^"'`]+)["'`]/g)) {
      const path = posix.join(posix.dirname(name), imported!);
      if (!names.includes(path)) names.push(path);
    }
  }
  return found;
}

test('scripts are ASCII, in lines that consoles can show, without source maps', () => {
  const names = inject('packed').files.map(({ path }) => path);
  expect(names.filter((name) => name.endsWith('.map'))).toEqual([]);
  for (const name of names.filter((each) => /^dist\/.*\.js$/.test(each))) {
    const code = fs.readFileSync(join(heed, name), 'utf8');
    expect(code.match(/[^\0-\x7f]/), name).toBeNull();
    const longest = Math.max(...code.split('\n').map((line) => line.length));
    expect(longest, name).toBeLessThan(800);
    expect(code, name).not.toContain('sourceMappingURL');
  }
});

describe.each(['worker.js', 'gpu-worker.js', 'train-worker.js'])('%s', (worker) => {
  // Turbopack does not terminate if a worker's script refers to itself.
  test('refers to no script that refers to it', () => {
    const scripts = closureOf(worker).map(([, code]) => code);
    expect(scripts.filter((code) => code.includes(`/${worker}`))).toEqual([]);
  });

  // Bundlers that make one script of a worker, as Vite does before version 8, refuse to divide it.
  test.skipIf(worker === 'worker.js')('imports at run time only what it has linked', () => {
    const scripts = closureOf(worker);
    const names = scripts.map(([name]) => name);
    const imports = scripts.flatMap(([name, code]) =>
      [...code.matchAll(/\bimport\s*\(([^)]*)\)/g)].map(([, target]) => {
        const path = target!.match(/^["'`](\.[^"'`]+)["'`]$/)?.[1];
        return path ? posix.join(posix.dirname(name), path) : target;
      }),
    );
    expect(imports).not.toEqual([]);
    for (const imported of imports) expect(names).toContain(imported);
  });

  // WebKit would evaluate it again: that instance would answer calls without having been started.
  test('is imported by no script', () => {
    const scripts = fs.readdirSync(join(heed, 'dist')).filter((name) => name.endsWith('.js'));
    for (const name of scripts)
      expect(fs.readFileSync(join(heed, 'dist', name), 'utf8'), name).not.toMatch(
        new RegExp(`(?:from|import|import\\()\\s*["'\`]\\./${worker}`),
      );
  });

  // Turbopack does not terminate on such a cycle.
  test('starts no worker with its own script', () => {
    for (const [name, code] of closureOf(worker)) expect(code, name).not.toContain(`./${worker}`);
  });
});

test('only the entries for Node import modules of Node', () => {
  const needNode = Object.values(manifest.exports as Record<string, { default?: string }>)
    .flatMap(({ default: path }) => (path?.endsWith('.js') ? [path.slice('./dist/'.length)] : []))
    .filter((entry) => closureOf(entry).some(([, code]) => /\b(?:from|import)\s*["'`]node:/.test(code)));
  expect(needNode).toEqual(['corpus.js', 'node.js']);
  for (const worker of ['worker.js', 'gpu-worker.js', 'train-worker.js', 'thread.js'])
    for (const [name, code] of closureOf(worker)) expect(code, name).not.toMatch(/\b(?:from|import)\s*["'`]node:/);
});

// All entries share one graph of chunks.
test('errors and tensors of all entries are of the same classes', async () => {
  const folder = join(heed, '../..');
  fs.writeFileSync(
    join(folder, 'classes.mjs'),
    `import { HeedError, load, Tensor } from 'heed';
    import * as training from 'heed/train';
    const errorOf = async (call) => {
      try {
        await call();
      } catch (error) {
        return error;
      }
    };
    const calls = {
      'heed': async () => (await load()).softmax('x'),
      'heed/service-worker': async () => (await (await import('heed/service-worker')).load()).softmax('x'),
      'heed/train': async () => (await training.load()).losses.mse([1], [1, 2]),
      'heed/draw': async () => (await import('heed/draw')).matrix(null, [[1]]),
      'heed/util': async () => (await import('heed/util')).kMeans(null),
      'heed/lens': async () => (await import('heed/lens')).rollout(null, 'x'),
      'heed/evaluation': async () => (await import('heed/evaluation')).classificationMetrics(null),
      'heed/corpus': async () => (await import('heed/corpus')).workEmbedding('missing'),
      'heed/node': async () => import('heed/node'),
      'heed/ai-sdk': async () => (await import('heed/ai-sdk')).embeddingModel(null),
      'heed/langchain': async () => (await import('heed/langchain')).embeddings(null),
      'heed/chroma': async () => (await import('heed/chroma')).embeddingFunction(null),
      'heed/lancedb': async () => (await import('heed/lancedb')).embeddingFunction(null),
    };
    const errors = {};
    for (const [entry, call] of Object.entries(calls)) {
      const error = await errorOf(call);
      errors[entry] = [error instanceof HeedError, error instanceof training.HeedError];
    }
    const heed = await training.load();
    const tensors = [heed.softmax([1, 2]), new heed.Linear({ inFeatures: 2, outFeatures: 2 }).train().forward([[1, 2]])];
    console.log(JSON.stringify({ errors, tensors: tensors.map((tensor) => tensor instanceof Tensor) }));`,
  );
  const { errors, tensors } = JSON.parse(await runNode(['--no-warnings', 'classes.mjs'], { cwd: folder }));
  const entries = Object.keys(manifest.exports).filter((name) => /^\.(\/[\w-]+)?$/.test(name));
  expect(errors).toEqual(Object.fromEntries(entries.map((name) => [name.replace('.', 'heed'), [true, true]])));
  expect(tensors).toEqual([true, true]);
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
    const { compile, link } = modules[name].flags;
    expect(link).toContain('-sDYNAMIC_EXECUTION=0');
    expect(compile.includes('-DHEED_RELAXED_SIMD')).toBe(name.includes('relaxed-simd'));
    expect(link.includes('-mrelaxed-simd')).toBe(name.includes('relaxed-simd'));
    expect(link.includes('-sWASM_WORKERS')).toBe(name.includes('threads'));
  }
});

test('a script that has gone is one clear error', async () => {
  const copy = fs.mkdtempSync(join(tmpdir(), 'heed-dist-'));
  try {
    fs.cpSync(join(heed, 'dist'), copy, { recursive: true });
    fs.writeFileSync(join(copy, 'package.json'), '{ "type": "module" }');
    for (const name of fs.readdirSync(copy)) if (/^inspect-.*\.js$/.test(name)) fs.rmSync(join(copy, name));
    const { load, HeedError } = await import(pathToFileURL(join(copy, 'index.js')).href);
    const runtime = await load();
    const error = await runtime.inspect().catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(HeedError);
    expect(error).toMatchObject({
      code: 'LOAD_FAILED',
      message: expect.stringMatching(/a script of heed could not be loaded: .*inspect-/),
    });
    expect([...runtime.softmax([0, 0]).data]).toEqual([0.5, 0.5]); // and the runtime goes on
  } finally {
    fs.rmSync(copy, { recursive: true });
  }
});

// npm resolves the links of README.md in the repository that package.json names.
test('documents lead to files of the package or to the repository', () => {
  const linksOf = (path: string) =>
    [...fs.readFileSync(join(heed, path), 'utf8').matchAll(/\]\(([^)#]+)(?:#[^)]*)?\)/g)].map(([, link]) => link!);
  for (const name of ['README.md', 'CHANGELOG.md', 'THIRD_PARTY.md'])
    for (const link of linksOf(name).filter((each) => !/^https:/.test(each)))
      expect(fs.existsSync(join(root, link)), `${name}: ${link}`).toBe(true);
  const place = `https://github.com/heed/heed/blob/v${manifest.version}/`;
  for (const link of linksOf('dist/model/README.md'))
    if (link.startsWith(place)) expect(fs.existsSync(join(root, link.slice(place.length))), link).toBe(true);
    else if (link !== 'LICENSE') expect(link).toMatch(/^https:\/\/(?!github\.com\/heed)/);
});

test('contains no eval, no URL of another host and no path of the build machine', () => {
  for (const file of fs.readdirSync(join(heed, 'dist')).filter((name) => name.endsWith('.js'))) {
    const code = fs.readFileSync(join(heed, 'dist', file), 'utf8');
    expect(code, file).not.toMatch(/\bnew Function\b|[^.\w]eval\((?!\))/);
    expect(code.match(/https?:\/\/(?!www\.w3\.org)[\w.-]+\.\w+[^"'`\s]*/g) ?? [], file).toEqual([]);
  }
  for (const { path } of inject('packed').files) {
    const content = fs.readFileSync(join(heed, path), 'latin1');
    for (const place of [process.cwd(), homedir(), '.toolchain', 'file:///'])
      expect(content.includes(place), `${path}: ${place}`).toBe(false);
  }
});
