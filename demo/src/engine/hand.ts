/**
 * Attention by hand: every matrix between the input and the output, each computed by the library.
 *
 * Letters: L queries, S keys, E width of the input after positions, H heads, D width of a head.
 */
import type { Heed, Tensor } from 'heed';

export type Matrix = number[][];

export interface HandInput {
  /** (L, q) the sequence that asks. */
  x: Matrix;
  /** (S, q) the sequence that answers; null: x itself, self-attention. */
  y: Matrix | null;
  /** (E, H * D) head by head, as the lectures write them: Q = X W. */
  queryWeight: Matrix;
  keyWeight: Matrix;
  valueWeight: Matrix;
  /** (H * D, E) mixes the heads; null: the heads stand side by side. */
  outputWeight: Matrix | null;
  heads: number;
  /** Keys and values are taken in this order. */
  order: number[];
  positions: { mode: 'none' | 'add' | 'concat'; dim: number; base: number };
  layerNorm: boolean;
  /** null: 1 / sqrt(D). */
  scale: number | null;
  causal: boolean;
  /** Keys from this place on are padding. */
  realKeys: number;
  window: number | null;
  /** (L, S), 1 = may attend; null: all. */
  painted: Matrix | null;
  dropout: { p: number; seed: number };
}

/** The matrices of one head. */
export interface HandHead {
  query: Matrix;
  key: Matrix;
  value: Matrix;
  /** Q K^T, before scale and mask. */
  scores: Matrix;
  weights: Matrix;
  /** The weights after drop-out; null where there is none. */
  dropped: Matrix | null;
  output: Matrix;
}

export interface HandResult {
  /** What goes into the projections: x with positions, normalized. */
  x: Matrix;
  y: Matrix | null;
  heads: HandHead[];
  /** (L, S), 1 = may attend. */
  mask: Matrix;
  scale: number;
  /** (L, H * D) */
  concatenated: Matrix;
  /** (L, E), where an output weight is given. */
  mixed: Matrix | null;
}

export function computeHand(heed: Heed, input: HandInput): HandResult {
  const x = prepare(heed, input.x, input);
  const y = input.y && prepare(heed, input.y, input);
  const source = inOrder(y ?? x, input.order);
  const split = (rows: Matrix, weight: Matrix) =>
    splitHeads(matrix(heed.linear(rows, { weight: transpose(weight) })), input.heads);
  const queries = split(x, input.queryWeight);
  const keys = split(source, input.keyWeight);
  const values = split(source, input.valueWeight);
  const mask = makeMask(input, x.length);
  const scale = input.scale ?? 1 / Math.sqrt(queries[0]![0]!.length);

  const { output, weights } = heed.attention(queries, keys, values, { mask, scale, returnWeights: true });
  const outputs = output.toArray() as Matrix[];
  const weightsOfHeads = weights!.toArray() as Matrix[];
  const { p, seed } = input.dropout;
  const heads = queries.map((query, h): HandHead => {
    const key = keys[h]!;
    const value = values[h]!;
    const dropped = p > 0 ? matrix(heed.dropout(weightsOfHeads[h]!, { p, seed: seed + h, training: true })) : null;
    return {
      query,
      key,
      value,
      scores: matrix(heed.linear(query, { weight: key })),
      weights: weightsOfHeads[h]!,
      dropped,
      output: dropped ? matrix(heed.linear(dropped, { weight: transpose(value) })) : outputs[h]!,
    };
  });
  const concatenated = x.map((_, row) => heads.flatMap((head) => head.output[row]!));
  const mixed = input.outputWeight && matrix(heed.linear(concatenated, { weight: transpose(input.outputWeight) }));
  return { x, y, heads, mask, scale, concatenated, mixed };
}

/** The encoding of `length` positions and the dot products between them. */
export function computePositions(
  heed: Heed,
  length: number,
  dim: number,
  base: number,
): { encoding: Matrix; products: Matrix } {
  const encoding = heed.positionalEncoding(length, dim, { base });
  return { encoding: matrix(encoding), products: matrix(heed.linear(encoding, { weight: encoding })) };
}

function prepare(heed: Heed, rows: Matrix, { positions, layerNorm }: HandInput): Matrix {
  const placed = addPositions(heed, rows, positions);
  if (!layerNorm) return placed;
  const width = placed[0]!.length;
  return matrix(heed.layerNorm(placed, { weight: Array<number>(width).fill(1), bias: Array<number>(width).fill(0) }));
}

function addPositions(heed: Heed, rows: Matrix, { mode, dim, base }: HandInput['positions']): Matrix {
  if (mode === 'none') return rows;
  const encoding = matrix(heed.positionalEncoding(rows.length, mode === 'add' ? rows[0]!.length : dim, { base }));
  return rows.map((row, i) =>
    mode === 'add' ? row.map((entry, j) => entry + encoding[i]![j]!) : [...row, ...encoding[i]!],
  );
}

export type Rule = 'padding' | 'causal' | 'window' | 'painted';

/** The first rule that keeps query `i` from key `j`, if any. Keys keep their own places when they are shuffled, so `j` is the place a key came from. */
export function forbiddenBy({ causal, realKeys, window, painted }: HandInput, i: number, j: number): Rule | undefined {
  if (j >= realKeys) return 'padding';
  if (causal && j > i) return 'causal';
  if (window !== null && Math.abs(j - i) > window) return 'window';
  return painted?.[i]?.[j] === 0 ? 'painted' : undefined;
}

const makeMask = (input: HandInput, queries: number): Matrix =>
  Array.from({ length: queries }, (_, i) => input.order.map((j) => Number(!forbiddenBy(input, i, j))));

function splitHeads(rows: Matrix, heads: number): Matrix[] {
  const width = rows[0]!.length / heads;
  return Array.from({ length: heads }, (_, h) => rows.map((row) => row.slice(h * width, (h + 1) * width)));
}

const matrix = (tensor: Tensor): Matrix => tensor.toArray() as Matrix;
const inOrder = (rows: Matrix, order: number[]): Matrix => order.map((from) => rows[from]!);
const transpose = (rows: Matrix): Matrix => rows[0]!.map((_, column) => rows.map((row) => row[column]!));
