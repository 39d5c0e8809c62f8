// The kernel table: each matrix product beside the peak that a register-only loop of the same instructions reaches in the same run, and the other kernels by themselves.
//
//   node bench/kernels/run.mjs [--quick] [--only=products|kernels|encoder] [--build=relaxed-simd|simd128]
//
// Times are the best of many short rounds in which all cases take turns: what the code can do, whatever else the machine is busy with.

import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));
const options = Object.fromEntries(process.argv.slice(2).map((argument) => argument.replace(/^--/, '').split('=')));
const rounds = 'quick' in options ? 7 : 25;

const sources = (folder) =>
  readdirSync(`${root}${folder}`, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? sources(`${folder}/${entry.name}`) : [`${folder}/${entry.name}`],
  );

function compile(build) {
  const flags = build === 'relaxed-simd' ? ['-msimd128', '-mrelaxed-simd'] : ['-msimd128'];
  mkdirSync(`${root}build/bench-kernels`, { recursive: true });
  const out = `build/bench-kernels/${build}.wasm`;
  const inputs = sources('cpp/src').filter((file) => file.endsWith('.cpp'));
  inputs.push('bench/kernels/kernels.cpp');
  const changed = (file) => statSync(`${root}${file}`, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const newest = Math.max(...sources('cpp/src').concat(sources('cpp/include'), inputs).map(changed));
  if (changed(out) < newest) {
    const eigen = ['/usr/include/eigen3', '/usr/local/include/eigen3', '/opt/homebrew/include/eigen3'].find((path) =>
      statSync(path, { throwIfNoEntry: false }),
    );
    const em = statSync(`${root}.toolchain/emscripten/em++`, { throwIfNoEntry: false })
      ? `${root}.toolchain/emscripten/em++`
      : 'em++';
    execFileSync(
      em,
      [
        '-std=c++20',
        '-O3',
        '-flto',
        '-fno-math-errno',
        '-ffp-contract=off',
        '-fwasm-exceptions',
        ...flags,
        '-Icpp/include',
        '-Icpp/src',
        '-isystem',
        eigen,
        ...inputs,
        '--no-entry',
        '-sSTANDALONE_WASM',
        '-sALLOW_MEMORY_GROWTH',
        '-sMAXIMUM_MEMORY=4GB',
        '-o',
        out,
      ],
      { cwd: root, stdio: 'inherit' },
    );
  }
  return readFileSync(`${root}${out}`);
}

async function instantiate(build) {
  const module = await WebAssembly.compile(compile(build));
  const imports = {};
  for (const { module: from, name } of WebAssembly.Module.imports(module)) {
    imports[from] ??= {};
    imports[from][name] = () => 0;
  }
  const { exports } = await WebAssembly.instantiate(module, imports);
  exports._initialize?.();
  return exports;
}

const best = (values) => Math.min(...values);

/** Repeats `work` until it has taken some milliseconds; milliseconds per call. */
function time(work) {
  const start = performance.now();
  let calls = 0;
  let taken;
  do {
    work();
    calls++;
    taken = performance.now() - start;
  } while (taken < 2);
  return taken / calls;
}

/** cases: { name, prepare, run, peak? }. Fills in `times`, one per interleaved round. */
function measure(cases) {
  for (const one of cases) one.times = [];
  for (let round = -2; round < rounds; round++) {
    for (const one of cases) {
      one.prepare?.();
      // Whole calls warm up; two at least, more while they are short.
      const start = performance.now();
      do one.run();
      while (round < 0 && performance.now() - start < 50);
      const ms = time(one.run);
      if (round >= 0) one.times.push(ms);
    }
  }
  return cases;
}

const shapes = [
  [1, 384, 1536],
  [4, 384, 384],
  [7, 384, 1536],
  [16, 384, 1536],
  [120, 384, 384],
  [120, 384, 1536],
  [120, 1536, 384],
  [128, 384, 1152],
  [128, 768, 3072],
  [128, 3072, 768],
  [1024, 384, 1536],
  [1024, 1536, 384],
];

async function products(build, heed) {
  const peaks = [
    { name: 'peak f32', run: () => heed.peak(0, 100_000), ops: 8 * 8 * 1e5 },
    { name: 'peak int8', run: () => heed.peak(1, 100_000), ops: 8 * 8 * 1e5 * heed.int8Group() },
  ];
  if (build === 'relaxed-simd') {
    peaks.push({ name: 'peak int8 split', run: () => heed.peak(2, 100_000), ops: 8 * 8 * 1e5 * 4 });
    peaks.push({ name: 'peak int8 narrow', run: () => heed.peak(3, 25_000), ops: 8 * 8 * 1e5 * 4 });
  }
  const cases = shapes.flatMap(([rows, depth, out]) =>
    [0, 1].map((int8) => ({
      name: `${rows} x ${depth} x ${out} ${int8 ? 'int8' : 'f32'}`,
      int8,
      prepare: () => heed.prepareProduct(rows, depth, out, int8, 0),
      run: heed.multiply,
      ops: 2 * rows * depth * out,
    })),
  );
  for (const [depth, out] of [
    [384, 1536],
    [1536, 384],
  ]) {
    for (const int8 of [0, 1])
      cases.push({
        name: `tiles ${depth} x ${out} ${int8 ? 'int8' : 'f32'}`,
        int8,
        prepare: () => heed.prepareTiles(120, depth, out, int8),
        run: heed.multiplyTiles,
        ops: 2 * 120 * depth * out,
      });
  }
  measure([...peaks, ...cases]);
  const rate = ({ ops, times }) => ops / best(times) / 1e6;
  const peak = [rate(peaks[0]), Math.max(...peaks.slice(1).map(rate))];
  for (const one of peaks)
    console.log(`${build.padEnd(13)}${one.name.padEnd(26)}${rate(one).toFixed(1).padStart(8)} GOP/s`);
  for (const one of cases) {
    console.log(
      `${build.padEnd(13)}${one.name.padEnd(26)}${rate(one).toFixed(1).padStart(8)} GOP/s  ${((100 * rate(one)) / peak[one.int8]).toFixed(0).padStart(3)} %`,
    );
  }
}

async function kernels(build, heed) {
  const activations = [
    'identity',
    'relu',
    'gelu',
    'gelu_tanh',
    'tanh',
    'sigmoid',
    'silu',
    'quick_gelu',
    'gelu_10',
    'relu6',
    'relu2',
    'leaky_relu',
    'hardswish',
    'mish',
    'laplace',
  ];
  const cases = activations.slice(1).map((name, i) => ({
    name: `${name} of 128 x 1536`,
    prepare: () => heed.prepareProduct(128, 8, 1536, 0, 0),
    run: () => heed.applyActivation(i + 1),
    elements: 128 * 1536,
  }));
  cases.push({
    name: 'layer norm of 128 x 384',
    prepare: () => heed.prepareProduct(128, 8, 384, 0, 0),
    run: () => heed.normalize(384),
    elements: 128 * 384,
  });
  for (const [count, length, causal = 0, window = -1] of [
    [1, 16],
    [1, 128],
    [8, 128],
    [1, 512],
    [1, 512, 1],
    [1, 512, 0, 64],
  ]) {
    cases.push({
      name: `attention ${count} x ${length}${causal ? ' causal' : ''}${window >= 0 ? ` window ${window}` : ''}, 12 heads of 32`,
      prepare: () => heed.prepareAttention(count, length, 12, 32),
      run: () => heed.attention(causal, window),
      elements: count * length * length * 12,
    });
  }
  for (const one of measure(cases)) {
    console.log(
      `${build.padEnd(13)}${one.name.padEnd(42)}${best(one.times).toFixed(3).padStart(9)} ms ${((1e6 * best(one.times)) / one.elements).toFixed(2).padStart(7)} ns per element`,
    );
  }
}

async function encoder(build, heed) {
  for (const [count, length] of [
    [1, 16],
    [1, 128],
    [8, 128],
    [1, 512],
  ]) {
    const row = [];
    for (const int8 of [0, 1]) {
      heed.prepareEncoder(count, length, 6, 384, 12, 1536, int8);
      row.push(measure([{ run: heed.encode }])[0].times);
    }
    console.log(
      `${build.padEnd(13)}MiniLM ${count} x ${length}`.padEnd(33),
      ...row.map((times, i) => `${i ? 'int8' : 'fp32'} ${best(times).toFixed(2).padStart(8)} ms `),
    );
  }
}

for (const build of options.build ? [options.build] : ['relaxed-simd', 'simd128']) {
  const heed = await instantiate(build);
  for (const [name, part] of Object.entries({ products, kernels, encoder }))
    if (!options.only || options.only === name) await part(build, heed);
}
