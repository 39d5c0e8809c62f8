/** Runs a function of a module in a page of a browser, cross-origin isolated so that threads and precise clocks are available. */

import { createReadStream, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { launchChromium } from '../tools/chromium.mjs';
import { contentProcess, cpuTime } from './cpu-time.mjs';

const TYPES = { '.js': 'text/javascript', '.mjs': 'text/javascript', '.wasm': 'application/wasm' };

/** Serves folders, each below its path, an empty page at /, and the CPU time of the page's main thread at /cpu-time. */
async function serve(folders) {
  let content;
  const server = createServer((request, response) => {
    response.setHeader('cross-origin-opener-policy', 'same-origin');
    response.setHeader('cross-origin-embedder-policy', 'require-corp');
    const path = decodeURIComponent(request.url.split('?')[0]);
    if (path === '/') {
      response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>heed bench</title>');
      return;
    }
    if (path === '/cpu-time') {
      content ??= contentProcess();
      response.end(String(cpuTime(content)));
      return;
    }
    const prefix = Object.keys(folders).find((start) => path.startsWith(start));
    const file = prefix && join(folders[prefix], path.slice(prefix.length));
    if (!file || !statSync(file, { throwIfNoEntry: false })?.isFile()) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, { 'content-type': TYPES[extname(file)] ?? 'application/octet-stream' });
    createReadStream(file).pipe(response);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { origin: `http://127.0.0.1:${server.address().port}`, close };
}

async function openChromium() {
  const browser = await launchChromium();
  const page = await browser.newPage();
  return {
    goto: (url) => page.goto(url),
    evaluate: (script, given) => page.evaluate(script, given),
    close: () => browser.close(),
  };
}

/** The drivers of Firefox and WebKit are those of the browser tests. */
const other = (name) => async () => (await import('../tests/browsers/engines.mjs')).engines[name]();

/** By name: a function that opens the browser. */
export const browsers = { chromium: openChromium, firefox: other('Firefox'), webkit: other('WebKit') };

/** Starts the function in the page; it leaves its lines and its result for takeLines(). */
async function start({ module, name, options: { imports = {}, ...options } }) {
  const state = { lines: [], done: false };
  Object.assign(globalThis, { state });
  const load = async () => {
    for (const [key, paths] of Object.entries(imports))
      options[key] = Array.isArray(paths) ? await Promise.all(paths.map((path) => import(path))) : await import(paths);
    const called = await import(module);
    return called[name]({ ...options, log: (line) => state.lines.push(line) });
  };
  load().then(
    (result) => Object.assign(state, { done: true, result }),
    (error) => Object.assign(state, { done: true, error: `${error}\n${error?.stack}` }),
  );
  return navigator.userAgent;
}

/** The lines since the last call, and the result once there is one. Waits a second before it returns nothing. */
async function takeLines() {
  const { state } = globalThis;
  if (state.lines.length === 0 && !state.done) await new Promise((resolve) => setTimeout(resolve, 1000));
  return { lines: state.lines.splice(0), done: state.done, result: state.result ?? null, error: state.error ?? null };
}

/**
 * Calls `name` of the module at `path`, relative to this folder, with `options` and a function `log`, whose lines are printed here.
 *
 * @param {keyof typeof browsers} browser
 * @param {string} path
 * @param {string} name
 * @param {object} given
 * @param {Record<string, string>} given.folders served to the page, by path
 * @param {object} given.options passed as JSON; `imports` maps further options to the paths of modules, which the page imports
 * @param {(line: string) => void} [given.log]
 * @returns {Promise<{ userAgent: string, result: any }>}
 */
export async function runInPage(browser, path, name, { folders, options, log = console.log }) {
  const server = await serve({ '/bench/': fileURLToPath(new URL('.', import.meta.url)), ...folders });
  let engine;
  try {
    engine = await browsers[browser]();
    await engine.goto(`${server.origin}/`);
    const module = new URL(path, `${server.origin}/bench/`).pathname;
    const userAgent = await engine.evaluate(start, { module, name, options });
    for (;;) {
      const { lines, done, result, error } = await engine.evaluate(takeLines, null);
      for (const line of lines) log(line);
      if (error) throw new Error(`${browser}: ${error}`);
      if (done) return { userAgent, result };
    }
  } finally {
    await engine?.close();
    server.close();
  }
}
