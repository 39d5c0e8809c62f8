// Builds dist/, the files of the package: the TypeScript API bundled by Rolldown (with its dependencies, so that the package
// has none), its declarations by tsc, bundled likewise, the WebAssembly modules, the shipped model, and a record of how the modules were built.
import * as fs from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { PlainError, root, run, say } from './console.mjs';
import { filesBelow, hashOf } from './files.mjs';
import { laterScripts } from './linked-scripts.mjs';
import { provenance } from './provenance.mjs';

const dist = join(root, 'dist');
const next = join(root, 'build/dist');
const types = join(root, 'build/types');
const wasmFolder = join(root, 'build/wasm-release');
const stamp = join(root, 'build/web.stamp');
/** The packages whose code is in the scripts, by their keys in package-lock.json, for tools/sbom.mjs. */
export const bundledFile = join(root, 'build/bundled.json');

// Pairs of builds, without and with relaxed SIMD. A pair is compiled from the same sources and shares one glue script.
const kGlue = { inference: '', threads: 'threads-', training: 'train-' };
const kModules = Object.values(kGlue).flatMap((prefix) => [`${prefix}simd128`, `${prefix}relaxed-simd`]);
const glueOf = (name) => join(wasmFolder, name, 'heed.mjs');

// Names in dist/ -> sources. All entries are bundled together, so that they share every class; the scripts of workers are
// entries, too.
const kEntries = {
  index: 'web/src/index.ts',
  'service-worker': 'web/src/service-worker.ts',
  train: 'web/src/train/index.ts',
  draw: 'web/src/draw/index.ts',
  util: 'web/src/util/index.ts',
  lens: 'web/src/lens/index.ts',
  evaluation: 'web/src/evaluation/index.ts',
  ...Object.fromEntries(
    ['ai-sdk', 'langchain', 'chroma', 'lancedb'].map((name) => [`adapters/${name}`, `web/src/adapters/${name}.ts`]),
  ),
  'page-worker': 'web/src/worker/page-worker.ts',
  'gpu-worker': 'web/src/worker/gpu-worker.ts',
  'train-worker': 'web/src/train/fit/worker.ts',
  thread: 'web/src/worker/thread.ts',
  // For Node only.
  corpus: 'web/src/corpus.ts',
  node: 'web/src/node.ts', // says that its name is heed/corpus
  'embed-worker': 'web/src/scale/embed-worker.ts',
  cli: 'web/src/cli/main.ts',
};

// Modules that share a chunk, each with the modules that it imports, unless a chunk above has them. What is not listed gets a
// chunk for each set of entries that need it. Sizes are what brotli leaves of the scripts that an entry loads.
const kChunks = {
  ...Object.fromEntries(
    Object.entries(kGlue).map(([name, prefix]) => [`${name}-glue`, new RegExp(`wasm-release.${prefix}simd128.heed`)]),
  ),
  // All that drawing, heed/util and the adapters need: in `core`, they would load 10 KB more.
  base: /web.src.(base.(tensor|options|event-loop|random|lists|fnv|pending|unproxied)|models.heads.max-sim|search.similarity|tasks.attention-rollout)\.ts$/,
  // What pages of heed/train need before they load a model: in `models`, those with layers alone would load 31 KB more.
  core: /web.src.(base.(wasm.(module|shipped)|activations|event-loop|hub-options|owned|site-plan|start-worker)|io.(bytes|safetensors)|models.(call-options|model|probe|prompts|heads.sparse|quantized)|worker.channel)\.ts$/,
  // What runs a model, in a page or in a worker: one script in place of a dozen, which is 12 KB less.
  models: /web.src.worker.handler\.ts$/,
  // What pages of `heed` and of `heed/train` share besides: one script in place of four.
  api: /web.src.(api.(instances|on-demand|prefetch|runtime)|layers.safetensors|models.stream|pipeline.make-pipeline)\.ts$/,
};

function inputs() {
  return [
    ...filesBelow(join(root, 'web')),
    ...filesBelow(join(root, 'cpp')),
    ...kModules.flatMap((name) => ['heed.mjs', 'heed.wasm'].map((file) => join(wasmFolder, name, file))),
    ...['package.json', 'package-lock.json', 'tsconfig.json', 'tsconfig.build.json'].map((file) => join(root, file)),
    ...filesBelow(join(root, 'tools')).filter((file) => file.endsWith('.mjs') && !file.includes('node_modules')),
  ];
}

