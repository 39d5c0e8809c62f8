/** Curves, bars, and lines between tokens. */

import { describe, formatShape, invalid } from '../base/error.js';
import { maxOf, minOf } from '../base/lists.js';
import { listOf, optional, positive, readOptions, size, text } from '../base/options.js';
import { readTensor, type TensorInput } from '../base/tensor.js';
import { type CanvasLike, type Color, type Drawing, drawOn, type SvgLike } from './surface.js';

/** Options of all charts. */
export interface ChartOptions {
  /** The width in pixels. Default 480. */
  width?: number | undefined;
  /** The height in pixels. Default 240. */
  height?: number | undefined;
  /** The color of texts and axes on a canvas. Default '#555'. In an SVG, they have the color of the surrounding text. */
  labelColor?: string | undefined;
  /** The accessible name of an SVG. Default: a description of its content. */
  title?: string | undefined;
}

/** Options of `curves`. */
export interface CurvesOptions extends ChartOptions {
  /** The label of the horizontal axis. */
  x?: string | undefined;
  /** The label of the vertical axis. */
  y?: string | undefined;
}

/** Options of `bars`. */
export interface BarsOptions extends ChartOptions {
  /** One label per bar. */
  labels?: readonly string[] | undefined;
}

/** Options of `links`. */
export interface LinksOptions {
  /** The tokens of the keys, if they differ from those of the queries. */
  keys?: readonly string[] | undefined;
  /** The minimum weight of a line that is drawn. Default 0.05. */
  threshold?: number | undefined;
  /** The color of the tokens, a CSS color. */
  labelColor?: string | undefined;
  /** The accessible name of an SVG. */
  title?: string | undefined;
}

const [FONT, MARGIN] = [12, 8];
/** Colors that people with color blindness can tell apart (Okabe, Ito 2008). */
const COLORS: readonly Color[] = [
  [0, 114, 178],
  [213, 94, 0],
  [0, 158, 115],
  [204, 121, 167],
  [86, 180, 233],
];
const labels = listOf(text, 'an array of texts');
const chartSchema = {
  width: optional(size, 480),
  height: optional(size, 240),
  labelColor: optional(text, '#555'),
  title: optional(text, undefined),
};

const short = (value: number) => `${Number(value.toPrecision(3))}`;

function numbersOf(name: string, values: unknown): Float32Array {
  const { data, shape } = readTensor(name, values as TensorInput);
  if (shape.length !== 1 || data.length === 0)
    throw invalid(name, 'at least one number, shape [n]', `shape ${formatShape(shape)}`, 'SHAPE_MISMATCH');
  const odd = data.findIndex((value) => !Number.isFinite(value));
  if (odd >= 0) throw invalid(`${name}[${odd}]`, 'a finite number', `${data[odd]}`);
  return data;
}

/**
 * Draws series of numbers as curves over 0, 1, 2, ..., for example the losses that `fit` returns.
 *
 * @param series the values of each curve, by its name, which the legend shows if there are several
 * @example
 * const history = { loss: [1.2, 0.7, 0.5], validation: [1.3, 0.9, 0.8] };
 * curves(document.querySelector('canvas'), history, { x: 'epoch', y: 'loss' });
 * @throws HeedError INVALID_ARGUMENT for values that are not finite
 */
