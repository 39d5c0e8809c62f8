/** Draws the entries of a matrix, with labels and a legend, on a canvas or in an SVG element. Used by `heed/draw`. */
import { invalid } from '../base/error.js';

/** The members of a canvas's 2D context that are used. */
export interface CanvasContextLike {
  fillStyle: unknown;
  font: string;
  textAlign: string;
  textBaseline: string;
  fillRect(x: number, y: number, width: number, height: number): void;
  fillText(text: string, x: number, y: number): void;
  measureText(text: string): { width: number };
  rotate(angle: number): void;
  setTransform(a: number, b: number, c: number, d: number, e: number, f: number): void;
  createImageData(width: number, height: number): { data: { set(values: ArrayLike<number>): void } };
  putImageData(image: never, x: number, y: number): void;
}

/** An HTMLCanvasElement, an OffscreenCanvas, or a canvas from a Node library. */
export interface CanvasLike {
  width: number;
  height: number;
  getContext(type: '2d'): unknown;
}

/** An SVGSVGElement or another SVG container. */
export interface SvgLike {
  readonly ownerDocument: unknown;
  setAttribute(name: string, value: string): void;
  replaceChildren(...children: never[]): void;
}

/** Red, green and blue, 0 to 255. */
export type Color = readonly [number, number, number];

/** The content to draw. Sizes are in pixels. */
export interface Picture {
  data: Float32Array;
  height: number;
  width: number;
  cell: number;
  decimals?: number;
  legend: boolean;
  rows: readonly string[];
  columns: readonly string[];
  color: Color;
  negativeColor: Color;
  labelColor: string;
  title: string;
  max: number;
  opacity(value: number): number;
}

/** The positions of all parts, which are the same on a canvas and in an SVG. */
interface Layout {
  width: number;
  height: number;
  rects: { x: number; y: number; width: number; height: number; value: number; title: string }[];
  /** `turned`: rotated to read upwards. `isLight`: in a light color, on an opaque square. */
  texts: {
    content: string;
    x: number;
    y: number;
    align: 'start' | 'middle' | 'end';
    turned?: boolean;
    isLight?: boolean;
  }[];
}

const GAP = 6;
/** The number of color steps in a legend. */
const STEPS = 24;

function fontSize({ cell, decimals }: Picture): number {
  const forNumbers = decimals === undefined ? 13 : Math.max(6, Math.round(cell / (0.62 * (decimals + 4))));
  return Math.min(13, Math.round(cell * 0.7), forNumbers);
}

function layoutOf(picture: Picture, widthOf: (label: string) => number): Layout {
  const { data, width, height, cell, decimals, rows, columns } = picture;
  const isBare = cell === 1;
  const longest = (list: readonly string[]) =>
    list.reduce((most, label) => Math.max(most, Math.ceil(widthOf(label)) + GAP), 0);
  const [left, top] = isBare ? [0, 0] : [longest(rows), longest(columns)];
  const layout: Layout = { width: left + width * cell, height: top + height * cell, rects: [], texts: [] };
  const { rects, texts } = layout;
  data.forEach((value, i) => {
    const [row, column] = [Math.floor(i / width), i % width];
    const [x, y] = [left + column * cell, top + row * cell];
    const names = [rows[row], columns[column]].filter((label) => label !== undefined).join(' → ');
    const title = `${names ? `${names}: ` : ''}${Number(value.toPrecision(4))}`;
    rects.push({ x, y, width: cell, height: cell, value, title });
    if (decimals === undefined || isBare) return;
    const isLight = picture.opacity(value) > 0.75;
    texts.push({ content: value.toFixed(decimals), x: x + cell / 2, y: y + cell / 2, align: 'middle', isLight });
  });
  if (isBare) return layout;
  rows.forEach((content, i) => {
    texts.push({ content, x: left - GAP, y: top + (i + 0.5) * cell, align: 'end' });
  });
  columns.forEach((content, i) => {
    texts.push({ content, x: left + (i + 0.5) * cell, y: top - GAP, align: 'start', turned: true });
  });
  if (picture.legend) addLegend(picture, layout, left);
  return layout;
}

/** Adds a bar of the colors from -max, or from 0 if no entry is negative, to max, with these numbers. */
function addLegend(picture: Picture, layout: Layout, left: number): void {
  const { max, data } = picture;
  const font = fontSize(picture);
  const bar = Math.max(picture.width * picture.cell, 8 * font);
  const lowest = data.some((value) => value < 0) ? -max : 0;
  const y = layout.height + 2 * GAP;
  for (let i = 0; i < STEPS; i++) {
    const value = lowest + ((max - lowest) * (i + 0.5)) / STEPS;
    const [x, width] = [left + (bar * i) / STEPS, bar / STEPS];
    layout.rects.push({ x, y, width, height: font, value, title: `${Number(value.toPrecision(2))}` });
  }
  const ends = [[lowest, 0, 'start'], ...(lowest < 0 ? [[0, 0.5, 'middle'] as const] : []), [max, 1, 'end']] as const;
  for (const [value, at, align] of ends)
    layout.texts.push({ content: `${Number(value.toPrecision(3))}`, x: left + at * bar, y: y + 1.8 * font, align });
  layout.width = Math.max(layout.width, left + bar);
  layout.height = Math.ceil(y + 2.5 * font);
}

