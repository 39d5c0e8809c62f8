/** Measures the speed of this machine: whole encodings by length, and the parts of a layer one by one. */
import type { Heed, ModelConfig, PretrainedModel } from 'heed';

/** Each figure is the median of samples that take this long in total, in milliseconds, after a warm-up in which the engine optimizes the code. */
const measuredFor = 300;
const warmedFor = 120;
const minSamples = 5;
/** The clocks of pages have a resolution of 0.1 ms to 1 ms, so a sample consists of as many calls as take this long. */
const sampleFor = 6;

export interface LengthResult {
  length: number;
  tokensPerSecond: number;
  /** Of the second model, if there is one. */
  withThreads?: number;
}

export interface PartResult {
  part: string;
  /** For one pass through all layers. */
  milliseconds: number;
}

/** The text lengths to measure, in tokens, up to the model's limit. */
export const lengthsFor = (maxLength: number): number[] =>
  [8, 16, 32, 64, 128, 256, 512].filter((length) => length <= maxLength);

/** `threaded`: the same model on several threads, which takes turns with the first. */
export async function measureLengths(
  model: PretrainedModel,
  threaded: PretrainedModel | undefined,
  onResult: (result: LengthResult) => void,
): Promise<void> {
  const { maxLength, vocabSize } = model.config;
  for (const length of lengthsFor(maxLength)) {
    const inputIds = [randomIds(length, vocabSize)];
    const rate = async (measured: PretrainedModel) =>
      (1000 * length) / (await median(() => measured.encode({ inputIds })));
    const tokensPerSecond = await rate(model);
    onResult({ length, tokensPerSecond, ...(threaded && { withThreads: await rate(threaded) }) });
  }
}

/** Measures the parts of a layer in fp32, with the model's shapes and random numbers. */
export async function measureParts(heed: Heed, config: ModelConfig, length: number): Promise<PartResult[]> {
  const { embedDim, numHeads, feedForwardDim, numLayers } = config;
  const x = tensor(length, embedDim);
  const inner = tensor(length, feedForwardDim);
  const heads = {
    data: new Float32Array(length * embedDim).map(Math.random),
    shape: [numHeads, length, embedDim / numHeads],
  };
  const layers = {
    projections: new heed.Linear({ inFeatures: embedDim, outFeatures: 3 * embedDim }),
    output: new heed.Linear({ inFeatures: embedDim, outFeatures: embedDim }),
    up: new heed.Linear({ inFeatures: embedDim, outFeatures: feedForwardDim, activation: 'gelu' }),
    down: new heed.Linear({ inFeatures: feedForwardDim, outFeatures: embedDim }),
    norm: new heed.LayerNorm({ normalizedShape: embedDim }),
  };
  try {
    const parts: [string, () => unknown][] = [
      ['queries, keys, values', () => layers.projections.forward(x)],
      ['attention', () => heed.attention(heads, heads, heads)],
      ['output projection', () => layers.output.forward(x)],
      ['feed-forward, first layer (GELU)', () => layers.up.forward(x)],
      ['feed-forward, second layer', () => layers.down.forward(inner)],
      ['two layer norms', () => [layers.norm.forward(x), layers.norm.forward(x)]],
    ];
    const results: PartResult[] = [];
    for (const [part, run] of parts) results.push({ part, milliseconds: numLayers * (await median(run)) });
    return results;
  } finally {
    for (const layer of Object.values(layers)) layer.dispose();
  }
}

/** The median time of one run, in milliseconds. */
async function median(run: () => unknown): Promise<number> {
  const repeat = async (calls: number): Promise<number> => {
    const start = performance.now();
    for (let i = 0; i < calls; i++) await run();
    return performance.now() - start;
  };
  const warmUp = performance.now();
  let calls = 0;
  while (calls < minSamples || performance.now() - warmUp < warmedFor) {
    await run();
    calls++;
  }
  const perCall = (performance.now() - warmUp) / calls;
  const perSample = Math.max(1, Math.round(sampleFor / perCall));
  const times: number[] = [];
  const start = performance.now();
  while (times.length < minSamples || performance.now() - start < measuredFor) {
    times.push((await repeat(perSample)) / perSample);
    await new Promise((resolve) => setTimeout(resolve)); // the page stays responsive
  }
  return times.sort((a, b) => a - b)[times.length >> 1]!;
}

const tensor = (rows: number, columns: number) => ({
  data: new Float32Array(rows * columns).map(Math.random),
  shape: [rows, columns],
});

/** Ids beyond those of the special tokens. */
const randomIds = (length: number, vocabSize: number): number[] =>
  Array.from({ length }, (_, i) => Math.min(vocabSize - 1, 200 + ((i * 7919) % Math.max(1, vocabSize - 200))));
