/** Seeded random numbers, the same in every engine. The platform's generator cannot be seeded. */

/** A random permutation of 0, ..., length - 1 (Fisher-Yates). It depends only on the seed and the stream. */
export function shuffled(length: number, seed: number, stream: number): number[] {
  const random = generator(seed, stream);
  const order = Array.from({ length }, (_, i) => i);
  for (let last = length - 1; last > 0; last--) {
    const other = Math.floor((random() / 2 ** 32) * (last + 1));
    [order[last], order[other]] = [order[other]!, order[last]!];
  }
  return order;
}

/** Returns a generator of 32 random bits per call: SplitMix32, seeded with a mixture of seed and stream. */
export function generator(seed: number, stream: number): () => number {
  let state = [seed >>> 0, Math.floor(seed / 2 ** 32), stream].reduce(
    (mixture, part) => mix((mixture + part + 0x9e3779b9) | 0),
    0,
  );
  return () => {
    state = (state + 0x9e3779b9) | 0;
    return mix(state) >>> 0;
  };
}

/** The finalizer of MurmurHash3 (Appleby), a bijection on 32 bits. */
function mix(value: number): number {
  let h = value;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return h ^ (h >>> 16);
}
