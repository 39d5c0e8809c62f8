/** Draws attention weights and matrices on a canvas or into an SVG element. A separate entry, `heed/draw`, so that pages that draw nothing do not download it. */
import { describe, formatShape, invalid } from './error.js';
import { count, flag, listOf, optional, positive, readOptions, size, text } from './options.js';
import { readTensor, type TensorInput, type TensorLike } from './tensor.js';

/** A 2D context of a canvas, as far as it is used. */
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

/** An HTMLCanvasElement, an OffscreenCanvas, or a canvas of a library for Node. */
export interface CanvasLike {
  width: number;
  height: number;
  getContext(type: '2d'): unknown;
}

/** An SVGSVGElement, or another SVG container. */
export interface SvgLike {
  readonly ownerDocument: unknown;
  setAttribute(name: string, value: string): void;
  replaceChildren(...children: never[]): void;
}

/** Red, green and blue, 0 to 255. */
export type Color = readonly [number, number, number];

export interface DrawOptions {
  /** The width and height of an entry in pixels. Default 18, with `decimals` 40. With 1, nothing but the entries is drawn, one pixel each, to be enlarged by CSS. */
  cell?: number;
  /** Writes each entry's number into its square, with this many decimals. Default: no numbers. */
  decimals?: number;
  /** Whether to draw the colors and what they stand for below the entries. Default false. */
  legend?: boolean;
  /** The color of positive entries; those of smaller magnitude are more transparent. Default blue. */
  color?: Color;
  /** The color of negative entries. Default orange. */
  negativeColor?: Color;
  /** The color of the labels on a canvas. Default '#555'; in an SVG, labels have the color of the text around it. */
  labelColor?: string;
  /** The accessible name of an SVG. Default: what is drawn and its shape. */
  title?: string;
}

export interface MatrixOptions extends DrawOptions {
  /** One label per row. */
  rows?: readonly string[];
  /** One label per column. */
  columns?: readonly string[];
  /** The magnitude that is drawn without transparency. Default: the largest one. */
  max?: number;
  /** The exponent of magnitude / max; below 1, small entries are easier to see. Default 1. */
  gamma?: number;
}

export interface AttentionDrawOptions extends DrawOptions {
  /** The layer, from 0. Default: the last. */
  layer?: number;
  /** The head, from 0. Default: the mean of all heads. */
  head?: number;
  /** Which text of the batch. Default 0. */
  index?: number;
  /** The tokens of the keys, if they are not those of the queries. */
  keys?: readonly string[];
}

const color = (value: unknown, name: string): Color => {
  const list = Array.isArray(value) ? (value as unknown[]) : [];
  if (list.length !== 3 || !list.every((part) => typeof part === 'number' && part >= 0 && part <= 255))
    throw invalid(name, 'red, green and blue from 0 to 255', describe(value));
  return list as unknown as Color;
};
const decimals = (value: unknown, name: string): number => {
  if (count(value, name) > 10) throw invalid(name, 'an integer from 0 to 10', describe(value));
  return value as number;
};
const labels = listOf(text, 'an array of texts');

const drawSchema = {
  cell: optional(size, undefined),
  decimals: optional(decimals, undefined),
  legend: optional(flag, false),
  color: optional(color, [37, 99, 235] as const),
  negativeColor: optional(color, [217, 95, 2] as const),
  labelColor: optional(text, '#555'),
  title: optional(text, undefined),
};
const matrixSchema = {
  ...drawSchema,
  rows: optional(labels, undefined),
  columns: optional(labels, undefined),
  max: optional(positive, undefined),
  gamma: optional(positive, 1),
};
const attentionSchema = {
  ...drawSchema,
  layer: optional(count, undefined),
  head: optional(count, undefined),
  index: optional(count, 0),
  keys: optional(labels, undefined),
};

/**
 * Draws a matrix [rows, columns] as a table of colored squares, for example the queries of one head. The canvas is resized and cleared; the contents of the SVG element are
 * replaced, and each square has a tooltip with its value.
 *
 * @example
 * const { projections, tokens } = await model.encode(text, { outputProjections: true });
 * matrix(canvas, projections.queries[0].at(0, 2), { rows: tokens[0] });
 * @throws HeedError SHAPE_MISMATCH if `values` is not a matrix or the labels do not fit
 */
export function matrix(target: CanvasLike | SvgLike, values: TensorInput, options: MatrixOptions = {}): void {
  const read = readOptions('draw.matrix', matrixSchema, options);
  const { data, shape } = readTensor('draw.matrix: values', values);
  if (shape.length !== 2)
    throw invalid('draw.matrix: values', '[rows, columns]', `shape ${formatShape(shape)}`, 'SHAPE_MISMATCH');
  const [height, width] = shape as [number, number];
  for (const [name, list, extent] of [
    ['rows', read.rows, height],
    ['columns', read.columns, width],
  ] as const)
    if (list && list.length !== extent)
      throw invalid(`draw.matrix.${name}`, `${extent} labels`, `${list.length}`, 'SHAPE_MISMATCH');
  const max =
    read.max ??
    (data.reduce((largest, value) => (Number.isFinite(value) ? Math.max(largest, Math.abs(value)) : largest), 0) || 1);
  const picture: Picture = {
    ...read,
    cell: read.cell ?? (read.decimals === undefined ? 18 : 40),
    data,
    height,
    width,
    rows: read.rows ?? [],
    columns: read.columns ?? [],
    max,
    title: read.title ?? `Matrix of ${height} rows and ${width} columns`,
    // NaN is drawn like 0.
    opacity: (value) => Math.min(1, Math.abs(value) / max || 0) ** read.gamma,
  };
  if (isCanvas(target)) drawOnCanvas(target, picture);
  else if (isSvg(target)) drawAsSvg(target, picture);
  else throw invalid('draw: target', 'a canvas or an SVG element', describe(target));
}

