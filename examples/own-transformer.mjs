// A transformer of your own, from layers: it learns whether brackets are balanced. It is trained with heed/train; its weights then run in plain heed, which is half the download.
import { load as loadForInference } from 'heed';
import { load } from 'heed/train';
import { generator } from './support/random.mjs';

const [LENGTH, WIDTH] = [13, 32]; // a question mark, whose row gives the answer, and 12 brackets
const shape = { embedDim: WIDTH, numHeads: 4, feedForwardDim: 64, numLayers: 2, dropout: 0 };
const [OPEN, CLOSE, QUESTION] = [0, 1, 2];

const isBalanced = (brackets) => {
  let depth = 0;
  for (const bracket of brackets) {
    depth += bracket === OPEN ? 1 : -1;
    if (depth < 0) return false;
  }
  return depth === 0;
};
const random = generator(2);
/** As many sequences that are balanced as not; both have six brackets of each kind. */
const draw = (count) => {
  const half = Array.from({ length: (LENGTH - 1) / 2 }, () => OPEN);
  const all = [...half, ...half.map(() => CLOSE)];
  return Array.from({ length: count }, (_, n) => {
    let brackets = random.shuffled(all);
    while (isBalanced(brackets) !== (n % 2 === 0)) brackets = random.shuffled(all);
    return brackets;
  });
};

const heed = await load();
const model = new heed.Sequential(
  [
    new heed.Embedding({ numEmbeddings: 3, embedDim: WIDTH }),
    new heed.PositionalEncoding({ embedDim: WIDTH, maxLength: LENGTH }),
    new heed.Encoder(shape),
    new heed.Linear({ inFeatures: WIDTH, outFeatures: 2 }),
  ],
  { seed: 1 },
);
const optimizer = new heed.optim.AdamW(model.parameters(), { lr: 2e-3 });
const idsOf = (sequences) => sequences.map((brackets) => [QUESTION, ...brackets]);
const IGNORED = -100; // only the first row is an answer

for (let step = 1; step <= 400; step++) {
  const sequences = draw(64);
  const labels = sequences.map((brackets) => [Number(isBalanced(brackets)), ...brackets.map(() => IGNORED)]);
  optimizer.zeroGrad();
  const loss = heed.losses.crossEntropy(model.train().forward(idsOf(sequences)), labels);
  loss.backward();
  heed.optim.clipGradNorm(model.parameters(), 1);
  optimizer.step();
  if (step % 100 === 0) console.log(`step ${step}: loss ${loss.item().toFixed(3)}`);
}

// The same layers in plain heed, with the trained weights.
const weights = model.stateDict();
const plain = await loadForInference();
const part = (index) =>
  Object.fromEntries(
    Object.entries(weights).flatMap(([name, value]) => {
      const [first, ...rest] = name.split('.');
      return Number(first) === index ? [[rest.join('.'), value]] : [];
    }),
  );
const positions = new plain.PositionalEncoding({ embedDim: WIDTH, maxLength: LENGTH });
const encoder = new plain.Encoder(shape);
encoder.loadStateDict(part(2));
const { weight: table } = part(0);
const { weight, bias } = part(3);

/** Whether each sequence is balanced, and the weights with which the question mark attends to the brackets in the last layer. */
function answer(sequences) {
  const rows = idsOf(sequences).map((ids) => ids.map((id) => table.at(id).toArray()));
  const { output, weights: attention } = encoder.forward(positions.forward(rows), { returnWeights: true });
  const logits = plain.linear(output, { weight, bias }).toArray();
  return { balanced: logits.map(([[no, yes]]) => yes > no), attention: attention.at(-1) };
}

const fresh = draw(500);
const { balanced } = answer(fresh);
const right = fresh.filter((brackets, n) => balanced[n] === isBalanced(brackets)).length;
console.log(`right: ${right} of 500 sequences that were not in training`);
const text = '(()(()))()()';
const brackets = [...text].map((bracket) => (bracket === '(' ? OPEN : CLOSE));
console.log(`${text}: ${answer([brackets]).balanced[0] ? 'balanced' : 'not balanced'}`);
optimizer.dispose();
model.dispose();
