// Finds an Emscripten, or unpacks a private copy into .toolchain/, and links `.toolchain/emscripten` to it. The build uses
// that link only (see CMakePresets.json).
import * as fs from 'node:fs';
import { join } from 'node:path';
import { isDebian, PlainError, root, run, say, withProgress } from './console.mjs';

// The first release with the final opcodes of relaxed SIMD, and with --emit-tsd and EMBIND_AOT as used here.
const kMinimumVersion = '3.1.60';
const toolchain = join(root, '.toolchain');
const link = join(toolchain, 'emscripten');

const asNumbers = (version) => version.split('.').map(Number);
const isAtLeast = (version, minimum) => {
  const [a, b] = [asNumbers(version), asNumbers(minimum)];
  const i = a.findIndex((part, index) => part !== b[index]);
  return i < 0 || a[i] > (b[i] ?? 0);
};

function versionAt(emscriptenRoot) {
  try {
    return fs.readFileSync(join(emscriptenRoot, 'emscripten-version.txt'), 'utf8').match(/\d+\.\d+\.\d+/)?.[0];
  } catch {
    return undefined;
  }
}

/** The folders that may hold an Emscripten: `emcc` on PATH, EMSDK, Debian's package. */
async function* candidates() {
  const onPath = await run(['em-config', 'EMSCRIPTEN_ROOT'], { quiet: true, allowFailure: true });
  if (onPath.status === 0) yield onPath.output.trim().split('\n').at(-1);
  if (process.env.EMSDK) yield join(process.env.EMSDK, 'upstream', 'emscripten');
  yield '/usr/share/emscripten';
}

function linkTo(emscriptenRoot) {
  fs.mkdirSync(toolchain, { recursive: true });
  fs.rmSync(link, { force: true });
  fs.symlinkSync(emscriptenRoot, link, 'junction');
}

/** Makes `.toolchain/emscripten` link to a usable Emscripten. Returns its version. */
export async function ensureEmscripten() {
  const ready = versionAt(link);
  if (ready && isAtLeast(ready, kMinimumVersion)) return ready;

  let tooOld = '';
  for await (const candidate of candidates()) {
    const version = versionAt(candidate);
    if (!version) continue;
    if (isAtLeast(version, kMinimumVersion)) {
      linkTo(candidate);
      return version;
    }
    tooOld = `Emscripten ${version} in ${candidate} is too old; ${kMinimumVersion} or newer is needed`;
  }
  if (!isDebian()) {
    throw new PlainError(
      `${tooOld || 'Emscripten is missing'}; install one from https://emscripten.org/docs/getting_started/downloads.html and put emcc on PATH`,
    );
  }
  if (tooOld) say(`${tooOld}; taking a private copy instead`);
  linkTo(await unpackPrivateCopy());
  return versionAt(link);
}

/**
 * Downloads Debian 13's packages from this machine's mirror and unpacks them without installing anything. Emscripten is
 * independent of the architecture; Binaryen comes with the C library that it was linked against.
 */
