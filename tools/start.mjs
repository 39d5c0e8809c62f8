// `npm start`: runs the examples with the shipped model in Node, then serves the demo page. `npm run demo`: only the page.
import { join } from 'node:path';
import { build } from './build.mjs';
import { root, run, runMain, say, withProgress } from './console.mjs';

await runMain(async () => {
  await build();
  if (process.argv[2] !== 'demo') {
    await run([process.execPath, 'examples/nearest.mjs']);
    await run([process.execPath, 'examples/reverse-dictionary.mjs']);
  }
  const vite = (...args) => [
    process.execPath,
    join(root, 'node_modules/vite/bin/vite.js'),
    ...args,
    '--config',
    'demo/vite.config.ts',
  ];
  await withProgress('building the demo page', run(vite('build'), { quiet: true }));
  say('serving the demo page; press Ctrl-C to stop');
  await run(vite('preview'));
});
