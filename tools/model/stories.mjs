#!/usr/bin/env node
// Measures what the demo page and the documents say about the bundled model, and writes stories.json beside this script: words whose
// vectors differ by sense, heads with a recognizable function, and how much weight each head has on [CLS] and [SEP]. The sentences were chosen: they show what can be found, not how often.
//
//   node tools/model/stories.mjs [--model web/model] [--out tools/model/stories.json]
//
// Layers and heads are counted from 0, as in `attentions`. Tokens are given by their index in `tokens`.

import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { load } from 'heed';
import { ADJECTIVES, PLAIN, PRONOUNS, SENSES } from './sentences.mjs';

const { values: options } = parseArgs({
  options: {
    model: { type: 'string', default: 'web/model' },
    out: { type: 'string', default: fileURLToPath(new URL('stories.json', import.meta.url)) },
  },
});

const heed = await load();
const model = await heed.fromPretrained(options.model, { dtype: 'q8' });
const round = (x) => Math.round(1000 * x) / 1000;
const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;

/** The index of a word among the tokens of a text. Fails if the tokenizer splits the word. */
function indexOf(tokens, word) {
  const at = tokens.indexOf(word);
  if (at < 0) throw new Error(`no token '${word}' in: ${tokens.join(' ')}`);
  return at;
}

/** The cosines between the vectors (the last layer's output) of a word in sentences, within each of its senses and between them. */
async function sensesOf({ word, senses }) {
  const vectors = [];
  for (const [sense, { sentences }] of senses.entries())
    for (const sentence of sentences) {
      const { tokens, lastHiddenState } = await model.encode(sentence);
      const width = lastHiddenState.shape[2];
      const at = indexOf(tokens[0], word) * width;
      vectors.push({ sense, vector: lastHiddenState.data.slice(at, at + width) });
    }
  const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
  const cosine = (a, b) => dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
  const cosines = (isWanted) =>
    vectors.flatMap((a, i) =>
      vectors.slice(i + 1).flatMap((b) => (isWanted(a.sense === b.sense) ? [cosine(a.vector, b.vector)] : [])),
    );
  const nearestTo = (a) =>
    vectors
      .filter((b) => b !== a)
      .reduce((best, b) => (cosine(a.vector, b.vector) > cosine(a.vector, best.vector) ? b : best));
  const [within, between] = [cosines((same) => same), cosines((same) => !same)];
  return {
    word,
    within: round(mean(within)),
    between: round(mean(between)),
    leastWithin: round(Math.min(...within)),
    mostBetween: round(Math.max(...between)),
    nearest: vectors.filter((a) => nearestTo(a).sense === a.sense).length,
    senses,
  };
}

/** The weights [L, L] of a head in a sentence. */
async function weightsOf(sentence, layer, head) {
  const { tokens, attentions } = await model.encode(sentence, { outputAttentions: true });
  const count = tokens[0].length;
  const at = head * count * count;
  return { tokens: tokens[0], count, weights: attentions[layer].data.slice(at, at + count * count) };
}

/** A head in sentences of one token each that attends to another: its weight there, and whether it is the largest but for [CLS] and [SEP]. */
async function pairsOf(layer, head, pairs) {
  const examples = [];
  for (const { sentence, from, to } of pairs) {
    const { tokens, count, weights } = await weightsOf(sentence, layer, head);
    const [i, j] = [indexOf(tokens, from), indexOf(tokens, to)];
    const row = [...weights.subarray(i * count, (i + 1) * count)];
    const isLargest = row.every((weight, k) => k === 0 || k === count - 1 || weight <= row[j]);
    examples.push({ sentence, tokens, from: i, to: j, weight: round(row[j]), isLargest, row: row.map(round) });
  }
  return {
    layer,
    head,
    weight: round(mean(examples.map(({ weight }) => weight))),
    largest: examples.filter(({ isLargest }) => isLargest).length,
    examples,
  };
}

/** A head that attends to the token before each token: its mean weight there, over the tokens between [CLS] and [SEP]. */
async function previousOf(layer, head) {
  const examples = [];
  for (const sentence of PLAIN) {
    const { tokens, count, weights } = await weightsOf(sentence, layer, head);
    const own = Array.from({ length: count - 2 }, (_, i) => weights[(i + 1) * count + i]);
    examples.push({ sentence, tokens, weights: own.map(round), weight: round(mean(own)) });
  }
  return { layer, head, weight: round(mean(examples.map(({ weight }) => weight))), examples };
}

/** The mean weight of all tokens between [CLS] and [SEP] on these two, by layer and head. */
async function specialOf() {
  const { numLayers, numHeads } = model.config;
  const sums = Array.from({ length: numLayers }, () => Array.from({ length: numHeads }, () => ({ cls: 0, sep: 0 })));
  let rows = 0;
  for (const sentence of PLAIN) {
    const { tokens, attentions } = await model.encode(sentence, { outputAttentions: true });
    const count = tokens[0].length;
    for (const [layer, { data }] of attentions.entries())
      for (let head = 0; head < numHeads; head++)
        for (let i = 1; i < count - 1; i++) {
          const at = (head * count + i) * count;
          sums[layer][head].cls += data[at];
          sums[layer][head].sep += data[at + count - 1];
        }
    rows += count - 2;
  }
  const share = (of) => sums.map((heads) => heads.map((head) => round(of(head) / rows)));
  return { cls: share(({ cls }) => cls), sep: share(({ sep }) => sep), both: share(({ cls, sep }) => cls + sep) };
}

const senses = [];
for (const entry of SENSES) senses.push(await sensesOf(entry));
const stories = {
  senses,
  heads: {
    previous: await previousOf(0, 2),
    adjective: await pairsOf(1, 8, ADJECTIVES),
    pronoun: await pairsOf(5, 2, PRONOUNS),
  },
  special: { sentences: PLAIN.length, ...(await specialOf()) },
};
writeFileSync(options.out, `${JSON.stringify(stories, null, 1)}\n`);
for (const { word, within, between, leastWithin, mostBetween, nearest } of senses)
  console.log(
    `${word.padEnd(8)} within ${within} (least ${leastWithin}), between ${between} (most ${mostBetween}), nearest of the same sense: ${nearest} of 8`,
  );
for (const [name, { layer, head, weight, largest, examples }] of Object.entries(stories.heads))
  console.log(
    `${name}: layer ${layer}, head ${head}: weight ${weight}${largest === undefined ? '' : `, largest in ${largest} of ${examples.length}`}`,
  );
console.log(
  `[CLS] and [SEP]: ${stories.special.both.map((heads) => heads.map((x) => x.toFixed(2)).join(' ')).join('\n  ')}`,
);
model.dispose();
