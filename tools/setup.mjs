#!/usr/bin/env node
// `npm run setup`: installs everything that the build and the tests need. It requires nothing but Node. Each step does only
// what is missing, so a second run takes no time and an interrupted one continues where it stopped.
import * as fs from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { isDebian, PlainError, root, run, runMain, say, timed, withProgress } from './console.mjs';
import { ensureEmscripten } from './emscripten.mjs';

// Debian packages by purpose, so that `npm start` installs no more than it needs. The names are the same in Debian 12 and 13.
const kDebianPackages = {
  build: [
    'clang-19', // compiles the core, to WebAssembly through Emscripten and natively for the tests
    'lld-19', // wasm-ld, the linker Emscripten calls
    'llvm-19', // the archiver Emscripten calls; symbolizer and coverage for the native tests
    'cmake',
    'ninja-build',
    'python3', // runs Emscripten
    'libeigen3-dev',
  ],
  test: [
    'libclang-rt-19-dev', // the sanitizers' runtimes
    'libgtest-dev',
    'libsimde-dev', // WebAssembly's SIMD intrinsics on other processors, to run the kernels under sanitizers
    'chromium', // for the browser tests
  ],
  lint: ['clang-format-19', 'clang-tidy-19', 'libgtest-dev', 'libsimde-dev'],
};

const kOtherPrograms = {
  build: ['clang++', 'cmake', 'ninja', 'python3'],
  test: [],
  lint: ['clang-format', 'clang-tidy'],
};

function checkNode() {
  const minimum = 20;
  if (Number(process.versions.node.split('.')[0]) < minimum) {
    throw new PlainError(`Node ${process.versions.node} is too old; version ${minimum} or newer is needed`);
  }
}

async function missingDebianPackages(names) {
  const query = ['dpkg-query', '-W', '-f', '${Package} ${db:Status-Status}\n', ...names];
  const { output } = await run(query, { quiet: true, allowFailure: true });
  const installed = new Set(output.split('\n').map((line) => line.match(/^(\S+) installed$/)?.[1]));
  return names.filter((name) => !installed.has(name));
}

/** Installs the missing ones of these packages. Needs root or sudo if there are any. */
export async function ensureDebianPackages(names) {
  const missing = await missingDebianPackages(names);
  if (missing.length === 0) return;
  const command = `apt-get install ${missing.join(' ')}`;
  let asRoot = [];
  if (process.getuid() !== 0) {
    const sudo = await run(['sudo', '-n', 'true'], { quiet: true, allowFailure: true });
    if (sudo.status !== 0)
      throw new PlainError(`Debian packages are missing and installing them needs root; run: sudo ${command}`);
    asRoot = ['sudo', '-n'];
  }
  const apt = (...args) =>
    run(
      [...asRoot, 'env', 'DEBIAN_FRONTEND=noninteractive', 'apt-get', '-q', '-o', 'DPkg::Lock::Timeout=300', ...args],
      {
        quiet: true,
        allowFailure: true,
      },
    );
  await withProgress('apt-get update', apt('update'));
  const install = apt('install', '-y', '--no-install-recommends', ...missing);
  const { status, output } = await withProgress(`installing ${missing.join(' ')}`, install);
  if (status !== 0) {
    const reason = output.match(/^E: .*/m)?.[0] ?? `exit status ${status}`;
    throw new PlainError(`\`${command}\` failed; is there a network? (${reason})`);
  }
}

async function checkPrograms(programs) {
  for (const program of programs) {
    const { status } = await run([program, '--version'], { quiet: true, allowFailure: true });
    if (status === 127)
      throw new PlainError(`${program} is missing; install it (CONTRIBUTING.md lists what the build needs)`);
  }
}

const lockedPackages = (file) => Object.entries(JSON.parse(fs.readFileSync(file, 'utf8')).packages);

/** Whether node_modules matches the lock file, by npm's own list of what it installed. */
function packagesAreCurrent(folder) {
  try {
    const installed = new Map(lockedPackages(join(folder, 'node_modules/.package-lock.json')));
    // Optional packages may be for other platforms; the folder's own package has an empty path.
    return lockedPackages(join(folder, 'package-lock.json')).every(
      ([path, { version, optional }]) => path === '' || optional || installed.get(path)?.version === version,
    );
  } catch {
    return false;
  }
}

/**
 * Installs a folder's packages unless they are up to date: with `npm ci` in the repository's root, elsewhere with `npm install`,
 * because the lock files there lack optional packages of other platforms, which `npm ci` refuses.
 */
export async function ensurePackages(name = '.') {
  const folder = join(root, name);
  if (packagesAreCurrent(folder)) return;
  const command = name === '.' ? ['npm', 'ci'] : ['npm', 'install', '--no-save', '--ignore-scripts'];
  const install = run([...command, '--no-audit', '--no-fund'], { cwd: folder, quiet: true, allowFailure: true });
  const label = name === '.' ? 'npm ci' : `npm install in ${name}`;
  const { status, output } = await withProgress(label, install);
  if (status !== 0) {
    const reason = output.match(/npm (?:error|ERR!) (?!code).*/)?.[0] ?? `exit status ${status}`;
    throw new PlainError(`\`${command.join(' ')}\` failed; is there a network? (${reason})`);
  }
}

/**
 * Installs what is missing for these purposes ('build', 'test', 'lint'). Returns the version of Emscripten and the seconds that
 * each step took.
 */
export async function setup(...purposes) {
  checkNode();
  const needed = (table) => [...new Set(['build', ...purposes].flatMap((purpose) => table[purpose]))];
  const packages = await timed(() =>
    isDebian() ? ensureDebianPackages(needed(kDebianPackages)) : checkPrograms(needed(kOtherPrograms)),
  );
  const npm = await timed(() => ensurePackages());
  const toolchain = await timed(ensureEmscripten);
  return {
    emscripten: toolchain.result,
    seconds: { 'Debian packages': packages.seconds, 'npm packages': npm.seconds, Emscripten: toolchain.seconds },
  };
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  await runMain(async () => say(`ready (Emscripten ${(await setup('test', 'lint')).emscripten})`));
}
