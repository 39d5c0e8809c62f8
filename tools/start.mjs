// `npm start`: real sentences through the shipped encoder in Node, then the demo page. `npm run demo` goes straight to the page.
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
  say('the demo page is served here until you press Ctrl-C:');
  await run(vite('preview'));
});
