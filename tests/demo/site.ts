/** The built demo page behind a plain static server, and a Chromium to visit it with. */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core';
import { launchChromium } from '../../tools/chromium.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));
/** What the page is designed for; sent as a header, it binds the worker too. */
const policy = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'";
const types: Record<string, string> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.wasm': 'application/wasm',
  '.svg': 'image/svg+xml',
  '.json': 'application/json',
  '.woff2': 'font/woff2',
};

export interface Site {
  url: string;
  folder: string;
  browser: Browser;
  close(): Promise<void>;
}

/** Builds the page into a folder of its own and serves it below a path, as GitHub Pages does. */
export async function openSite(
  name: string,
  { headers = { 'Content-Security-Policy': policy } as Record<string, string> } = {},
): Promise<Site> {
  const folder = join(root, 'build/tests', `demo-${name}`);
  // In a process of its own: within Vitest, Vite would build for tests, not for visitors.
  const vite = join(root, 'node_modules/vite/bin/vite.js');
  const options = ['build', '--config', 'demo/vite.config.ts', '--outDir', folder, '--logLevel', 'error'];
  await promisify(execFile)(process.execPath, [vite, ...options], {
    cwd: root,
    env: { ...process.env, NODE_ENV: 'production' },
  });
  const server = await serve(folder, '/heed/', headers);
  const browser: Browser = await launchChromium();
  return {
    url: `http://localhost:${(server.address() as AddressInfo).port}/heed/`,
    folder,
    browser,
    async close() {
      await browser.close();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function serve(folder: string, prefix: string, headers: Record<string, string>): Promise<Server> {
  const model = join(root, 'web/model');
  const server = createServer(async (request, response) => {
    const path = decodeURIComponent(new URL(request.url!, 'http://localhost').pathname);
    // The model's folder too, for the room that opens one by its URL.
    const below = path.startsWith('/model/')
      ? join(model, normalize(path.slice('/model'.length)))
      : join(folder, normalize(path.slice(prefix.length - 1)));
    try {
      if (!path.startsWith(prefix) && !path.startsWith('/model/')) throw new Error('outside');
      const file = below.endsWith('/') ? join(below, 'index.html') : below;
      const body = await readFile(file);
      response
        .writeHead(200, { 'Content-Type': types[extname(file)] ?? 'application/octet-stream', ...headers })
        .end(body);
    } catch {
      response.writeHead(404, { 'Content-Type': 'text/html' }).end('<!doctype html><title>not found</title>');
    }
  });
  await new Promise<void>((resolve) => server.listen(0, resolve));
  return server;
}

export interface Visit {
  page: Page;
  context: BrowserContext;
  /** Errors, warnings of the content policy, failed requests: none is the rule. */
  complaints: string[];
}

/** A fresh visitor. */
export async function visit(site: Site, hash = '', options: BrowserContextOptions = {}): Promise<Visit> {
  const context = await site.browser.newContext({
    viewport: { width: 1280, height: 900 },
    reducedMotion: 'reduce',
    ...options,
  });
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error') complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(error.message));
  await page.goto(site.url + hash);
  return { page, context, complaints };
}

/** The numbers that a matrix of the page shows; `-Infinity` where it shows that. */
export async function shownMatrix(page: Page, id: string): Promise<number[][]> {
  await page.waitForSelector(`#${id} td`);
  const rows = await page.$$eval(`#${id} tbody tr`, (found) =>
    found.map((row) =>
      [...row.querySelectorAll('td')].map((cell) => cell.querySelector('input')?.value ?? cell.textContent ?? ''),
    ),
  );
  return rows.map((row) => row.map((text) => (text === '−∞' ? -Infinity : Number(text.replace('−', '-')))));
}

/** Numbers shown with two decimals are right to half a hundredth. */
export const shownWithin = 0.00501;

export function largestDifference(a: number[][], b: number[][]): number {
  if (a.length !== b.length || a.some((row, i) => row.length !== b[i]!.length)) return Infinity;
  return Math.max(
    ...a.flatMap((row, i) => row.map((entry, j) => (entry === b[i]![j] ? 0 : Math.abs(entry - b[i]![j]!)))),
  );
}