export function curves(
  target: CanvasLike | SvgLike,
  series: Readonly<Record<string, TensorInput>>,
  options: CurvesOptions = {},
): void {
  const schema = { ...chartSchema, x: optional(text, ''), y: optional(text, '') };
  const { width, height, labelColor, title, x, y } = readOptions('draw.curves', schema, options);
  if (typeof series !== 'object' || series === null)
    throw invalid('draw.curves: series', 'an object of numbers by name', describe(series));
  const names = Object.keys(series);
  if (names.length === 0) throw invalid('draw.curves: series', 'at least one series', 'none');
  const values = names.map((name) => numbersOf(`draw.curves: series.${name}`, series[name]));
  const count = maxOf(values.map(({ length }) => length));
  const [low, high] = extent(values.flatMap((each) => [...each]));
  drawOn(target, FONT, (widthOf) => {
    const legend = names.length > 1 ? FONT + MARGIN : 0;
    const left = Math.max(widthOf(short(low)), widthOf(short(high))) + (y ? FONT + MARGIN : 0) + MARGIN;
    const plot = { x: left, y: MARGIN + legend, width: width - left - MARGIN, height: 0 };
    plot.height = height - plot.y - 2 * FONT - (x ? FONT : 0);
    const xAt = (i: number) => plot.x + (count === 1 ? 0.5 : i / (count - 1)) * plot.width;
    const yAt = (value: number) => plot.y + (1 - (value - low) / (high - low)) * plot.height;
    const bottom = plot.y + plot.height;
    const [top, end] = [plot.y, plot.x + plot.width];
    const axis = { color: null, opacity: 0.5, width: 1, title: '' };
    const drawing: Drawing = {
      ...{ width, height, labelColor, fontSize: FONT, rects: [] },
      title: title ?? `Curves of ${names.join(', ')}, from ${short(low)} to ${short(high)}`,
      lines: [{ ...axis, points: [[plot.x, top], [plot.x, bottom], [end, bottom]] }], // biome-ignore format: a corner
      texts: [
        { content: short(high), x: plot.x - MARGIN / 2, y: top, align: 'end' },
        { content: short(low), x: plot.x - MARGIN / 2, y: bottom, align: 'end' },
        { content: '0', x: xAt(0), y: bottom + FONT, align: 'middle' },
        { content: `${count - 1}`, x: end, y: bottom + FONT, align: 'end' },
      ],
    };
    if (x) drawing.texts.push({ content: x, x: plot.x + plot.width / 2, y: height - FONT, align: 'middle' });
    if (y) drawing.texts.push({ content: y, x: FONT, y: plot.y + plot.height / 2, align: 'middle', turned: true });
    let at = plot.x;
    values.forEach((each, n) => {
      const color = COLORS[n % COLORS.length]!;
      const points = Array.from(each, (value, i): [number, number] => [xAt(i), yAt(value)]);
      drawing.lines.push({ points, color, opacity: 1, width: 2, title: names[n]! });
      if (!legend) return;
      drawing.rects.push({ x: at, y: MARGIN, width: FONT, height: FONT, color, opacity: 1, title: names[n]! });
      drawing.texts.push({ content: names[n]!, x: at + FONT + MARGIN / 2, y: MARGIN + FONT / 2, align: 'start' });
      at += FONT + 2 * MARGIN + widthOf(names[n]!);
    });
    return drawing;
  });
}

/** The range of values; a range of one value is widened. */
function extent(values: readonly number[]): [number, number] {
  const [low, high] = values.reduce(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [Infinity, -Infinity]);
  return low! < high! ? [low!, high!] : [low! - 1, high! + 1];
}

/**
 * Draws numbers as bars, for example the attention weights of one query. Negative numbers have another color.
 *
 * @example
 * bars(document.querySelector('canvas'), [0.7, 0.2, 0.1], { labels: ['the', 'quick', 'fox'] });
 * @throws HeedError SHAPE_MISMATCH if the number of labels does not match
 */
