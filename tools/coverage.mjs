// `npm run coverage [cpp|web]`: line coverage of the C++ core by its native tests, and of the TypeScript API by the tests in
// Node. Fails below the minimum. Details of the API's coverage are written to build/coverage/.
import * as fs from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from './build.mjs';
import { buildCMake, ctest } from './cmake.mjs';
import { PlainError, root, run, runMain, say } from './console.mjs';
import { ensurePackages, setup } from './setup.mjs';

// Percent of lines.
const kMinimumLines = { cpp: 95, web: 95 };

const llvmTool = (name) => (fs.existsSync(`/usr/bin/${name}-19`) ? `${name}-19` : name);

/** The core's line coverage in percent. */
async function coverCore() {
  const preset = 'native-coverage';
  const folder = join(root, 'build', preset);
  await buildCMake(preset);
  process.env.LLVM_PROFILE_FILE = join(folder, '%p.profraw'); // one file per process
  await ctest(preset);
  const profiles = fs.readdirSync(folder).filter((file) => file.endsWith('.profraw'));
  const merged = join(folder, 'core.profdata');
  const inputs = profiles.map((file) => join(folder, file));
  await run([llvmTool('llvm-profdata'), 'merge', '-sparse', '-o', merged, ...inputs]);
  for (const file of inputs) fs.rmSync(file);

  // The kernels differ between the two executables; everything else is the same in both.
  const report = [join(folder, 'heed-tests-simd128'), '-object', join(folder, 'heed-tests-relaxed-simd')];
  const options = [`-instr-profile=${merged}`, ...report, join(root, 'cpp')];
  await run([llvmTool('llvm-cov'), 'report', '-show-region-summary=false', ...options]);
  const { output } = await run([llvmTool('llvm-cov'), 'export', '-summary-only', ...options], { quiet: true });
  const json = output.slice(output.indexOf('{'), output.lastIndexOf('}') + 1); // warnings may surround it
  return JSON.parse(json).data[0].totals.lines.percent;
}

/** The API's line coverage in percent, as V8 counts it in Vitest's processes and in the workers and commands that they start. */
async function coverApi() {
  await ensurePackages('tools/checks');
  const folder = join(root, 'build/coverage');
  const counts = join(folder, 'v8');
  fs.rmSync(folder, { recursive: true, force: true });
  await build('web', { forCoverage: true });
  try {
    const vitest = [process.execPath, 'node_modules/vitest/vitest.mjs', 'run', '--project', 'node'];
    const { status } = await run(vitest, { env: { NODE_V8_COVERAGE: counts }, allowFailure: true });
    const { CoverageReport } = await import('./checks/node_modules/monocart-coverage-reports/lib/index.mjs');
    const report = new CoverageReport({
      name: 'heed',
      outputDir: folder,
      clean: false,
      reports: ['console-details', 'v8'],
      logging: 'error',
      entryFilter: (entry) => entry.url.startsWith(pathToFileURL(join(root, 'dist')).href),
      sourceFilter: (source) => source.includes('web/src/'),
    });
    await report.addFromDir(counts);
    const { summary } = await report.generate();
    if (status !== 0) throw new PlainError('some tests failed');
    return summary.lines.pct;
  } finally {
    await build('web');
  }
}

const kParts = { cpp: coverCore, web: coverApi };

await runMain(async () => {
  await setup('test');
  const found = [];
  for (const part of process.argv.length > 2 ? process.argv.slice(2) : Object.keys(kParts))
    found.push([part, await kParts[part]()]);
  for (const [part, percent] of found) say(`${part}: ${percent.toFixed(1)} % of the lines`);
  const low = found.filter(([part, percent]) => percent < kMinimumLines[part]);
  if (low.length > 0)
    throw new PlainError(`expected at least ${low.map(([part]) => `${kMinimumLines[part]} % of ${part}`).join(', ')}`);
});
