// A static server with MIME types, a base path, extra headers, and 404 for missing files.
import * as fs from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join, normalize } from 'node:path';

const kTypes: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.mjs': 'text/javascript',
  '.json': 'application/json',
  '.css': 'text/css',
  '.wasm': 'application/wasm',
};

export interface Served extends AsyncDisposable {
  url: string;
  /** Requested paths that do not exist. */
  missing: string[];
}

export async function serve(
  folder: string,
  {
    base = '/',
    headers = {},
    types = {},
  }: { base?: string; headers?: Record<string, string>; types?: Record<string, string> } = {},
): Promise<Served> {
  const missing: string[] = [];
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url ?? '/', 'http://localhost').pathname);
    const inside = path.startsWith(base) ? normalize(`/${path.slice(base.length)}`) : undefined;
    let file = inside && join(folder, inside);
    if (file && fs.statSync(file, { throwIfNoEntry: false })?.isDirectory()) file = join(file, 'index.html');
    if (!file || !fs.existsSync(file)) {
      if (!path.endsWith('favicon.ico')) missing.push(path);
      response.writeHead(404, { 'content-type': 'text/html' }).end('<!doctype html><title>Not found</title>');
      return;
    }
    const type = { ...kTypes, ...types }[extname(file)] ?? 'application/octet-stream';
    response.writeHead(200, { 'content-type': type, ...headers });
    fs.createReadStream(file).pipe(response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}${base}`,
    missing,
    [Symbol.asyncDispose]: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
