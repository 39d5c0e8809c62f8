/** Builds the demo page once for all test files and serves it under a path, like GitHub Pages. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { TestProject } from 'vitest/node';
import { isolation, policy } from '../../demo/policy.mjs';

/** The paths under which the demo is served: at the third one it is cross-origin isolated, at the last one what can wait arrives late each time. */
const prefixes = ['/heed/', '/some/deep/path/', '/isolated/', '/slow/'];
const late = /\.(wasm|safetensors|woff2|txt)$|plot-library|worker/;
const root = fileURLToPath(new URL('../..', import.meta.url));
const types: Record<string, string> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.wasm': 'application/wasm',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.json': 'application/json',
  '.woff2': 'font/woff2',
};

export default async function setup(project: TestProject) {
  const folder = join(root, 'build/tests/demo');
  await build(folder);
  const { origin, close } = await serve(folder);
  const [url, deepUrl, isolatedUrl, slowUrl] = prefixes.map((prefix) => origin + prefix) as [
    string,
    string,
    string,
    string,
  ];
  project.provide('demo', { url, deepUrl, isolatedUrl, slowUrl, folder });
  return close;
}

/** In a process of its own: inside Vitest, Vite would build for testing rather than for production. */
async function build(folder: string): Promise<void> {
  const vite = join(root, 'node_modules/vite/bin/vite.js');
  const options = ['build', '--config', 'demo/vite.config.ts', '--outDir', folder, '--logLevel', 'error'];
  await promisify(execFile)(process.execPath, [vite, ...options], {
    cwd: root,
    env: { ...process.env, NODE_ENV: 'production' },
  });
}

/**
 * Serves the demo in `folder`. Browsers post violations of the page's policy to /violations, which answers a GET with all of them; no request below /never/ is
 * answered.
 */
export async function serve(folder: string) {
  const model = join(root, 'web/model');
  const requested: string[] = [];
  const violations: unknown[] = [];
  const server = createServer(async (request, response) => {
    const path = decodeURIComponent(new URL(request.url!, 'http://localhost').pathname);
    if (path.startsWith('/never/')) return;
    if (path === '/violations') {
      if (request.method === 'POST') violations.push(JSON.parse(await bodyOf(request)));
      response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(violations));
      return;
    }
    requested.push(path);
    // The folder of the model is served for the tests that open one by its URL.
    const prefix = ['/model/', ...prefixes].find((start) => path.startsWith(start));
    if (prefix === '/slow/' && late.test(path)) await new Promise((resolve) => setTimeout(resolve, 300));
    try {
      if (!prefix || path === '/slow/sw.js') throw new Error('outside');
      const below = join(prefix === '/model/' ? model : folder, normalize(path.slice(prefix.length - 1)));
      const file = below.endsWith('/') ? join(below, 'index.html') : below;
      const body = await readFile(file);
      const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? [];
      const part = first ? body.subarray(Number(first), Number(last) + 1) : body;
      response
        .writeHead(first ? 206 : 200, {
          ...(first && { 'Content-Range': `bytes ${first}-${Number(first) + part.length - 1}/${body.length}` }),
          'Content-Type': types[extname(file)] ?? 'application/octet-stream',
          // As hosts do: with it, a download that breaks off is resumed.
          ETag: `"${createHash('sha256').update(body).digest('hex').slice(0, 16)}"`,
          'Content-Security-Policy': `${policy}; report-uri /violations`,
          // Names of assets have a digest, so that hosts let browsers keep them; the tests load pages hundreds of times.
          ...(path.includes('/assets/') && prefix !== '/slow/' && { 'Cache-Control': 'max-age=31536000, immutable' }),
          ...(prefix === '/isolated/' && isolation),
          ...(prefix === '/slow/' && { 'Cache-Control': 'no-store' }),
        })
        .end(part);
    } catch {
      response.writeHead(404, { 'Content-Type': 'text/html' }).end('<!doctype html><title>not found</title>');
    }
  });
  await new Promise<void>((resolve) => server.listen(0, resolve));
  return {
    origin: `http://localhost:${(server.address() as AddressInfo).port}`,
    /** The paths that were requested. */
    requested,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

declare module 'vitest' {
  interface ProvidedContext {
    demo: { url: string; deepUrl: string; isolatedUrl: string; slowUrl: string; folder: string };
  }
}
