#!/usr/bin/env node
// Makes the bundled model and its dictionary: web/model/ without its documents. Needs the network the first time, for pinned
// packages, which stay in build/. The files depend on nothing else: a second run writes the same bytes.
//
//   node tools/model/bundle.mjs [--out web/model] [--rows 19700] [--synsets 400] [--tables int3] [--bits FILE] [--part model|dictionary]
//
// --bits: a JSON file of curve.mjs, with the bits of each matrix and of the word vectors by their names; without it, matrices have 3.
//
// all-MiniLM-L6-v2 as published -> heed's `prune`: the most common entries of the vocabulary, 256 positions -> heed's `quantize`:
// 3 bits, with error feedback for sentences of WordNet. The dictionary's vectors are those of the model as published.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { load } from 'heed';
import { ensureCheckpoint } from '../checkpoints.mjs';
import { root, runMain, say, timed } from '../console.mjs';
import { makeDictionary } from './dictionary.mjs';
import { calibrationTexts, prunedFolder } from './recipe.mjs';

/** Settings of these files without effect on results. Without them, a page loads no table of such settings. */
const UNUSED = {
  'config.json': [
    ...['_name_or_path', 'transformers_version', 'use_cache', 'gradient_checkpointing', 'initializer_range'],
    ...['attention_probs_dropout_prob', 'hidden_dropout_prob'], // the defaults of the family
  ],
  'tokenizer_config.json': ['name_or_path', 'do_basic_tokenize', 'never_split'],
};

/** A settings file without these, and with `added`. */
function withSettings(bytes, unused, added = {}) {
  const settings = Object.entries(JSON.parse(new TextDecoder().decode(bytes))).filter(([key]) => !unused.includes(key));
  return new TextEncoder().encode(JSON.stringify({ ...Object.fromEntries(settings), ...added }, null, 2));
}

const { values: options } = parseArgs({
  options: {
    out: { type: 'string', default: join(root, 'web/model') },
    rows: { type: 'string', default: '19700' },
    synsets: { type: 'string', default: '400' },
    tables: { type: 'string', default: 'int3' },
    bits: { type: 'string' },
    part: { type: 'string' },
  },
});

async function makeModel(heed, published) {
  const pruned = await prunedFolder(heed, published, Number(options.rows));
  say(`${pruned.report.rows.after} of ${pruned.report.rows.before} entries of the vocabulary`);
  const bits = options.bits && JSON.parse(readFileSync(options.bits, 'utf8'));
  const { files, report } = await heed.quantize(pruned.files, {
    tables: bits ? `int${bits['embeddings.word_embeddings.weight']}` : options.tables,
    matrices: bits ? (name) => `int${bits[name]}` : 'int3',
    texts: await calibrationTexts(Number(options.synsets)),
  });
  say(`${report.bytesAfter} bytes; cosines on the texts that calibrate: ${JSON.stringify(report.loss)}`);
  files['config.json'] = withSettings(files['config.json'], UNUSED['config.json']);
  // All added tokens are in tokenizer.json, so a page need not look for files with others.
  const tokens = { added_tokens_decoder: {} };
  const tokenizer = 'tokenizer_config.json';
  files[tokenizer] = withSettings(files[tokenizer], UNUSED[tokenizer], tokens);
  for (const [path, bytes] of Object.entries(files)) {
    mkdirSync(dirname(join(options.out, path)), { recursive: true });
    writeFileSync(join(options.out, path), bytes);
  }
}

await runMain(async () => {
  const published = await ensureCheckpoint('all-MiniLM-L6-v2');
  const heed = await load();
  for (const [part, make] of Object.entries({
    model: () => makeModel(heed, published),
    dictionary: () => makeDictionary(heed, published, options.out),
  })) {
    if (options.part !== undefined && options.part !== part) continue;
    const { seconds } = await timed(make);
    say(`${part}: ${Math.round(seconds)} s`);
  }
});