/**
 * Draws the attention weights of one head, or the mean of a layer's heads: one row per query, one column per key.
 *
 * @param attentions as `encode` returns them, one tensor [N,H,L,L] per layer, or one tensor [N,H,L,S], [H,L,S] or [L,S], as layers return them
 * @param tokens those of the queries: `tokens` as `encode` returns it, or the list of one text. Rows and columns beyond them, which are padding, are left out
 * @example
 * const { attentions, tokens } = await model.encode(text, { outputAttentions: true });
 * attention(document.querySelector('canvas'), attentions, tokens, { layer: 2, head: 0 });
 * @throws HeedError INVALID_ARGUMENT for a layer, head or text that does not exist
 */
export function attention(
  target: CanvasLike | SvgLike,
  attentions: TensorInput | readonly TensorLike[],
  tokens: readonly string[] | readonly (readonly string[])[],
  options: AttentionDrawOptions = {},
): void {
  const name = 'draw.attention';
  const { layer, head, index, keys, ...drawing } = readOptions(name, attentionSchema, options);
  const layers = isList(attentions) ? attentions : [attentions as TensorInput];
  const at = layer ?? layers.length - 1;
  const { data, shape } = readTensor(`${name}: attentions`, entry(`${name}.layer`, layers, at));
  if (shape.length < 2 || shape.length > 4)
    throw invalid(
      `${name}: attentions`,
      'shape [N, H, L, S], [H, L, S] or [L, S]',
      formatShape(shape),
      'SHAPE_MISMATCH',
    );
  const [texts, heads, length, width] = [...new Array<number>(4 - shape.length).fill(1), ...shape] as [
    number,
    number,
    number,
    number,
  ];
  within(`${name}.index`, index, texts);
  if (head !== undefined) within(`${name}.head`, head, heads);
  const queries = labels(
    Array.isArray(tokens?.[0]) ? entry<unknown>(`${name}.index`, tokens, index) : tokens,
    `${name}: tokens`,
  );
  const columns = keys ?? queries;
  for (const [axis, list, extent] of [
    ['tokens', queries, length],
    ['keys', columns, width],
  ] as const)
    if (list.length > extent)
      throw invalid(`${name}: ${axis}`, `at most ${extent} tokens`, `${list.length}`, 'SHAPE_MISMATCH');
  const first = head ?? 0;
  const last = head ?? heads - 1;
  const weights = new Float32Array(queries.length * columns.length);
  for (let h = first; h <= last; h++)
    for (let i = 0; i < queries.length; i++)
      for (let j = 0; j < columns.length; j++)
        weights[i * columns.length + j]! += data[((index * heads + h) * length + i) * width + j]! / (last - first + 1);
  const what = head === undefined ? 'mean attention' : `attention of head ${head}`;
  const title = `${what[0]!.toUpperCase()}${what.slice(1)}${layers.length > 1 ? ` in layer ${at}` : ''}: ${queries.length} tokens to ${columns.length}`;
  matrix(
    target,
    { data: weights, shape: [queries.length, columns.length] },
    // Most weights are small.
    { ...drawing, title: drawing.title ?? title, rows: queries, columns, max: 1, gamma: 0.6 },
  );
}

/** Whether these are the layers' tensors rather than nested numbers. */
function isList(attentions: unknown): attentions is readonly TensorLike[] {
  return Array.isArray(attentions) && typeof attentions[0] === 'object' && 'data' in (attentions[0] as object);
}

function within(name: string, value: number, extent: number): void {
  if (value >= extent) throw invalid(name, `an integer from 0 to ${extent - 1}`, `${value}`);
}

function entry<T>(name: string, list: readonly T[], index: number): T {
  within(name, index, list.length);
  return list[index]!;
}

/** What is drawn; measures in pixels. */
interface Picture {
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

/** Where everything is, the same on a canvas and in an SVG. */
interface Layout {
  width: number;
  height: number;
  rects: { x: number; y: number; width: number; height: number; value: number; title: string }[];
  /** `turned`: upwards. `isLight`: on an opaque square. */
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
/** The steps of a legend. */
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

/** A bar of the colors from -max, or from 0 if no entry is negative, to max, and these numbers. */
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

function isCanvas(target: unknown): target is CanvasLike {
  return typeof (target as CanvasLike | null)?.getContext === 'function';
}

function isSvg(target: unknown): target is SvgLike {
  return (
    typeof (target as SvgLike | null)?.replaceChildren === 'function' &&
    (target as { namespaceURI?: string }).namespaceURI === SVG
  );
}

function drawOnCanvas(canvas: CanvasLike, picture: Picture): void {
  const { data, width, height, cell } = picture;
  const context = canvas.getContext('2d') as CanvasContextLike | null;
  if (!context) throw invalid('draw: target', 'a canvas that has a 2D context', 'one that does not', 'UNSUPPORTED');
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
  // Physical pixels are smaller than CSS's on dense screens.
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

function drawAsSvg(svg: SvgLike, picture: Picture): void {
  const owner = svg.ownerDocument as { createElementNS(namespace: string, name: string): SvgNode };
  const make = (name: string, attributes: Record<string, string | number>, content = ''): SvgNode => {
    const node = owner.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, String(value));
    if (content) node.textContent = content;
    return node;
  };
  const font = fontSize(picture);
  // Text cannot be measured before it is shown; 0.62 em is wider than the average of proportional fonts.
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
