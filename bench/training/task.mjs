/**
 * What every library trains: embeddings, sinusoidal positions, a post-norm encoder and a linear layer that scores the symbols at each position; cross entropy, AdamW.
 * The parameters come from a file that heed writes once, with PyTorch's names, so that all libraries begin with the same and must compute the same losses.
 */
import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { readSafetensors, writeSafetensors } from '../safetensors.mjs';

export const TASKS = {
  toy: { vocabulary: 10, width: 32, heads: 2, hidden: 64, layers: 2, activation: 'relu', texts: 64, tokens: 16 },
  // MiniLM's encoder. The vocabulary is small, because tfjs-wasm has no gradient for lookups and multiplies by one-hot rows instead.
  minilm: {
    vocabulary: 1000,
    width: 384,
    heads: 12,
    hidden: 1536,
    layers: 6,
    activation: 'gelu',
    texts: 8,
    tokens: 128,
  },
};
export const ADAMW = { lr: 1e-3, betas: [0.9, 0.999], eps: 1e-8, weightDecay: 0.01 };
/** Steps whose losses are compared. */
export const COMPARED = 3;

const folder = new URL('../../build/bench/training/', import.meta.url);
export const fileOf = (name) => fileURLToPath(new URL(`${name}.safetensors`, folder));

/** Ids from a fixed seed; the labels are the ids in reverse. */
export function batchOf({ vocabulary, texts, tokens }) {
  let state = 1;
  const draw = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * vocabulary);
  };
  const ids = Array.from({ length: texts }, () => Array.from({ length: tokens }, draw));
  return { ids, labels: ids.map((row) => [...row].reverse()) };
}

export function heedModel(heed, { vocabulary, width, heads, hidden, layers, activation, tokens }) {
  return new heed.Sequential(
    [
      new heed.Embedding({ numEmbeddings: vocabulary, embedDim: width }),
      new heed.PositionalEncoding({ embedDim: width, maxLength: tokens }),
      new heed.Encoder({
        ...{ embedDim: width, numHeads: heads, feedForwardDim: hidden, numLayers: layers, activation },
        dropout: 0,
      }),
      new heed.Linear({ inFeatures: width, outFeatures: vocabulary }),
    ],
    { seed: 1 },
  );
}

/** Writes the parameters, and the batch for Python. */
export async function prepare(name) {
  if (existsSync(fileOf(name))) return;
  const { load } = await import('../../dist/train.js');
  const heed = await load();
  const task = TASKS[name];
  const tensors = { ...heedModel(heed, task).stateDict(), positions: heed.positionalEncoding(task.tokens, task.width) };
  heed.dispose();
  await mkdir(folder, { recursive: true });
  await writeFile(
    fileOf(name).replace('.safetensors', '.json'),
    JSON.stringify({ task, adamw: ADAMW, ...batchOf(task) }),
  );
  await writeFile(fileOf(name), writeSafetensors(tensors));
}

export const readParameters = async (name) => readSafetensors(new Uint8Array(await readFile(fileOf(name))));