export function isCanvas(target: unknown): target is CanvasLike {
  return typeof (target as CanvasLike | null)?.getContext === 'function';
}

export function isSvg(target: unknown): target is SvgLike {
  return (
    typeof (target as SvgLike | null)?.replaceChildren === 'function' &&
    (target as { namespaceURI?: string }).namespaceURI === SVG
  );
}

export function drawOnCanvas(canvas: CanvasLike, picture: Picture): void {
  const { data, width, height, cell } = picture;
  const context = canvas.getContext('2d') as CanvasContextLike | null;
  if (!context) throw invalid('draw: target', 'a canvas with a 2D context', 'a canvas without one', 'UNSUPPORTED');
  if (cell === 1) {
    canvas.width = width;
    canvas.height = height;
    if (data.length === 0) return;
    const image = context.createImageData(width, height);
    const pixels = new Uint8ClampedArray(4 * data.length);
    data.forEach((value, i) => pixels.set([...colorOf(picture, value), 255 * picture.opacity(value)], 4 * i));
    image.data.set(pixels);
    context.putImageData(image as never, 0, 0);
    return;
  }
  // On high-density screens, physical pixels are smaller than CSS pixels.
  const density = (globalThis as { devicePixelRatio?: number }).devicePixelRatio ?? 1;
  const font = `${fontSize(picture)}px system-ui, sans-serif`;
  context.font = font;
  const layout = layoutOf(picture, (label) => context.measureText(label).width);
  canvas.width = Math.max(1, Math.round(layout.width * density)); // this also clears the canvas and resets the context
  canvas.height = Math.max(1, Math.round(layout.height * density));
  const { style } = canvas as { style?: { width: string; height: string } };
  if (style) Object.assign(style, { width: `${layout.width}px`, height: `${layout.height}px` });
  context.setTransform(density, 0, 0, density, 0, 0);
  for (const { x, y, width, height, value } of layout.rects) {
    context.fillStyle = `rgba(${colorOf(picture, value)}, ${picture.opacity(value)})`;
    context.fillRect(x, y, width, height);
  }
  context.font = font;
  context.textBaseline = 'middle';
  for (const { content, x, y, align, turned, isLight } of layout.texts) {
    context.fillStyle = isLight ? '#fff' : picture.labelColor;
    context.textAlign = align === 'middle' ? 'center' : align;
    context.setTransform(density, 0, 0, density, density * x, density * y);
    if (turned) context.rotate(-Math.PI / 2);
    context.fillText(content, 0, 0);
  }
  context.setTransform(1, 0, 0, 1, 0, 0);
}

const SVG = 'http://www.w3.org/2000/svg';

interface SvgNode {
  textContent: string | null;
  setAttribute(name: string, value: string): void;
  append(...children: SvgNode[]): void;
}

export function drawAsSvg(svg: SvgLike, picture: Picture): void {
  const owner = svg.ownerDocument as { createElementNS(namespace: string, name: string): SvgNode };
  const make = (name: string, attributes: Record<string, string | number>, content = ''): SvgNode => {
    const node = owner.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, String(value));
    if (content) node.textContent = content;
    return node;
  };
  const font = fontSize(picture);
  // Text cannot be measured before it is shown. 0.62 em exceeds the average width in proportional fonts.
  const { width, height, rects, texts } = layoutOf(picture, (label) => [...label].length * font * 0.62);
  const nodes = rects.map(({ title, value, ...place }) => {
    const opacity = Number(picture.opacity(value).toFixed(4));
    const rect = make('rect', { ...place, fill: `rgb(${colorOf(picture, value)})`, 'fill-opacity': opacity });
    rect.append(make('title', {}, title));
    return rect;
  });
  for (const { content, x, y, align, turned, isLight } of texts) {
    const attributes = {
      ...{ x, y, 'font-size': font, 'dominant-baseline': 'middle', fill: isLight ? '#fff' : 'currentColor' },
      ...(align !== 'start' && { 'text-anchor': align }),
      ...(turned && { transform: `rotate(-90 ${x} ${y})` }),
    };
    nodes.push(make('text', attributes, content));
  }
  const attributes = { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': picture.title };
  for (const [key, value] of Object.entries(attributes)) svg.setAttribute(key, String(value));
  svg.replaceChildren(...(nodes as never[]));
}

function colorOf({ color, negativeColor }: Picture, value: number): Color {
  return value < 0 ? negativeColor : color;
}
