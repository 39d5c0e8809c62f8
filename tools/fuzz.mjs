// `npm run fuzz [seconds]`: random calls, first to the native core under libFuzzer and the sanitizers, then to the package.
// Inputs that reach new code are kept in build/fuzz/corpus, and the next run starts from them.
import * as fs from 'node:fs';
import { join } from 'node:path';
import { build } from './build.mjs';
import { buildCMake } from './cmake.mjs';
import { PlainError, root, run, runMain, say } from './console.mjs';
import { setup } from './setup.mjs';

const folder = join(root, 'build/fuzz');
const presets = ['native-fuzz', 'native-fuzz-index32']; // 64-bit indices, and 32-bit ones as in WebAssembly

await runMain(async () => {
  const seconds = Number(process.argv[2] ?? 60);
  if (!(seconds >= 1)) throw new PlainError(`seconds: expected a number of at least 1, got '${process.argv[2]}'`);
  await setup('test');
  await build();
  fs.mkdirSync(join(folder, 'corpus'), { recursive: true });
  const options = [
    `-max_total_time=${Math.max(1, Math.round(seconds / presets.length))}`,
    '-max_len=400', // the bytes that determine one call
    '-timeout=300', // wall-clock seconds, on a machine that may be busy
    '-rss_limit_mb=4096',
    '-print_final_stats=1',
    `-artifact_prefix=${folder}/`,
  ];
  for (const preset of presets) {
    await buildCMake(preset);
    const program = join(root, 'build', preset, 'heed-fuzz');
    const { status } = await run([program, join(folder, 'corpus'), ...options], { allowFailure: true });
    if (status !== 0)
      throw new PlainError(`a call of the core failed; to repeat it, run ${program} ${folder}/<crash-…>`);
  }

  const runs = Math.max(150, Math.round(15 * seconds));
  say(`calls of the package: ${runs} of each kind`);
  const vitest = [
    'node_modules/vitest/vitest.mjs',
    'run',
    '--project',
    'slow',
    '--project',
    'node',
    '--testTimeout',
    '3600000',
  ];
  await run(
    [
      process.execPath,
      ...vitest,
      'tests/web/hostile',
      'tests/web/models/changed-files',
      'tests/web/models/text-index-',
    ],
    {
      env: { HEED_FUZZ_RUNS: String(runs) },
    },
  );
});
