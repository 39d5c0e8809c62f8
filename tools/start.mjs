// `npm start`: runs the examples with the shipped model in Node, then serves the demo. `npm run demo`: only the demo.
// `npm run build:demo`: builds the demo's static folder and stops.
import { join } from 'node:path';
import { build } from './build.mjs';
import { root, run, runMain, say, withProgress } from './console.mjs';

const [part = 'all'] = process.argv.slice(2);

await runMain(async () => {
  await build();
  if (part === 'all') {
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
  await withProgress('building the demo', run(vite('build'), { quiet: true }));
  if (part === 'build') {
    say('built build/demo, which any static host can serve under any path');
    return;
  }
  say('serving the demo; press Ctrl-C to stop');
  await run(vite('preview'));
});
