/** Finds the engines of this machine and measures heed beside onnxruntime-web in each, for bench/ENGINES.md. */

import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { firefoxPath } from '../tests/browsers/engines.mjs';
import { chromiumPath } from '../tools/chromium.mjs';
import { browsers, runInPage } from './browsers.mjs';
import { cpuName, rowsOf, withRows } from './engine-table.mjs';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const file = here('ENGINES.md');
const MODELS = here('../build/bench/minilm/');

const onPath = (name) =>
  (process.env.PATH ?? '')
    .split(delimiter)
    .map((folder) => join(folder, name))
    .find((path) => existsSync(path));

/** Node of this major version: the variable NODE_22, bench/node_modules, `node22` or `node-22` on PATH, or the one that runs this file. */
function nodePath(major) {
  const running = process.versions.node.startsWith(`${major}.`) ? process.execPath : undefined;
  const places = [process.env[`NODE_${major}`], here(`node_modules/node-${major}/bin/node`)];
  return (
    places.find((path) => path && existsSync(path)) ?? onPath(`node${major}`) ?? onPath(`node-${major}`) ?? running
  );
}

function hasChromium() {
  try {
    return Boolean(chromiumPath());
  } catch {
    return false;
  }
}

/** Name -> how it is found (a path, or something true), and what to say if it is not. */
const ENGINES = {
  ...Object.fromEntries(
    [22, 24, 26].map((major) => [
      `node${major}`,
      { find: () => nodePath(major), hint: `set NODE_${major} to its path` },
    ]),
  ),
  chromium: { find: hasChromium, hint: 'set CHROMIUM to its path' },
  firefox: { find: firefoxPath, hint: 'set FIREFOX to its path' },
  webkit: { find: () => onPath('WebKitWebDriver'), hint: "install Debian's webkit2gtk-driver and xvfb" },
};
export const ENGINE_NAMES = Object.keys(ENGINES);

function measureNode(path, options) {
  const { status, stdout, error } = spawnSync(path, [here('engine-node.mjs'), JSON.stringify(options)], {
    stdio: ['ignore', 'pipe', 'inherit'],
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(`${path} failed${error ? `: ${error.message}` : ''}`);
  const lines = stdout.trim().split('\n');
  for (const text of lines.slice(0, -1)) console.log(`  ${text}`);
  return JSON.parse(lines.at(-1));
}

/** "Firefox 153" and so on. The user agent of WebKitGTK has no version of its own. */
const browserName = (userAgent) => userAgent.match(/(?:Firefox|Chrome)\/\d+/)?.[0].replace('/', ' ') ?? 'WebKitGTK';

async function measureInBrowser(browser, options) {
  const { userAgent, result } = await runInPage(browser, './engine-latency.mjs', 'engineLatencyInPage', {
    folders: { '/dist/': here('../dist/'), '/ort/': here('node_modules/onnxruntime-web/dist/'), '/model/': MODELS },
    options: {
      ...options,
      imports: { heed: '/dist/index.js', ort: '/ort/ort.wasm.min.mjs' },
      ortFiles: '/ort/',
      files: '/model/',
      warmup: 2,
    },
    log: (text) => console.log(`  ${text}`),
  });
  return { engine: browserName(userAgent), ...result };
}

/**
 * Measures in the named engines and updates bench/ENGINES.md after each. Engines that are not found are left out, which is printed.
 *
 * @param {{ names?: string[], threads?: number[], shapes?: string[], seconds: number, note?: string }} options `note`: what to say beside the date
 */
export async function measureEngines({ names = ENGINE_NAMES, threads = [1, 2], shapes, seconds, note }) {
  const date = [new Date().toISOString().slice(0, 10), note].filter(Boolean).join(', ');
  for (const name of names) {
    if (!(name in ENGINES)) throw new Error(`bench: engine: expected one of ${ENGINE_NAMES.join(', ')}, got '${name}'`);
    const { find, hint } = ENGINES[name];
    const found = find();
    if (!found) {
      console.log(`${name}: not found (${hint}), left out`);
      continue;
    }
    for (const count of threads) {
      console.log(`${name}, ${count} threads`);
      const options = { threads: count, shapes, seconds };
      const measured = name in browsers ? await measureInBrowser(name, options) : measureNode(found, options);
      if (measured.threads !== count) {
        console.log(`  heed runs ${measured.threads} thread there, which is measured already`);
        continue;
      }
      const before = existsSync(file) ? readFileSync(file, 'utf8') : '';
      writeFileSync(file, withRows(before, cpuName(), rowsOf(measured.engine, measured, date)));
    }
  }
}
