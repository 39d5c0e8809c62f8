// `npm run coverage [cpp|web]`: which lines of the core its native tests run, and which of the face the tests in Node. Fails below the
// bar. Details of the face are in build/coverage/.
import * as fs from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from './build.mjs';
import { buildCMake, ctest } from './cmake.mjs';
import { PlainError, root, run, runMain, say } from './console.mjs';
import { ensurePackages, setup } from './setup.mjs';

// Percent.
const kLeastLines = { cpp: 95, web: 95 };

const llvmTool = (name) => (fs.existsSync(`/usr/bin/${name}-19`) ? `${name}-19` : name);

/** Percent of the core's lines. */
async function coverCore() {
  const preset = 'native-coverage';
  const folder = join(root, 'build', preset);
  await buildCMake(preset);
  process.env.LLVM_PROFILE_FILE = join(folder, '%p.profraw'); // one file a process
  await ctest(preset);
  const profiles = fs.readdirSync(folder).filter((file) => file.endsWith('.profraw'));
  const merged = join(folder, 'core.profdata');
  const inputs = profiles.map((file) => join(folder, file));
  await run([llvmTool('llvm-profdata'), 'merge', '-sparse', '-o', merged, ...inputs]);
  for (const file of inputs) fs.rmSync(file);

  // The kernels are in both executables, everything above them in either.
  const report = [join(folder, 'heed-tests-simd128'), '-object', join(folder, 'heed-tests-relaxed-simd')];
  const options = [`-instr-profile=${merged}`, ...report, join(root, 'cpp')];
  await run([llvmTool('llvm-cov'), 'report', '-show-region-summary=false', ...options]);
  const { output } = await run([llvmTool('llvm-cov'), 'export', '-summary-only', ...options], { quiet: true });
  const json = output.slice(output.indexOf('{'), output.lastIndexOf('}') + 1); // warnings may stand around it
  return JSON.parse(json).data[0].totals.lines.percent;
}

/** Percent of the face's lines: what V8 counted in Vitest's processes, the workers and the command lines that they started. */
async function coverFace() {
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

const kParts = { cpp: coverCore, web: coverFace };

await runMain(async () => {
  await setup();
  const found = [];
  for (const part of process.argv.length > 2 ? process.argv.slice(2) : Object.keys(kParts))
    found.push([part, await kParts[part]()]);
  for (const [part, percent] of found) say(`${part}: ${percent.toFixed(1)} % of the lines`);
  const low = found.filter(([part, percent]) => percent < kLeastLines[part]);
  if (low.length > 0)
    throw new PlainError(`expected at least ${low.map(([part]) => `${kLeastLines[part]} % of ${part}`).join(', ')}`);
});
