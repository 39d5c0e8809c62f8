import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

// Tests import `heed` from dist/, as users get it (run `npm run build` first). Unit tests import modules of web/src by path.
const adapters = ['ai-sdk', 'langchain', 'chroma', 'lancedb'];
const alias = [
  ...adapters.map((name) => ({
    find: new RegExp(`^heed/${name}$`),
    replacement: fileURLToPath(new URL(`dist/adapters/${name}.js`, import.meta.url)),
  })),
  { find: /^heed$/, replacement: fileURLToPath(new URL('dist/index.js', import.meta.url)) },
  {
    find: /^heed\/service-worker$/,
    replacement: fileURLToPath(new URL('dist/service-worker.js', import.meta.url)),
  },
  { find: /^heed\/train$/, replacement: fileURLToPath(new URL('dist/train.js', import.meta.url)) },
  { find: /^heed\/(corpus|node)$/, replacement: fileURLToPath(new URL('dist/$1.js', import.meta.url)) },
  { find: /^heed\/draw$/, replacement: fileURLToPath(new URL('dist/draw.js', import.meta.url)) },
  { find: /^heed\/evaluation$/, replacement: fileURLToPath(new URL('dist/evaluation.js', import.meta.url)) },
  { find: /^heed\/util$/, replacement: fileURLToPath(new URL('dist/util.js', import.meta.url)) },
  { find: /^heed\/lens$/, replacement: fileURLToPath(new URL('dist/lens.js', import.meta.url)) },
  {
    find: /^heed-glue\/inference$/,
    replacement: fileURLToPath(new URL('build/wasm-release/simd128/heed.mjs', import.meta.url)),
  },
];
// Node 20 needs a flag for relaxed SIMD; newer versions may not know it.
const relaxedSimd = Number(process.versions.node.split('.')[0]) < 21 ? ['--experimental-wasm-relaxed-simd'] : [];
// `npm run coverage`: Node itself loads the package, so that V8 counts the lines that run (tools/coverage.mjs).
const coverage = process.env.NODE_V8_COVERAGE
  ? {
      alias: [
        {
          find: /^(?:\.\.\/)+web\/src\/(?!base\/owned)(.*)\.js$/,
          replacement: fileURLToPath(new URL('dist/parts/$1.js', import.meta.url)),
        },
      ],
      setupFiles: ['tools/checks/take-coverage.mjs'],
      server: { deps: { external: [/\/dist\//] } },
    }
  : {};
// `npm run test:arm64`: Vitest starts its workers with this Node, which is one under an emulator.
if (process.env.HEED_TEST_NODE) process.execPath = process.env.HEED_TEST_NODE;
const browser = ['tests/**/*.browser.test.ts'];
// These take minutes on a software adapter; of the GPU's tests, `npm test` runs those of smoke.browser.test.ts alone.
const gpu = ['tests/web/gpu/!(smoke).browser.test.ts'];
// The demo page's, the site's of the documents and those of the course take as long as all others; `npm test` runs those of smoke.browser.test.ts alone.
const demo = [
  'tests/demo/!(smoke).browser.test.ts',
  'tests/demo/learning.test.ts',
  'tests/tools/{course,docs-site}.browser.test.ts',
];
// Fuzzing, examples trained to convergence, 4 GB of memory: `npm run test:slow`.
const slow = ['tests/**/*.slow.test.ts'];
// What `npm run test:quick` leaves out besides the slow tests: tests that start processes and servers, and files that take more
// than four seconds.
const notQuick = [
  'tests/web/{cli,scale}/*.test.ts',
  'tests/demo/{learning-labels,lens,recording}.test.ts',
  'tests/tools/{imports,sbom}.test.ts',
  'tests/web/{api-examples,docs,elsewhere,lens,lens-attribute,load,messages}.test.ts',
  'tests/web/layers/errors/refusals.test.ts',
  'tests/web/models/{bad-files,bounded-pattern,cache,config,encode,file-edges,foreign-cache,http,hub,images,index-model,onnx-cases,paged-embeddings,pool-shares,pool,published,quantize-refusals,quantize,revisions-memory,segments,sites-everywhere,stream,text-index-edges,worker}.test.ts',
  'tests/web/train/{checkpoint,classifier,fine-tuning,fit-worker,gradients,learning,lora-again,many-examples,nothing-learned,out-of-memory,pretrained-model,pretrained,save,sites}.test.ts',
  'tests/web/util/vectors.test.ts',
];
const bundlers = ['tests/package/{bundlers,frameworks,recipes}.test.ts'];
const packaged = ['tests/package/*.test.ts'];
const withPackages = ['tests/adapters/*.test.ts'];

export default defineConfig({
  resolve: { alias },
  test: {
    maxWorkers: 4, // on two cores, because many tests wait for processes, workers and pages
    // These only stop tests that hang; they are long enough for a busy machine.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 120_000 } },
    projects: [
      {
        extends: true,
        test: {
          name: 'node',
          include: ['tests/web/**/*.test.ts', 'tests/tools/**/*.test.ts', 'tests/demo/*.test.ts'],
          exclude: [...browser, ...demo, ...slow, '**/node_modules/**'],
          ...coverage,
          execArgv: [...relaxedSimd, '--expose-gc'], // some tests collect garbage
        },
      },
      {
        extends: true,
        test: {
          name: 'quick',
          include: ['tests/web/**/*.test.ts', 'tests/tools/**/*.test.ts', 'tests/demo/*.test.ts'],
          exclude: [...browser, ...demo, ...slow, ...notQuick, '**/node_modules/**'],
          execArgv: [...relaxedSimd, '--expose-gc'],
        },
      },
      {
        extends: true,
        test: {
          name: 'slow',
          include: slow,
          exclude: ['tests/package/**', '**/node_modules/**'],
          execArgv: [...relaxedSimd, '--expose-gc'],
        },
      },
      {
        extends: true,
        test: {
          name: 'package-slow',
          include: ['tests/package/*.slow.test.ts'],
          globalSetup: 'tests/package/setup.ts',
        },
      },
      // What depends on the processor's arithmetic, with Node for ARM64 under QEMU: `npm run test:arm64`.
      {
        extends: true,
        test: {
          name: 'arm64',
          globalSetup: 'tests/arm64/setup.ts',
          include: [
            'tests/arm64/*.test.ts',
            'tests/web/layers/{fixtures,properties}.test.ts',
            'tests/web/{functions,masks}.test.ts',
            'tests/web/models/{families,int8,tasks}.test.ts',
          ],
          execArgv: ['--expose-gc'],
          // One worker for all files: starting one takes most of the minute that Vitest waits for it.
          isolate: false,
          maxWorkers: 1,
          testTimeout: 1_800_000,
          hookTimeout: 1_800_000,
        },
      },
      // The tests run in Node; each opens a Chromium through playwright-core.
      {
        extends: true,
        test: {
          name: 'browser',
          include: browser,
          exclude: [...gpu, ...demo, ...packaged, '**/node_modules/**'],
          globalSetup: 'tests/demo/setup.ts',
        },
      },
      // Models on WebGPU's software adapter: `npm run test:gpu`.
      { extends: true, test: { name: 'gpu', include: gpu } },
      {
        extends: true,
        test: {
          name: 'package',
          include: packaged,
          exclude: [...bundlers, ...slow],
          globalSetup: 'tests/package/setup.ts',
        },
      },
      // The rest of the demo page's tests: `npm run test:demo`.
      {
        extends: true,
        test: { name: 'demo', include: demo, globalSetup: 'tests/demo/setup.ts', execArgv: relaxedSimd },
      },
      // With servers: `npm run test:scale`.
      {
        extends: true,
        test: { name: 'scale', include: ['tests/scale/*.test.ts'], testTimeout: 900_000, hookTimeout: 900_000 },
      },
      // Needs Node 22 and the packages in tests/adapters; tools/test.mjs finds or installs both.
      {
        extends: true,
        test: { name: 'adapters', include: withPackages, globalSetup: 'tests/adapters/setup.ts' },
      },
      // Needs the package in tests/tokenizers, which tools/test.mjs installs.
      {
        extends: true,
        test: { name: 'tokenizers', include: ['tests/tokenizers/*.test.ts'] },
      },
      // Needs the published checkpoints that tools/checkpoints.mjs fetches.
      {
        extends: true,
        test: { name: 'models', include: ['tests/models/*.test.ts'], execArgv: relaxedSimd, testTimeout: 900_000 },
      },
      {
        extends: true,
        test: {
          name: 'bundlers',
          include: bundlers,
          globalSetup: 'tests/package/setup.ts',
          testTimeout: 900_000,
          hookTimeout: 900_000,
        },
      },
      // The package and the demo page in Firefox and WebKit.
      {
        extends: true,
        test: { name: 'browsers', include: ['tests/browsers/*.test.ts'], globalSetup: 'tests/demo/setup.ts' },
      },
    ],
  },
});
