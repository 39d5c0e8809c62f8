/**
 * Draws attention weights and matrices on a canvas or into an SVG element. A separate entry, `heed/draw`, so that pages
 * that do not draw do not download it.
 */
import { describe, formatShape, invalid } from '../base/error.js';
import {
  count,
  finite,
  flag,
  listOf,
  optional,
  positive,
  type Reader,
  readOptions,
  size,
  text,
} from '../base/options.js';
import { readTensor, type TensorInput, type TensorLike } from '../base/tensor.js';
import { drawPicture, type Picture } from './picture.js';
import { type CanvasLike, type Color, type SvgLike, SvgText } from './surface.js';

export {
  type BarsOptions,
  bars,
  type ChartOptions,
  type CurvesOptions,
  curves,
  type LinksOptions,
  links,
} from './charts.js';
export type { CanvasContextLike, CanvasLike, Color, SvgLike } from './surface.js';

/** Options of all pictures of matrices. */
export interface DrawOptions {
  /**
   * The width and height of an entry in pixels. Default 18, or 40 with `decimals`. At 1, labels, numbers and the legend
   * are left out, and each entry is one pixel, to be enlarged by CSS.
   */
  cell?: number | undefined;
  /** The number of decimals of the value written into each entry's square, 0 to 10. Default: no values are written. */
  decimals?: number | undefined;
  /** Whether to draw a legend of the colors below the entries. Default false. */
  legend?: boolean | undefined;
  /** The color of positive entries; the smaller the magnitude, the more transparent. Default blue. */
  color?: Color | undefined;
  /** The color of negative entries; the smaller the magnitude, the more transparent. Default orange. */
  negativeColor?: Color | undefined;
  /** The color of labels on a canvas. Default '#555'. In an SVG, labels have the color of the surrounding text. */
  labelColor?: string | undefined;
  /** The accessible name of an SVG. Default: a description of its content and shape. */
  title?: string | undefined;
}

/** Options of `matrix`. */
export interface MatrixOptions extends DrawOptions {
  /** One label per row. */
  rows?: readonly string[] | undefined;
  /** One label per column. */
  columns?: readonly string[] | undefined;
  /** The magnitude that is drawn fully opaque. Default: the maximum magnitude. */
  max?: number | undefined;
  /** The exponent applied to magnitude / max. Values below 1 make small entries easier to see. Default 1. */
  gamma?: number | undefined;
}

/** Options of `attention`. */
export interface AttentionDrawOptions extends DrawOptions {
  /**
   * The weight that is drawn fully opaque: a number, or 'auto' for the largest weight that is drawn, which shows the
   * differences between small weights. Default 1.
   */
  max?: number | 'auto' | undefined;
  /** The exponent applied to weight / max. Values below 1 make small weights easier to see. Default 0.6. */
  gamma?: number | undefined;
  /** The index of the layer. Default: the last layer. */
  layer?: number | undefined;
  /** The index of the head. Default: the mean of all heads. */
  head?: number | undefined;
  /** The index of the text in the batch. Default 0. */
  index?: number | undefined;
  /** The tokens of the keys, if they differ from those of the queries. */
  keys?: readonly string[] | undefined;
}

/** Options of `grid`. */
export interface GridOptions extends DrawOptions {
  /** One label per column, such as the tokens. Default: the column indices, which number the heads. */
  columns?: readonly string[] | undefined;
  /** The metric of the run without intervention, which is subtracted from the values. Default 0. */
  baseline?: number | undefined;
  /** The difference from the baseline that is drawn fully opaque. Default: the maximum difference. */
  max?: number | undefined;
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
const readMax: Reader<number | 'auto'> = (value, name) => (value === 'auto' ? value : positive(value, name));
const attentionSchema = {
  ...drawSchema,
  max: optional(readMax, 1),
  gamma: optional(positive, 0.6),
  layer: optional(count, undefined),
  head: optional(count, undefined),
  index: optional(count, 0),
  keys: optional(labels, undefined),
};

/**
 * Draws a matrix [rows, columns] as a table of colored squares, for example the queries of one head. Resizes and clears
 * the canvas, or replaces the contents of the SVG element, where each square has a tooltip with its value.
 *
 * @example
 * const { projections, tokens } = await model.encode(text, { outputProjections: true });
 * matrix(canvas, projections.queries[0].at(0, 2), { rows: tokens[0] });
 * @throws HeedError SHAPE_MISMATCH if `values` is not a matrix or the number of labels does not match
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
    // NaN is drawn as 0.
    opacity: (value) => Math.min(1, Math.abs(value) / max || 0) ** read.gamma,
  };
  drawPicture(target, picture);
}

/**
 * Returns an SVG element that needs no document, for pictures in Node and in workers. `String(svg())` is the text of an
 * SVG file.
 *
 * @example
 * const target = svg();
 * matrix(target, [[1, 0.5], [0, -1]], { decimals: 1 });
 * await writeFile('matrix.svg', String(target));
 */
export const svg = (): SvgLike => new SvgText();

/**
 * Draws the attention weights of one head, or the mean over a layer's heads: one row per query, one column per key.
 *
 * @param attentions one tensor [N,H,L,L] per layer, as `encode` returns them, or one tensor [N,H,L,S], [H,L,S] or
 * [L,S], as layers return them
 * @param tokens the tokens of the queries: `tokens` as `encode` returns it, or the list of one text. Rows and columns
 * beyond them are padding and are left out
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
  const { layer, head, index, keys, max, ...drawing } = readOptions(name, attentionSchema, options);
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
    { ...drawing, title: drawing.title ?? title, rows: queries, columns, ...(max !== 'auto' && { max }) },
  );
}

const gridSchema = {
  ...drawSchema,
  columns: optional(labels, undefined),
  baseline: optional(finite, 0),
  max: optional(positive, undefined),
};

/**
 * Draws a grid of layers by heads, positions or blocks, as `patchGrid` of heed/lens returns it: the differences from
 * the baseline, one row per layer.
 *
 * @example
 * const values = await patchGrid(model, { clean, corrupted, metric, over: 'heads' });
 * grid(document.querySelector('canvas'), values, { baseline: metric(await model.encode(corrupted)) });
 * @throws HeedError SHAPE_MISMATCH if `values` is not a matrix or the number of labels does not match
 */
export function grid(target: CanvasLike | SvgLike, values: TensorInput, options: GridOptions = {}): void {
  const { baseline, columns, title, ...drawing } = readOptions('draw.grid', gridSchema, options);
  const { data, shape } = readTensor('draw.grid: values', values);
  const [layers = 0, width = 0] = shape;
  if (shape.length !== 2)
    throw invalid('draw.grid: values', '[layers, columns]', `shape ${formatShape(shape)}`, 'SHAPE_MISMATCH');
  if (columns && columns.length !== width)
    throw invalid('draw.grid.columns', `${width} labels`, `${columns.length}`, 'SHAPE_MISMATCH');
  matrix(
    target,
    { data: data.map((value) => value - baseline), shape },
    {
      ...drawing,
      title: title ?? `Grid of ${layers} layers and ${width} columns`,
      rows: Array.from({ length: layers }, (_, layer) => `layer ${layer}`),
      columns: columns ?? Array.from({ length: width }, (_, column) => `${column}`),
    },
  );
}

/** Whether the argument is a list of tensors, one per layer, rather than nested numbers. */
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
