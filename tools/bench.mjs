// `npm run bench [arguments]`: builds heed, installs the libraries it is compared with (bench/package.json), and runs bench/run.mjs.
import { build } from './build.mjs';
import { run, runMain } from './console.mjs';
import { ensurePackages } from './setup.mjs';

await runMain(async () => {
  await build();
  await ensurePackages('bench');
  await ensurePackages('tests/browsers'); // the drivers of Firefox and WebKit
  await run([process.execPath, 'bench/run.mjs', ...process.argv.slice(2)]);
});