// If a compiler numbered the imports of a pair differently, shared glue would call the wrong functions.
function requireSharedGlue() {
  for (const prefix of Object.values(kGlue)) {
    const [one, other] = ['simd128', 'relaxed-simd'].map((name) => fs.readFileSync(glueOf(prefix + name), 'utf8'));
    if (one !== other) throw new PlainError(`${prefix}simd128 and ${prefix}relaxed-simd have different glue`);
  }
}

/**
 * Removes Emscripten's test for Node, whose result nothing reads: Parcel adds a polyfill wherever `process` is mentioned, and fails
 * if it is not installed. The only edit of generated code; not for its 38 bytes.
 */
const gluePlugin = {
  name: 'glue',
  transform: {
    filter: { id: /heed\.mjs$/ },
    // Without a source map: nobody debugs generated code.
    handler: (code) => ({
      code: code.replace(/var ENVIRONMENT_IS_NODE=[^;]*;(?!.*ENVIRONMENT_IS_NODE)/s, ''),
      map: { mappings: '' },
    }),
  },
};

/** Removes the methods of pbf's reader that heed does not call, since bundlers keep every method of a class: 0.8 KB of 10 for reading ONNX. */
const pbfPlugin = {
  name: 'pbf',
  transform: {
    filter: { id: /node_modules.pbf.index\.js$/ },
    handler: (code) => ({
      code: code.replace(
        /^ {4}read(Message|String|Double|SVarint|Boolean|S?Fixed\d+|Packed(SVarint|Boolean|Float|Double|S?Fixed\d+))\([^)]*\) \{\n(.*\n)*? {4}\}\n/gm,
        '',
      ),
      map: null,
    }),
  },
};

const kBundling = {
  cwd: root,
  platform: 'node', // `require` in libraries of the command line; no other script needs anything of Node to load
  external: /^node:/,
  resolve: {
    alias: Object.fromEntries(
      Object.entries(kGlue).map(([name, prefix]) => [`heed-glue/${name}`, glueOf(`${prefix}simd128`)]),
    ),
  },
  transform: { target: 'es2022' },
};

