// `npm run bench [arguments]`: builds, fetches the peers (a package of their own, bench/) and times heed against them.
import { build } from './build.mjs';
import { run, runMain } from './console.mjs';
import { ensurePackages } from './setup.mjs';

await runMain(async () => {
  await build();
  await ensurePackages('bench');
  await run([process.execPath, 'bench/run.mjs', ...process.argv.slice(2)]);
});
