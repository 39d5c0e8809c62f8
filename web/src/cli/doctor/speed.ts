/** Measures how fast the package's model runs, and how fast it should run given the machine's peak. */
import { load, type ModelConfig, type PretrainedModel } from '../../index.js';
import { measurePeak, type Peak } from './peak.js';

export interface Speed {
  dtype: 'fp32' | 'q8';
  texts: number;
  tokensPerText: number;
  tokensPerSecond: number;
  /** Tokens per second at the usual share of the peak. */
  expected: number;
  /** Fraction of the time during which this process was running on a CPU core. */
  cpuShare: number;
}

export interface Measured {
  /** Milliseconds that `fromPretrained` takes. */
  loadMs: number;
  /** Operations per second. */
  peak: Peak;
  speeds: Speed[];
}

const LENGTH = 128;
const MILLISECONDS = 400;

/**
 * The share of the peak that a forward pass of this small model reaches, including embeddings, softmax and copies: 55
 * to 60 % in fp32 and 40 to 48 % in int8, relative to CPU time, measured with both builds on an AMD EPYC that was busy
 * with other programs.
 */
const SHARE = { fp32: 0.6, q8: 0.4 };

/** Fraction of the expected speed below which something is considered wrong. */
export const FAR_BELOW = 0.5;

/** Measures for about two seconds, on one thread. */
export async function measureSpeed(): Promise<Measured> {
  using heed = await load();
  const peak = await measurePeak(heed.info.build);
  const speeds: Speed[] = [];
  let loadMs = 0;
  for (const dtype of ['fp32', 'q8'] as const) {
    const start = performance.now();
    using model = await heed.fromPretrained(undefined, { dtype });
    if (dtype === 'fp32') loadMs = performance.now() - start;
    for (const texts of [1, 8]) {
      const rate = await tokenRate(model, texts);
      speeds.push({ dtype, texts, tokensPerText: LENGTH, ...rate, expected: expectedRate(model.config, peak, dtype) });
    }
  }
  return { loadMs, peak, speeds };
}

async function tokenRate(model: PretrainedModel, texts: number) {
  const { vocabSize } = model.config;
  const inputIds = Array.from({ length: texts }, (_, n) =>
    Array.from({ length: LENGTH }, (_, i) => (7919 * (n * LENGTH + i)) % vocabSize),
  );
  await model.embed({ inputIds });
  let best = Infinity;
  let now = performance.now();
  const [begin, cpu] = [now, process.cpuUsage()];
  do {
    const start = now;
    await model.embed({ inputIds });
    now = performance.now();
    best = Math.min(best, now - start);
  } while (now < begin + MILLISECONDS);
  const { user, system } = process.cpuUsage(cpu); // microseconds
  return {
    tokensPerSecond: (texts * LENGTH * 1000) / best,
    cpuShare: Math.min(1, (user + system) / 1000 / (now - begin)),
  };
}

/**
 * Tokens per second if the matrix products run at the usual share of the peak. Attention's products are in fp32 for
 * both types.
 */
function expectedRate(config: ModelConfig, peak: Peak, dtype: 'fp32' | 'q8'): number {
  const { numLayers, embedDim, feedForwardDim } = config;
  const linear = 2 * numLayers * (4 * embedDim * embedDim + 2 * embedDim * feedForwardDim);
  const attention = 2 * numLayers * 2 * LENGTH * embedDim;
  const seconds = linear / (dtype === 'q8' ? peak.int8 : peak.fp32) + attention / peak.fp32;
  return SHARE[dtype] / seconds;
}
