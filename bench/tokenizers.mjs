/**
 * Tokens per second of heed's tokenizers beside @huggingface/tokenizers and the library in Rust, by processor time, in turns, over sentences of WordNet. Needs the packages of
 * bench/package.json and, for the library in Rust, of tests/tokenizers. tools/checkpoints.mjs fetches checkpoints with their tokenizer.json.
 *
 *     node bench/tokenizers.mjs FOLDER ... [--dist DIST] [--texts 1000]
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { ownTime } from './cpu-time.mjs';
import { median } from './harness.mjs';
import { sentences } from './sentences.mjs';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    texts: { type: 'string', default: '1000' },
    dist: { type: 'string', default: fileURLToPath(new URL('../dist', import.meta.url)) },
  },
});
const { loadTokenizer } = await import(pathToFileURL(`${values.dist}/index.js`).href);
const texts = await sentences(Number(values.texts));

/** By name: a function that returns the ids of a text. */
async function contestants(folder) {
  const json = readFileSync(join(folder, 'tokenizer.json'), 'utf8');
  const own = await loadTokenizer(folder);
  const all = { heed: (text) => own.encode(text) };
  const { Tokenizer } = await import('@huggingface/tokenizers');
  const peer = new Tokenizer(JSON.parse(json), {});
  all['@huggingface/tokenizers'] = (text) => peer.encode(text).ids;
  try {
    const require = createRequire(new URL('../tests/tokenizers/package.json', import.meta.url));
    const rust = require('tokenizers').Tokenizer.fromString(json);
    all['tokenizers (Rust)'] = async (text) => (await rust.encode(text)).getIds();
  } catch {
    // The package is not installed.
  }
  return all;
}

for (const folder of positionals) {
  const all = await contestants(folder);
  const names = Object.keys(all);
  const rates = Object.fromEntries(names.map((name) => [name, []]));
  for (let round = 0; round < 7; round++) {
    for (const name of round % 2 ? [...names].reverse() : names) {
      let tokens = 0;
      const start = ownTime();
      for (const text of texts) tokens += (await all[name](text)).length;
      if (round > 1) rates[name].push(tokens / (ownTime() - start));
    }
  }
  for (const name of names)
    console.log(`${basename(folder)}, ${name}: ${median(rates[name]).toFixed(0)} thousand tokens per second`);
}
