/**
 * WebAssembly memory of training an encoder of MiniLM's shape (6 layers, width 384, 30,522 words) on 16 texts of 64 tokens with AdamW: as loaded, and after the forward pass, the
 * backward pass and the update of each of three steps. Memory never shrinks, so the last number is the peak. The numbers are the same on every machine.
 *
 *     node bench/training/memory.mjs [DIST]
 *
 * DIST is a dist/ folder, that of this repository if left out. Prints a table of MB (1e6 bytes), and the losses, which tell whether two builds compute the same.
 */
import { resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { encoderFiles } from '../random-encoder.mjs';

const [TEXTS, TOKENS] = [16, 64];

/** What each step leaves, in bytes. */
async function measure(load, { files, vocab }, steps, { lora, ...options }) {
  const inputIds = Array.from({ length: TEXTS }, (_, n) =>
    Array.from({ length: TOKENS }, (_, i) => (7919 * (TOKENS * n + i) + 1000) % vocab),
  );
  const labels = inputIds.map((_, n) => n % 2);
  const heed = await load({ build: 'simd128' });
  const model = await heed.fromPretrained(files, { trainable: true, dropout: 0, seed: 1, ...options });
  const loaded = heed.info.memoryBytes;
  if (lora) model.addLora({ rank: 8, targets: ['query', 'value'], seed: 1 });
  const classifier = new heed.Linear({ inFeatures: 384, outFeatures: 2, seed: 1 }).train();
  const optimizer = new heed.optim.AdamW([...model.parameters(), ...classifier.parameters()], { lr: 1e-4 });
  model.train();
  const sizes = [];
  const losses = [];
  for (let step = 0; step < steps; step++) {
    optimizer.zeroGrad();
    const loss = heed.losses.crossEntropy(classifier.forward(model.sentenceVectors({ inputIds })), labels);
    const forward = heed.info.memoryBytes;
    loss.backward();
    const backward = heed.info.memoryBytes;
    optimizer.step();
    sizes.push([forward, backward, heed.info.memoryBytes]);
    losses.push(loss.item());
  }
  heed.dispose();
  return { loaded, sizes, losses };
}

const MODES = {
  'all weights': {},
  'all weights, recompute': { recompute: true },
  'LoRA adapters of queries and values': { lora: true },
  'LoRA adapters of queries and values, recompute': { lora: true, recompute: true },
};

/**
 * @param {{ dist?: string, steps?: number, onMode?: (mode: string, measured: Awaited<ReturnType<typeof measure>>) => void }} [options]
 * @returns {Promise<Record<string, number>>} the peak of each mode, in bytes. The second step reaches it, when moments exist
 */
export async function measureTrainingMemory({ dist, steps = 2, onMode = () => {} } = {}) {
  const folder = dist ? resolve(dist) : fileURLToPath(new URL('../../dist', import.meta.url));
  const { load } = await import(pathToFileURL(`${folder}/train.js`).href);
  const model = encoderFiles(6, 30_522);
  const peaks = {};
  for (const [mode, options] of Object.entries(MODES)) {
    const measured = await measure(load, model, steps, options);
    onMode(mode, measured);
    peaks[mode] = Math.max(...measured.sizes.flat());
  }
  return peaks;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [dist, steps] = [process.argv[2], 3];
  const text = (bytes) => (bytes / 1e6).toFixed(1).padStart(6);
  console.log(`${''.padEnd(50)}loaded  forward backward step, of each of ${steps} steps`);
  const onMode = (mode, { loaded, sizes, losses }) => {
    const columns = sizes.map((step) => step.map(text).join(' ')).join('  |');
    console.log(`${mode.padEnd(50)}${text(loaded)}  ${columns}   losses ${losses.join(' ')}`);
  };
  await measureTrainingMemory({ dist, steps, onMode });
}
