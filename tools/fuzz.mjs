// `npm run fuzz [seconds]`: random calls, first of the native core under libFuzzer and the sanitizers, then of the built package.
// Inputs that reached something new are kept in build/fuzz/corpus, and the next run goes on from them.
import * as fs from 'node:fs';
import { join } from 'node:path';
import { build } from './build.mjs';
import { buildCMake } from './cmake.mjs';
import { PlainError, root, run, runMain, say } from './console.mjs';

const folder = join(root, 'build/fuzz');
const presets = ['native-fuzz', 'native-fuzz-index32']; // indices of 64 bits, and of 32 as in WebAssembly

await runMain(async () => {
  const seconds = Number(process.argv[2] ?? 60);
  if (!(seconds >= 1))
    throw new PlainError(`got '${process.argv[2]}' for the seconds; expected a number of at least 1`);
  await build();
  fs.mkdirSync(join(folder, 'corpus'), { recursive: true });
  const options = [
    `-max_total_time=${Math.max(1, Math.round(seconds / presets.length))}`,
    '-max_len=400', // bytes that choose one call
    '-timeout=300', // of the wall's clock, on a machine that may be busy
    '-rss_limit_mb=4096',
    '-print_final_stats=1',
    `-artifact_prefix=${folder}/`,
  ];
  for (const preset of presets) {
    await buildCMake(preset);
    const program = join(root, 'build', preset, 'heed-fuzz');
    const { status } = await run([program, join(folder, 'corpus'), ...options], { allowFailure: true });
    if (status !== 0) throw new PlainError(`a call in the core failed; repeat it: ${program} ${folder}/<crash-…>`);
  }

  const runs = Math.max(150, Math.round(15 * seconds));
  say(`calls of the package: ${runs} of each`);
  const vitest = ['node_modules/vitest/vitest.mjs', 'run', '--project', 'node', '--testTimeout', '3600000'];
  await run([process.execPath, ...vitest, 'tests/web/hostile', 'tests/web/models/changed-files'], {
    env: { HEED_FUZZ_RUNS: String(runs) },
  });
});