export function bars(target: CanvasLike | SvgLike, values: TensorInput, options: BarsOptions = {}): void {
  const schema = { ...chartSchema, labels: optional(labels, undefined) };
  const { width, height, labelColor, title, labels: names = [] } = readOptions('draw.bars', schema, options);
  const data = numbersOf('draw.bars: values', values);
  if (names.length > 0 && names.length !== data.length)
    throw invalid('draw.bars.labels', `${data.length} labels`, `${names.length}`, 'SHAPE_MISMATCH');
  const [low, high] = extent([0, ...data]);
  drawOn(target, FONT, () => {
    const room = { top: 2 * FONT, bottom: names.length > 0 ? 2 * FONT : MARGIN };
    const step = width / data.length;
    const yAt = (value: number) => room.top + ((high - value) / (high - low)) * (height - room.top - room.bottom);
    const drawing: Drawing = {
      ...{ width, height, labelColor, fontSize: FONT, rects: [], texts: [] },
      title: title ?? `${data.length} bars from ${short(minOf(data))} to ${short(maxOf(data))}`,
      lines: [{ points: [[0, yAt(0)], [width, yAt(0)]], color: null, opacity: 0.5, width: 1, title: '' }], // biome-ignore format: a line
    };
    data.forEach((value, i) => {
      const [y, end] = value < 0 ? [yAt(0), yAt(value)] : [yAt(value), yAt(0)];
      const place = { x: (i + 0.15) * step, y, width: 0.7 * step, height: end - y };
      const name = names[i] === undefined ? '' : `${names[i]}: `;
      const color = COLORS[value < 0 ? 1 : 0]!;
      drawing.rects.push({ ...place, color, opacity: 1, title: `${name}${short(value)}` });
      const middle = (i + 0.5) * step;
      drawing.texts.push({ content: short(value), x: middle, y: yAt(Math.max(0, value)) - FONT, align: 'middle' });
      if (name) drawing.texts.push({ content: names[i]!, x: middle, y: height - FONT, align: 'middle' });
    });
    return drawing;
  });
}

/**
 * Draws attention weights as lines from the tokens of the queries, on the left, to those of the keys, on the right. The
 * larger a weight, the more opaque its line.
 *
 * @param weights [L,S], for example `attentions[layer].at(text, head)`
 * @example
 * links(document.querySelector('canvas'), [[0.9, 0.1], [0.2, 0.8]], ['a', 'fox']);
 * @throws HeedError SHAPE_MISMATCH if `weights` is not a matrix with a row per token
 */
export function links(
  target: CanvasLike | SvgLike,
  weights: TensorInput,
  tokens: readonly string[],
  options: LinksOptions = {},
): void {
  const schema = {
    keys: optional(labels, undefined),
    threshold: optional(positive, 0.05),
    labelColor: chartSchema.labelColor,
    title: chartSchema.title,
  };
  const { keys, threshold, labelColor, title } = readOptions('draw.links', schema, options);
  const { data, shape } = readTensor('draw.links: weights', weights);
  const queries = labels(tokens, 'draw.links: tokens');
  const others = keys ?? queries;
  const expected = formatShape([queries.length, others.length]);
  if (formatShape(shape) !== expected)
    throw invalid('draw.links: weights', `shape ${expected}, tokens and keys`, formatShape(shape), 'SHAPE_MISMATCH');
  drawOn(target, FONT, (widthOf) => {
    const widest = (list: readonly string[]) => maxOf([0, ...list.map(widthOf)]) + MARGIN;
    const [left, gap, row] = [widest(queries), 140, 1.7 * FONT];
    const yAt = (i: number) => (i + 0.75) * row;
    const drawing: Drawing = {
      width: left + gap + widest(others),
      height: (Math.max(queries.length, others.length) + 0.5) * row,
      title: title ?? `Attention of ${queries.length} tokens to ${others.length}`,
      ...{ labelColor, fontSize: FONT, rects: [], lines: [] },
      texts: [
        ...queries.map((content, i) => ({ content, x: left - MARGIN / 2, y: yAt(i), align: 'end' as const })),
        ...others.map((content, i) => ({ content, x: left + gap + MARGIN / 2, y: yAt(i), align: 'start' as const })),
      ],
    };
    queries.forEach((query, i) => {
      others.forEach((key, j) => {
        const weight = data[i * others.length + j]!;
        if (!(weight >= threshold)) return;
        const points: [number, number][] = [
          [left, yAt(i)],
          [left + gap, yAt(j)],
        ];
        const opacity = Math.min(1, weight);
        drawing.lines.push({
          points,
          color: COLORS[0]!,
          opacity,
          width: 2,
          title: `${query} → ${key}: ${short(weight)}`,
        });
      });
    });
    return drawing;
  });
}
