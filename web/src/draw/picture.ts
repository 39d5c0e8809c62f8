/** A matrix as a table of colored squares, with labels and a legend. */
import { type CanvasLike, type Color, contextOf, type Drawing, drawOn, isCanvas, type SvgLike } from './surface.js';

/** The content to draw. Sizes are in pixels. */
export interface Picture {
  data: Float32Array;
  height: number;
  width: number;
  cell: number;
  decimals?: number | undefined;
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

const GAP = 6;
/** The number of color steps in a legend. */
const STEPS = 24;

function fontSize({ cell, decimals }: Picture): number {
  const forNumbers = decimals === undefined ? 13 : Math.max(6, Math.round(cell / (0.62 * (decimals + 4))));
  return Math.min(13, Math.round(cell * 0.7), forNumbers);
}

function drawingOf(picture: Picture, widthOf: (label: string) => number): Drawing {
  const { data, width, height, cell, decimals, rows, columns } = picture;
  const isBare = cell === 1;
  const longest = (list: readonly string[]) =>
    list.reduce((most, label) => Math.max(most, Math.ceil(widthOf(label)) + GAP), 0);
  const [left, top] = isBare ? [0, 0] : [longest(rows), longest(columns)];
  const drawing: Drawing = {
    width: left + width * cell,
    height: top + height * cell,
    title: picture.title,
    fontSize: fontSize(picture),
    labelColor: picture.labelColor,
    rects: [],
    lines: [],
    texts: [],
  };
  const { rects, texts } = drawing;
  data.forEach((value, i) => {
    const [row, column] = [Math.floor(i / width), i % width];
    const [x, y] = [left + column * cell, top + row * cell];
    const names = [rows[row], columns[column]].filter((label) => label !== undefined).join(' → ');
    const title = `${names ? `${names}: ` : ''}${Number(value.toPrecision(4))}`;
    rects.push({ x, y, width: cell, height: cell, ...fillOf(picture, value), title });
    if (decimals === undefined || isBare) return;
    const isLight = picture.opacity(value) > 0.75;
    texts.push({ content: value.toFixed(decimals), x: x + cell / 2, y: y + cell / 2, align: 'middle', isLight });
  });
  if (isBare) return drawing;
  rows.forEach((content, i) => {
    texts.push({ content, x: left - GAP, y: top + (i + 0.5) * cell, align: 'end' });
  });
  columns.forEach((content, i) => {
    texts.push({ content, x: left + (i + 0.5) * cell, y: top - GAP, align: 'start', turned: true });
  });
  if (picture.legend) addLegend(picture, drawing, left);
  return drawing;
}

/** Adds a bar of the colors from -max, or from 0 if no entry is negative, to max, with these numbers. */
function addLegend(picture: Picture, drawing: Drawing, left: number): void {
  const { max, data } = picture;
  const font = fontSize(picture);
  const bar = Math.max(picture.width * picture.cell, 8 * font);
  const lowest = data.some((value) => value < 0) ? -max : 0;
  const y = drawing.height + 2 * GAP;
  for (let i = 0; i < STEPS; i++) {
    const value = lowest + ((max - lowest) * (i + 0.5)) / STEPS;
    const [x, width] = [left + (bar * i) / STEPS, bar / STEPS];
    drawing.rects.push({
      x,
      y,
      width,
      height: font,
      ...fillOf(picture, value),
      title: `${Number(value.toPrecision(2))}`,
    });
  }
  const ends = [[lowest, 0, 'start'], ...(lowest < 0 ? [[0, 0.5, 'middle'] as const] : []), [max, 1, 'end']] as const;
  for (const [value, at, align] of ends)
    drawing.texts.push({ content: `${Number(value.toPrecision(3))}`, x: left + at * bar, y: y + 1.8 * font, align });
  drawing.width = Math.max(drawing.width, left + bar);
  drawing.height = Math.ceil(y + 2.5 * font);
}

function fillOf({ color, negativeColor, opacity }: Picture, value: number): { color: Color; opacity: number } {
  return { color: value < 0 ? negativeColor : color, opacity: opacity(value) };
}

/** Draws a picture. At a cell of one pixel, a canvas gets its entries as an image. */
export function drawPicture(target: CanvasLike | SvgLike, picture: Picture): void {
  if (isCanvas(target) && picture.cell === 1) drawPixels(target, picture);
  else drawOn(target, fontSize(picture), (widthOf) => drawingOf(picture, widthOf));
}

function drawPixels(canvas: CanvasLike, picture: Picture): void {
  const { data, width, height } = picture;
  const context = contextOf(canvas);
  canvas.width = width;
  canvas.height = height;
  if (data.length === 0) return;
  const image = context.createImageData(width, height);
  const pixels = new Uint8ClampedArray(4 * data.length);
  data.forEach((value, i) => {
    const { color, opacity } = fillOf(picture, value);
    pixels.set([...color, 255 * opacity], 4 * i);
  });
  image.data.set(pixels);
  context.putImageData(image as never, 0, 0);
}
