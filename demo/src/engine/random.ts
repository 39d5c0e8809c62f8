/** Pseudorandom numbers from a seed that is part of the link, so that everyone sees the same numbers. */
import type { Matrix } from './hand';

/** mulberry32: uniform in [0, 1). */
export function uniform(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Normally distributed entries, rounded to one decimal to keep the arithmetic readable. */
export function randomMatrix(rows: number, columns: number, seed: number): Matrix {
  const next = uniform(seed);
  const normal = () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
  return Array.from({ length: rows }, () => Array.from({ length: columns }, () => Math.round(10 * normal()) / 10));
}

/** The numbers from 0 to length - 1 in random order (Fisher-Yates); `next` draws uniformly from [0, 1). */
export function shuffled(length: number, next: () => number): number[] {
  const order = Array.from({ length }, (_, i) => i);
  for (let i = length - 1; i > 0; i--) {
    const j = Math.floor(next() * (i + 1));
    [order[i], order[j]] = [order[j]!, order[i]!];
  }
  return order;
}

/** FNV-1a, the seed of a word's vector. */
export function hash(text: string): number {
  let value = 0x811c9dc5;
  for (const character of text) value = Math.imul(value ^ character.codePointAt(0)!, 0x01000193);
  return value >>> 0;
}
