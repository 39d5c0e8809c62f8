// `npm run coverage`: which lines of the core its native tests run. Fails below the bar.
import * as fs from 'node:fs';
import { join } from 'node:path';
import { buildCMake, ctest } from './cmake.mjs';
import { PlainError, root, run, runMain } from './console.mjs';
import { setup } from './setup.mjs';

const kLeastLines = 95; // percent

const preset = 'native-coverage';
const folder = join(root, 'build', preset);
const llvmTool = (name) => (fs.existsSync(`/usr/bin/${name}-19`) ? `${name}-19` : name);

await runMain(async () => {
  await setup();
  await buildCMake(preset);
  process.env.LLVM_PROFILE_FILE = join(folder, '%p.profraw'); // one file a process
  await ctest(preset);
  const profiles = fs.readdirSync(folder).filter((file) => file.endsWith('.profraw'));
  const merged = join(folder, 'core.profdata');
  await run([
    llvmTool('llvm-profdata'),
    'merge',
    '-sparse',
    '-o',
    merged,
    ...profiles.map((file) => join(folder, file)),
  ]);
  for (const file of profiles) fs.rmSync(join(folder, file));

  // The kernels are in both executables, everything above them in either.
  const report = [join(folder, 'heed-tests-simd128'), '-object', join(folder, 'heed-tests-relaxed-simd')];
  const options = [`-instr-profile=${merged}`, ...report, join(root, 'cpp')];
  await run([llvmTool('llvm-cov'), 'report', '-show-region-summary=false', ...options]);
  const { output } = await run([llvmTool('llvm-cov'), 'export', '-summary-only', ...options], { quiet: true });
  const json = output.slice(output.indexOf('{'), output.lastIndexOf('}') + 1); // warnings may stand around it
  const { percent } = JSON.parse(json).data[0].totals.lines;
  if (percent < kLeastLines) throw new PlainError(`lines covered: ${percent.toFixed(1)} %; expected ${kLeastLines} %`);
});
