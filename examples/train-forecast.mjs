// Forecasts the sea surface temperature off Peru (El Niño 1+2, monthly, 1950 to 2010; see data/README.md) three months ahead with a transformer encoder on numbers,
// beside naive forecasts. Trained on 1950 to 1989, compared on 1990 to 2010.
import { readFileSync } from 'node:fs';
import { load } from 'heed/train';
import { generator } from './support/random.mjs';

const [WINDOW, AHEAD, WIDTH, BATCH, EPOCHS] = [24, 3, 32, 32, 12];

const rows = readFileSync(new URL('data/nino12.csv', import.meta.url), 'utf8')
  .trim()
  .split('\n')
  .slice(1);
const months = rows.flatMap((row) => {
  const [year, ...values] = row.split(',').map(Number);
  return values.map((celsius, month) => ({ year, month, celsius }));
});

// Everything that is estimated comes from the years of training: the mean of each calendar month, and the deviation of what remains.
const lastTrained = 1989;
const trained = months.filter(({ year }) => year <= lastTrained);
const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
const climate = Array.from({ length: 12 }, (_, m) =>
  mean(trained.filter(({ month }) => month === m).map(({ celsius }) => celsius)),
);
const deviation = Math.sqrt(mean(trained.map(({ month, celsius }) => (celsius - climate[month]) ** 2)));
const anomaly = months.map(({ month, celsius }) => (celsius - climate[month]) / deviation);

/** One example: WINDOW months, each as its anomaly and its place in the year, and how the anomaly changes in the AHEAD months that follow. */
const examples = Array.from({ length: months.length - WINDOW - AHEAD + 1 }, (_, first) => {
  const last = first + WINDOW - 1;
  const x = Array.from({ length: WINDOW }, (_, i) => {
    const angle = (2 * Math.PI * months[first + i].month) / 12;
    return [anomaly[first + i], Math.sin(angle), Math.cos(angle)];
  });
  return { x, y: [anomaly[last + AHEAD] - anomaly[last]], last, target: last + AHEAD };
});
const yearOf = ({ target }) => months[target].year;
const training = examples.filter((example) => yearOf(example) <= lastTrained);
const testing = examples.filter((example) => yearOf(example) > lastTrained);

const heed = await load();
const model = new heed.Sequential(
  [
    new heed.Linear({ inFeatures: 3, outFeatures: WIDTH }),
    new heed.PositionalEncoding({ embedDim: WIDTH, maxLength: WINDOW }),
    new heed.Encoder({
      embedDim: WIDTH,
      numHeads: 4,
      feedForwardDim: 64,
      numLayers: 2,
      dropout: 0.1,
      normFirst: true,
      finalNorm: true,
    }),
    (x) => heed.reshape(heed.slice(x, { axis: 1, start: -1 }), [x.shape[0], WIDTH]), // the last month
    new heed.Linear({ inFeatures: WIDTH, outFeatures: 1 }),
  ],
  { seed: 1 },
).train();
const optimizer = new heed.optim.AdamW(model.parameters(), { lr: 1e-3, weightDecay: 0.1 });
const steps = EPOCHS * Math.floor(training.length / BATCH);
const schedule = heed.optim.schedules.cosine(optimizer, { warmup: 10, steps });

const random = generator(1);
for (let epoch = 1; epoch <= EPOCHS; epoch++) {
  const order = random.shuffled(training);
  const losses = [];
  for (let at = 0; at + BATCH <= order.length; at += BATCH) {
    const batch = order.slice(at, at + BATCH);
    optimizer.zeroGrad();
    const predicted = model.forward(batch.map(({ x }) => x));
    const loss = heed.losses.mse(
      predicted,
      batch.map(({ y }) => y),
    );
    loss.backward();
    heed.optim.clipGradNorm(model.parameters(), 1);
    optimizer.step();
    schedule.step();
    losses.push(loss.item());
  }
  console.log(`epoch ${epoch}: mean squared error ${mean(losses).toFixed(3)} (anomalies in standard deviations)`);
}

const change = model.eval().forward(testing.map(({ x }) => x)).data;
const forecasts = {
  'temperature of now': ({ last }) => months[last].celsius,
  'same month, a year earlier': ({ target }) => months[target - 12].celsius,
  'mean of the calendar month': ({ target }) => climate[months[target].month],
  'anomaly of now persists': ({ last, target }) => climate[months[target].month] + deviation * anomaly[last],
  'transformer encoder': ({ last, target }, i) =>
    climate[months[target].month] + deviation * (anomaly[last] + change[i]),
};
console.log(
  `\nroot mean squared error of ${testing.length} forecasts, ${AHEAD} months ahead, ${yearOf(testing[0])} to ${yearOf(testing.at(-1))}:`,
);
for (const [name, forecast] of Object.entries(forecasts)) {
  const error = Math.sqrt(
    mean(testing.map((example, i) => (forecast(example, i) - months[example.target].celsius) ** 2)),
  );
  console.log(`${name.padEnd(28)} ${error.toFixed(3)} °C`);
}
optimizer.dispose();
model.dispose();
