// dist/: the package's files. The face bundled by esbuild (its two dependencies inside, so the package has none), its
// declarations by tsc, the WebAssembly modules and the shipped model beside it, and where the modules come from.
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { join, relative } from 'node:path';
import { PlainError, root, run, say } from './console.mjs';
import { provenance } from './provenance.mjs';

const kBuilds = ['simd128', 'relaxed-simd'];
const dist = join(root, 'dist');
const next = join(root, 'build/dist');
const wasmFolder = join(root, 'build/wasm-release');
const stamp = join(root, 'build/web.stamp');

// Names in dist/ -> sources. The worker is an entry of its own and shares chunks with the face.
const kEntries = {
  index: 'web/src/index.ts',
  worker: 'web/src/worker/worker.ts',
  // An entry so that it becomes a file of its own, which the others import: it is not heed's and has a size of its own.
  tokenizers: 'node_modules/@huggingface/tokenizers/dist/tokenizers.mjs',
};

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
    ...filesBelow(join(root, 'tools')).filter((file) => file.endsWith('.mjs') && !file.includes('node_modules')),
  ];
}

// Both modules come from one source, so one glue serves both; were a compiler to number their imports differently, a
// shared glue would call the wrong functions, hence the check.
function checkGlue() {
  const [first, second] = kBuilds.map((name) => fs.readFileSync(join(wasmFolder, name, 'heed.mjs'), 'utf8'));
  if (first !== second) throw new PlainError('the two modules need different glue; build-web.mjs ships one for both');
}

// What Emscripten writes for others: its own ways to find the module (web/src/module.ts brings it, and with this end of createWasm the
// rest is dead code), methods of handles, names of the heap and a test for Node that nothing here uses. Where another version writes it otherwise, it stays.
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
      // Wide strings, which the bindings do not use, and the folder of the script, where nothing is looked for.
      .replace(/(?<=var __embind_register_std_wstring=)function.*?(?=;var __embind_register_void)/, '()=>{}')
      .replace(
        /if\(ENVIRONMENT_IS_WEB\|\|ENVIRONMENT_IS_WORKER\)\{if\(ENVIRONMENT_IS_WORKER\)\{scriptDirectory.*?\}else\{\}(?=var out=)/,
        '',
      )
      .replace(/var UTF16Decoder=[^;]*;/, '')
      .replace(/var _scriptName = .*/, '')
      .replace(/var ENVIRONMENT_IS_NODE=[^;]*;(?!.*ENVIRONMENT_IS_NODE)/s, '') // a mention of `process` has Parcel install a stand-in for it
      .replace(/Module\["HEAP(8|16|U8|U16|32|U32|F32|F64)"\]=/g, '')
  );
}

const gluePlugin = {
  name: 'glue',
  setup: ({ onLoad }) =>
    onLoad({ filter: /heed\.mjs$/ }, ({ path }) => ({ contents: trimmed(fs.readFileSync(path, 'utf8')) })),
};

const facePlugin = {
  name: 'face',
  setup: ({ onResolve }) => onResolve({ filter: /^\.\.\/index\.js$/ }, () => ({ path: './index.js', external: true })),
};

// Rolldown's minifier over esbuild's: it drops functions that nothing calls inside of others, and its names compress better, which
// together is 5 % of the scripts.
async function minifyFurther(files) {
  const { minify } = await import('rolldown/utils');
  for (const file of files) {
    const options = { module: true, compress: { target: 'es2022' }, mangle: { toplevel: true } };
    const { code, errors } = await minify(file, fs.readFileSync(file, 'utf8'), options);
    if (errors.length > 0) throw new PlainError(`${file}: ${errors[0].message}`);
    fs.writeFileSync(file, code);
  }
}

