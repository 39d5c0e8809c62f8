/** heed/draw in a real page, on canvases and in SVG elements. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openSite, type Site } from './models/site.js';

let site: Site;
let page: Page;
beforeAll(async () => {
  site = await openSite(() => false);
  page = site.page;
  await page.evaluate(() => {
    /** Red, green, blue and opacity of the pixel at (x, y), in CSS pixels. */
    const pixel = (canvas: HTMLCanvasElement, x: number, y: number) => {
      const scale = canvas.width / (Number.parseFloat(canvas.style.width) || canvas.width);
      return [...canvas.getContext('2d')!.getImageData(Math.floor(x * scale), Math.floor(y * scale), 1, 1).data];
    };
    const svg = () => document.createElementNS('http://www.w3.org/2000/svg', 'svg');
    Object.assign(globalThis, { pixel, svg });
  });
});
afterAll(() => site?.close());

declare const draw: typeof import('heed/draw');
declare const pixel: (canvas: HTMLCanvasElement, x: number, y: number) => number[];
declare const svg: () => SVGSVGElement;

describe('matrix', () => {
  test('paints one pixel per entry: hue by sign, opacity by magnitude', async () => {
    const seen = await page.evaluate(() => {
      const canvas = document.createElement('canvas');
      draw.matrix(
        canvas,
        [
          [4, -2, 0],
          [NaN, 1, -4],
        ],
        { cell: 1, color: [10, 20, 30], negativeColor: [200, 100, 50] },
      );
      const size = [canvas.width, canvas.height];
      return { size, pixels: [0, 1].map((y) => [0, 1, 2].map((x) => pixel(canvas, x, y))) };
    });
    expect(seen.size).toEqual([3, 2]);
    const [[largest, negative, zero], [nan, quarter, smallest]] = seen.pixels as [number[][], number[][]];
    expect(largest).toEqual([10, 20, 30, 255]);
    expect(smallest).toEqual([200, 100, 50, 255]);
    expect([zero![3], nan![3], negative![3], quarter![3]]).toEqual([0, 0, 128, 64]);
  });

  test('writes labels beside and above the squares', async () => {
    const seen = await page.evaluate(() => {
      const canvas = document.createElement('canvas');
      const painted = () => {
        const { data, width, height } = canvas.getContext('2d')!.getImageData(0, 0, canvas.width, canvas.height);
        let count = 0;
        for (let i = 0; i < width * height; i++) if (data[4 * i + 3]! > 0) count++;
        return count;
      };
      const values = [
        [0, 0],
        [0, 1],
      ];
      draw.matrix(canvas, values);
      const bare = { size: [canvas.style.width, canvas.style.height], painted: painted(), last: pixel(canvas, 27, 27) };
      draw.matrix(canvas, values, { rows: ['a long label', 'b'], columns: ['x', 'y'] });
      const labelled = { width: Number.parseFloat(canvas.style.width), painted: painted() };
      return { bare, labelled };
    });
    expect(seen.bare).toEqual({ size: ['36px', '36px'], painted: 18 * 18, last: [37, 99, 235, 255] });
    expect(seen.labelled.width).toBeGreaterThan(36 + 40);
    expect(seen.labelled.painted).toBeGreaterThan(18 * 18 + 50); // the letters
  });

  test('fills an SVG with squares that have tooltips', async () => {
    const seen = await page.evaluate(() => {
      const target = svg();
      target.append(document.createElement('p'));
      draw.matrix(target, [[0.5, -1]], { rows: ['q'], columns: ['a', 'b'], cell: 10 });
      const rects = [...target.querySelectorAll('rect')];
      return {
        name: target.getAttribute('aria-label'),
        role: target.getAttribute('role'),
        others: target.querySelectorAll('p').length,
        opacities: rects.map((rect) => rect.getAttribute('fill-opacity')),
        tooltips: rects.map((rect) => rect.textContent),
        steps: rects.map((rect) => Number(rect.getAttribute('x')) - Number(rects[0]!.getAttribute('x'))),
        labels: [...target.querySelectorAll('text')].map((text) => text.textContent),
      };
    });
    expect(seen).toEqual({
      name: 'Matrix of 1 rows and 2 columns',
      role: 'img',
      others: 0,
      opacities: ['0.5', '1'],
      tooltips: ['q → a: 0.5', 'q → b: -1'],
      steps: [0, 10],
      labels: ['q', 'a', 'b'],
    });
  });
});

