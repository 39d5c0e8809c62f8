/**
 * Compares two builds of heed, which may be a build before a change and one after it:
 *
 *     node bench/compare.mjs DIST_A DIST_B [--engine firefox] [--cpu] [--seconds 4] [--build relaxed-simd] [--dtype q8] [--shape 1x128] [--threads 2] [--pause 20]
 *
 * Runs an encoder of MiniLM's shape (random weights) of both dist/ folders in this process, A B A B. For each build, dtype and shape it prints A's median time and how many times as
 * fast B is: the median of the ratios taken round by round, with their quartiles, and whether the outputs are bit-identical. --threads gives the number of threads of B, and
 * --base-threads that of A. --pause waits so many milliseconds before each call. The Node that runs this file is the one that is measured (Node 20 needs --experimental-wasm-relaxed-simd); with --engine chromium, firefox or webkit, it is
 * a page of that browser. --cpu (Linux) measures the CPU time of the thread instead of the time of day, for a machine that is busy.
 */

import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { browsers, runInPage } from './browsers.mjs';
import { compareBuilds } from './compare-builds.mjs';
import { cpuTime } from './cpu-time.mjs';
import { SHAPES } from './harness.mjs';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    engine: { type: 'string' },
    cpu: { type: 'boolean', default: false },
    seconds: { type: 'string', default: '4' },
    build: { type: 'string', multiple: true, default: ['relaxed-simd', 'simd128'] },
    shape: { type: 'string', multiple: true, default: SHAPES.map((shape) => shape.join('x')) },
    dtype: { type: 'string', multiple: true, default: ['fp32', 'q8'] },
    threads: { type: 'string' },
    'base-threads': { type: 'string' },
    pause: { type: 'string', default: '0' },
  },
});
if (positionals.length !== 2 || (values.engine && !(values.engine in browsers))) {
  console.error(
    `usage: node bench/compare.mjs DIST_A DIST_B [--engine ${Object.keys(browsers).join('|')}] [--cpu] [--seconds s] [--build name] [--dtype name] [--shape 1x128] [--threads n]`,
  );
  process.exit(2);
}

const folders = positionals.map((folder) => resolve(folder));
const options = {
  builds: values.build,
  dtypes: values.dtype,
  shapes: values.shape.map((text) => text.split('x').map(Number)),
  threads: [values['base-threads'], values.threads].map((count) => (count ? Number(count) : undefined)),
  seconds: Number(values.seconds),
  pause: Number(values.pause),
};
const place = values.engine ?? `Node ${process.versions.node}`;
console.log(
  `${place}; A = ${positionals[0]}, B = ${positionals[1]}${values.threads ? `, ${values.threads} threads` : ''}`,
);
if (values.engine) {
  const [a, b] = folders.map((folder) => `${folder}/`);
  await runInPage(values.engine, './compare-builds.mjs', 'compareBuilds', {
    folders: { '/a/': a, '/b/': b },
    options: {
      ...options,
      imports: { heeds: ['/a/index.js', '/b/index.js'] },
      warmup: 2,
      ...(values.cpu && { clockPath: '/cpu-time' }),
    },
  });
} else {
  const heeds = await Promise.all(folders.map((folder) => import(pathToFileURL(`${folder}/index.js`).href)));
  await compareBuilds({ ...options, heeds, ...(values.cpu && { clock: () => cpuTime() }), log: console.log });
}
