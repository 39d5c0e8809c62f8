/**
 * Computes every matrix between the input and the output of attention with the library's functions.
 *
 * Notation: L queries, S keys, q features of the input, E its width after positions are added or appended, H heads,
 * D width of a head.
 */
import type { Heed, Tensor } from 'heed';

export type Matrix = number[][];

export interface StepsInput {
  queryNames: string[];
  keyNames: string[];
  /** (L, q) the sequence that the queries are computed from. */
  x: Matrix;
  /** (S, q) the sequence that keys and values are computed from; null: x (self-attention). */
  y: Matrix | null;
  /** (E, H * D), head by head, for Q = X W. */
  queryWeight: Matrix;
  keyWeight: Matrix;
  valueWeight: Matrix;
  /** (H * D, E); null: the heads' outputs are only concatenated. */
  outputWeight: Matrix | null;
  heads: number;
  /** The order of keys and values, as indices of rows. */
  order: number[];
  positions: { mode: 'none' | 'add' | 'concat'; dim: number; base: number };
  layerNorm: boolean;
  /** null: 1 / sqrt(D) */
  scale: number | null;
  causal: boolean;
  /** The number of keys before the padding. */
  realKeys: number;
  window: number | null;
  /** (L, S), 1 = may attend; null: no mask of the reader's own. */
  painted: Matrix | null;
  dropout: { p: number; seed: number };
}

/** The matrices of one head. */
export interface HandHead {
  query: Matrix;
  key: Matrix;
  value: Matrix;
  /** Q K^T, without scale and mask. */
  scores: Matrix;
  weights: Matrix;
  /** The weights after dropout; null without dropout. */
  dropped: Matrix | null;
  output: Matrix;
}

export interface StepsResult {
  /** The input of the projections: x with positions and layer norm applied. */
  x: Matrix;
  y: Matrix | null;
  heads: HandHead[];
  /** (L, S), 1 = may attend. */
  mask: Matrix;
  scale: number;
  /** (L, H * D) */
  concatenated: Matrix;
  /** (L, E), or null without an output weight. */
  mixed: Matrix | null;
}

export function computeSteps(heed: Heed, input: StepsInput): StepsResult {
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

/** The positional encoding and the dot products between its rows. */
export function computePositions(
  heed: Heed,
  length: number,
  dim: number,
  base: number,
): { encoding: Matrix; products: Matrix } {
  const encoding = heed.positionalEncoding(length, dim, { base });
  return { encoding: matrix(encoding), products: matrix(heed.linear(encoding, { weight: encoding })) };
}

function prepare(heed: Heed, rows: Matrix, { positions, layerNorm }: StepsInput): Matrix {
  const placed = addPositions(heed, rows, positions);
  if (!layerNorm) return placed;
  const width = placed[0]!.length;
  return matrix(heed.layerNorm(placed, { weight: Array<number>(width).fill(1), bias: Array<number>(width).fill(0) }));
}

function addPositions(heed: Heed, rows: Matrix, { mode, dim, base }: StepsInput['positions']): Matrix {
  if (mode === 'none') return rows;
  const encoding = matrix(heed.positionalEncoding(rows.length, mode === 'add' ? rows[0]!.length : dim, { base }));
  return rows.map((row, i) =>
    mode === 'add' ? row.map((entry, j) => entry + encoding[i]![j]!) : [...row, ...encoding[i]!],
  );
}

export type Rule = 'padding' | 'causal' | 'window' | 'painted';

/** The first rule that masks key `j` for query `i`, if any. `j` is the key's index before shuffling. */
export function maskedBy({ causal, realKeys, window, painted }: StepsInput, i: number, j: number): Rule | undefined {
  if (j >= realKeys) return 'padding';
  if (causal && j > i) return 'causal';
  if (window !== null && Math.abs(j - i) > window) return 'window';
  return painted?.[i]?.[j] === 0 ? 'painted' : undefined;
}

const makeMask = (input: StepsInput, queries: number): Matrix =>
  Array.from({ length: queries }, (_, i) => input.order.map((j) => Number(!maskedBy(input, i, j))));

function splitHeads(rows: Matrix, heads: number): Matrix[] {
  const width = rows[0]!.length / heads;
  return Array.from({ length: heads }, (_, h) => rows.map((row) => row.slice(h * width, (h + 1) * width)));
}

const matrix = (tensor: Tensor): Matrix => tensor.toArray() as Matrix;
const inOrder = (rows: Matrix, order: number[]): Matrix => order.map((from) => rows[from]!);
const transpose = (rows: Matrix): Matrix => rows[0]!.map((_, column) => rows.map((row) => row[column]!));