describe('numbers and a legend', () => {
  test('in an SVG: each number in its square, and the colors from -max to max below', async () => {
    const seen = await page.evaluate(() => {
      const drawn = (values: number[][], options: object) => {
        const target = svg();
        draw.matrix(target, values, options);
        const texts = [...target.querySelectorAll('text')].map((node) => [
          node.textContent,
          node.getAttribute('fill'),
          Number(node.getAttribute('x')),
          Number(node.getAttribute('y')),
        ]);
        const bar = [...target.querySelectorAll('rect')].slice(values.flat().length);
        return {
          texts,
          size: ['width', 'height'].map((name) => Number(target.getAttribute(name))),
          bar: bar.map((rect) => [rect.getAttribute('fill'), Number(rect.getAttribute('fill-opacity'))]),
          ends: bar.map((rect) => Number(rect.getAttribute('x'))),
        };
      };
      const signed = drawn([[0.5, -1.25, 0]], {
        decimals: 2,
        legend: true,
        color: [1, 2, 3],
        negativeColor: [4, 5, 6],
      });
      return { signed, positive: drawn([[0.5, 3]], { legend: true }), plain: drawn([[0.5, 3]], {}) };
    });
    const { signed, positive, plain } = seen;
    expect(signed.texts.slice(0, 3)).toEqual([
      ['0.50', 'currentColor', 20, 20],
      ['-1.25', '#fff', 60, 20],
      ['0.00', 'currentColor', 100, 20],
    ]);
    expect(signed.texts.slice(3).map(([content, , x]) => [content, x])).toEqual([
      ['-1.25', 0],
      ['0', 60],
      ['1.25', 120],
    ]);
    const half = signed.bar.length / 2;
    expect(new Set(signed.bar.slice(0, half).map(([fill]) => fill))).toEqual(new Set(['rgb(4,5,6)']));
    expect(new Set(signed.bar.slice(half).map(([fill]) => fill))).toEqual(new Set(['rgb(1,2,3)']));
    const opacities = signed.bar.map(([, opacity]) => opacity as number);
    expect(opacities.slice(half)).toEqual(opacities.slice(0, half).reverse());
    expect(opacities.slice(half)).toEqual([...opacities.slice(half)].sort((a, b) => a - b));
    expect(signed.size[1]).toBeGreaterThan(40);
    expect(positive.texts.map(([content]) => content)).toEqual(['0', '3']);
    expect(positive.bar[0]![1]).toBeLessThan(0.1);
    expect([plain.texts, plain.bar, plain.size]).toEqual([[], [], [36, 18]]);
  });

  test('on a canvas: numbers are written over the squares, the legend below them', async () => {
    const seen = await page.evaluate(() => {
      const canvas = document.createElement('canvas');
      const opaque = (left: number, top: number, width: number, height: number) => {
        const { data } = canvas.getContext('2d')!.getImageData(left, top, width, height);
        let count = 0;
        for (let i = 3; i < data.length; i += 4) if (data[i]! > 0) count++;
        return count;
      };
      draw.matrix(canvas, [[0, 0]], { decimals: 1 });
      const numbers = opaque(0, 0, 80, 40);
      draw.matrix(canvas, [[0, 1]], { decimals: 1, legend: true });
      return { numbers, height: canvas.height, below: opaque(0, 52, 80, canvas.height - 52) };
    });
    expect(seen.numbers).toBeGreaterThan(20); // zeros are transparent, but their digits are drawn
    expect(seen.height).toBeGreaterThan(60);
    expect(seen.below).toBeGreaterThan(300);
  });
});

