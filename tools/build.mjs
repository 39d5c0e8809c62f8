// Builds what is out of date: `npm run build [wasm|web]`.
import { pathToFileURL } from 'node:url';
import { buildWeb } from './build-web.mjs';
import { buildCMake } from './cmake.mjs';
import { runMain } from './console.mjs';
import { exclusively } from './lock.mjs';
import { setup } from './setup.mjs';

/** Brings the toolchain, both WebAssembly modules and dist/ up to date, or one `part` of them: 'wasm' or 'web'. */
export async function build(part, options) {
  await exclusively('build', async () => {
    await setup();
    if (part !== 'web') await buildCMake('wasm-release');
    if (part !== 'wasm') await buildWeb(options);
  });
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await runMain(() => build(process.argv[2]));
