// Builds what is out of date: `npm run build [wasm|web]`. `npm run build wasm train-simd128 …` builds these modules only.
import { pathToFileURL } from 'node:url';
import { buildWeb } from './build-web.mjs';
import { buildCMake } from './cmake.mjs';
import { runMain } from './console.mjs';
import { exclusively } from './lock.mjs';
import { setup } from './setup.mjs';

/** Brings the toolchain, the WebAssembly modules and dist/ up to date, or one `part` of them: 'wasm' or 'web'. `modules`: only those. */
export async function build(part, { modules = [], ...options } = {}) {
  await exclusively('build', async () => {
    await setup();
    if (part !== 'web')
      await buildCMake(
        'wasm-release',
        modules.map((name) => `heed-${name}`),
      );
    if (part !== 'wasm') await buildWeb(options);
  });
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [part, ...modules] = process.argv.slice(2);
  await runMain(() => build(part, { modules }));
}
