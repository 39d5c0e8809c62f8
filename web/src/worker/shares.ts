/** Divides the texts of a call among workers, and joins their results. */

import { floatsOf } from '../base/error.js';
import { maxOf } from '../base/lists.js';
import { elementCount, Tensor } from '../base/tensor.js';
import { isTexts, type ModelInput } from '../models/input.js';
import type { Prediction } from '../models/model.js';
import { type VectorsOf, vectorsOf } from '../models/quantized.js';

/**
 * Limits on the texts per share: enough to fill the batches of the WebAssembly module, and few enough for frequent
 * progress reports.
 */
export const LEAST_TEXTS = 8;
const MOST_TEXTS = 256;

/**
 * Divides a list into shares, which workers take one by one. The longest texts come first, and each share is a fraction
 * of the remaining work, so that all workers finish at about the same time. (The order does not speed up a single
 * worker, because texts are not padded.) Within a share, texts are in the order of the list.
 */
export function* sharesOf(lengths: readonly number[], workers: number): Generator<number[]> {
  const order = [...lengths.keys()].sort((a, b) => lengths[b]! - lengths[a]!);
  let left = lengths.reduce((sum, length) => sum + length, 0);
  for (let next = 0; next < order.length; ) {
    const share: number[] = [];
    let size = 0;
    const most = left / (2 * workers);
    while (next < order.length && share.length < MOST_TEXTS && (share.length < LEAST_TEXTS || size < most)) {
      size += lengths[order[next]!]!;
      share.push(order[next++]!);
    }
    left -= size;
    yield share.sort((a, b) => a - b);
  }
}

/**
 * Length of each text in characters, or in tokens if the input consists of ids, plus one, so that empty texts count.
 */
export function lengthsOf(input: ModelInput, pairs: unknown): number[] {
  const each = isTexts(input) ? [input].flat() : input.inputIds;
  return each.map(({ length }, n) => 1 + length + (Array.isArray(pairs) ? (pairs[n]?.length ?? 0) : 0));
}

export function textsOf(input: ModelInput, share: readonly number[]): ModelInput {
  const pick = <T>(list: readonly T[]): T[] => share.map((n) => list[n]!);
  if (isTexts(input)) return pick([input].flat());
  const { inputIds, attentionMask, tokenTypeIds } = input;
  return {
    inputIds: pick(inputIds),
    attentionMask: attentionMask && pick(attentionMask),
    tokenTypeIds: tokenTypeIds && pick(tokenTypeIds),
  };
}

/** Collects the results of shares. `share` has each text's index in the call. */
export interface Joiner<Result> {
  add(share: readonly number[], result: Result): void;
  /** The result of the call. All shares must have been added. */
  result(): Result;
}

/** Joins vectors as they arrive, so that they are not held in memory twice. */
export function joinVectors(total: number): Joiner<VectorsOf<'float32'>> {
  const truncated = new Array<number>(total);
  const tokens = new Array<number>(total);
  let data: Float32Array<ArrayBuffer> | undefined;
  let width = 0;
  return {
    add(share, vectors) {
      width = vectors.shape[1]!;
      data ??= floatsOf('embed', [total, width]);
      share.forEach((n, i) => {
        data!.set(vectors.data.subarray(i * width, (i + 1) * width), n * width);
        truncated[n] = vectors.truncated[i]!;
        tokens[n] = vectors.tokens[i]!;
      });
    },
    result: () => vectorsOf(new Tensor(data!, [total, width]), 'float32', { truncated, tokens }),
  };
}

/** Joins lists that have one entry per text. */
export function joinLists<T>(total: number): Joiner<T[]> {
  const list = new Array<T>(total);
  return {
    add: (share, results) => share.forEach((n, i) => (list[n] = results[i]!)),
    result: () => list,
  };
}

/**
 * Joins records, such as results of `encode` and `predict`. Tensors are joined along their first axis and padded with
 * zeros to the largest extents; lists of tensors, one per layer, tensor by tensor. Other lists have one entry per text.
 */
