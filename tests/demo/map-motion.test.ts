/** How the points of the map on “Meaning” move towards the query. */
import { similarity } from 'heed';
import { describe, expect, it } from 'vitest';
import { uniform } from '../../demo/src/engine/random';
import { orderOf, placed, scoresOf, sharesOf } from '../../demo/src/pages/meaning/map-motion';

const draw = uniform(7);
const unit = (): number[] => {
  const row = Array.from({ length: 8 }, () => draw() - 0.5);
  const length = Math.hypot(...row);
  return row.map((entry) => entry / length);
};
const rows = Array.from({ length: 40 }, unit);
const query = unit();
const places = rows.map(([x, y]) => [100 * x!, 100 * y!]);
const scores = scoresOf(Float32Array.from(rows.flat()), Float32Array.from(query), rows.length)!;
const order = orderOf(scores);
const shares = sharesOf(scores, order);
const placeIn = (moved: Float64Array, i: number) => [moved[2 * i]!, moved[2 * i + 1]!] as const;
const distance = (a: readonly number[], b: readonly number[]) => Math.hypot(a[0]! - b[0]!, a[1]! - b[1]!);

describe('the points of the map', () => {
  it('have the cosines that the library computes', () => {
    const [expected] = similarity([query], rows).toArray<number[][]>();
    for (const [i, score] of scores.entries()) expect(score).toBeCloseTo(expected![i]!, 6);
    expect(scoresOf(Float32Array.from(rows.flat()), new Float32Array(7), rows.length)).toBeNull();
  });

  it('go towards the query on a straight line, the more similar ones by a larger share of the way', () => {
    const moved = placed(places, shares, order);
    const at = placeIn(moved, rows.length);
    const gone = places.map((place, i) => 1 - distance(placeIn(moved, i), at) / distance(place, at));
    for (const [rank, i] of order.entries()) {
      if (rank > 0) expect(gone[i]!).toBeGreaterThanOrEqual(gone[order[rank - 1]!]! - 1e-9);
      if (rank <= rows.length / 2) expect(placeIn(moved, i)).toEqual(places[i]);
      const [x, y] = placeIn(moved, i);
      const [from, to] = [places[i]!, at];
      expect((x - from[0]!) * (to[1] - from[1]!)).toBeCloseTo((y - from[1]!) * (to[0] - from[0]!), 6);
    }
    expect(gone[order.at(-1)!]).toBeCloseTo(0.75, 9);
  });

  it('stay where they are without a query, or if all are equally similar', () => {
    expect([...placed(places, null, order)].slice(0, -2)).toEqual(places.flat());
    const same = new Float32Array(rows.length).fill(0.5);
    expect([...placed(places, sharesOf(same, orderOf(same)), orderOf(same))].slice(0, -2)).toEqual(places.flat());
    expect([...placed([], null, [])]).toEqual([0, 0]);
  });
});
