// Builds what is out of date: `npm run build [wasm|web]`. `npm run build wasm train-simd128 …` builds these modules only.
import { pathToFileURL } from 'node:url';
import { buildWeb } from './build-web.mjs';
import { buildCMake } from './cmake.mjs';
import { listSeconds, runMain, say, timed } from './console.mjs';
import { exclusively } from './lock.mjs';
import { setup } from './setup.mjs';

/**
 * Brings the toolchain, the WebAssembly modules and dist/ up to date, or one `part` of them: 'wasm' or 'web'. `modules`: only
 * those. Returns the seconds that each step took.
 */
export async function build(part, { modules = [], ...options } = {}) {
  return exclusively('build', async () => {
    const { seconds } = await setup();
    const step = async (name, task) => (seconds[name] = (await timed(task)).seconds);
    if (part !== 'web') {
      // Objects first, so that compilation and links are two steps with times of their own.
      if (modules.length === 0) await step('compilation', () => buildCMake('wasm-release', ['objects']));
      const targets = modules.map((name) => `heed-${name}`);
      await step('links', () => buildCMake('wasm-release', targets));
    }
    if (part !== 'wasm') await step('dist', () => buildWeb(options));
    return seconds;
  });
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const [part, ...modules] = process.argv.slice(2);
  await runMain(async () => {
    const steps = listSeconds(await build(part, { modules }));
    if (steps) say(steps);
  });
}
