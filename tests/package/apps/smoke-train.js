// Apps with heed/train run this: a model learns in the page and, if workers are available, in one and in two of them, which must give the same.
export async function smokeTrain({ load, HeedError }, { worker = true } = {}) {
  const heed = await load();
  const inputs = Array.from({ length: 16 }, (_, n) => [n % 5, (3 * n) % 5, (n * n) % 5]);
  const data = { inputs, labels: inputs.map((row) => [...row].reverse()) };
  const train = async (how) => {
    const model = new heed.Sequential(
      [
        new heed.Embedding({ numEmbeddings: 5, embedDim: 8 }),
        new heed.PositionalEncoding({ embedDim: 8, maxLength: 3 }),
        new heed.EncoderLayer({ embedDim: 8, numHeads: 2, feedForwardDim: 16 }),
        new heed.Linear({ inFeatures: 8, outFeatures: 5 }),
      ],
      { seed: 1 },
    );
    const optimizer = new heed.optim.AdamW(model.parameters(), { lr: 0.01 });
    const { loss } = await model.fit(data, {
      loss: 'crossEntropy',
      optimizer,
      epochs: 4,
      batchSize: 8,
      seed: 1,
      ...how,
    });
    return { loss, bytes: [...heed.saveCheckpoint({ model, optimizer })] };
  };
  const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
  const here = await train({});
  const result = { learned: here.loss[3] < here.loss[0], finite: here.loss.every(Number.isFinite) };
  if (worker) {
    result.inWorker = same(await train({ worker: true }), here);
    result.onWorkers = same(await train({ workers: 2 }), await train({ workers: 1 }));
  }
  try {
    heed.losses.mse([1], [1]).backward();
  } catch (error) {
    result.error = error instanceof HeedError && error.code;
  }
  heed.dispose();
  return result;
}
