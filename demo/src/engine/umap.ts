/** A layout in the plane by UMAP (McInnes, Healy, Melville 2018), as umap-js computes it. Downloaded with the map. */
import { UMAP } from 'umap-js';
import { uniform } from './random';

export interface Layout {
  /** Moves the points by one epoch; false when it was the last. */
  step(): boolean;
  /** [points][2] */
  positions(): number[][];
}

/** Starts a layout from each point's nearest ones, itself first, and their distances. The same points get the same layout. */
export function startLayout(neighbours: number[][], distances: number[][]): Layout {
  const umap = new UMAP({ nComponents: 2, nNeighbors: neighbours[0]!.length, minDist: 0.15, random: uniform(1) });
  umap.setPrecomputedKNN(neighbours, distances);
  // Only the number of points counts, since their neighbours are known.
  const epochs = umap.initializeFit(neighbours.map((_, i) => [i]));
  let done = 0;
  return {
    step() {
      umap.step();
      done++;
      return done < epochs;
    },
    positions: () => umap.getEmbedding(),
  };
}
