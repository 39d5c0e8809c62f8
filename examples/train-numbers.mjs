// Trains an encoder-decoder (a Transformer) to read numbers aloud: digits in, words out. Then writes the words of numbers that it was not trained on, greedily and by beam
// search, step by step with the decoder's cache.
import { load } from 'heed/train';
import { generator } from './support/random.mjs';

const units =
  'zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen'.split(
    ' ',
  );
const tens = 'twenty thirty forty fifty sixty seventy eighty ninety'.split(' ');
const [START, END] = [0, 1];
const vocabulary = ['<start>', '<end>', ...units, ...tens, 'hundred', 'thousand', 'and'];
const [DIGITS, LENGTH, WIDTH, BATCH, STEPS] = [4, 10, 48, 64, 240];

function wordsOf(n) {
  if (n < 20) return [units[n]];
  if (n < 100) return [tens[Math.floor(n / 10) - 2], ...(n % 10 ? [units[n % 10]] : [])];
  if (n < 1000) return [units[Math.floor(n / 100)], 'hundred', ...(n % 100 ? ['and', ...wordsOf(n % 100)] : [])];
  const rest = n % 1000;
  return [
    ...wordsOf(Math.floor(n / 1000)),
    'thousand',
    ...(rest === 0 ? [] : rest < 100 ? ['and', ...wordsOf(rest)] : wordsOf(rest)),
  ];
}
const digitsOf = (n) => Array.from(String(n).padStart(DIGITS, '0'), Number);
const idsOf = (n) => wordsOf(n).map((word) => vocabulary.indexOf(word));
const text = (ids) => ids.map((id) => vocabulary[id]).join(' ');

const random = generator(3);
const numbers = random.shuffled(Array.from({ length: 10_000 }, (_, n) => n));
const [training, testing] = [numbers.slice(200), numbers.slice(0, 200)];

const heed = await load();
const positions = heed.positionalEncoding(LENGTH + 1, WIDTH);

class Reader extends heed.Module {
  digits = new heed.Embedding({ numEmbeddings: 10, embedDim: WIDTH, seed: 1 });
  words = new heed.Embedding({ numEmbeddings: vocabulary.length, embedDim: WIDTH, seed: 2 });
  transformer = new heed.Transformer({
    embedDim: WIDTH,
    numHeads: 4,
    feedForwardDim: 96,
    numEncoderLayers: 2,
    numDecoderLayers: 2,
    dropout: 0,
    seed: 3,
  });
  head = new heed.Linear({ inFeatures: WIDTH, outFeatures: vocabulary.length, seed: 4 });

  /** Digits [..., 4] -> [..., 4, E]. */
  source(digits) {
    return heed.add(this.digits.forward(digits), positions.slice(0, DIGITS));
  }
  /** Words [..., L], the first of which stands at `position` -> [..., L, E]. */
  target(words, position = 0) {
    const embedded = this.words.forward(words);
    return heed.add(embedded, positions.slice(position, position + embedded.shape.at(-2)));
  }
  /** Teacher forcing: the logits of the word after each of the given words. */
  forward(digits, words) {
    return this.head.forward(
      this.transformer.forward(this.source(digits), this.target(words), { causal: true }).output,
    );
  }
}

/** Input and output of the decoder are the words, shifted by one; -100 fills up and does not count. */
function batchOf(chosen) {
  const words = chosen.map(idsOf);
  const longest = Math.max(...words.map((row) => row.length)) + 1;
  const filled = (row, filler) => [...row, ...Array(longest - row.length).fill(filler)];
  return {
    digits: chosen.map(digitsOf),
    inputs: words.map((row) => filled([START, ...row], END)),
    labels: words.map((row) => filled([...row, END], -100)),
  };
}

const model = new Reader();
const optimizer = new heed.optim.Adam(model.parameters(), { lr: 2e-3, betas: [0.9, 0.98] });
const schedule = heed.optim.schedules.linear(optimizer, { warmup: 40, steps: STEPS });
for (let step = 1; step <= STEPS; step++) {
  const { digits, inputs, labels } = batchOf(
    Array.from({ length: BATCH }, () => training[random.integer(training.length)]),
  );
  optimizer.zeroGrad();
  const loss = heed.losses.crossEntropy(model.train().forward(digits, inputs), labels);
  loss.backward();
  heed.optim.clipGradNorm(model.parameters(), 1);
  optimizer.step();
  schedule.step();
  if (step % 50 === 0) console.log(`step ${step}: loss ${loss.item().toFixed(3)}`);
}
model.eval();

const argmax = (values) => values.indexOf(Math.max(...values));

/** The likeliest word at each step, for a batch of numbers at once. */
function greedy(chosen) {
  const cache = model.transformer.makeCache(model.source(chosen.map(digitsOf)));
  const written = chosen.map(() => []);
  let last = chosen.map(() => [START]);
  for (let position = 0; position < LENGTH && last.some(([id]) => id !== END); position++) {
    const logits = model.head.forward(model.transformer.step(model.target(last, position), cache)).toArray();
    last = last.map(([id], i) => [position > 0 && id === END ? END : argmax(logits[i][0])]);
    for (const [i, [id]] of last.entries()) if (id !== END) written[i].push(id);
  }
  cache.dispose();
  return written;
}

function logSoftmax(logits) {
  const most = Math.max(...logits);
  const log = most + Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit - most), 0));
  return logits.map((logit) => logit - log);
}

/** Beam search: the `beams` likeliest beginnings go on until that many have ended. Returns [{ ids, score }], the likeliest first. */
function beamSearch(n, beams = 3) {
  const ended = [];
  let open = [{ ids: [], score: 0, cache: model.transformer.makeCache(model.source(digitsOf(n))) }];
  for (let position = 0; position < LENGTH && open.length > 0; position++) {
    const candidates = open.flatMap((beam) => {
      const target = model.target([beam.ids.at(-1) ?? START], position);
      const [logits] = model.head.forward(model.transformer.step(target, beam.cache)).toArray();
      return logSoftmax(logits).map((log, id) => ({ beam, id, score: beam.score + log }));
    });
    candidates.sort((a, b) => b.score - a.score);
    const best = candidates.slice(0, beams - ended.length);
    ended.push(...best.filter(({ id }) => id === END).map(({ beam, score }) => ({ ids: beam.ids, score })));
    const taken = new Set();
    const next = best
      .filter(({ id }) => id !== END)
      .map(({ beam, id, score }) => {
        const cache = taken.has(beam.cache) ? beam.cache.clone() : beam.cache;
        taken.add(cache);
        return { ids: [...beam.ids, id], score, cache };
      });
    for (const { cache } of open) if (!taken.has(cache)) cache.dispose();
    open = next;
  }
  for (const { cache } of open) cache.dispose();
  return ended.sort((a, b) => b.score - a.score);
}

const answers = greedy(testing);
const right = testing.filter((n, i) => text(answers[i]) === text(idsOf(n))).length;
console.log(`\ngreedy: ${right} of ${testing.length} numbers that were not trained on are right`);
const some = testing.slice(0, 50);
const beamRight = some.filter((n) => text(beamSearch(n)[0].ids) === text(idsOf(n))).length;
console.log(`beams of 3: ${beamRight} of ${some.length} are right\n`);
for (const { ids, score } of beamSearch(testing[0]))
  console.log(`${testing[0]}  ${Math.exp(score).toFixed(4)}  ${text(ids)}`);
optimizer.dispose();
model.dispose();
