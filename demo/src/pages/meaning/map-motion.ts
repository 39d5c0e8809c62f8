/** Where the points of the map are: as UMAP has laid them out, and moved towards the query by their similarity to it. */

/** The nearest ones, by which the query is placed. */
const near = 15;
/** The share of the way to the query that the nearest one goes. */
const mostPull = 0.75;

/** The cosine of each row of `data` with the query; null if their lengths differ, as the dictionary's vectors may be shorter than those of the map. All have length 1. */
export function scoresOf(data: Float32Array, query: Float32Array, rows: number): Float32Array | null {
  const width = data.length / rows;
  if (query.length !== width) return null;
  return Float32Array.from({ length: rows }, (_, row) => {
    let dot = 0;
    for (let i = 0; i < width; i++) dot += data[row * width + i]! * query[i]!;
    return dot;
  });
}

/** The points' indices, the least similar first. */
export const orderOf = (scores: Float32Array): number[] => [...scores.keys()].sort((a, b) => scores[a]! - scores[b]!);

/** For each point, how much its score stands out: 0 for the median and below, 1 for the best, and the square of the linear interpolation between them. */
export function sharesOf(scores: Float32Array, order: number[]): number[] {
  const middle = scores[order[order.length >> 1]!]!;
  const range = Math.max(1e-6, scores[order.at(-1)!]! - middle);
  return Array.from(scores, (score) => Math.max(0, (score - middle) / range) ** 2);
}

/**
 * The points' places, x and y in turn, and at the end the query's: the mean of its nearest points, weighted by their shares. Each point moves towards it by
 * its share. Without shares, the points stay, and the last place is the first point's.
 */
export function placed(places: readonly (readonly number[])[], shares: number[] | null, order: number[]): Float64Array {
  const moved = new Float64Array(2 * places.length + 2);
  const nearest = order.slice(-near);
  const weights = nearest.map((i) => shares?.[i] ?? 0);
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  for (const axis of [0, 1]) {
    const query =
      total > 0
        ? nearest.reduce((sum, i, n) => sum + weights[n]! * places[i]![axis]!, 0) / total
        : (places[0]?.[axis] ?? 0);
    for (const [i, place] of places.entries())
      moved[2 * i + axis] = place[axis]! + mostPull * (shares?.[i] ?? 0) * (query - place[axis]!);
    moved[2 * places.length + axis] = query;
  }
  return moved;
}
