// `npm start`: runs the examples with the shipped model in Node, then serves the demo. `npm run demo`: only the demo.
// `npm run build:demo`: builds the demo's static folder and stops.
import { join } from 'node:path';
import { build } from './build.mjs';
import { listSeconds, root, run, runMain, say, timed, withProgress } from './console.mjs';
import { captureShare } from './share-picture.mjs';

const [part = 'all'] = process.argv.slice(2);

await runMain(async () => {
  const start = performance.now();
  const seconds = await build();
  if (part === 'all') {
    const examples = await timed(async () => {
      await run([process.execPath, 'examples/nearest.mjs']);
      await run([process.execPath, 'examples/reverse-dictionary.mjs']);
    });
    seconds.examples = examples.seconds;
  }
  const vite = (...args) => [
    process.execPath,
    join(root, 'node_modules/vite/bin/vite.js'),
    ...args,
    '--config',
    'demo/vite.config.ts',
  ];
  const demo = await timed(() => withProgress('building the demo', run(vite('build'), { quiet: true })));
  seconds.demo = demo.seconds;
  if (part === 'build') {
    const picture = await timed(() => captureShare(join(root, 'build/demo'), join(root, 'build/demo/share.png')));
    seconds.picture = picture.seconds;
  }
  say(`ready after ${Math.round((performance.now() - start) / 1000)} s: ${listSeconds(seconds)}`);
  if (part === 'build') {
    say('built build/demo, which any static host can serve under any path');
    return;
  }
  say('serving the demo; press Ctrl-C to stop');
  await run(vite('preview'));
});
