/** Builds the demo page once for all test files and serves it under a path, like GitHub Pages. */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { TestProject } from 'vitest/node';
import { isolation, policy } from '../../demo/policy.mjs';

/** The paths under which the demo is served; at the last one it is cross-origin isolated. */
const prefixes = ['/heed/', '/some/deep/path/', '/isolated/'];
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
  const server = serve(folder);
  await new Promise<void>((resolve) => server.listen(0, resolve));
  const origin = `http://localhost:${(server.address() as AddressInfo).port}`;
  const [url, deepUrl, isolatedUrl] = prefixes.map((prefix) => origin + prefix) as [string, string, string];
  project.provide('demo', { url, deepUrl, isolatedUrl, folder });
  return () => {
    server.closeAllConnections();
    server.close();
  };
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

function serve(folder: string) {
  const model = join(root, 'web/model');
  return createServer(async (request, response) => {
    const path = decodeURIComponent(new URL(request.url!, 'http://localhost').pathname);
    // The folder of the model is served for the tests that open one by its URL.
    const prefix = ['/model/', ...prefixes].find((start) => path.startsWith(start));
    try {
      if (!prefix) throw new Error('outside');
      const below = join(prefix === '/model/' ? model : folder, normalize(path.slice(prefix.length - 1)));
      const file = below.endsWith('/') ? join(below, 'index.html') : below;
      const body = await readFile(file);
      response
        .writeHead(200, {
          'Content-Type': types[extname(file)] ?? 'application/octet-stream',
          'Content-Security-Policy': policy,
          ...(prefix === '/isolated/' && isolation),
        })
        .end(body);
    } catch {
      response.writeHead(404, { 'Content-Type': 'text/html' }).end('<!doctype html><title>not found</title>');
    }
  });
}

declare module 'vitest' {
  interface ProvidedContext {
    demo: { url: string; deepUrl: string; isolatedUrl: string; folder: string };
  }
}