/** The folders of the packages whose code is in bundled scripts. */
const packagesIn = (output) =>
  output.flatMap(({ modules = {} }) =>
    Object.entries(modules).flatMap(([id, { renderedLength }]) => {
      const found = /^(.*\/)?(node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(relative(root, id).replaceAll('\\', '/'));
      return found && renderedLength > 0 ? [`${found[1] ?? ''}${found[2]}`] : [];
    }),
  );

/** Bundles the entries. Returns the packages whose code is in them. */
async function bundle(forCoverage) {
  // Not at the top: this file is loaded before the packages are installed.
  const { rolldown } = await import('rolldown');
  const { facadeOf, finishFile } = await import('./finish-script.mjs');
  const input = { ...kEntries };
  // Unit tests import modules of web/src. As entries they share the package's chunks, so that what the tests run is counted.
  if (forCoverage) {
    const sources = filesBelow(join(root, 'web/src')).filter((file) => file.endsWith('.ts') && !file.endsWith('.d.ts'));
    for (const file of sources) {
      const name = relative(join(root, 'web/src'), file).slice(0, -3);
      if (!Object.values(kEntries).includes(`web/src/${name}.ts`)) input[`parts/${name}`] = file;
    }
  }
  const bundled = await rolldown({ ...kBundling, input, plugins: [gluePlugin, pbfPlugin] });
  const chunks = Object.entries(kChunks);
  const { output } = await bundled.write({
    dir: next,
    format: 'es',
    chunkFileNames: '[name]-[hash].js',
    codeSplitting: { groups: chunks.map(([name, test], i) => ({ name, test, priority: chunks.length - i })) },
    comments: false, // THIRD_PARTY.md has the licenses
    sourcemap: forCoverage, // in the package, maps without the sources would only be one more megabyte
    minify: !forCoverage,
  });
  await bundled.close();
  const scripts = output.map(({ fileName }) => join(next, fileName)).filter((file) => file.endsWith('.js'));
  const link = () => {
    for (const name of ['gpu-worker.js', 'train-worker.js']) fs.appendFileSync(join(next, name), linkLater(name));
  };
  if (forCoverage) {
    link();
    return packagesIn(output);
  }
  const facades = new Map();
  for (const { fileName, isEntry } of output) {
    const facade = !isEntry && fileName.endsWith('.js') && facadeOf(fs.readFileSync(join(next, fileName), 'utf8'));
    if (facade) facades.set(`./${fileName}`, facade);
  }
  for (const file of scripts) finishFile(file, facades);
  for (const name of facades.keys()) fs.rmSync(join(next, name));
  link();
  return packagesIn(output);
}

/** Removes imports on demand of heed's own modules, and collects the names by which `importing` knows them. */
const removeImports = (names) => ({
  name: 'without imports on demand',
  transform: {
    filter: { id: /web.src.*\.ts$/ },
    handler: (code) => ({
      code: code.replace(/\b(importing|later)\(\s*'([\w-]+)',\s*\(\) =>\s*import\('\.[^']*'\)/g, (_, call, name) => {
        names.add(name);
        return `${call}('${name}', () => Promise.reject()`;
      }),
      map: null,
    }),
  },
});

// Scripts of one file each, by name: their sources, and the sources that list the parts which are in a second file.
const kDivided = {
  worker: { source: 'web/src/worker/worker.ts', parts: ['worker-parts', 'call-parts', 'model-parts'] },
  'heed.min': {
    source: 'web/src/min.ts',
    parts: ['min-parts', 'first-parts', 'call-parts', 'model-parts', 'page-parts'],
  },
};

/** The names of a list of exports or imports, `a as b,c`. */
const namesIn = (list) =>
  list.split(',').map((pair) => {
    const [from, to = from] = pair.trim().split(/\s+as\s+/);
    return [from, to];
  });

/**
 * Bundles a script in one file, and what it imports on demand in another, NAME-parts.js. The second refers to values of the
 * first by a global object: WebKit would evaluate the script of a worker again for a script that imports it, and a file
 * without imports can be copied by bundlers as it is. Returns the packages whose code is in them.
 */
async function bundleDivided(name, { source, parts }, forCoverage) {
  const { rolldown } = await import('rolldown');
  const { finishFile } = await import('./finish-script.mjs');
  const later = new Set();
  const bundled = await rolldown({
    ...kBundling,
    input: { [name]: source, [`${name}-parts`]: `web/src/${parts[0]}.ts` },
    plugins: [removeImports(later), gluePlugin, pbfPlugin],
    preserveEntrySignatures: 'strict',
  });
  const { output } = await bundled.write({
    dir: next,
    format: 'es',
    entryFileNames: '[name].js',
    chunkFileNames: '[name].js',
    codeSplitting: { groups: [{ name: `${name}-core`, test: (id) => id === join(root, source) }] },
    comments: false,
    minify: !forCoverage,
  });
  await bundled.close();
  const [script, core, rest] = ['', '-core', '-parts'].map((end) => join(next, `${name}${end}.js`));
  const names = output.map(({ fileName }) => join(next, fileName)).filter((file) => file.endsWith('.js'));
  if (names.sort().join() !== [core, rest, script].sort().join())
    throw new PlainError(`${name}: expected three scripts, got ${names}`);
  const lists =
    parts.map((part) => fs.readFileSync(join(root, `web/src/${part}.ts`), 'utf8')).join('') +
    fs.readFileSync(join(root, source), 'utf8');
  const missing = [...later].filter((part) => !new RegExp(`[ ']${part}'?: \\{`).test(lists));
  if (missing.length > 0)
    throw new PlainError(
      `${name}: expected all parts in ${source} and ${parts.map((part) => `web/src/${part}.ts`).join(', ')}, got none named ${missing.join(', ')}`,
    );

  const edit = (file, pattern, replacement) => {
    const code = fs.readFileSync(file, 'utf8');
    if (code.match(new RegExp(pattern, 'g'))?.length !== 1) throw new PlainError(`${file}: expected ${pattern} once`);
    fs.writeFileSync(file, code.replace(pattern, replacement));
  };
  // The entry's script only re-exports names of NAME-core.js, which replaces it.
  const [, passed = ''] = /export\s*\{([^}]*)\}\s*from/.exec(fs.readFileSync(script, 'utf8')) ?? [];
  fs.renameSync(core, script);
  const shared = `globalThis['heed ${name}']`;
  edit(script, /\bexport\s*\{([^}]*)\};?/, (_, list) => {
    const own = new Map(namesIn(list).map(([from, to]) => [to, from]));
    const exported = passed === '' ? [] : namesIn(passed).map(([from, to]) => `${own.get(from)} as ${to}`);
    const values = [...own].map(([to, from]) => `${to}:${from}`);
    return `${shared}={${values}};${exported.length > 0 ? `export{${exported}};` : ''}`;
  });
  edit(
    rest,
    new RegExp(`\\bimport\\s*\\{([^}]*)\\}\\s*from\\s*["'\`]\\./${name}-core\\.js["'\`];?`),
    (_, list) => `const{${namesIn(list).map(([from, to]) => `${from}:${to}`)}}=${shared};`,
  );
  edit(rest, /\bexport\s*\{\s*\};?/, '');
  if (!forCoverage) for (const file of [script, rest]) finishFile(file);
  // After minification, which removes comments: bundlers leave this import as it is.
  edit(script, /\bimport\((?=[\w$]+\)|new URL)/, 'import(/* webpackIgnore: true */ /* @vite-ignore */ ');
  return packagesIn(output);
}

