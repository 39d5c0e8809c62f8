/** heed, through its public API. */
import { ADAMW, SYMBOLS } from './task.mjs';
import { timed } from './timed.mjs';

async function modelOf({ width, heads, inner, layers, activation, length, weights }) {
  const { load } = await import('../../dist/train.js');
  const heed = await load();
  const model = new heed.Sequential([
    new heed.Embedding({ numEmbeddings: SYMBOLS, embedDim: width }),
    new heed.PositionalEncoding({ embedDim: width, maxLength: length }),
    new heed.Encoder({
      embedDim: width,
      numHeads: heads,
      feedForwardDim: inner,
      numLayers: layers,
      activation,
      dropout: 0,
    }),
    new heed.Linear({ inFeatures: width, outFeatures: SYMBOLS }),
  ]);
  return { heed, model: model.loadStateDict(weights) };
}

export async function heedTraining(task) {
  const { heed, model } = await modelOf(task);
  const optimizer = new heed.optim.AdamW(model.train().parameters(), ADAMW);
  return {
    about: heed.info.build,
    step: () =>
      timed(() => {
        optimizer.zeroGrad();
        const loss = heed.losses.crossEntropy(model.forward(task.ids), task.labels);
        loss.backward();
        optimizer.step();
        return loss.item();
      }),
    dispose: () => heed.dispose(),
  };
}

/** The same model in evaluation mode. */
export async function heedForward(task) {
  const { heed, model } = await modelOf(task);
  return {
    about: heed.info.build,
    step: () =>
      timed(() => {
        model.forward(task.ids);
        return 0;
      }),
    dispose: () => heed.dispose(),
  };
}
