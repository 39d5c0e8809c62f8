/** How a recorded run is written: one head’s weights in 64 steps, every few training steps. */

export interface Recording {
  layer: number;
  head: number;
  /** Tokens per side of a map. */
  length: number;
  /** Training steps between two maps. */
  every: number;
  /** In thousandths, for each map. */
  accuracies: number[];
  /** A character per weight, a text per map. */
  maps: string[];
}

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

export const written = (weights: Float32Array): string =>
  Array.from(weights, (weight) => alphabet[Math.round(63 * Math.min(1, weight))]!).join('');

/** Weights in [0, 1]. */
export const read = (map: string): Float32Array =>
  Float32Array.from(map, (character) => alphabet.indexOf(character) / 63);