/**
 * What makes a worker's script import statically, too, what its scripts import when it is used: Vite before version 8 makes one script
 * of a worker and refuses to divide it. A bundler drops an import that nothing uses, but never an assignment to a global.
 */
function linkLater(script) {
  const names = laterScripts(next, script);
  const imports = names.map((name, i) => `import*as part${i} from"./${name}";\n`).join('');
  return `${imports}globalThis.heedParts=[${names.map((_, i) => `part${i}`)}];\n`;
}

// Declarations that several entries share have files of their own: a class with private members that is declared twice is
// two types to TypeScript. Those of the folders `train` and `api` are separate, because other folders have the same names.
const kTypeChunks = { shared: /^(?!train\/|api\/)/, 'shared-api': /^api\//, 'shared-train': /^train\// };

/**
 * Bundles the declarations in `from`, one file per source, into one per entry and those that entries share. By
 * rolldown-plugin-dts, as Rolldown bundles the scripts; it keeps comments, and sources need no annotations for it.
 */
async function bundleTypes(from, to) {
  const { rolldown } = await import('rolldown');
  const { dts } = await import('rolldown-plugin-dts');
  const entries = Object.entries(kEntries).map(([name, source]) => [
    name,
    join(from, source.replace('web/src/', '').replace(/\.ts$/, '.d.ts')),
  ]);
  const exported = JSON.stringify(JSON.parse(fs.readFileSync(join(root, 'package.json'), 'utf8')).exports);
  const input = Object.fromEntries(entries.filter(([name]) => exported.includes(`"./dist/${name}.js"`)));
  const bundled = await rolldown({ input, plugins: [dts({ dtsOnly: true })] });
  await bundled.write({
    dir: to,
    entryFileNames: '[name].d.ts',
    chunkFileNames: '[name].d.ts',
    codeSplitting: {
      groups: Object.entries(kTypeChunks).map(([name, folder], i) => ({
        name,
        test: (id) => folder.test(relative(from, id)),
        minShareCount: 2,
        priority: Object.keys(kTypeChunks).length - i,
      })),
    },
  });
  await bundled.close();
}

// Packs the model's folder into one file, which web/src/io/packed.ts reads: the small files move into the header's metadata. Beside
// it are the card and the licence, but not the dictionary, which the demo and an example search.
function packModel(from, to) {
  const weights = fs.readFileSync(join(from, 'model.safetensors'));
  const end = 8 + Number(weights.readBigUInt64LE(0));
  const header = JSON.parse(weights.toString('utf8', 8, end));
  const small = filesBelow(from).filter((file) => file.endsWith('.json'));
  for (const file of small) {
    header.__metadata__ = { ...header.__metadata__, [relative(from, file)]: fs.readFileSync(file, 'utf8') };
  }
  // The format asks for padding to a multiple of 8, so that tensors stay aligned.
  let json = Buffer.from(JSON.stringify(header));
  json = Buffer.concat([json, Buffer.alloc(-json.length & 7, ' ')]);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  fs.mkdirSync(to, { recursive: true });
  fs.copyFileSync(join(from, 'LICENSE'), join(to, 'LICENSE'));
  // The card's links lead into the repository, whose other files are not in the package.
  const { homepage, version } = JSON.parse(fs.readFileSync(join(root, 'package.json'), 'utf8'));
  const place = `${homepage.replace('#readme', '')}/blob/v${version}/web/model/`;
  const card = fs.readFileSync(join(from, 'README.md'), 'utf8').replace(/<!-- \/?figure[^>]*-->/g, '');
  const linked = card.replace(/\]\((?!LICENSE\))([^)]*)\)/g, (_, path) => `](${new URL(path, place)})`);
  fs.writeFileSync(join(to, 'README.md'), linked);
  fs.writeFileSync(join(to, 'model.safetensors'), Buffer.concat([length, json, weights.subarray(end)]));
}

