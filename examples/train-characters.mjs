// The smallest language model: predicts the next character of a play with a causal encoder, then writes on. The first scenes of Coriolanus (17,000 characters) are all that it
// reads, so it learns letters, short words and the form of speeches; the tenth that follows shows how well it predicts what it has not seen.
import { readFileSync } from 'node:fs';
import { load } from 'heed/train';
import { generator } from './support/random.mjs';

const [CONTEXT, WIDTH, BATCH, STEPS] = [32, 32, 32, 300];

const text = readFileSync(new URL('data/coriolanus.txt', import.meta.url), 'utf8');
const characters = [...new Set(text)].sort();
const idOf = new Map(characters.map((character, id) => [character, id]));
const end = text.indexOf('\n\n', 0.9 * text.length); // speeches are separated by empty lines
const idsOf = (some) => Array.from(some, (character) => idOf.get(character));
const [seen, unseen] = [idsOf(text.slice(0, end + 2)), idsOf(text.slice(end + 2))];

const heed = await load();

class CharacterModel extends heed.Module {
  embedding = new heed.Embedding({ numEmbeddings: characters.length, embedDim: WIDTH, seed: 1 });
  positions = new heed.PositionalEncoding({ embedDim: WIDTH, maxLength: CONTEXT });
  encoder = new heed.Encoder({
    embedDim: WIDTH,
    numHeads: 4,
    feedForwardDim: 4 * WIDTH,
    numLayers: 2,
    dropout: 0.1,
    activation: 'gelu',
    normFirst: true,
    finalNorm: true,
    seed: 3,
  });
  head = new heed.Linear({ inFeatures: WIDTH, outFeatures: characters.length, seed: 4 });
  /** ids [N, L] -> logits of the character after each, [N, L, characters]. */
  forward(ids) {
    return this.head.forward(
      this.encoder.forward(this.positions.forward(this.embedding.forward(ids)), { causal: true }).output,
    );
  }
}

const random = generator(1);
const model = new CharacterModel();
const optimizer = new heed.optim.AdamW(model.parameters(), { lr: 5e-3, weightDecay: 0.1 });
const schedule = heed.optim.schedules.cosine(optimizer, { warmup: 20, steps: STEPS });

/** Bits per character of `ids` after their first, each predicted from at most CONTEXT characters before it; at least half of them, except at the beginning. */
function bitsPerCharacter(ids) {
  let [sum, count] = [0, 0];
  const half = CONTEXT / 2;
  for (let start = 0; start + 1 < ids.length; start += half) {
    const from = start === 0 ? 0 : half; // the first half is only read
    const first = Math.max(start - half, 0);
    const window = ids.slice(first, first + CONTEXT);
    const next = ids.slice(first + 1, first + CONTEXT + 1);
    const labels = window.map((_, i) => (i >= from && i < next.length && first + i < start + half ? next[i] : -100)); // -100 does not count
    const counted = labels.filter((label) => label >= 0).length;
    if (counted === 0) continue;
    sum += heed.losses.crossEntropy(model.eval().forward([window]), [labels]).item() * counted;
    count += counted;
  }
  return sum / count / Math.LN2;
}

/** Bits per character of a model that knows only how frequent each character is (plus one, for those that it has not seen). */
function baseline(ids) {
  const counts = characters.map(() => 1);
  for (const id of seen) counts[id]++;
  const total = counts.reduce((a, b) => a + b, 0);
  return ids.reduce((sum, id) => sum - Math.log2(counts[id] / total), 0) / ids.length;
}

for (let step = 1; step <= STEPS; step++) {
  const starts = Array.from({ length: BATCH }, () => random.integer(seen.length - CONTEXT));
  const ids = starts.map((at) => seen.slice(at, at + CONTEXT));
  const labels = starts.map((at) => seen.slice(at + 1, at + CONTEXT + 1));
  optimizer.zeroGrad();
  const loss = heed.losses.crossEntropy(model.train().forward(ids), labels);
  loss.backward();
  heed.optim.clipGradNorm(model.parameters(), 1);
  optimizer.step();
  schedule.step();
  if (step % 100 === 0) console.log(`step ${step}: ${(loss.item() / Math.LN2).toFixed(2)} bits per character`);
}

console.log(`\nthe tenth that it has not read: ${bitsPerCharacter(unseen).toFixed(2)} bits per character`);
console.log(`frequencies of characters alone: ${baseline(unseen).toFixed(2)} bits per character\n`);

/** Draws a character from softmax(logits / temperature). */
function draw(logits, temperature = 0.6) {
  const most = Math.max(...logits);
  const weights = logits.map((logit) => Math.exp((logit - most) / temperature));
  let left = random.uniform() * weights.reduce((a, b) => a + b, 0);
  for (const [id, weight] of weights.entries()) {
    left -= weight;
    if (left < 0) return id;
  }
  return weights.indexOf(Math.max(...weights)); // rounding
}

model.eval();
const written = idsOf('MENENIUS:\n');
while (written.length < 240) {
  const logits = model.forward([written.slice(-CONTEXT)]);
  written.push(draw(logits.at(0, -1).toArray()));
}
console.log(written.map((id) => characters[id]).join(''));
optimizer.dispose();
model.dispose();
