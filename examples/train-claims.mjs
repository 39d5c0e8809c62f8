// Claim frequencies of car insurance, simulated: categorical features embedded as tokens, an encoder between them and the Poisson loss with the exposure as offset, as in the
// FT-Transformer (Gorishniy et al. 2021, arXiv:2106.11959), beside a log-linear model (a Poisson GLM) of the same features.
import { load } from 'heed/train';
import { generator } from './support/random.mjs';

const features = {
  region: ['north', 'south', 'east', 'west', 'capital'],
  vehicle: ['small', 'family', 'sports', 'van'],
  driver: ['18-24', '25-34', '35-49', '50-64', '65+'],
  fuel: ['petrol', 'diesel', 'electric'],
};
const sizes = Object.values(features).map((levels) => levels.length);
/** Where the ids of each feature start; the last id is that of the token that collects what the others say. */
const offsets = sizes.map((_, f) => sizes.slice(0, f).reduce((a, b) => a + b, 0));
const COLLECT = sizes.reduce((a, b) => a + b, 0);
const [WIDTH, BATCH, EPOCHS] = [16, 256, 6];

/** The simulated truth: claims per year. Sports cars are much worse with young drivers, vans only in the capital: no product of factors per feature can say that. */
function frequency([region, vehicle, driver, fuel]) {
  let log = Math.log(0.12) + [0, -0.1, 0.1, 0, 0.3][region] + [0, -0.1, 0.1, 0][vehicle];
  log += [0.5, 0.2, 0, -0.1, 0.2][driver] + [0, 0.1, -0.1][fuel];
  if (vehicle === 2 && driver === 0) log += 1.4;
  if (vehicle === 3 && region === 4) log += 1.1;
  if (driver === 4 && region === 4) log -= 0.6;
  return Math.exp(log);
}

const random = generator(7);
/** Poisson by multiplying uniform numbers (Knuth): fine for small rates. */
function poisson(rate) {
  let count = 0;
  for (let product = random.uniform(); product > Math.exp(-rate); product *= random.uniform()) count++;
  return count;
}
const simulate = (count) =>
  Array.from({ length: count }, () => {
    const levels = sizes.map((size) => random.integer(size));
    const exposure = 0.25 + 0.75 * random.uniform(); // years
    return { levels, exposure, claims: poisson(exposure * frequency(levels)) };
  });
const training = simulate(20_000);
const testing = simulate(20_000);

const heed = await load();
const idsOf = (policies) => policies.map(({ levels }) => levels.map((level, f) => offsets[f] + level));

/** log rate = intercept + one coefficient per level: the sum of embeddings of width 1. */
class LogLinear extends heed.Module {
  coefficients = new heed.Embedding({ numEmbeddings: COLLECT + 1, embedDim: 1, seed: 1 });
  forward(policies) {
    const ids = idsOf(policies).map((levels) => [...levels, COLLECT]); // COLLECT: the intercept
    return heed.multiply(heed.mean(this.coefficients.forward(ids)), sizes.length + 1); // [N, 1]
  }
}

class FeatureTokens extends heed.Module {
  tokens = new heed.Embedding({ numEmbeddings: COLLECT + 1, embedDim: WIDTH, seed: 1 });
  encoder = new heed.Encoder({
    embedDim: WIDTH,
    numHeads: 2,
    feedForwardDim: 32,
    numLayers: 2,
    dropout: 0,
    normFirst: true,
    finalNorm: true,
    seed: 2,
  });
  head = new heed.Linear({ inFeatures: WIDTH, outFeatures: 1, seed: 3 });
  forward(policies) {
    const ids = idsOf(policies).map((levels) => [COLLECT, ...levels]);
    const { output } = this.encoder.forward(this.tokens.forward(ids)); // [N, tokens, WIDTH]
    const collected = heed.reshape(heed.slice(output, { axis: 1, end: 1 }), [policies.length, WIDTH]);
    return this.head.forward(collected);
  }
}

/** The loss: expected claims are exposure times rate, so the log of the exposure is added to the log rate. */
function lossOf(model, policies) {
  const offset = policies.map(({ exposure }) => [Math.log(exposure)]);
  const claims = policies.map((policy) => [policy.claims]);
  return heed.losses.poisson(heed.add(model.forward(policies), offset), claims);
}

function train(model, lr) {
  const optimizer = new heed.optim.AdamW(model.train().parameters(), { lr, weightDecay: 0 });
  const batches = Math.floor(training.length / BATCH);
  const schedule = heed.optim.schedules.cosine(optimizer, { warmup: 20, steps: EPOCHS * batches });
  for (let epoch = 1; epoch <= EPOCHS; epoch++) {
    const order = random.shuffled(training);
    let sum = 0;
    for (let b = 0; b < batches; b++) {
      optimizer.zeroGrad();
      const loss = lossOf(model, order.slice(b * BATCH, (b + 1) * BATCH));
      loss.backward();
      heed.optim.clipGradNorm(model.parameters(), 1);
      optimizer.step();
      schedule.step();
      sum += loss.item();
    }
    console.log(`${model.constructor.name}: epoch ${epoch}  loss ${(sum / batches).toFixed(4)}`);
  }
  optimizer.dispose();
  return model.eval();
}

/** Mean Poisson deviance of expected claims, 0 for a perfect fit. */
function deviance(expected) {
  const terms = testing.map(
    ({ claims }, i) => 2 * ((claims > 0 ? claims * Math.log(claims / expected[i]) : 0) - claims + expected[i]),
  );
  return terms.reduce((a, b) => a + b, 0) / terms.length;
}
const sum = (of) => training.reduce((total, policy) => total + of(policy), 0);
const overall = sum(({ claims }) => claims) / sum(({ exposure }) => exposure);
const loglinear = train(new LogLinear(), 3e-2);
const transformer = train(new FeatureTokens(), 3e-3);
const expectedBy = (model) => {
  const { data } = model.forward(testing);
  return testing.map(({ exposure }, i) => exposure * Math.exp(data[i]));
};

const truth = deviance(testing.map(({ levels, exposure }) => exposure * frequency(levels)));
const results = {
  'one rate for all': deviance(testing.map(({ exposure }) => exposure * overall)),
  'log-linear model': deviance(expectedBy(loglinear)),
  'feature tokens, encoder': deviance(expectedBy(transformer)),
};
console.log(
  `\nPoisson deviance of ${testing.length} policies that were not trained on, above that of the true rates (${truth.toFixed(4)}):`,
);
for (const [name, value] of Object.entries(results)) console.log(`${name.padEnd(26)} ${(value - truth).toFixed(4)}`);

const risky = [{ levels: [0, 2, 0, 0] }, { levels: [0, 2, 2, 0] }];
const [young, older] = transformer.forward(risky).data.map(Math.exp);
console.log(
  `\nsports car, north, petrol: ${young.toFixed(3)} claims per year for a driver of 18-24 (truth ${frequency(risky[0].levels).toFixed(3)}), ` +
    `${older.toFixed(3)} for 35-49 (truth ${frequency(risky[1].levels).toFixed(3)})`,
);
loglinear.dispose();
transformer.dispose();
