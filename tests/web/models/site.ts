/** heed's files on a server of this machine, and a page in Chromium that has imported them. */
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

/** Answers a request below /models/ and says true, or leaves it. */
export type Models = (path: string, request: IncomingMessage, response: ServerResponse) => boolean;

export async function openSite(models: Models): Promise<Site> {
  const server = createServer((request, response) => {
    const path = decodeURIComponent(request.url!.split('?')[0]!);
    if (path === '/') {
      // The strictest policy under which WebAssembly runs.
      const policy = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'";
      return void response
        .writeHead(200, { 'content-type': 'text/html', 'content-security-policy': policy })
        .end('<!doctype html><title>heed</title><script type="module" src="/page.js"></script>');
    }
    if (path === '/page.js')
      return void response
        .writeHead(200, { 'content-type': 'text/javascript' })
        .end(
          'import * as draw from "/draw.js"; import * as heed from "/index.js"; Object.assign(globalThis, { draw, heed });',
        );
    if (path.startsWith('/models/') && models(path.slice('/models/'.length), request, response)) return;
    const file = join(dist, path.slice(1));
    if (!statSync(file, { throwIfNoEntry: false })?.isFile()) return void response.writeHead(404).end();
    response
      .writeHead(200, { 'content-type': types[extname(file)] ?? 'application/octet-stream' })
      .end(readFileSync(file));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const browser = await launchChromium();
  const page = await browser.newPage();
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await page.goto(`${origin}/`);
  await page.waitForFunction('globalThis.heed');
  const close = async () => {
    await browser.close();
    server.closeAllConnections();
    server.close();
  };
  return { page, origin, close };
}