/**
 * Writes declarations for TypeScript before 5.7, in which typed arrays have no type parameter. From 5.7 on, it tells an
 * ArrayBuffer, which a Blob accepts, from a buffer that may be shared. They have no comments, two thirds of the bytes: editors show those of
 * the declarations for their own, newer TypeScript.
 */
async function writeOlderTypes(from, to) {
  const { default: ts } = await import('typescript');
  const printer = ts.createPrinter({ removeComments: true });
  for (const file of filesBelow(from)) {
    const path = join(to, relative(from, file));
    fs.mkdirSync(dirname(path), { recursive: true });
    const text = printer.printFile(ts.createSourceFile(path, fs.readFileSync(file, 'utf8'), ts.ScriptTarget.Latest));
    fs.writeFileSync(path, text.replace(/\b(\w+Array)<ArrayBuffer(Like)?>/g, '$1'));
  }
}

/** @param {{ forCoverage?: boolean }} options forCoverage: scripts that are not minified, with source maps */
export async function buildWeb({ forCoverage = false } = {}) {
  const hash = hashOf(inputs()) + (forCoverage ? ' for coverage' : '');
  const isBuilt = [stamp, dist, bundledFile].every((path) => fs.existsSync(path));
  if (isBuilt && fs.readFileSync(stamp, 'utf8') === hash) return;
  const start = Date.now();
  fs.rmSync(stamp, { force: true });
  for (const folder of [next, types]) fs.rmSync(folder, { recursive: true, force: true });
  requireSharedGlue();
  const modules = kModules.map((name) => [name, fs.readFileSync(join(wasmFolder, name, 'heed.wasm'))]);
  const tsc = [process.execPath, 'node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json', '--outDir', types];
  const [{ status }, ...bundled] = await Promise.all([
    run(tsc, { allowFailure: true }),
    bundle(forCoverage),
    ...Object.entries(kDivided).map(([name, divided]) => bundleDivided(name, divided, forCoverage)),
  ]);
  await bundleTypes(types, join(next, 'types'));
  await writeOlderTypes(join(next, 'types'), join(next, 'types-5.6'));
  for (const [name, bytes] of modules) fs.writeFileSync(join(next, `heed-${name}.wasm`), bytes);
  packModel(join(root, 'web/model'), join(next, 'model'));
  if (fs.existsSync(join(next, 'cli.js'))) fs.chmodSync(join(next, 'cli.js'), 0o755);
  fs.writeFileSync(join(next, 'wasm.json'), `${JSON.stringify(provenance(modules, wasmFolder), null, 2)}\n`);
  fs.writeFileSync(bundledFile, `${JSON.stringify([...new Set(bundled.flat())].sort(), null, 2)}\n`);
  // Moved into place at the end, so that a program that uses dist/ never sees half of it.
  fs.rmSync(dist, { recursive: true, force: true });
  fs.renameSync(next, dist);
  if (status !== 0) throw new PlainError('type errors; dist/ was built nevertheless');
  fs.writeFileSync(stamp, hash);
  say(`built dist/ in ${Date.now() - start} ms`);
}
