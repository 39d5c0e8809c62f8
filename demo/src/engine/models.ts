/** What the page asks of a pretrained encoder. Tokens are cut to what a screen can show; everything else goes to the library as it is. */
import type { Heed, LoadProgress, PretrainedModel } from 'heed';
import { PCA } from 'ml-pca';
import type { Matrix } from './hand';

export type ModelSource =
  | { kind: 'shipped' }
  | { kind: 'url'; url: string }
  | { kind: 'files'; files: { path: string; file: File }[] };

export interface ModelSummary {
  family: string;
  dtype: 'fp32' | 'q8';
  layers: number;
  heads: number;
  width: number;
  feedForward: number;
  vocabulary: number;
  maxLength: number;
  parameters: number;
  pooling: string;
  hasTokenizer: boolean;
  unusedTensors: number;
  /** What opening it took. */
  milliseconds: number;
}

/** 1 = on, 0 = off; layers by heads. Empty: all on. */
export type HeadMask = Matrix;

export interface AttentionView {
  tokens: string[];
  /** (layers, heads, tokens, tokens), row-major. */
  weights: Float32Array;
  layers: number;
  heads: number;
  /** Tokens of the text beyond those shown, and beyond those that the model reads. */
  notShown: number;
  notRead: number;
  milliseconds: number;
}

export interface SimilarityView {
  /** Cosines between the texts. */
  similarity: Matrix;
  /** For each text, the cosine between its vector with the heads as set and with all heads on. */
  unchanged: number[];
  milliseconds: number;
}

export interface ProjectionView {
  tokens: { text: number; token: string }[];
  /** For the embeddings and each layer: two coordinates per token, and the share of the variance they keep. */
  steps: { points: Point[]; kept: number }[];
}

/** Attention is shown for this many tokens at most: beyond, a cell is smaller than a pixel is worth. */
const shownTokens = 96;
const projectedTokens = 240;

export async function openModel(
  heed: Heed,
  source: ModelSource,
  dtype: 'fp32' | 'q8' | undefined,
  onProgress: (progress: LoadProgress) => void,
) {
  const options = { onProgress, ...(dtype && { dtype }) };
  if (source.kind === 'shipped') return heed.fromPretrained(undefined, options);
  if (source.kind === 'url') return heed.fromPretrained(source.url, options);
  return heed.fromPretrained(Object.fromEntries(source.files.map(({ path, file }) => [path, file])), options);
}

export function describeModel({ config }: PretrainedModel, milliseconds: number): ModelSummary {
  return {
    family: config.family,
    dtype: config.dtype,
    layers: config.numLayers,
    heads: config.numHeads,
    width: config.embedDim,
    feedForward: config.feedForwardDim,
    vocabulary: config.vocabSize,
    maxLength: config.maxLength,
    parameters: config.parameterCount,
    pooling: config.pooling,
    hasTokenizer: config.hasTokenizer,
    unusedTensors: config.unusedTensors.length,
    milliseconds,
  };
}

export async function viewAttention(model: PretrainedModel, text: string, headMask: HeadMask): Promise<AttentionView> {
  const start = performance.now();
  const { tokens, attentions, truncated } = await model.encode([text], { outputAttentions: true, ...masked(headMask) });
  const milliseconds = performance.now() - start;
  const length = tokens[0]!.length;
  const shown = Math.min(length, shownTokens);
  const layers = attentions!.length;
  const heads = attentions![0]!.shape[1]!;
  const weights = new Float32Array(layers * heads * shown * shown);
  attentions!.forEach(({ data }, layer) => {
    for (let row = 0; row < heads * shown; row++) {
      const head = Math.floor(row / shown);
      const from = (head * length + (row % shown)) * length;
      weights.set(data.subarray(from, from + shown), (layer * heads * shown + row) * shown);
    }
  });
  return {
    tokens: tokens[0]!.slice(0, shown),
    weights,
    layers,
    heads,
    notShown: length - shown,
    notRead: truncated[0]!,
    milliseconds,
  };
}