async function bundle(forCoverage) {
  const { build } = await import('esbuild');
  const entryPoints = Object.fromEntries(
    Object.entries(kEntries).filter(([, source]) => fs.existsSync(join(root, source))),
  );
  // Tests of inner parts import those; as entries beside the package they share its chunks, and count for it.
  if (forCoverage) {
    const sources = filesBelow(join(root, 'web/src')).filter((file) => file.endsWith('.ts') && !file.endsWith('.d.ts'));
    for (const file of sources) {
      const name = relative(join(root, 'web/src'), file).slice(0, -3);
      if (!Object.values(entryPoints).includes(`web/src/${name}.ts`)) entryPoints[`parts/${name}`] = file;
    }
  }
  const options = {
    absWorkingDir: root,
    outdir: next,
    bundle: true,
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    // Maps would double the package.
    ...(forCoverage ? { minify: false, sourcemap: 'linked' } : { minify: true }),
    legalComments: 'none', // THIRD_PARTY.md names them all
    chunkNames: '[name]-[hash]',
    alias: { 'heed-glue': join(wasmFolder, 'simd128/heed.mjs') },
    plugins: [gluePlugin],
    external: ['node:*'],
    logLevel: 'warning',
  };
  // The command line is a user of the face like any other: it imports index.js, and no chunk is cut for it. But in one piece where lines are counted.
  const cli = { cli: 'web/src/cli/main.ts' };
  if (forCoverage) Object.assign(entryPoints, cli);
  else await build({ ...options, entryPoints: cli, plugins: [facePlugin] });
  const result = await build({ ...options, entryPoints, splitting: true, metafile: true });
  fs.rmSync(join(next, 'tokenizers.js')); // the entry itself, which nobody imports; its contents are a chunk
  if (!forCoverage) await minifyFurther(filesBelow(next).filter((file) => file.endsWith('.js')));
  fs.writeFileSync(join(root, 'build/web-metafile.json'), JSON.stringify(result.metafile));
}

// The model's folder as one file (web/src/models/packed.ts reads it): the small files move into the header's metadata.
function packModel(from, to) {
  const weights = fs.readFileSync(join(from, 'model.safetensors'));
  const end = 8 + Number(weights.readBigUInt64LE(0));
  const header = JSON.parse(weights.toString('utf8', 8, end));
  const small = filesBelow(from).filter((file) => file.endsWith('.json'));
  for (const file of small) {
    header.__metadata__ = { ...header.__metadata__, [relative(from, file)]: fs.readFileSync(file, 'utf8') };
  }
  // Padded to a multiple of 8, as the format wants it, so that tensors stay aligned.
  let json = Buffer.from(JSON.stringify(header));
  json = Buffer.concat([json, Buffer.alloc(-json.length & 7, ' ')]);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  fs.cpSync(from, to, { recursive: true, filter: (file) => !small.includes(file) });
  fs.writeFileSync(join(to, 'model.safetensors'), Buffer.concat([length, json, weights.subarray(end)]));
}

/** @param {{ forCoverage?: boolean }} options forCoverage: scripts as they were written, with maps to their sources */
export async function buildWeb({ forCoverage = false } = {}) {
  const hash = hashOf(inputs()) + (forCoverage ? ' for coverage' : '');
  if (fs.existsSync(stamp) && fs.readFileSync(stamp, 'utf8') === hash && fs.existsSync(dist)) return;
  const start = Date.now();
  fs.rmSync(stamp, { force: true });
  fs.rmSync(next, { recursive: true, force: true });
  checkGlue();
  const tsc = [
    process.execPath,
    'node_modules/typescript/bin/tsc',
    '-p',
    'tsconfig.build.json',
    '--outDir',
    join(next, 'types'),
  ];
  const [{ status }] = await Promise.all([run(tsc, { allowFailure: true }), bundle(forCoverage)]);
  for (const name of kBuilds) {
    fs.copyFileSync(join(wasmFolder, name, 'heed.wasm'), join(next, `heed-${name}.wasm`));
  }
  packModel(join(root, 'web/model'), join(next, 'model'));
  if (fs.existsSync(join(next, 'cli.js'))) fs.chmodSync(join(next, 'cli.js'), 0o755);
  fs.writeFileSync(join(next, 'wasm.json'), `${JSON.stringify(provenance(kBuilds, wasmFolder), null, 2)}\n`);
  // Put in place in one step: what runs from dist/ never sees half of it.
  fs.rmSync(dist, { recursive: true, force: true });
  fs.renameSync(next, dist);
  if (status !== 0) throw new PlainError('the types do not compile; dist/ was built all the same');
  fs.writeFileSync(stamp, hash);
  say(`built dist/ in ${Date.now() - start} ms`);
}
