// `npm run lint`: formatters and linters of both languages, the type check, whether names at namespace scope are unique in all of the
// C++, and whether the report of the public API and the documents' figures are up to date. `npm run format` (--fix) formats the files and updates both. Paths as arguments limit it to those.
import * as fs from 'node:fs';
import { availableParallelism } from 'node:os';
import { extname, join, resolve } from 'node:path';
import { apiReference, apiReport } from './api.mjs';
import { buildCMake } from './cmake.mjs';
import { PlainError, root, run, runMain, say } from './console.mjs';
import { checkFigures } from './figures.mjs';
import { filesBelow } from './files.mjs';
import { setup } from './setup.mjs';

const args = process.argv.slice(2);
const fix = args.includes('--fix');
const paths = args.filter((arg) => !arg.startsWith('-')).map((path) => resolve(path));

const llvmTool = (name) => (fs.existsSync(`/usr/bin/${name}-19`) ? `${name}-19` : name);
const cppFiles = () =>
  (paths.length > 0 ? paths : ['cpp', 'tests/cpp', 'bench/kernels'].map((folder) => join(root, folder)))
    .flatMap((path) => (fs.statSync(path, { throwIfNoEntry: false })?.isDirectory() ? filesBelow(path) : [path]))
    .filter((file) => ['.cpp', '.h'].includes(extname(file)) && fs.existsSync(file));

const biome = (...rest) => run([join(root, 'node_modules/.bin/biome'), ...rest, ...paths]);

const kChecks = {
  'clang-format': async () => {
    const files = cppFiles();
    if (files.length > 0)
      await run([llvmTool('clang-format'), ...(fix ? ['-i'] : ['--dry-run', '--Werror']), ...files]);
  },
  biome: () => (fix ? biome('check', '--write') : biome('ci', '--error-on-warnings')),
};

if (paths.length === 0) kChecks.figures = () => checkFigures({ fix });
if (fix && paths.length === 0) kChecks['public API'] = () => apiReport({ write: true });
if (!fix) {
  kChecks.types = () => run([process.execPath, 'node_modules/typescript/bin/tsc', '-p', 'tsconfig.json']);
  kChecks['public API'] = () => apiReport();
  kChecks.reference = () => apiReference({ write: false });
  kChecks['C++ names'] = () => buildCMake('wasm-release', ['heed-one-unit']);
  kChecks['clang-tidy'] = async () => {
    // Sixteen sources are parsed as one, because most of the time goes to the headers that they share. The static analyzer would
    // skip sources that are included, hence its option. Nothing needs to be built, no precompiled header either.
    const folder = 'build/lint';
    const settings = {
      CMAKE_DISABLE_PRECOMPILE_HEADERS: 'ON',
      CMAKE_UNITY_BUILD: 'ON',
      CMAKE_UNITY_BUILD_BATCH_SIZE: '16',
      HEED_VARIANTS: 'relaxed-simd',
    };
    const flags = Object.entries(settings).map(([name, value]) => `-D${name}=${value}`);
    await run(['cmake', '--preset', 'native-debug', '-B', folder, ...flags], { quiet: true });
    const commands = JSON.parse(fs.readFileSync(join(root, folder, 'compile_commands.json'), 'utf8'));
    const queue = [...new Set(commands.map(({ file }) => file))].filter((file) => !file.includes('heed-test-cases'));
    const options = [
      '--quiet',
      '--checks=-bugprone-suspicious-include', // the sources of a batch are included
      '--extra-arg=-Xclang',
      '--extra-arg=-analyzer-opt-analyze-headers',
    ];
    const failures = [];
    const worker = async () => {
      for (let file = queue.pop(); file; file = queue.pop()) {
        const command = [llvmTool('clang-tidy'), '-p', folder, ...options, file];
        const { status, output } = await run(command, { quiet: true, allowFailure: true });
        if (status !== 0) failures.push(output.replace(/^\d+ warnings? .*\n/gm, ''));
      }
    };
    await Promise.all(Array.from({ length: Math.min(2, availableParallelism()) }, worker));
    if (failures.length > 0) throw new PlainError(`clang-tidy:\n${failures.join('')}`);
  };
}

await runMain(async () => {
  await setup('lint');
  const failed = [];
  for (const [name, check] of Object.entries(kChecks)) {
    try {
      await check();
      say(`${name}: ok`);
    } catch (error) {
      if (!(error instanceof PlainError)) throw error;
      process.stderr.write(`${error.message}\n`);
      failed.push(name);
    }
  }
  if (failed.length > 0) throw new PlainError(`${fix ? 'not formatted' : 'lint failed'}: ${failed.join(', ')}`);
});
