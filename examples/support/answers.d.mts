import type { TensorInput, TextHit, TextIndex } from 'heed';

/** Whether a word of the dictionary may be offered. */
export function offered(word: string): boolean;

export function nearestWords(
  index: TextIndex,
  description: string,
  query: TensorInput | Float32Array,
  count: number,
): TextHit[];
