// Builds and tests CMake presets: each is configured once, and Ninja rebuilds what is out of date.
import * as fs from 'node:fs';
import { availableParallelism, freemem } from 'node:os';
import { join } from 'node:path';
import { isDebian, root, run, withProgress } from './console.mjs';
import { exclusively } from './lock.mjs';

// A translation unit that uses Eigen needs up to 1 GB; more jobs than fit into memory would swap.
const jobs = Math.max(1, Math.min(availableParallelism(), Math.floor(freemem() / 2 ** 30)));

// Emscripten's compiler is a Python program that starts for every source. Debian's own Python, which setup.mjs installs, starts
// faster than the scripts that version managers put before it on PATH.
const env = isDebian() ? { PYTHON: '/usr/bin/python3' } : {};

/** Brings a preset up to date, or only these `targets` of it. */
export const buildCMake = (preset, targets = []) => exclusively(preset, () => configureAndBuild(preset, targets));

/** Whether a preset is configured for this checkout: a folder copied from another one would compile the sources there. */
function isConfigured(folder) {
  const cache = join(folder, 'CMakeCache.txt');
  if (!fs.existsSync(join(folder, 'build.ninja')) || !fs.existsSync(cache)) return false;
  const [, source = ''] = fs.readFileSync(cache, 'utf8').match(/^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$/m) ?? [];
  return fs.existsSync(source) && fs.realpathSync(source) === fs.realpathSync(root); // either may be a link
}

async function configureAndBuild(preset, targets) {
  const folder = join(root, 'build', preset);
  if (!isConfigured(folder)) {
    fs.rmSync(folder, { recursive: true, force: true });
    await withProgress(`configuring ${preset}`, run(['cmake', '--preset', preset], { env, quiet: true }));
  }
  const command = ['cmake', '--build', '--preset', preset, '-j', String(jobs)];
  if (targets.length > 0) command.push('--target', ...targets);
  let done = ''; // Ninja's count of finished steps, such as [12/116]
  const onOutput = (piece) => (done = piece.match(/\[\d+\/\d+\](?!.*\[\d+\/\d+\])/s)?.[0] ?? done);
  const label = `building ${[preset, ...targets].join(' ')}`;
  await withProgress(label, run(command, { env, quiet: true, onOutput }), () => done);
}

export const ctest = (preset) => run(['ctest', '--preset', preset, '--parallel', String(jobs)]);
