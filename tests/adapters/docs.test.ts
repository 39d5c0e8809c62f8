/** Runs the blocks of docs/integrations.md that need other packages, each as a program, and compares what they print with the page. */
import { execFile } from 'node:child_process';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startChromaServer } from './chroma-server.js';
import { root } from './support.js';

const page = fs.readFileSync(join(root, 'docs/integrations.md'), 'utf8');
const blocks = [...page.matchAll(/^## ([^\n]*)\n(?:(?!^## ).)*?```mjs\n(.*?)```\n\n```text\n(.*?)```/gms)];
const folder = join(root, 'tests/adapters/apps/docs');

let chroma: Awaited<ReturnType<typeof startChromaServer>>;
beforeAll(async () => {
  fs.mkdirSync(folder, { recursive: true });
  chroma = await startChromaServer();
});
afterAll(() => chroma?.close());

test('the page has an example of each adapter', () => {
  expect(blocks.map(([, title]) => title)).toEqual(['AI SDK', 'LangChain.js', 'Chroma', 'LanceDB']);
  expect(page.match(/```mjs/g)).toHaveLength(blocks.length);
});

test.each(blocks)('%#: $1', async (_, title, code, printed) => {
  const file = join(folder, `${title!.toLowerCase().replace(/\W/g, '-')}.mjs`);
  const address = `{ host: '127.0.0.1', port: ${chroma.port} }`;
  fs.writeFileSync(file, code!.replace('new ChromaClient()', `new ChromaClient(${address})`));
  const { stdout } = await promisify(execFile)(process.execPath, [file], { env: { ...process.env, NO_COLOR: '1' } });
  expect(stdout).toBe(printed);
});
