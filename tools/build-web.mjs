// dist/: the package's files. The face bundled by esbuild (its two dependencies inside, so the package has none), its
// declarations by tsc, the WebAssembly modules and the shipped model beside it, and where the modules come from.
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { join, relative } from 'node:path';
import { PlainError, root, run, say } from './console.mjs';
import { provenance } from './provenance.mjs';

const kBuilds = ['simd128', 'relaxed-simd'];
const dist = join(root, 'dist');
const wasmFolder = join(root, 'build/wasm-release');
const stamp = join(root, 'build/web.stamp');

// Names in dist/ -> sources. The worker and the command line are entries of their own and share chunks with the face.
const kEntries = { index: 'web/src/index.ts', worker: 'web/src/worker/worker.ts', cli: 'web/src/cli/main.ts' };

export function filesBelow(folder) {
  if (!fs.existsSync(folder)) return [];
  const entries = fs.readdirSync(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
    .sort();
}

/** One hash over the names and contents of files. */
export function hashOf(files) {
  const hash = createHash('sha256');
  for (const file of files)
    hash
      .update(`${relative(root, file)}\0`)
      .update(fs.readFileSync(file))
      .update('\0');
  return hash.digest('hex');
}

function inputs() {
  return [
    ...filesBelow(join(root, 'web')),
    ...filesBelow(join(root, 'cpp')),
    ...kBuilds.flatMap((name) => ['heed.mjs', 'heed.wasm'].map((file) => join(wasmFolder, name, file))),
    ...['package.json', 'package-lock.json', 'tsconfig.json', 'tsconfig.build.json'].map((file) => join(root, file)),
    ...filesBelow(join(root, 'tools')).filter((file) => file.endsWith('.mjs')),
  ];
}

// Both modules come from one source, so one glue serves both; were a compiler to number their imports differently, a
// shared glue would call the wrong functions, hence the check.
function checkGlue() {
  const [first, second] = kBuilds.map((name) => fs.readFileSync(join(wasmFolder, name, 'heed.mjs'), 'utf8'));
  if (first !== second) throw new PlainError('the two modules need different glue; build-web.mjs ships one for both');
}

async function bundle() {
  const { build } = await import('esbuild');
  const entryPoints = Object.fromEntries(
    Object.entries(kEntries).filter(([, source]) => fs.existsSync(join(root, source))),
  );
  const result = await build({
    absWorkingDir: root,
    entryPoints,
    outdir: 'dist',
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    minify: true,
    sourcemap: 'linked',
    legalComments: 'none', // THIRD_PARTY.md names them all
    chunkNames: '[name]-[hash]',
    alias: { 'heed-glue': join(wasmFolder, 'simd128/heed.mjs') },
    external: ['node:*'],
    metafile: true,
    logLevel: 'warning',
  });
  fs.writeFileSync(join(root, 'build/web-metafile.json'), JSON.stringify(result.metafile));
}

export async function buildWeb() {
  const hash = hashOf(inputs());
  if (fs.existsSync(stamp) && fs.readFileSync(stamp, 'utf8') === hash && fs.existsSync(dist)) return;
  const start = Date.now();
  fs.rmSync(stamp, { force: true });
  fs.rmSync(dist, { recursive: true, force: true });
  checkGlue();
  await Promise.all([
    bundle(),
    run([process.execPath, 'node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json']),
  ]);
  for (const name of kBuilds) {
    fs.copyFileSync(join(wasmFolder, name, 'heed.wasm'), join(dist, `heed-${name}.wasm`));
  }
  const model = join(root, 'web/model');
  if (fs.existsSync(model)) fs.cpSync(model, join(dist, 'model'), { recursive: true });
  if (fs.existsSync(join(dist, 'cli.js'))) fs.chmodSync(join(dist, 'cli.js'), 0o755);
  fs.writeFileSync(join(dist, 'wasm.json'), `${JSON.stringify(provenance(kBuilds, wasmFolder), null, 2)}\n`);
  fs.writeFileSync(stamp, hash);
  say(`built dist/ in ${Date.now() - start} ms`);
}
