/** How fast the model of the package runs, next to what the machine's peak would allow. */
import { load, type ModelConfig, type PretrainedModel } from '../../index.js';
import { measurePeak, type Peak } from './peak.js';

export interface Speed {
  dtype: 'fp32' | 'q8';
  texts: number;
  tokensPerText: number;
  tokensPerSecond: number;
  /** At the usual share of the peak. */
  expected: number;
  /** The share of the time for which the system let this process run on a core. */
  cpuShare: number;
}

export interface Measured {
  /** Milliseconds from the call of `fromPretrained` to a model that is ready. */
  loadMs: number;
  /** Operations per second. */
  peak: Peak;
  speeds: Speed[];
}

const LENGTH = 128;
const MILLISECONDS = 400;

/**
 * The share of the peak that a forward pass of this small model reaches, with embeddings, softmax and copies: of the time on the processor, 55 to 60 % in fp32 and 40 to 48 % in
 * int8, measured on an AMD EPYC that was busy with other programs, in both builds.
 */
const SHARE = { fp32: 0.6, q8: 0.4 };

/** Below this part of what is expected, something is wrong. */
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

/** Tokens per second if the matrix products ran at the usual share of the peak. Products of attention are in fp32 in both cases. */
function expectedRate(config: ModelConfig, peak: Peak, dtype: 'fp32' | 'q8'): number {
  const { numLayers, embedDim, feedForwardDim } = config;
  const linear = 2 * numLayers * (4 * embedDim * embedDim + 2 * embedDim * feedForwardDim);
  const attention = 2 * numLayers * 2 * LENGTH * embedDim;
  const seconds = linear / (dtype === 'q8' ? peak.int8 : peak.fp32) + attention / peak.fp32;
  return SHARE[dtype] / seconds;
}
