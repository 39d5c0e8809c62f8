// The size budget, and what is spent: `npm run size`.
import * as fs from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { brotliCompressSync } from 'node:zlib';
import { filesBelow } from './build-web.mjs';
import { PlainError, root, runMain } from './console.mjs';

// What a page downloads of heed: one module, its glue and the whole face, worker included. @huggingface/tokenizers comes on top, bundled so that the package has no
// dependencies; a page that gives ids instead of texts has no use for it.
const kBrotliBudget = 110_000;
// What `npm install` puts on the disk, without the model.
const kUnpackedBudget = 1_000_000;

const dist = join(root, 'dist');
const brotli = (file) => brotliCompressSync(fs.readFileSync(file)).length;
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

// Files of dist/ that hold nothing but the library.
function isTokenizers(name) {
  const { outputs } = JSON.parse(fs.readFileSync(join(root, 'build/web-metafile.json'), 'utf8'));
  const output = Object.entries(outputs).find(([path]) => path.endsWith(`/${name}`))?.[1];
  const inputs = Object.keys(output?.inputs ?? {});
  return inputs.every((path) => path.includes('@huggingface/tokenizers')) && inputs.length > 0;
}

export function measureSizes() {
  const files = filesBelow(dist).map((file) => ({ file, name: file.slice(dist.length + 1) }));
  const tokenizers = files.filter(({ name }) => isTokenizers(name));
  const scripts = files.filter(({ name }) => name.endsWith('.js') && name !== 'cli.js' && !isTokenizers(name));
  const modules = files.filter(({ name }) => name.endsWith('.wasm'));
  const face = sum(scripts.map(({ file }) => brotli(file)));
  const wasm = Math.max(...modules.map(({ file }) => brotli(file)));
  const shipped = files.filter(({ name }) => !name.startsWith('model/'));
  return {
    'wasm (the larger module), brotli': wasm,
    'face and glue, brotli': face,
    'wasm + face + glue, brotli': wasm + face,
    '@huggingface/tokenizers on top, brotli': sum(tokenizers.map(({ file }) => brotli(file))),
    'unpacked without the model': sum(shipped.map(({ file }) => fs.statSync(file).size)),
  };
}

export function checkSizes() {
  const sizes = measureSizes();
  for (const [what, bytes] of Object.entries(sizes)) console.log(`${String(bytes).padStart(9)}  ${what}`);
  if (sizes['wasm + face + glue, brotli'] > kBrotliBudget)
    throw new PlainError(`the download is over its budget of ${kBrotliBudget} bytes`);
  if (sizes['unpacked without the model'] > kUnpackedBudget)
    throw new PlainError(`the package is over its budget of ${kUnpackedBudget} bytes`);
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await runMain(async () => checkSizes());
