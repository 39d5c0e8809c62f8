/** Draws the map of the document on a canvas. */
import { short } from '../../components/numbers';
import { colour, heatColour } from '../../state/theme';
import { naming, prepared } from './map-canvas';
import type { Points } from './map-state';

export interface Scene {
  width: number;
  height: number;
  points: Points;
  /** The least similar to the query first; without a query, as they are. */
  order: number[];
  /** How similar each point is to the query, 0 to 1; null without a query. */
  shares: number[] | null;
  hovered: number | null;
}

/** Names that are drawn: of the texts nearest to the query; without one, of every 60th. */
const named = 10;
const everyName = 60;
/** Points that are less similar look alike. */
const minShare = 0.12;

/** `now` has the places of the points and of the query, as map-motion.ts computes them. */
export function draw(canvas: HTMLCanvasElement, scene: Scene | null, width: number, height: number, now: Float64Array) {
  const context = prepared(canvas, width, height);
  if (!scene) return;
  const { points, order, shares, hovered } = scene;
  const placeOf = (i: number) => [now[2 * i]!, now[2 * i + 1]!] as const;
  const [muted, ink, paper] = ['--line-strong', '--ink', '--surface'].map(colour) as [string, string, string];
  const shareOf = (i: number) => shares?.[i] ?? 0;
  // One path for all that look alike, because there are hundreds.
  context.globalAlpha = 0.4;
  context.fillStyle = muted;
  context.beginPath();
  for (const i of order) {
    if (shareOf(i) > minShare) continue;
    const [x, y] = placeOf(i);
    context.moveTo(x + 2.4, y);
    context.arc(x, y, 2.4, 0, 2 * Math.PI);
  }
  context.fill();
  context.fillStyle = `rgb(${heatColour.peek()})`;
  for (const i of order) {
    const share = shareOf(i);
    if (share <= minShare) continue;
    context.globalAlpha = 0.35 + 0.65 * share;
    context.beginPath();
    context.arc(...placeOf(i), 2.2 + 4 * share, 0, 2 * Math.PI);
    context.fill();
  }
  context.globalAlpha = 1;
  context.strokeStyle = ink;
  if (shares) {
    context.lineWidth = 1.5;
    context.beginPath();
    context.arc(...placeOf(points.texts.length), 9, 0, 2 * Math.PI);
    context.stroke();
  }
  const others = hovered === null ? [] : points.nearest[hovered]!.slice(0, 5).map(({ index }) => index);
  context.lineWidth = 1;
  for (const to of others) {
    context.beginPath();
    context.moveTo(...placeOf(hovered!));
    context.lineTo(...placeOf(to));
    context.stroke();
  }
  const best = shares ? order.slice(-named).reverse() : order.filter((_, i) => i % everyName === 0);
  const names = hovered === null ? best : [hovered, ...others];
  context.font = `13px ${getComputedStyle(canvas).fontFamily}`;
  context.lineWidth = 3;
  context.strokeStyle = paper;
  context.fillStyle = ink;
  const name = naming(context, width);
  for (const i of names) name(short(points.texts[i]!, 34), ...placeOf(i), i === hovered);
}