export async function viewSimilarity(
  heed: Heed,
  model: PretrainedModel,
  texts: string[],
  headMask: HeadMask,
): Promise<SimilarityView> {
  const start = performance.now();
  const vectors = await model.embed(texts, { normalize: true, ...masked(headMask) });
  const milliseconds = performance.now() - start;
  const whole = headMask.length ? await model.embed(texts, { normalize: true }) : vectors;
  return {
    similarity: heed.linear(vectors, { weight: vectors }).toArray() as Matrix,
    unchanged: cosines(vectors.toArray() as Matrix, whole.toArray() as Matrix),
    milliseconds,
  };
}

/** For each head how far the texts' vectors turn without it alone: one minus the mean cosine. (Michel et al. 2019, arXiv:1905.10650.) */
export async function measureImportance(model: PretrainedModel, texts: string[]): Promise<Matrix> {
  const { numLayers, numHeads } = model.config;
  const whole = (await model.embed(texts, { normalize: true })).toArray() as Matrix;
  const importance: Matrix = [];
  for (let layer = 0; layer < numLayers; layer++) {
    importance.push([]);
    for (let head = 0; head < numHeads; head++) {
      const headMask = Array.from({ length: numLayers }, (_, l) =>
        Array.from({ length: numHeads }, (_, h) => (l === layer && h === head ? 0 : 1)),
      );
      const without = (await model.embed(texts, { normalize: true, headMask })).toArray() as Matrix;
      const kept = cosines(without, whole);
      importance[layer]!.push(1 - kept.reduce((sum, cosine) => sum + cosine, 0) / kept.length);
    }
  }
  return importance;
}

/** Row by row, of rows of length one. */
const cosines = (a: Matrix, b: Matrix): number[] =>
  a.map((row, i) => row.reduce((sum, entry, j) => sum + entry * b[i]![j]!, 0));

/** Tokens of all texts in the plane of the two directions in which they differ most, step by step. */
export async function viewProjection(model: PretrainedModel, texts: string[]): Promise<ProjectionView> {
  const { hiddenStates, tokens } = await model.encode(texts, { outputHiddenStates: true });
  const places = tokens
    .flatMap((row, text) => row.map((token, position) => ({ text, token, position })))
    .slice(0, projectedTokens);
  const steps = hiddenStates!.map(({ data, shape }) => {
    const [, length, width] = shape as [number, number, number];
    const rows = places.map(({ text, position }) => {
      const start = (text * length + position) * width;
      return Array.from(data.subarray(start, start + width));
    });
    const pca = new PCA(rows, { method: 'NIPALS', nCompNIPALS: 2 });
    const points = pca
      .predict(rows)
      .to2DArray()
      .map(([x = 0, y = 0]): Point => [x, y]);
    return { points, kept: spread(points) / spread(rows) };
  });
  for (let i = 1; i < steps.length; i++) steps[i]!.points = turned(steps[i]!.points, steps[i - 1]!.points);
  return { tokens: places.map(({ text, token }) => ({ text, token })), steps };
}

type Point = [number, number];

/**
 * The same plane, turned or mirrored so that the points lie as near as they can to where they were before: principal directions come in any order and
 * sign. (Procrustes' problem in two dimensions.)
 */
function turned(points: Point[], before: Point[]): Point[] {
  const sum = (term: (now: Point, then: Point) => number) =>
    points.reduce((total, now, i) => total + term(now, before[i]!), 0);
  const candidates = [1, -1].map((sign) => {
    const cosine = sum(([x, y], [u, v]) => x * u + sign * y * v);
    const sine = sum(([x, y], [u, v]) => x * v - sign * y * u);
    return { sign, cosine, sine, fit: Math.hypot(cosine, sine) };
  });
  const { sign, cosine, sine, fit } = candidates[0]!.fit >= candidates[1]!.fit ? candidates[0]! : candidates[1]!;
  if (fit === 0) return points;
  const [c, s] = [cosine / fit, sine / fit];
  return points.map(([x, y]) => [c * x - s * sign * y, s * x + c * sign * y]);
}

/** The sum of squared distances from the mean. */
function spread(rows: readonly (readonly number[])[]): number {
  const mean = rows[0]!.map((_, j) => rows.reduce((sum, row) => sum + row[j]!, 0) / rows.length);
  return rows.reduce((sum, row) => row.reduce((inner, entry, j) => inner + (entry - mean[j]!) ** 2, sum), 0);
}

const masked = (headMask: HeadMask) => (headMask.length ? { headMask } : {});
