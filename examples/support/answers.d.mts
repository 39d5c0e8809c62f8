import type { TensorInput, TextHit, TextIndex } from 'heed';

export function nearestWords(
  index: TextIndex,
  description: string,
  query: TensorInput | Float32Array,
  count: number,
): TextHit[];
