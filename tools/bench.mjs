// `npm run bench [arguments]`: builds, fetches the peers (a package of their own, bench/) and times heed against them.
import * as fs from 'node:fs';
import { join } from 'node:path';
import { build } from './build.mjs';
import { root, run, runMain, withProgress } from './console.mjs';

await runMain(async () => {
  await build();
  if (!fs.existsSync(join(root, 'bench/node_modules'))) {
    await withProgress(
      'npm ci in bench/',
      run(['npm', 'ci', '--ignore-scripts'], { cwd: join(root, 'bench'), quiet: true }),
    );
  }
  await run([process.execPath, 'bench/run.mjs', ...process.argv.slice(2)]);
});