describe('attention', () => {
  test('draws a head of a layer, without padding, or the mean of the heads', async () => {
    const seen = await page.evaluate(() => {
      // Two layers, two texts, two heads; the second text has two tokens and one column of padding.
      const layer = (shift: number) => {
        const data = Float32Array.from({ length: 2 * 2 * 9 }, (_, i) => (i + shift) / 100);
        return { data, shape: [2, 2, 3, 3] };
      };
      const layers = [layer(0), layer(50)];
      const tokens = [
        ['x', 'y', 'z'],
        ['a', 'b'],
      ];
      const values = (options: object) => {
        const target = svg();
        draw.attention(target, layers, tokens, options);
        return [target.getAttribute('aria-label'), ...[...target.querySelectorAll('rect')].map((r) => r.textContent)];
      };
      return {
        head: values({ layer: 0, head: 1, index: 1 }),
        mean: values({ index: 1 }),
        named: values({ title: 'A title' })[0],
      };
    });
    expect(seen.head).toEqual([
      'Attention of head 1 in layer 0: 2 tokens to 2',
      'a → a: 0.27',
      'a → b: 0.28',
      'b → a: 0.3',
      'b → b: 0.31',
    ]);
    // Entries of heads 0 and 1 in the last layer: 0.18 and 0.27, and so on, each plus 0.5.
    expect(seen.mean).toEqual([
      'Mean attention in layer 1: 2 tokens to 2',
      'a → a: 0.725',
      'a → b: 0.735',
      'b → a: 0.755',
      'b → b: 0.765',
    ]);
    expect(seen.named).toBe('A title');
  });

  test("draws a model's attentions as encode returns them, and weights of layers", async () => {
    const { painted, cross } = await page.evaluate(async () => {
      const { load } = (globalThis as unknown as { heed: typeof import('heed') }).heed;
      const heed = await load();
      const mha = new heed.MultiHeadAttention({ embedDim: 4, numHeads: 2, seed: 1 });
      const key = [
        [1, 0, 0, 0],
        [0, 1, 0, 0],
        [0, 0, 1, 0],
      ];
      const { weights } = mha.forward(key.slice(0, 2), { key, value: key, returnWeights: true });
      const canvas = document.createElement('canvas');
      draw.attention(canvas, weights, ['a', 'b'], { keys: ['x', 'y', 'z'], head: 0, cell: 1 });
      const opacities = [0, 1].map((y) => [0, 1, 2].map((x) => pixel(canvas, x, y)[3]!));
      mha.dispose();
      const shown = weights.toArray<number[][][]>()[0]!;
      return { painted: opacities, cross: shown.map((row) => row.map((w) => 255 * w ** 0.6)) };
    });
    painted.forEach((row, i) => row.forEach((opacity, j) => expect(Math.abs(opacity - cross[i]![j]!)).toBeLessThan(1)));
  });
});

describe('grid', () => {
  test('draws differences from the baseline, with a row per layer', async () => {
    const seen = await page.evaluate(() => {
      const target = svg();
      draw.grid(
        target,
        [
          [0.5, 0.25],
          [1, 0.5],
        ],
        { baseline: 0.5, columns: ['attention', 'feed-forward'] },
      );
      const rects = [...target.querySelectorAll('rect')];
      const canvas = document.createElement('canvas');
      draw.grid(canvas, [[3, 1]], { baseline: 2, cell: 1, max: 2 });
      return {
        name: target.getAttribute('aria-label'),
        fills: rects.map((rect) => rect.getAttribute('fill')),
        opacities: rects.map((rect) => rect.getAttribute('fill-opacity')),
        tooltips: rects.map((rect) => rect.textContent),
        opacity: [pixel(canvas, 0, 0)[3], pixel(canvas, 1, 0)[3]], // half of `max`
      };
    });
    const [blue, orange] = ['rgb(37,99,235)', 'rgb(217,95,2)'];
    expect(seen).toEqual({
      name: 'Grid of 2 layers and 2 columns',
      fills: [blue, orange, blue, blue],
      opacities: ['0', '0.5', '1', '0'],
      tooltips: [
        'layer 0 → attention: 0',
        'layer 0 → feed-forward: -0.25',
        'layer 1 → attention: 0.5',
        'layer 1 → feed-forward: 0',
      ],
      opacity: [128, 128],
    });
  });
});
