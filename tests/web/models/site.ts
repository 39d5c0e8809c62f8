/** A local server of heed's files, and a page that has imported them. */
import { readFileSync, statSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Page } from 'playwright-core';
import { launchChromium } from '../../../tools/chromium.mjs';

const dist = fileURLToPath(new URL('../../../dist/', import.meta.url));
const types: Record<string, string> = { '.js': 'text/javascript', '.wasm': 'application/wasm', '.html': 'text/html' };

export interface Site {
  page: Page;
  origin: string;
  close(): Promise<void>;
}

/** Answers a request below /models/ and returns true, or returns false. */
export type Models = (path: string, request: IncomingMessage, response: ServerResponse) => boolean;

/** The strictest content security policy that allows WebAssembly. */
const strictPolicy = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'";

/** The headers of a page that is cross-origin isolated, and of its scripts. */
export const isolation = {
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-embedder-policy': 'require-corp',
};

export interface Serving {
  /** Sent with every file. */
  headers?: Record<string, string>;
  /** The content security policy of the page. */
  policy?: string;
  /** The file of dist/ that the page imports. */
  entry?: string;
  /** Arguments of Chromium, instead of the usual ones. */
  chromiumArguments?: string[];
}

/** Serves dist/, `models` below /models/, and at / a page that imports heed and sets it as the global `heed`. */
export async function serveHeed(
  models: Models,
  { headers = {}, policy = strictPolicy, entry = 'index.js' }: Serving = {},
): Promise<{ origin: string; close(): void }> {
  const server = createServer((request, response) => {
    const path = decodeURIComponent(request.url!.split('?')[0]!);
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    if (path === '/') {
      return void response
        .writeHead(200, { 'content-type': 'text/html', 'content-security-policy': policy })
        .end('<!doctype html><title>heed</title><script type="module" src="/page.js"></script>');
    }
    if (path === '/page.js')
      return void response
        .writeHead(200, { 'content-type': 'text/javascript' })
        .end(
          `import * as draw from "/draw.js"; import * as util from "/util.js"; import * as evaluation from "/evaluation.js"; import * as heed from "/${entry}"; Object.assign(globalThis, { draw, util, evaluation, heed });`,
        );
    if (path.startsWith('/models/') && models(path.slice('/models/'.length), request, response)) return;
    const file = join(dist, path.slice(1));
    if (!statSync(file, { throwIfNoEntry: false })?.isFile()) return void response.writeHead(404).end();
    response
      .writeHead(200, { 'content-type': types[extname(file)] ?? 'application/octet-stream' })
      .end(readFileSync(file));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close };
}

/** The page of `serveHeed` in Chromium. */
export async function openSite(models: Models, serving: Serving = {}): Promise<Site> {
  const server = await serveHeed(models, serving);
  const { chromiumArguments: args } = serving;
  const browser = await launchChromium(args && { args });
  const page = await browser.newPage();
  await page.goto(`${server.origin}/`);
  await page.waitForFunction('globalThis.heed');
  const close = async () => {
    await browser.close();
    server.close();
  };
  return { page, origin: server.origin, close };
}
