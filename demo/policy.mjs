// The content security policy of index.html, for servers that send it as a header, which applies to the worker, too.
import { readFileSync } from 'node:fs';

const page = readFileSync(new URL('./index.html', import.meta.url), 'utf8');

export const policy = /http-equiv="Content-Security-Policy"\s+content="([^"]+)"/.exec(page)[1];
