/** A server of model files whose answers a test can change. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { bytesOf, fixtures } from './fixtures.js';

export type Answer = (request: IncomingMessage, response: ServerResponse, name: string) => void;
export type Files = Record<string, Uint8Array | string>;

export const bert = bytesOf(`${fixtures}bert`);
export const page = '<!DOCTYPE html><html><body>app</body></html>';

export interface ModelServer {
  /** Base URL, with a trailing slash. */
  base: string;
  /** The names of the files that were requested, and the whole addresses. */
  asked: string[];
  urls: string[];
  answer: Answer;
  close(): void;
}

export async function openServer(): Promise<ModelServer> {
  const server = createServer((request, response) => {
    const name = decodeURIComponent(request.url!.split('?')[0]!.replace(/^\/model\//, ''));
    opened.asked.push(name);
    opened.urls.push(request.url!);
    // Otherwise a connection broken by one test could be reused by the next.
    response.shouldKeepAlive = false;
    opened.answer(request, response, name);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const opened: ModelServer = { base, asked: [], urls: [], answer: serving(bert), close };
  return opened;
}

/** Serves these files, with size and tag. Other requests are answered with `status`. */
export function serving(files: Files, status = 404): Answer {
  return (_, response, name) => {
    const content = Object.hasOwn(files, name) ? files[name] : undefined;
    if (content === undefined) return void response.writeHead(status, { 'content-type': 'text/plain' }).end('none');
    const bytes = Buffer.from(content as Uint8Array);
    response
      .writeHead(200, { 'content-length': bytes.length, 'content-type': 'application/octet-stream', etag: '"1"' })
      .end(bytes);
  };
}

/** Answers requests for the matching files with `special`, and others with `otherwise`. */
export function except(names: RegExp, special: Answer, otherwise: Answer): Answer {
  return (request, response, name) => (names.test(name) ? special : otherwise)(request, response, name);
}

export const status =
  (code: number): Answer =>
  (_, response) =>
    void response.writeHead(code).end();

export const cutOff: Answer = (_, response) => response.destroy();
