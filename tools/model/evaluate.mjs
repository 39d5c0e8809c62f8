#!/usr/bin/env node
// Measures the bundled model beside all-MiniLM-L6-v2 as it is published: cosines and neighbours of sentences, a search of documents
// (documents.mjs), and descriptions of words. Prints the figures of web/model/README.md.
//
//   node tools/model/evaluate.mjs [--model web/model]

import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { load } from 'heed';
import { ensureCheckpoint } from '../checkpoints.mjs';
import { root, runMain } from '../console.mjs';
import { searchDocuments } from './documents.mjs';
import { describe, embed, sampleOf, similarity } from './measures.mjs';

const { values: options } = parseArgs({ options: { model: { type: 'string', default: join(root, 'web/model') } } });
const SENTENCES = 400;

function compare(name, rows, others) {
  const { mean, least, neighbours } = similarity(rows, others);
  console.log(
    `  ${name}: cosine ${mean.toFixed(4)} on average and ${least.toFixed(4)} at least, ${(100 * neighbours).toFixed(0)} % of the 10 nearest`,
  );
}

await runMain(async () => {
  const heed = await load();
  const published = await heed.fromPretrained(await ensureCheckpoint('all-MiniLM-L6-v2'), { dtype: 'fp32' });
  const [int8, exact] = [
    await heed.fromPretrained(options.model, { dtype: 'q8' }),
    await heed.fromPretrained(options.model, { dtype: 'fp32' }),
  ];
  const texts = await sampleOf(SENTENCES);
  console.log(`${SENTENCES} definitions and examples`);
  const rows = await embed(published, texts);
  const [ofInt8, ofExact] = [await embed(int8, texts), await embed(exact, texts)];
  compare('bundled as q8, beside the published weights in fp32', ofInt8, rows);
  compare('bundled as fp32, beside the published weights in fp32', ofExact, rows);
  compare('bundled as q8, beside bundled as fp32', ofInt8, ofExact);
  await searchDocuments({
    'published, fp32': (texts) => embed(published, texts),
    'bundled, q8': (texts) => embed(int8, texts),
  });
  const index = await heed.TextIndex.load(join(options.model, 'dictionary'), { embedder: int8 });
  console.log('\ndictionary');
  for (const list of ['descriptions.json', 'everyday.json']) {
    const { count, counts } = await describe(list, int8, index);
    for (const [which, [first, ten]] of Object.entries(counts))
      console.log(`  ${list}, ${which}: ${first} of ${count} first, ${ten} among ten`);
  }
});