export function joinRecords<T extends object>(owner: string, total: number): Joiner<T> {
  const shares: (readonly number[])[] = [];
  const results: T[] = [];
  return {
    add(share, result) {
      shares.push(share);
      results.push(result);
    },
    result: () => joinValues(owner, results, shares, total) as T,
  };
}

/** Joins results of the MLM head, whose logits have one row per mask token. */
export function joinMasks(total: number): Joiner<Prediction> {
  const { add, result: rest } = joinRecords<Prediction>('predict', total);
  const rows: { text: number; token: number; logits: Float32Array }[] = [];
  let labels = 0;
  return {
    add(share, { logits, masks, ...others }) {
      labels = logits.shape[1]! || labels;
      masks.forEach(([n, token], i) => {
        rows.push({ text: share[n]!, token, logits: logits.data.subarray(i * labels, (i + 1) * labels) });
      });
      add(share, others as Prediction);
    },
    result() {
      rows.sort((a, b) => a.text - b.text || a.token - b.token);
      const data = floatsOf('predict', [rows.length, labels]);
      rows.forEach(({ logits }, i) => {
        data.set(logits, i * labels);
      });
      const masks = rows.map(({ text, token }): [number, number] => [text, token]);
      return Object.assign({ logits: new Tensor(data, [rows.length, labels]) }, rest(), { masks });
    },
  };
}

function joinValues(owner: string, values: unknown[], shares: (readonly number[])[], total: number): unknown {
  const [first] = values;
  if (first instanceof Tensor) return joinTensors(owner, values as Tensor[], shares, total);
  if (Array.isArray(first)) {
    const lists = values as unknown[][];
    if (first[0] instanceof Tensor)
      return first.map((_, layer) => {
        const tensors = lists.map((list) => list[layer] as Tensor);
        return joinTensors(owner, tensors, shares, total);
      });
    if (first.length === 0) return [];
    const { add, result } = joinLists(total);
    lists.forEach((list, i) => {
      add(shares[i]!, list);
    });
    return result();
  }
  const names = Object.keys(first as object);
  const of = (name: string) => values.map((value) => (value as Record<string, unknown>)[name]);
  return Object.fromEntries(names.map((name) => [name, joinValues(owner, of(name), shares, total)]));
}

function joinTensors(owner: string, tensors: Tensor[], shares: (readonly number[])[], total: number): Tensor {
  const inner = tensors[0]!.shape.slice(1).map((_, i) => maxOf(tensors.map(({ shape }) => shape[i + 1]!)));
  const shape = [total, ...inner];
  const bytes = tensors[0]!.data as unknown;
  const data = bytes instanceof Uint8Array ? new Uint8Array(elementCount(shape)) : floatsOf(owner, shape);
  const size = elementCount(inner);
  tensors.forEach((tensor, i) => {
    const own = tensor.shape.slice(1);
    const ownSize = elementCount(own);
    shares[i]!.forEach((n, row) => {
      copyPadded(tensor.data, row * ownSize, own, data as Float32Array, n * size, inner);
    });
  });
  return new Tensor(data as Float32Array<ArrayBuffer>, shape);
}

/** Copies a block of one shape into a block of another that is at least as large along each axis. */
function copyPadded(
  from: Float32Array,
  at: number,
  shape: readonly number[],
  to: Float32Array,
  toAt: number,
  toShape: readonly number[],
): void {
  // From the second axis on, both have the same shape, so the block is contiguous.
  if (shape.slice(1).every((extent, i) => extent === toShape[i + 1])) {
    to.set(from.subarray(at, at + elementCount(shape)), toAt);
    return;
  }
  const [rows, ...rest] = shape as [number, ...number[]];
  const [, ...toRest] = toShape;
  const [size, toSize] = [elementCount(rest), elementCount(toRest)];
  for (let i = 0; i < rows; i++) copyPadded(from, at + i * size, rest, to, toAt + i * toSize, toRest);
}
