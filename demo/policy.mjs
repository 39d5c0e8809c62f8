// The content security policy of index.html, for servers that send it as a header, which applies to the worker, too.
import { readFileSync } from 'node:fs';

const page = readFileSync(new URL('./index.html', import.meta.url), 'utf8');

export const policy = /http-equiv="Content-Security-Policy"\s+content="([^"]+)"/.exec(page)[1];

// Headers that isolate the page from other origins, with which browsers allow threads.
export const isolation = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
};
