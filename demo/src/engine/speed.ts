/** What this machine does, measured: whole encodings by length, and the parts of a layer one by one. */
import type { Heed, PretrainedModel } from 'heed';

/** Each figure is the median of samples that fill this time together, after calls that let the engine optimize. */
const measuredFor = 300;
const warmedFor = 120;
const fewest = 5;
/** Clocks in a page tick every tenth of a millisecond, so a sample is of as many calls as fill this time. */
const sampleFor = 6;

export interface LengthResult {
  length: number;
  tokensPerSecond: number;
}

export interface PartResult {
  part: string;
  /** Of one pass through all layers. */
  milliseconds: number;
}

/** The lengths of text that are timed, in tokens, as far as the model reads them. */
export const lengthsFor = (maxLength: number): number[] =>
  [8, 16, 32, 64, 128, 256, 512].filter((length) => length <= maxLength);

export async function measureLengths(model: PretrainedModel, onResult: (result: LengthResult) => void): Promise<void> {
  const { maxLength, vocabSize } = model.config;
  for (const length of lengthsFor(maxLength)) {
    const inputIds = [randomIds(length, vocabSize)];
    const time = await median(() => model.encode({ inputIds }));
    onResult({ length, tokensPerSecond: (1000 * length) / time });
  }
}

/** The layer's parts alone, in fp32, at the model's shapes: T tokens, E width, H heads, F inner width. */
export async function measureParts(heed: Heed, model: PretrainedModel, length: number): Promise<PartResult[]> {
  const { embedDim, numHeads, feedForwardDim, numLayers } = model.config;
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
      ['output matrix', () => layers.output.forward(x)],
      ['feed-forward, up (gelu)', () => layers.up.forward(x)],
      ['feed-forward, down', () => layers.down.forward(inner)],
      ['two layer norms', () => [layers.norm.forward(x), layers.norm.forward(x)]],
    ];
    const results: PartResult[] = [];
    for (const [part, run] of parts) results.push({ part, milliseconds: numLayers * (await median(run)) });
    return results;
  } finally {
    for (const layer of Object.values(layers)) layer.dispose();
  }
}

/** Milliseconds of one run. */
async function median(run: () => unknown): Promise<number> {
  const repeat = async (calls: number): Promise<number> => {
    const start = performance.now();
    for (let i = 0; i < calls; i++) await run();
    return performance.now() - start;
  };
  const warmUp = performance.now();
  let calls = 0;
  while (calls < fewest || performance.now() - warmUp < warmedFor) {
    await run();
    calls++;
  }
  const perCall = (performance.now() - warmUp) / calls;
  const perSample = Math.max(1, Math.round(sampleFor / perCall));
  const times: number[] = [];
  const start = performance.now();
  while (times.length < fewest || performance.now() - start < measuredFor) {
    times.push((await repeat(perSample)) / perSample);
  }
  return times.sort((a, b) => a - b)[times.length >> 1]!;
}

const tensor = (rows: number, columns: number) => ({
  data: new Float32Array(rows * columns).map(Math.random),
  shape: [rows, columns],
});

/** Ids above the special tokens'. */
const randomIds = (length: number, vocabSize: number): number[] =>
  Array.from({ length }, (_, i) => Math.min(vocabSize - 1, 200 + ((i * 7919) % Math.max(1, vocabSize - 200))));
