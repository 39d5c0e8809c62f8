// Builds dist/, the files of the package: the TypeScript API bundled by esbuild (with its dependencies, so that the package
// has none), its declarations by tsc, the WebAssembly modules, the shipped model, and a record of how the modules were built.
import * as fs from 'node:fs';
import { join, relative } from 'node:path';
import { PlainError, root, run, say } from './console.mjs';
import { filesBelow, hashOf } from './files.mjs';
import { provenance } from './provenance.mjs';
import { renamed } from './wasm-names.mjs';

const dist = join(root, 'dist');
const next = join(root, 'build/dist');
const wasmFolder = join(root, 'build/wasm-release');
const stamp = join(root, 'build/web.stamp');

// The API for inference, and with training. Each is bundled by itself, with modules and glue of its own, so that training
// changes nothing for those who do not use it. `entries` are names in dist/ -> sources; the workers are entry points of their
// own and share chunks with the API.
const kVariants = [
  {
    prefix: '',
    modules: ['simd128', 'relaxed-simd', 'threads-simd128', 'threads-relaxed-simd'],
    entries: {
      index: 'web/src/index.ts',
      worker: 'web/src/worker/worker.ts',
      thread: 'web/src/worker/thread.ts',
    },
  },
  {
    prefix: 'train-',
    modules: ['train-simd128', 'train-relaxed-simd'],
    entries: { train: 'web/src/train/index.ts', 'train-worker': 'web/src/train/worker.ts' },
  },
];
// Further entries. They are bundled separately, so that users who do not import them download nothing of them.
const kExtras = {
  draw: 'web/src/draw.ts',
  ...Object.fromEntries(
    ['ai-sdk', 'langchain', 'chroma', 'lancedb', 'semantic-embedder'].map((name) => [
      `adapters/${name}`,
      `web/src/adapters/${name}.ts`,
    ]),
  ),
};
const kModules = kVariants.flatMap(({ modules }) => modules);
// An entry point so that it becomes a separate chunk: it is third-party code, and its size is reported separately.
const kTokenizers = { tokenizers: 'node_modules/@huggingface/tokenizers/dist/tokenizers.mjs' };

function inputs() {
  return [
    ...filesBelow(join(root, 'web')),
    ...filesBelow(join(root, 'cpp')),
    ...kModules.flatMap((name) => ['heed.mjs', 'heed.wasm'].map((file) => join(wasmFolder, name, file))),
    ...['package.json', 'package-lock.json', 'tsconfig.json', 'tsconfig.build.json'].map((file) => join(root, file)),
    ...filesBelow(join(root, 'tools')).filter((file) => file.endsWith('.mjs') && !file.includes('node_modules')),
  ];
}

const glueOf = (name) => fs.readFileSync(join(wasmFolder, name, 'heed.mjs'), 'utf8');

// The modules of a variant are compiled from the same sources and share the glue of the first. If a compiler numbered their
// imports differently, shared glue would call the wrong functions, hence the check. The modules for threads have other glue,
// of which nothing is needed, but their imports are the same and are renamed.
function modulesOf({ modules }) {
  const shared = glueOf(modules[0]);
  return modules.map((name) => {
    const bytes = fs.readFileSync(join(wasmFolder, name, 'heed.wasm'));
    const glue = glueOf(name);
    if (glue === shared) return [name, bytes];
    if (name.startsWith('threads-')) return [name, renamed(bytes, glue, shared)];
    throw new PlainError('two modules have different glue; build-web.mjs ships one script for them');
  });
}

