/** The places of the dictionary's words, and how they are drawn. */
import { colour, theme } from '../../state/theme';
import { margin, naming, prepared } from './map-canvas';

/** As `demo/measure-map.mjs` writes it: the names of regions with their places, and two hexadecimal digits for each coordinate of each word. */
interface File {
  regions: [name: string, x: number, y: number][];
  places: string;
}

export interface Layout {
  regions: File['regions'];
  /** 0 to 255, for each word. */
  xs: Uint8Array;
  ys: Uint8Array;
}

export interface Size {
  width: number;
  height: number;
}

/** A word that the dictionary finds. */
export interface Found {
  at: number;
  text: string;
  score: number;
}

const highest = 255;

export function read({ regions, places }: File): Layout {
  const total = places.length / 4;
  const [xs, ys] = [new Uint8Array(total), new Uint8Array(total)];
  for (let i = 0; i < total; i++) {
    const both = Number.parseInt(places.slice(4 * i, 4 * i + 4), 16);
    xs[i] = both >> 8;
    ys[i] = both & highest;
  }
  return { regions, xs, ys };
}

/** Places are whole numbers; without a shift of less than one, the words would stand in rows and columns. */
const shift = (at: number, by: number) => ((at * by) % 97) / 97 - 0.5;

const scaled = ({ width, height }: Size, x: number, y: number): [x: number, y: number] => [
  margin + (x / highest) * (width - 2 * margin),
  margin + (y / highest) * (height - 2 * margin),
];

/** The places of all words in pixels, x and y in turn; computed once for each size. */
let placed: { layout: Layout; width: number; height: number; places: Float32Array } | undefined;

function placesOf(layout: Layout, { width, height }: Size): Float32Array {
  if (placed?.layout === layout && placed.width === width && placed.height === height) return placed.places;
  const { xs, ys } = layout;
  const places = new Float32Array(2 * xs.length);
  for (let at = 0; at < xs.length; at++)
    places.set(scaled({ width, height }, xs[at]! + shift(at, 31), ys[at]! + shift(at, 57)), 2 * at);
  placed = { layout, width, height, places };
  return places;
}

/** The place of a word in pixels. */
export function placeIn(layout: Layout, size: Size, at: number): [x: number, y: number] {
  const places = placesOf(layout, size);
  return [places[2 * at]!, places[2 * at + 1]!];
}

/** The words nearest to a point in pixels, and how far they are from it. */
export function nearestTo(
  layout: Layout,
  size: Size,
  x: number,
  y: number,
  total: number,
): { at: number; gap: number }[] {
  const places = placesOf(layout, size);
  const best: { at: number; gap: number }[] = [];
  for (let at = 0; at < layout.xs.length; at++) {
    const gap = Math.hypot(places[2 * at]! - x, places[2 * at + 1]! - y);
    if (best.length === total && gap >= best.at(-1)!.gap) continue;
    best.push({ at, gap });
    best.sort((a, b) => a.gap - b.gap);
    if (best.length > total) best.pop();
  }
  return best;
}

const neighbours = 6;

/** The words beside a word, the nearest first. */
export const neighboursOn = (layout: Layout, size: Size, at: number): number[] =>
  nearestTo(layout, size, ...placeIn(layout, size, at), neighbours + 1)
    .map((other) => other.at)
    .filter((other) => other !== at)
    .slice(0, neighbours);

/** The points that never change, drawn once for each size and theme. */
let ground: { layout: Layout; key: string; picture: HTMLCanvasElement } | undefined;

function groundOf(layout: Layout, { width, height }: Size): HTMLCanvasElement {
  const key = [width, height, devicePixelRatio, theme.peek()].join();
  if (ground?.layout === layout && ground.key === key) return ground.picture;
  const picture = document.createElement('canvas');
  const context = prepared(picture, width, height);
  context.fillStyle = colour('--line-strong');
  context.globalAlpha = 0.55;
  for (let at = 0; at < layout.xs.length; at++) {
    const [x, y] = placeIn(layout, { width, height }, at);
    context.fillRect(x - 0.6, y - 0.6, 1.2, 1.2);
  }
  ground = { layout, key, picture };
  return picture;
}

interface Shown {
  hits: Found[];
  /** The place of the description in pixels; empty without one. */
  ring: Float64Array;
  hovered: number | null;
  words: string[] | null;
}

export function drawWords(canvas: HTMLCanvasElement, layout: Layout, size: Size, shown: Shown): void {
  const { width, height } = size;
  const { hits, ring, hovered, words } = shown;
  const context = prepared(canvas, width, height);
  context.drawImage(groundOf(layout, size), 0, 0, width, height);
  const [ink, muted, paper, near] = ['--ink', '--muted', '--surface', '--near-strong'].map(colour) as [
    string,
    string,
    string,
    string,
  ];
  const [x, y] = ring;
  const best = hits[0]?.score ?? 1;
  context.strokeStyle = context.fillStyle = near;
  for (const { at, score } of hits) {
    const [left, top] = placeIn(layout, size, at);
    context.globalAlpha = 0.3;
    context.beginPath();
    context.moveTo(x!, y!);
    context.lineTo(left, top);
    context.stroke();
    context.globalAlpha = 1;
    context.beginPath();
    context.arc(left, top, 2 + 4 * (score / best) ** 2, 0, 2 * Math.PI);
    context.fill();
  }
  if (hits.length > 0) {
    context.strokeStyle = ink;
    context.lineWidth = 1.5;
    context.beginPath();
    context.arc(x!, y!, 9, 0, 2 * Math.PI);
    context.stroke();
  }
  const { fontFamily } = getComputedStyle(canvas);
  const name = naming(context, width, hits.length > 0 ? [{ left: x! - 10, right: x! + 10, y: y! }] : []);
  context.strokeStyle = paper;
  context.lineWidth = 3;
  context.lineJoin = 'round';
  context.fillStyle = ink;
  context.font = `600 14px ${fontFamily}`;
  if (hovered !== null && words) {
    const around = [hovered, ...neighboursOn(layout, size, hovered)];
    for (const at of around) {
      const [left, top] = placeIn(layout, size, at);
      context.fillRect(left - 2, top - 2, 4, 4);
      name(words[at]!, left, top, at === hovered);
    }
  } else for (const { at, text } of hits) name(text, ...placeIn(layout, size, at));
  context.font = `italic 14px ${fontFamily}`;
  context.fillStyle = muted;
  for (const [region, left, top] of layout.regions) name(region, ...scaled(size, left, top), false, 0);
}
