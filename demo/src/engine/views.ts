/** What the page shows of a pretrained encoder on the reader's texts. */
import type { Heed, PretrainedModel } from 'heed';
import type { Matrix } from './hand';

export interface AttentionView {
  tokens: string[];
  /** For each layer and head: (tokens, tokens), row-major. */
  weights: Float32Array[][];
  /** Tokens that were computed but are not shown. */
  notShown: number;
  milliseconds: number;
}

export interface ProjectionView {
  tokens: { text: number; token: string }[];
  /** For the embeddings and each layer: two coordinates per token, and the fraction of the variance that they keep. */
  steps: { points: Point[]; kept: number }[];
}

/** More tokens would make the cells of the heat map smaller than a pixel. */
const shownTokens = 96;
const projectedTokens = 240;

export async function viewAttention(model: PretrainedModel, text: string): Promise<AttentionView> {
  const start = performance.now();
  const { tokens, attentions } = await model.encode([text], { outputAttentions: true });
  const milliseconds = performance.now() - start;
  const length = tokens[0]!.length;
  const shown = Math.min(length, shownTokens);
  const cropped = (layer: Float32Array, head: number) => {
    const weights = new Float32Array(shown * shown);
    for (let row = 0; row < shown; row++) {
      const from = (head * length + row) * length;
      weights.set(layer.subarray(from, from + shown), row * shown);
    }
    return weights;
  };
  return {
    tokens: tokens[0]!.slice(0, shown),
    weights: attentions!.map(({ data, shape }) => Array.from({ length: shape[1]! }, (_, head) => cropped(data, head))),
    notShown: length - shown,
    milliseconds,
  };
}

export const mean = (values: number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);

/** The hidden states of all tokens in the plane of their two principal components, layer by layer. */
export async function viewProjection(heed: Heed, model: PretrainedModel, texts: string[]): Promise<ProjectionView> {
  const { hiddenStates, tokens } = await model.encode(texts, { outputHiddenStates: true });
  const shown = tokens
    .flatMap((row, text) => row.map((token, position) => ({ text, token, position })))
    .slice(0, projectedTokens);
  const steps: ProjectionView['steps'] = [];
  for (const { data, shape } of hiddenStates!) {
    const [, length, width] = shape as [number, number, number];
    const rows = shown.map(({ text, position }) => {
      const start = (text * length + position) * width;
      return Array.from(data.subarray(start, start + width));
    });
    const { points, kept } = principalPlane(heed, rows);
    steps.push({ points: turned(points, steps.at(-1)?.points ?? points), kept });
    await new Promise((resolve) => setTimeout(resolve)); // the page stays responsive
  }
  return { tokens: shown.map(({ text, token }) => ({ text, token })), steps };
}

export type Point = [number, number];

/**
 * Principal component analysis by the Gram matrix G = X X^T of the centred rows: the coordinates along a component are an
 * eigenvector of G times the square root of its eigenvalue.
 */
export function principalPlane(heed: Heed, rows: Matrix): ProjectionView['steps'][number] {
  const centre = rows[0]!.map((_, column) => mean(rows.map((row) => row[column]!)));
  const centred = rows.map((row) => row.map((entry, column) => entry - centre[column]!));
  const gram = heed.linear(centred, { weight: centred }).toArray() as Matrix;
  const total = gram.reduce((sum, row, i) => sum + row[i]!, 0);
  const [first, second] = [0, 1].map(() => {
    const { vector, value } = largestEigenpair(gram);
    for (const [i, row] of gram.entries()) row.forEach((_, j) => (row[j]! -= value * vector[i]! * vector[j]!));
    return { value, along: vector.map((entry) => entry * Math.sqrt(value)) };
  }) as [{ value: number; along: number[] }, { value: number; along: number[] }];
  return {
    points: first.along.map((x, i) => [x, second.along[i]!]),
    kept: total > 0 ? (first.value + second.value) / total : 1,
  };
}

/** Power iteration on a symmetric positive semidefinite matrix. */
function largestEigenpair(matrix: Matrix): { vector: number[]; value: number } {
  let vector = matrix.map((_, i) => Math.sin(i + 1));
  let value = 0;
  for (let i = 0; i < mostIterations; i++) {
    const product = matrix.map((row) => row.reduce((sum, entry, j) => sum + entry * vector[j]!, 0));
    const next = Math.hypot(...product);
    if (next === 0) return { vector, value: 0 };
    vector = product.map((entry) => entry / next);
    if (Math.abs(next - value) <= 1e-9 * next) return { vector, value: next };
    value = next;
  }
  return { vector, value };
}

const mostIterations = 300;

/**
 * Projects rows that were not part of the analysis: `rows` have become the `points` of `principalPlane`. A component along which
 * they do not vary has the coordinate 0.
 */
export function projectorOf(rows: Matrix, points: Point[]): (row: number[]) => Point {
  const centre = rows[0]!.map((_, column) => mean(rows.map((row) => row[column]!)));
  // X^T v / sqrt(eigenvalue), where the points have v * sqrt(eigenvalue).
  const axes = [0, 1].map((component) => {
    const value = points.reduce((sum, point) => sum + point[component]! ** 2, 0);
    return centre.map((middle, column) =>
      value < 1e-12
        ? 0
        : rows.reduce((sum, row, i) => sum + (row[column]! - middle) * points[i]![component]!, 0) / value,
    );
  });
  return (row) =>
    axes.map((axis) => axis.reduce((sum, entry, column) => sum + entry * (row[column]! - centre[column]!), 0)) as Point;
}

/**
 * Rotates or reflects the points to lie as near as possible to where they were before, since the order and the signs of
 * principal components are arbitrary (the orthogonal Procrustes problem in two dimensions).
 */
export const turned = (points: Point[], before: Point[]): Point[] => points.map(turnOf(points, before));

/** The rotation or reflection of `turned`, for other points of the same plane. */
export function turnOf(points: Point[], before: Point[]): (point: Point) => Point {
  const sum = (term: (now: Point, then: Point) => number) =>
    points.reduce((total, now, i) => total + term(now, before[i]!), 0);
  const candidates = [1, -1].map((sign) => {
    const cosine = sum(([x, y], [u, v]) => x * u + sign * y * v);
    const sine = sum(([x, y], [u, v]) => x * v - sign * y * u);
    return { sign, cosine, sine, fit: Math.hypot(cosine, sine) };
  });
  const { sign, cosine, sine, fit } = candidates[0]!.fit >= candidates[1]!.fit ? candidates[0]! : candidates[1]!;
  if (fit === 0) return (point) => point;
  const [c, s] = [cosine / fit, sine / fit];
  return ([x, y]) => [c * x - s * sign * y, s * x + c * sign * y];
}
