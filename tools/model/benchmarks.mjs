#!/usr/bin/env node
// Measures the bundled model on two public test sets beside all-MiniLM-L6-v2 as it is published. The sets are not part of the
// repository. STS-B, English test set (Cer et al. 2017): stsb-en-test.csv of the repository PhilipMay/stsb-multi-mt, columns
// sentence1, sentence2 and similarity. Cranfield (Cleverdon 1967): the folder of the repository oussbenk/cranfield-trec-dataset.
//
//   node tools/model/benchmarks.mjs --sts stsb-en-test.csv --cranfield cranfield-trec-dataset [--model web/model]

import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { load } from 'heed';
import { evaluateEmbeddingSimilarity, evaluateInformationRetrieval } from 'heed/evaluation';
import { ensureCheckpoint } from '../checkpoints.mjs';
import { PlainError, root, runMain } from '../console.mjs';
import { readCranfield } from './cranfield.mjs';
import { readSts } from './measures.mjs';

const { values: options } = parseArgs({
  options: {
    sts: { type: 'string' },
    cranfield: { type: 'string' },
    model: { type: 'string', default: join(root, 'web/model') },
  },
});

await runMain(async () => {
  if (!options.sts && !options.cranfield) throw new PlainError('Give --sts, --cranfield or both.');
  const heed = await load();
  const published = await ensureCheckpoint('all-MiniLM-L6-v2');
  for (const [name, source, dtype] of [
    ['published, fp32', published, 'fp32'],
    ['published, q8', published, 'q8'],
    ['this folder, fp32', options.model, 'fp32'],
    ['this folder, q8', options.model, 'q8'],
  ]) {
    const model = await heed.fromPretrained(source, { dtype });
    const found = [];
    if (options.sts) {
      const { spearman } = await evaluateEmbeddingSimilarity(model, readSts(options.sts));
      found.push(`STS-B ${spearman.toFixed(4)}`);
    }
    if (options.cranfield) {
      const { ndcg } = await evaluateInformationRetrieval(model, readCranfield(options.cranfield));
      found.push(`Cranfield nDCG@10 ${ndcg[10].toFixed(4)}`);
    }
    console.log(`${name}: ${found.join(', ')}`);
    model.dispose();
  }
});
