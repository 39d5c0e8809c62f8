/**
 * How soon the demo can be used on a slow connection, Lighthouse's "slow 4G" of 1.6 Mbit/s and a round-trip time of 150 ms: with Chromium's throttling, an empty
 * cache, files compressed with Brotli.
 *
 *     node bench/page-load.mjs
 *
 * Prints its report; `npm run bench -- --only page` builds first and puts it into RESULTS.md.
 */

import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync } from 'node:zlib';
import { build } from 'vite';
import { launchChromium } from '../tools/chromium.mjs';
import { median } from './harness.mjs';

const configFile = fileURLToPath(new URL('../demo/vite.config.ts', import.meta.url));
const outDir = fileURLToPath(new URL('../build/bench/demo', import.meta.url));

/** Chromium delays each request by one latency and counts no round trips for connections. */
const slow4G = {
  network: { offline: false, latency: 150, downloadThroughput: 1.6e6 / 8, uploadThroughput: 750e3 / 8 },
  slowdown: 1,
};
/** What Lighthouse sets in Chromium for the same connection, so that requests take as long as with all their round trips (`lighthouse/core/config/constants.js`), and its slower processor. */
const lighthouse = {
  network: {
    offline: false,
    latency: 3.75 * 150,
    downloadThroughput: (0.9 * 1.6 * 1024 * 1024) / 8,
    uploadThroughput: (0.9 * 750 * 1024) / 8,
  },
  slowdown: 4,
};

/** For each page, the elements whose first appearance is measured, in order. */
const pages = {
  'First page': { hash: '', milestones: { usable: '.path b' } },
  'First page, as Lighthouse throttles': { hash: '', milestones: { usable: '.path b' }, profile: lighthouse },
  Compute: { hash: '#compute', milestones: { usable: '#average td' } },
  Meaning: {
    hash: '#meaning',
    milestones: { usable: 'textarea', similarities: '#cosines td', words: '.words .word' },
  },
};

const types = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.wasm': 'application/wasm',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.woff2': 'font/woff2',
};

/** Serves the folder as a good static host does: compressed, except for what is already. */
function serve(folder) {
  const bodies = new Map();
  const bodyOf = async (path) => {
    const file = await readFile(join(folder, path));
    return /woff2|png/.test(extname(path))
      ? { file, encoding: 'identity' }
      : { file: brotliCompressSync(file), encoding: 'br' };
  };
  return createServer(async ({ url }, response) => {
    const { pathname } = new URL(url, 'http://localhost');
    const path = normalize(pathname.endsWith('/') ? `${pathname}index.html` : pathname);
    try {
      if (!bodies.has(path)) bodies.set(path, await bodyOf(path));
      const { file, encoding } = bodies.get(path);
      response.writeHead(200, {
        'Content-Type': types[extname(path)] ?? 'application/octet-stream',
        'Content-Encoding': encoding,
        'Content-Length': file.length,
      });
      response.end(file);
    } catch {
      response.writeHead(404).end();
    }
  });
}

/** Runs in the page: notes when the first element for each selector appears, and the first and the largest contentful paint so far. */
function observe(milestones) {
  const times = {};
  Object.assign(globalThis, { times });
  const look = () => {
    for (const [name, selector] of Object.entries(milestones))
      if (!(name in times) && document.querySelector(selector)) times[name] = performance.now();
  };
  new MutationObserver(look).observe(document, { childList: true, subtree: true });
  new PerformanceObserver((list) => {
    for (const { name, startTime } of list.getEntries())
      if (name === 'first-contentful-paint') times['first paint'] = startTime;
  }).observe({ type: 'paint', buffered: true });
  // Which element that is, and that it needs no later script, is tested in tests/demo/static.browser.test.ts, which asserts no times.
  new PerformanceObserver((list) => {
    times['largest paint'] = list.getEntries().at(-1).startTime;
  }).observe({ type: 'largest-contentful-paint', buffered: true });
}

async function measureOnce(browser, url, { hash, milestones, profile = slow4G }) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, serviceWorkers: 'block' });
  const page = await context.newPage();
  const devtools = await context.newCDPSession(page);
  await devtools.send('Network.enable');
  await devtools.send('Network.emulateNetworkConditions', profile.network);
  await devtools.send('Emulation.setCPUThrottlingRate', { rate: profile.slowdown });
  let bytes = 0;
  devtools.on('Network.loadingFinished', ({ encodedDataLength }) => {
    bytes += encodedDataLength;
  });
  await page.addInitScript(observe, milestones);
  await page.goto(url + hash, { waitUntil: 'commit' });
  const [first] = Object.keys(milestones);
  const arrived = (name) => page.waitForFunction((key) => key in globalThis.times, name, { timeout: 120_000 });
  await arrived(first);
  const bytesUntilUsable = bytes;
  for (const name of Object.keys(milestones)) await arrived(name);
  await page.waitForTimeout(500); // until the last one has been painted
  const times = await page.evaluate(() => globalThis.times);
  await context.close();
  return { ...times, bytesUntilUsable };
}

/** @returns {Promise<{ rounds: number, rows: { name: string, [milestone: string]: number }[] }>} medians over rounds, in ms */
export async function measurePageLoad({ rounds = 5 } = {}) {
  await build({ configFile, logLevel: 'error', build: { outDir } });
  const server = serve(outDir);
  await new Promise((resolve) => server.listen(0, resolve));
  const browser = await launchChromium();
  try {
    const rows = [];
    for (const [name, page] of Object.entries(pages)) {
      const all = [];
      for (let round = 0; round < rounds; round++)
        all.push(await measureOnce(browser, `http://localhost:${server.address().port}/`, page));
      const medians = Object.keys(all[0]).map((key) => [key, median(all.map((one) => one[key]))]);
      rows.push({ name, ...Object.fromEntries(medians) });
    }
    return { rounds, rows };
  } finally {
    await browser.close();
    server.close();
  }
}

/** @returns {string} Markdown */
export function pageLoadReport({ rounds, rows }) {
  const rest = ({ name, bytesUntilUsable, 'first paint': paint, 'largest paint': largest, usable, ...others }) =>
    Object.entries(others).map(([key, time]) => `${key} after ${(time / 1000).toFixed(1)} s`);
  return [
    '## Loading the demo on a slow connection',
    '',
    `Chromium, 1.6 Mbit/s and 150 ms per request, an empty cache, files compressed with Brotli; medians over ${rounds} rounds. The first page is usable when its examples are shown, “Compute” when a cell is, “Meaning” when one can type.`,
    '',
    'Lighthouse throttles the same connection more strictly: 563 ms per request, for all round trips of a request, 1.5 Mbit/s, and a processor four times slower.',
    '',
    '| | first paint, s | largest paint, s | usable, s | received until then, KB | then |',
    '| --- | --- | --- | --- | --- | --- |',
    ...rows.map((row) => {
      const numbers = [row['first paint'], row['largest paint'], row.usable].map((value) => (value / 1000).toFixed(2));
      return `| ${row.name} | ${numbers.join(' | ')} | ${Math.round(row.bytesUntilUsable / 1000)} | ${rest(row).join(', ')} |`;
    }),
  ].join('\n');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) console.log(pageLoadReport(await measurePageLoad()));