async function unpackPrivateCopy() {
  const target = join(toolchain, 'debian-13');
  const emscriptenRoot = join(target, 'usr/share/emscripten');
  if (versionAt(emscriptenRoot)) return emscriptenRoot;

  const mirror = (await run(['apt-get', 'indextargets', '--format', '$(RELEASE) $(REPO_URI)'], { quiet: true })).output
    .split('\n')
    .map((line) => line.split(' '))
    .find(([release, uri]) => uri && !/[-/]/.test(release))?.[1];
  if (!mirror) throw new PlainError('Emscripten cannot be fetched: `apt-get indextargets` lists no Debian mirror');

  // Separate apt state, so that the system's package lists and versions do not change.
  const apt = join(toolchain, 'apt');
  const archives = join(apt, 'archives');
  fs.mkdirSync(join(apt, 'lists/partial'), { recursive: true });
  fs.mkdirSync(join(archives, 'partial'), { recursive: true });
  fs.writeFileSync(join(apt, 'sources.list'), `deb ${mirror} trixie main\n`);
  const aptGet = ['apt-get', '-q'];
  for (const option of [
    `Dir::Etc::sourcelist=${apt}/sources.list`,
    'Dir::Etc::sourceparts=/dev/null',
    `Dir::State::Lists=${apt}/lists`,
    `Dir::Cache=${apt}`,
    'APT::Sandbox::User=', // the user _apt may have no access to the folder
    'APT::Update::Error-Mode=any', // otherwise an update without a network succeeds
    'Acquire::Retries=2',
  ]) {
    aptGet.push('-o', option);
  }
  const fetched = () => {
    const bytes = fs.readdirSync(archives).reduce((sum, name) => sum + fs.statSync(join(archives, name)).size, 0);
    return `${Math.round(bytes / 1e6)} MB`;
  };
  const noNetwork = (result) => {
    if (result.status === 0) return;
    const reason = result.output.match(/^[EW]: .*/m)?.[0] ?? `exit status ${result.status}`;
    throw new PlainError(`Emscripten could not be fetched from Debian's mirror; is there a network? (${reason})`);
  };
  const packages = ['emscripten', 'binaryen', 'libc6', 'libstdc++6', 'libgcc-s1', 'node-acorn'];
  const quietly = { quiet: true, allowFailure: true, cwd: archives };
  noNetwork(await withProgress('fetching package lists', run([...aptGet, 'update'], quietly)));
  noNetwork(
    await withProgress(
      'fetching Emscripten (246 MB, once)',
      run([...aptGet, 'download', ...packages], quietly),
      fetched,
    ),
  );

  // Unpacked beside the target and renamed at the end, so that an interrupted run leaves no incomplete toolchain.
  const partial = `${target}.partial`;
  fs.rmSync(partial, { recursive: true, force: true });
  fs.mkdirSync(partial);
  const unpack = async () => {
    for (const name of fs.readdirSync(archives).filter((file) => file.endsWith('.deb'))) {
      await run(['dpkg', '-x', join(archives, name), partial], { quiet: true });
    }
  };
  await withProgress('unpacking Emscripten (1.6 GB)', unpack());
  wrapBinaryen(partial);
  fs.rmSync(join(partial, 'usr/share/emscripten/test'), { recursive: true, force: true });
  fs.mkdirSync(join(partial, 'usr/share/emscripten/node_modules'), { recursive: true });
  fs.symlinkSync('../../nodejs/acorn', join(partial, 'usr/share/emscripten/node_modules/acorn'));
  fs.writeFileSync(join(partial, 'usr/share/emscripten/.emscripten'), emscriptenConfig);
  // Without it, Node would find this repository's package.json and read Emscripten's .js files as ES modules.
  fs.writeFileSync(join(partial, 'usr/share/emscripten/package.json'), '{ "type": "commonjs" }\n');
  fs.rmSync(target, { recursive: true, force: true });
  fs.renameSync(partial, target);
  fs.rmSync(apt, { recursive: true, force: true });
  return emscriptenRoot;
}

// Binaryen's programs need a newer C library than Debian 12's, so a wrapper starts each through the unpacked dynamic linker.
// Paths are relative to the wrapper, so that the repository may be moved.
function wrapBinaryen(folder) {
  const bin = join(folder, 'usr/bin');
  const real = join(folder, 'usr/libexec/binaryen');
  fs.mkdirSync(real, { recursive: true });
  const multiarch = fs.readdirSync(join(folder, 'usr/lib')).find((name) => name.endsWith('-linux-gnu'));
  const loader = fs.readdirSync(join(folder, 'usr/lib', multiarch)).find((name) => name.startsWith('ld-linux'));
  for (const name of fs.readdirSync(bin).filter((program) => program.startsWith('wasm'))) {
    fs.renameSync(join(bin, name), join(real, name));
    fs.writeFileSync(
      join(bin, name),
      `#!/bin/sh
usr=$(cd "$(dirname "$0")/.." && pwd)
exec "$usr/lib/${multiarch}/${loader}" --library-path "$usr/lib/${multiarch}" "$usr/libexec/binaryen/${name}" "$@"
`,
      { mode: 0o755 },
    );
  }
}

// emcc sets EM_CONFIG to the path of this file.
const emscriptenConfig = `import os
import shutil

_usr = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(os.environ['EM_CONFIG']))))
LLVM_ROOT = '/usr/lib/llvm-19/bin'
BINARYEN_ROOT = _usr
NODE_JS = shutil.which('node')
# Debian ships every system library prebuilt, so nothing is compiled at the first link and parallel links share the cache.
FROZEN_CACHE = True
`;