// Removes what heed does not use from Emscripten's glue: its own ways to find the module (web/src/module.ts supplies it, and
// ending createWasm early makes the rest dead code), methods of handles, names of heap views, and a test for Node. If another
// version of Emscripten writes these differently, they stay.
function trimmed(glue) {
  return (
    glue
      .replace(
        /if\(Module\["instantiateWasm"\]\)\{try\{return (Module\["instantiateWasm"\]\(info,receiveInstance\))\}catch.*?return\{\}\}/,
        'return $1}',
      )
      .replace(/isAliasOf\(other\)\{.*?return leftClass===rightClass&&left===right\},/, '')
      .replace(/,isDeleted\(\)\{return!this\.\$\$\.ptr\},deleteLater\(\)\{.*?return this\}\}\)\}/, '})}')
      // Smart pointers, of which the bindings have none, and handles that JavaScript classes inherit from.
      .replace(/function genericPointerToWireType\(.*?return ptr\}(?=function )/, '')
      .replace('=genericPointerToWireType', '=nonConstNoSmartPtrRawPointerToWireType')
      .replace(/var registeredInstance=getInheritedInstance\(.*?return rv\}\}(?=function makeDefaultHandle)/, '')
      .replace(/if\(this\.isSmartPointer\)\{return makeClassHandle\([^()]*\)\}else(\{return makeClassHandle\()/g, '$1')
      .replace(/var hasSmartPtrType=!!record.*?(?=record\.count=)/, '')
      .replace(/(?<=var attachFinalizer=)handle=>\{.*?return attachFinalizer\(handle\)\}/, 'handle=>handle')
      .replace(/clone\(\)\{.*?return clone\}\},/, '')
      .replace(/if\(this\.\$\$\.deleteScheduled&&[^}]*\}detachFinalizer\(this\);/, '')
      // Decoders refuse views of shared memory.
      .replace('UTF8Decoder.decode(HEAPU8.subarray(', 'UTF8Decoder.decode(HEAPU8.slice(')
      // Wide strings, which the bindings do not use, and the folder of the script, where nothing is looked for.
      .replace(/(?<=var __embind_register_std_wstring=)function.*?(?=;var __embind_register_void)/, '()=>{}')
      .replace(
        /if\(ENVIRONMENT_IS_WEB\|\|ENVIRONMENT_IS_WORKER\)\{if\(ENVIRONMENT_IS_WORKER\)\{scriptDirectory.*?\}else\{\}(?=var out=)/,
        '',
      )
      .replace(/var UTF16Decoder=[^;]*;/, '')
      .replace(/var _scriptName = .*/, '')
      .replace(/var ENVIRONMENT_IS_NODE=[^;]*;(?!.*ENVIRONMENT_IS_NODE)/s, '') // Parcel polyfills `process` wherever it is mentioned
      .replace(/Module\["HEAP(8|16|U8|U16|32|U32|F32|F64)"\]=/g, '')
  );
}

const gluePlugin = {
  name: 'glue',
  setup: ({ onLoad }) =>
    onLoad({ filter: /heed\.mjs$/ }, ({ path }) => ({ contents: trimmed(fs.readFileSync(path, 'utf8')) })),
};

