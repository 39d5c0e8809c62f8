// Trains the same small encoder to reverse and to sort sequences of 16 symbols (10 different ones).
import { load } from 'heed/train';
import { generator } from './support/random.mjs';

const [LENGTH, SYMBOLS, BATCH] = [16, 10, 64];
const tasks = {
  reverse: (ids) => [...ids].reverse(),
  sort: (ids) => [...ids].sort((a, b) => a - b),
};

const heed = await load();
for (const [name, solve] of Object.entries(tasks)) {
  const random = generator(1);
  const draw = () => {
    const ids = Array.from({ length: BATCH }, () => Array.from({ length: LENGTH }, () => random.integer(SYMBOLS)));
    return { ids, labels: ids.map(solve) };
  };
  const model = new heed.Sequential(
    [
      new heed.Embedding({ numEmbeddings: SYMBOLS, embedDim: 32 }),
      new heed.PositionalEncoding({ embedDim: 32, maxLength: LENGTH }),
      new heed.Encoder({ embedDim: 32, numHeads: 2, feedForwardDim: 64, numLayers: 2, dropout: 0 }),
      new heed.Linear({ inFeatures: 32, outFeatures: SYMBOLS }),
    ],
    { seed: 1 },
  );
  const optimizer = new heed.optim.AdamW(model.parameters(), { lr: 3e-3 });

  /** The share of positions at which the largest logit is that of the right symbol, in a new batch. */
  const accuracy = () => {
    const { ids, labels } = draw();
    const logits = model.eval().forward(ids).toArray();
    const right = logits.flatMap((rows, n) =>
      rows.map((row, i) => (row.indexOf(Math.max(...row)) === labels[n][i] ? 1 : 0)),
    );
    return right.reduce((a, b) => a + b, 0) / right.length;
  };

  const started = performance.now();
  let reached = 0;
  for (let step = 1; step <= 2000 && reached < 0.99; step++) {
    const { ids, labels } = draw();
    optimizer.zeroGrad();
    const loss = heed.losses.crossEntropy(model.train().forward(ids), labels);
    loss.backward();
    heed.optim.clipGradNorm(model.parameters(), 1);
    optimizer.step();
    if (step % 50 === 0) {
      reached = accuracy();
      console.log(`${name}: step ${step}  loss ${loss.item().toFixed(3)}  accuracy ${(100 * reached).toFixed(1)} %`);
    }
  }
  const seconds = (performance.now() - started) / 1000;
  const ids = [[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3]];
  const answer = model
    .eval()
    .forward(ids)
    .toArray()[0]
    .map((row) => row.indexOf(Math.max(...row)));
  console.log(
    `${name}: ${(100 * reached).toFixed(1)} % after ${seconds.toFixed(1)} s; ${ids[0].join('')} -> ${answer.join('')}\n`,
  );
  optimizer.dispose();
  model.dispose();
}
