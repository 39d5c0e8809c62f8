/** Draws rectangles, lines and texts on a canvas or in an SVG element. */
import { describe, invalid } from '../base/error.js';

/** The members of a canvas's 2D context that are used. */
export interface CanvasContextLike {
  fillStyle: unknown;
  font: string;
  textAlign: string;
  textBaseline: string;
  strokeStyle: unknown;
  lineWidth: number;
  fillRect(x: number, y: number, width: number, height: number): void;
  fillText(text: string, x: number, y: number): void;
  measureText(text: string): { width: number };
  beginPath(): void;
  moveTo(x: number, y: number): void;
  lineTo(x: number, y: number): void;
  stroke(): void;
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

/** What to draw. Sizes are in pixels. */
export interface Drawing {
  width: number;
  height: number;
  /** The accessible name of an SVG. */
  title: string;
  fontSize: number;
  /** The color of texts on a canvas; in an SVG, they have the color of the surrounding text. */
  labelColor: string;
  rects: { x: number; y: number; width: number; height: number; color: Color; opacity: number; title: string }[];
  lines: { points: [x: number, y: number][]; color: Color | null; opacity: number; width: number; title: string }[];
  /** `turned`: rotated to read upwards. `isLight`: in a light color, on an opaque square. */
  texts: {
    content: string;
    x: number;
    y: number;
    align: 'start' | 'middle' | 'end';
    turned?: boolean | undefined;
    isLight?: boolean | undefined;
  }[];
}

const SVG = 'http://www.w3.org/2000/svg';

export function isCanvas(target: unknown): target is CanvasLike {
  return typeof (target as CanvasLike | null)?.getContext === 'function';
}

function isSvg(target: unknown): target is SvgLike {
  return (
    typeof (target as SvgLike | null)?.replaceChildren === 'function' &&
    (target as { namespaceURI?: string | undefined }).namespaceURI === SVG
  );
}

/** Draws on a canvas or into an SVG element. `draw` receives a function that measures a text's width in pixels. */
export function drawOn(
  target: CanvasLike | SvgLike,
  fontSize: number,
  draw: (widthOf: (label: string) => number) => Drawing,
): void {
  if (isCanvas(target)) onCanvas(target, fontSize, draw);
  else if (isSvg(target))
    inSvg(
      target,
      draw((label) => [...label].length * fontSize * 0.62),
    );
  else throw invalid('draw: target', 'a canvas or an SVG element', describe(target));
}

/** @throws HeedError UNSUPPORTED if the canvas has no 2D context */
export function contextOf(canvas: CanvasLike): CanvasContextLike {
  const context = canvas.getContext('2d') as CanvasContextLike | null;
  if (context) return context;
  throw invalid('draw: target', 'a canvas with a 2D context', 'a canvas without one', 'UNSUPPORTED');
}

function onCanvas(canvas: CanvasLike, fontSize: number, draw: (widthOf: (label: string) => number) => Drawing): void {
  const context = contextOf(canvas);
  // On high-density screens, physical pixels are smaller than CSS pixels.
  const density = (globalThis as { devicePixelRatio?: number | undefined }).devicePixelRatio ?? 1;
  const font = `${fontSize}px system-ui, sans-serif`;
  context.font = font;
  const drawing = draw((label) => context.measureText(label).width);
  canvas.width = Math.max(1, Math.round(drawing.width * density)); // this also clears the canvas and resets the context
  canvas.height = Math.max(1, Math.round(drawing.height * density));
  const { style } = canvas as { style?: { width: string; height: string } | undefined };
  if (style) Object.assign(style, { width: `${drawing.width}px`, height: `${drawing.height}px` });
  context.setTransform(density, 0, 0, density, 0, 0);
  for (const { x, y, width, height, color, opacity } of drawing.rects) {
    context.fillStyle = `rgba(${color}, ${opacity})`;
    context.fillRect(x, y, width, height);
  }
  for (const { points, color, opacity, width } of drawing.lines) {
    context.strokeStyle = color ? `rgba(${color}, ${opacity})` : drawing.labelColor;
    context.lineWidth = width;
    context.beginPath();
    points.forEach(([x, y], i) => {
      if (i === 0) context.moveTo(x, y);
      else context.lineTo(x, y);
    });
    context.stroke();
  }
  context.font = font;
  context.textBaseline = 'middle';
  for (const { content, x, y, align, turned, isLight } of drawing.texts) {
    context.fillStyle = isLight ? '#fff' : drawing.labelColor;
    context.textAlign = align === 'middle' ? 'center' : align;
    context.setTransform(density, 0, 0, density, density * x, density * y);
    if (turned) context.rotate(-Math.PI / 2);
    context.fillText(content, 0, 0);
  }
  context.setTransform(1, 0, 0, 1, 0, 0);
}

interface SvgNode {
  textContent: string | null;
  setAttribute(name: string, value: string): void;
  append(...children: SvgNode[]): void;
}

function inSvg(svg: SvgLike, { width, height, title, fontSize, rects, lines, texts }: Drawing): void {
  const owner = svg.ownerDocument as { createElementNS(namespace: string, name: string): SvgNode };
  const make = (name: string, attributes: Record<string, string | number>, content = '', tooltip = ''): SvgNode => {
    const node = owner.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, String(value));
    if (content) node.textContent = content;
    if (tooltip) node.append(make('title', {}, tooltip));
    return node;
  };
  const rounded = (value: number) => Number(value.toFixed(4));
  const nodes = rects.map(({ title, color, opacity, ...place }) =>
    make('rect', { ...place, fill: `rgb(${color})`, 'fill-opacity': rounded(opacity) }, '', title),
  );
  for (const { points, color, opacity, width, title } of lines)
    nodes.push(
      make(
        'polyline',
        {
          points: points.map(([x, y]) => `${rounded(x)},${rounded(y)}`).join(' '),
          fill: 'none',
          stroke: color ? `rgb(${color})` : 'currentColor',
          'stroke-width': width,
          'stroke-opacity': rounded(opacity),
        },
        '',
        title,
      ),
    );
  for (const { content, x, y, align, turned, isLight } of texts) {
    const attributes = {
      ...{ x, y, 'font-size': fontSize, 'dominant-baseline': 'middle', fill: isLight ? '#fff' : 'currentColor' },
      ...(align !== 'start' && { 'text-anchor': align }),
      ...(turned && { transform: `rotate(-90 ${x} ${y})` }),
    };
    nodes.push(make('text', attributes, content));
  }
  const attributes = { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': title };
  for (const [key, value] of Object.entries(attributes)) svg.setAttribute(key, String(value));
  svg.replaceChildren(...(nodes as never[]));
}

/** @internal An SVG element without a document, for Node and workers. `String(element)` is its text. */
export class SvgText implements SvgLike {
  readonly namespaceURI = SVG;
  /** The element creates its own children. */
  readonly ownerDocument = { createElementNS: (_: string, name: string) => new SvgText(name) };
  textContent: string | null = null;
  readonly #name: string;
  readonly #attributes = new Map<string, string>();
  #children: SvgText[] = [];

  constructor(name = 'svg') {
    this.#name = name;
  }

  setAttribute(name: string, value: string): void {
    this.#attributes.set(name, value);
  }

  append(...children: SvgText[]): void {
    this.#children.push(...children);
  }

  replaceChildren(...children: never[]): void {
    this.#children = children;
  }

  toString(): string {
    const namespace = this.#name === 'svg' ? ` xmlns="${SVG}"` : '';
    const attributes = [...this.#attributes].map(([name, value]) => ` ${name}="${escaped(value)}"`).join('');
    return `<${this.#name}${namespace}${attributes}>${escaped(this.textContent ?? '')}${this.#children.join('')}</${this.#name}>`;
  }
}

const escaped = (text: string) => text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);