/** For a variant without threads: names the files of dist/ that it loads, its modules and its worker. */
const filesPlugin = (prefix) => ({
  name: 'files',
  setup: ({ onLoad, onResolve }) => {
    onResolve({ filter: /^\.\/threads\.js$/ }, () => ({ path: join(root, 'web/src/train/no-threads.ts') }));
    onLoad({ filter: /web\/src\/(module|worker\/start)\.ts$/ }, ({ path }) => {
      const source = fs.readFileSync(path, 'utf8');
      const contents = source.replace(/(?<=new URL\('\.\/)(heed-|)(?=[\w-]+\.(wasm|js)')/g, `$1${prefix}`);
      if (contents === source) throw new PlainError(`${path} names no file of dist/; build-web.mjs expects it to`);
      return { contents, loader: 'ts' };
    });
  },
});

// What runs only in Node: the command line, heed/node, and the script of its threads. Bundles of their own, so that their needs
// do not change the API's chunks.
const kNodeEntries = [
  { cli: 'web/src/cli/main.ts' },
  { node: 'web/src/node.ts', 'embed-worker': 'web/src/scale/embed-worker.ts' },
];

/** They import the package's entries, as any other user of it: the API from index.js, the command line also heed/node and heed/train. */
const kOtherEntries = {
  'web/src/index.ts': './index.js',
  'web/src/node.ts': './node.js',
  'web/src/train/index.ts': './train.js',
};
const externalApiPlugin = {
  name: 'external-api',
  setup: ({ onResolve }) =>
    onResolve({ filter: /^\.{1,2}\/.*(index|node)\.js$/ }, ({ path, resolveDir }) => {
      const source = relative(root, join(resolveDir, path)).replaceAll('\\', '/').replace(/\.js$/, '.ts');
      return source in kOtherEntries ? { path: kOtherEntries[source], external: true } : undefined;
    }),
};

// Runs Rolldown's minifier on esbuild's output: it drops unused functions inside other functions, and its names compress
// better. Together this saves 5 % of the scripts.
async function minifyFurther(files) {
  const { minify } = await import('rolldown/utils');
  for (const file of files) {
    const options = { module: true, compress: { target: 'es2022' }, mangle: { toplevel: true } };
    const { code, errors } = await minify(file, fs.readFileSync(file, 'utf8'), options);
    if (errors.length > 0) throw new PlainError(`${file}: ${errors[0].message}`);
    fs.writeFileSync(file, code);
  }
}

// For the command line: some of its libraries are CommonJS modules that require Node's.
const forNode = {
  platform: 'node',
  banner: { js: "import { createRequire } from 'node:module';\nconst require = createRequire(import.meta.url);" },
};

async function bundle({ prefix, modules, entries }, forCoverage) {
  const { build } = await import('esbuild');
  const isTraining = prefix !== '';
  const entryPoints = Object.fromEntries(
    Object.entries({ ...entries, ...kTokenizers }).filter(([, source]) => fs.existsSync(join(root, source))),
  );
  // Unit tests import modules of web/src. As entry points they share the package's chunks, so that what the tests run is counted.
  if (forCoverage && !isTraining) {
    const sources = filesBelow(join(root, 'web/src')).filter((file) => file.endsWith('.ts') && !file.endsWith('.d.ts'));
    for (const file of sources) {
      const name = relative(join(root, 'web/src'), file).slice(0, -3);
      if (!name.startsWith('train/') && !Object.values(entryPoints).includes(`web/src/${name}.ts`))
        entryPoints[`parts/${name}`] = file;
    }
  }
  const options = {
    absWorkingDir: root,
    outdir: next,
    bundle: true,
    format: 'esm',
    platform: 'browser',
    ...(forCoverage && forNode),
    target: 'es2022',
    // Source maps would double the size of the package.
    ...(forCoverage ? { minify: false, sourcemap: 'linked' } : { minify: true }),
    legalComments: 'none', // THIRD_PARTY.md names them all
    chunkNames: `${prefix}[name]-[hash]`,
    alias: { 'heed-glue': join(wasmFolder, modules[0], 'heed.mjs') },
    plugins: isTraining ? [gluePlugin, filesPlugin(prefix)] : [gluePlugin],
    external: ['node:*'],
    logLevel: 'warning',
  };
  // For coverage all are built together.
  if (!isTraining && forCoverage) Object.assign(entryPoints, ...kNodeEntries);
  else if (!isTraining) {
    const ours = {
      ...options,
      ...forNode,
      chunkNames: 'node-[name]-[hash]',
      splitting: true,
      plugins: [externalApiPlugin],
    };
    for (const entryPoints of kNodeEntries) await build({ ...ours, entryPoints });
  }
  const result = await build({ ...options, entryPoints, splitting: true, metafile: true });
  fs.rmSync(join(next, 'tokenizers.js')); // the entry point itself: nothing imports it, its contents are in a chunk
  return result.metafile.outputs;
}

async function bundleExtras(forCoverage) {
  const { build } = await import('esbuild');
  const options = {
    absWorkingDir: root,
    outdir: next,
    bundle: true,
    format: 'esm',
    target: 'es2022',
    splitting: true,
    chunkNames: 'adapters/[name]-[hash]',
    minify: !forCoverage,
    legalComments: 'none',
    logLevel: 'warning',
  };
  if (forCoverage) Object.assign(options, { sourcemap: 'linked' });
  await build({ ...options, entryPoints: kExtras });
}

async function bundleAll(forCoverage) {
  const outputs = {};
  await bundleExtras(forCoverage);
  for (const variant of kVariants) Object.assign(outputs, await bundle(variant, forCoverage));
  if (!forCoverage) await minifyFurther(filesBelow(next).filter((file) => file.endsWith('.js')));
  fs.writeFileSync(join(root, 'build/web-metafile.json'), JSON.stringify({ outputs }));
}

// Packs the model's folder into one file, which web/src/io/packed.ts reads: the small files move into the header's metadata.
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
  fs.cpSync(from, to, { recursive: true, filter: (file) => !small.includes(file) });
  fs.writeFileSync(join(to, 'model.safetensors'), Buffer.concat([length, json, weights.subarray(end)]));
}

/** @param {{ forCoverage?: boolean }} options forCoverage: scripts that are not minified, with source maps */
export async function buildWeb({ forCoverage = false } = {}) {
  const hash = hashOf(inputs()) + (forCoverage ? ' for coverage' : '');
  if (fs.existsSync(stamp) && fs.readFileSync(stamp, 'utf8') === hash && fs.existsSync(dist)) return;
  const start = Date.now();
  fs.rmSync(stamp, { force: true });
  fs.rmSync(next, { recursive: true, force: true });
  const modules = kVariants.flatMap(modulesOf);
  const tsc = [
    process.execPath,
    'node_modules/typescript/bin/tsc',
    '-p',
    'tsconfig.build.json',
    '--outDir',
    join(next, 'types'),
  ];
  const [{ status }] = await Promise.all([run(tsc, { allowFailure: true }), bundleAll(forCoverage)]);
  for (const [name, bytes] of modules) fs.writeFileSync(join(next, `heed-${name}.wasm`), bytes);
  packModel(join(root, 'web/model'), join(next, 'model'));
  if (fs.existsSync(join(next, 'cli.js'))) fs.chmodSync(join(next, 'cli.js'), 0o755);
  fs.writeFileSync(join(next, 'wasm.json'), `${JSON.stringify(provenance(modules, wasmFolder), null, 2)}\n`);
  // Moved into place at the end, so that a program that uses dist/ never sees half of it.
  fs.rmSync(dist, { recursive: true, force: true });
  fs.renameSync(next, dist);
  if (status !== 0) throw new PlainError('type errors; dist/ was built nevertheless');
  fs.writeFileSync(stamp, hash);
  say(`built dist/ in ${Date.now() - start} ms`);
}
