// `npm test [part …]`: sets up and builds what is missing, then runs the parts' tests; all fast parts without an argument.
import { build } from './build.mjs';
import { buildCMake, ctest } from './cmake.mjs';
import { PlainError, run, runMain, say } from './console.mjs';
import { ensurePackages } from './setup.mjs';
import { checkSizes } from './size.mjs';

const vitest = (...projects) =>
  run([
    process.execPath,
    'node_modules/vitest/vitest.mjs',
    'run',
    '--passWithNoTests',
    ...projects.flatMap((name) => ['--project', name]),
  ]);

async function checkPackage() {
  checkSizes();
  await run([process.execPath, 'tools/record.mjs', 'check']);
}

const kParts = {
  // The C++ core under address, undefined-behaviour and leak sanitizers.
  cpp: async () => {
    await buildCMake('native-sanitize');
    await ctest('native-sanitize');
  },
  // The TypeScript API in Node.
  web: () => vitest('node'),
  // The API and the demo page in a real Chromium.
  browser: () => vitest('browser'),
  // The packed tarball, installed elsewhere.
  package: async () => {
    await checkPackage();
    await vitest('package');
  },
  // What follows cpp where no part is named: in one run, which keeps all cores busy to the end.
  'web, browser, package': async () => {
    await checkPackage();
    await vitest('node', 'browser', 'package');
  },
  // Every bundler and framework: minutes, and fetches them from npm the first time.
  bundlers: async () => {
    await ensurePackages('tests/package/bundlers');
    await vitest('bundlers', 'package'); // the latter again, with the newer Nodes that came along
  },
};
const kFast = ['cpp', 'web, browser, package'];

await runMain(async () => {
  const parts = process.argv.length > 2 ? process.argv.slice(2) : kFast;
  const unknown = parts.find((name) => !(name in kParts));
  if (unknown) throw new PlainError(`no tests are called ${unknown}; there are ${Object.keys(kParts).join(', ')}`);
  await build();
  const failed = [];
  for (const name of parts) {
    say(`tests: ${name}`);
    try {
      await kParts[name]();
    } catch (error) {
      if (!(error instanceof PlainError)) throw error;
      say(error.message);
      failed.push(name);
    }
  }
  if (failed.length > 0) throw new PlainError(`tests failed: ${failed.join(', ')}`);
  say(`tests passed: ${parts.join(', ')}`);
});
