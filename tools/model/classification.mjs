#!/usr/bin/env node
// Evaluates fine-tuning of the bundled model: definitions of nouns in WordNet, by the kind of thing that they define, learned from 8 and 50 examples
// of each of 7 labels. Prints the accuracy on 29 other glosses of each label, the mean and standard deviation of five seeds, each of which draws its own examples, and how far a method
// is ahead of the linear head on the same draws: the mean of the differences, its standard error, and all of them.
//
//   node tools/model/classification.mjs [--seeds 5] [--counts 8,50] [--methods tfidf,head,lora,full,contrastive]
//
// TF-IDF (tfidf.py) needs PyTorch.

import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';
import { evaluateClassifier } from 'heed/evaluation';
import { load } from 'heed/train';
import { wordnet } from './sources.mjs';

const { values: options } = parseArgs({
  options: {
    seeds: { type: 'string', default: '5' },
    counts: { type: 'string', default: '8,50' },
    methods: { type: 'string', default: 'tfidf,head,lora,full,contrastive' },
  },
});
const TEST = 29;
/** Glosses per label among which examples are drawn. */
const GLOSSES = 400;
/** Kinds of nouns: numbers of WordNet's lexicographer files, from lexnames(5WN). */
const LABELS = { act: 4, artifact: 6, attribute: 7, cognition: 9, communication: 10, person: 18, state: 26 };

const synsets = await wordnet();
const all = Object.entries(LABELS).flatMap(([label, number]) => {
  const own = synsets.filter(({ file }) => file === number);
  return Array.from({ length: GLOSSES }, (_, i) => ({
    text: own[Math.floor((i * own.length) / GLOSSES)].gloss,
    label,
  }));
});

/** A linear congruential generator: the draws are the same everywhere. */
function randomOf(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** `count` examples of each label to learn from, and others to test with. */
function draw(count, seed) {
  const random = randomOf(7919 * seed);
  const split = { train: [], test: [] };
  for (const label of Object.keys(LABELS)) {
    const own = all.filter((example) => example.label === label);
    for (let last = own.length - 1; last > 0; last--) {
      const other = Math.floor(random() * (last + 1));
      [own[last], own[other]] = [own[other], own[last]];
    }
    split.test.push(...own.slice(0, TEST));
    split.train.push(...own.slice(TEST, TEST + count));
  }
  return split;
}

const targets = ['query', 'key', 'value', 'attention.output.dense', 'intermediate.dense', 'output.dense'];
const lora = { rank: 8, alpha: 16, targets };

/** How each method teaches a model. web/model/README.md says how the learning rates and epochs were chosen. */
const methods = {
  head: { trainable: false, teach: (heed, model, train, seed) => heed.trainClassifier(model, train, { seed }) },
  lora: {
    trainable: true,
    teach: (heed, model, train, seed) =>
      heed.trainClassifier(model, train, { train: { lora: { ...lora, seed } }, seed }),
  },
  full: {
    trainable: true,
    teach: (heed, model, train, seed) =>
      heed.trainClassifier(model, train, { train: 'full', lr: 2e-4, epochs: 6, seed }),
  },
  contrastive: {
    trainable: true,
    async teach(heed, model, train, seed) {
      await heed.trainEmbedding(model, train, { seed, lr: 2e-4 });
      await heed.trainClassifier(model, train, { seed });
    },
  },
};

async function accuracies(name, splits, heed) {
  if (name === 'tfidf') {
    const script = new URL('tfidf.py', import.meta.url).pathname;
    const { status, stdout, stderr } = spawnSync(process.env.PYTHON ?? 'python3', [script], {
      input: JSON.stringify(splits),
      encoding: 'utf8',
    });
    if (status !== 0) throw new Error(`tfidf.py: ${stderr}`);
    return JSON.parse(stdout);
  }
  const { trainable, teach } = methods[name];
  const results = [];
  for (const [i, { train, test }] of splits.entries()) {
    const model = await heed.fromPretrained(undefined, trainable ? { trainable, seed: i + 1 } : {});
    await teach(heed, model, train, i + 1);
    results.push((await evaluateClassifier(model, test)).accuracy);
    model.dispose();
  }
  return results;
}

const meanOf = (values) => values.reduce((a, b) => a + b) / values.length;

/** The standard deviation of a sample. */
function deviationOf(values) {
  const mean = meanOf(values);
  return Math.sqrt(values.reduce((sum, one) => sum + (one - mean) ** 2, 0) / Math.max(1, values.length - 1));
}

const heed = await load();
for (const count of options.counts.split(',').map(Number)) {
  const splits = Array.from({ length: Number(options.seeds) }, (_, i) => draw(count, i + 1));
  let head = null;
  for (const name of options.methods.split(',')) {
    const start = process.cpuUsage();
    const found = (await accuracies(name, splits, heed)).map((accuracy) => 100 * accuracy);
    const { user, system } = process.cpuUsage(start);
    const seconds = ((user + system) / 1e6 / found.length).toFixed(1);
    const shown = [meanOf(found), deviationOf(found)].map((part) => part.toFixed(1));
    console.log(`${count} per label, ${name}: ${shown[0]} ± ${shown[1]} % (${seconds} s of CPU time per run)`);
    if (name === 'head') head = found;
    else if (head) {
      const ahead = found.map((accuracy, i) => accuracy - head[i]);
      const error = deviationOf(ahead) / Math.sqrt(ahead.length);
      const each = ahead.map((one) => one.toFixed(1)).join(', ');
      console.log(`  ahead of head by ${meanOf(ahead).toFixed(2)} ± ${error.toFixed(2)}: ${each}`);
    }
  }
}
heed.dispose();
