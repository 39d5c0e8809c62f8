/** Where the map shows the texts: in the plane of the encoder's vectors, and in that of what the trained layer makes of them. */
import type { Heed } from 'heed';
import { type Point, principalPlane, projectorOf, turnOf } from '../../../engine/views';
import type { Lesson } from './state';

export interface MapPoints {
  /** [texts] with the text that is tried last: the vectors in the plane of their principal components. */
  before: Point[];
  /** [moments][texts] the logits in the plane of the last moment's principal components. */
  path: Point[][];
  /** The fractions of the variance that the two planes keep. */
  kept: { before: number; after: number };
  /** [moments] how many examples have their own label as the likeliest one. */
  right: number[];
}

export function mapPoints(heed: Heed, { examples, taught, test }: Lesson): MapPoints {
  const tested = test ? [test.tested] : [];
  const { points: before, kept } = principalPlane(heed, [...taught.vectors, ...tested.map(({ vector }) => vector)]);
  const moments = taught.path.map((logits, moment) => [...logits, ...tested.map(({ path }) => path[moment]!)]);
  const last = moments.at(-1)!;
  const after = principalPlane(heed, last);
  const project = projectorOf(last, after.points);
  const turn = turnOf(after.points, before);
  return {
    before,
    path: moments.map((rows) => rows.map((row) => turn(project(row)))),
    kept: { before: kept, after: after.kept },
    right: taught.path.map(
      (logits) =>
        logits.filter((row, i) => row.indexOf(Math.max(...row)) === taught.labels.indexOf(examples[i]!.label)).length,
    ),
  };
}
