/** A small model of sequences, its data and its optimizer, for the tests of `fit`. */
import { load, type Sequential } from 'heed/train';

export const heed = await load();

export const count = 26;
export const length = 4;

/** Sequences of ids. The label at each position is the id plus one. */
export const inputs = Array.from({ length: count }, (_, n) => Array.from({ length }, (_, i) => (n * 3 + i * i) % 7));
export const labels = inputs.map((row) => row.map((id) => (id + 1) % 7));

export function makeModel(seed = 1, dropout = 0.1): Sequential {
  return new heed.Sequential(
    [
      new heed.Embedding({ numEmbeddings: 7, embedDim: 8 }),
      new heed.EncoderLayer({ embedDim: 8, numHeads: 2, feedForwardDim: 12, dropout }),
      new heed.Linear({ inFeatures: 8, outFeatures: 7 }),
    ],
    { seed },
  );
}

export const adam = (model: Sequential, lr = 1e-2) => new heed.optim.AdamW(model.parameters(), { lr });
export const options = { loss: 'crossEntropy', batchSize: 8, seed: 5 } as const;

export async function errorOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => 'no error',
    (error) => error,
  );
}
