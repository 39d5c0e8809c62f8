/** Pictures without a document: SVG text. The expected positions and values are computed here from the data. */
import { attention, bars, curves, links, matrix, svg } from 'heed/draw';
import { expect, test } from 'vitest';

const attributes = (element: string) =>
  Object.fromEntries([...element.matchAll(/([\w-]+)="([^"]*)"/g)].map(([, name, value]) => [name!, value!]));
const elements = (target: unknown, name: string) =>
  [...String(target).matchAll(new RegExp(`<${name}[ >].*?(?=<${name}[ >]|$)`, 'g'))].map(([element]) => element);
const textsOf = (target: unknown) => [...String(target).matchAll(/<text [^>]*>([^<]*)</g)].map(([, text]) => text);
const pointsOf = (element: string) =>
  attributes(element)
    .points!.split(' ')
    .map((pair) => pair.split(',').map(Number));

test('an SVG without a document is one well-formed element with a name', () => {
  const target = svg();
  matrix(target, [[1, -0.5]], { rows: ['<a & "b">'], title: 'A "matrix"' });
  const text = String(target);
  expect(text).toMatch(/^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg" viewBox="0 0 .*<\/svg>$/);
  expect(text).toContain('role="img" aria-label="A &#34;matrix&#34;"');
  expect(text).toContain('&#60;a &#38; &#34;b&#34;&#62;');
  const rects = elements(target, 'rect').map(attributes);
  expect(rects.map((rect) => rect['fill-opacity'])).toEqual(['1', '0.5']);
  expect(rects[0]!.fill).not.toBe(rects[1]!.fill);
  matrix(target, [[3]]);
  expect(elements(target, 'rect')).toHaveLength(1); // drawing again replaces what was there
});

test('attention has the scale that is asked for', () => {
  const opacities = (options: object) => {
    const target = svg();
    attention(target, [[0.25, 0.0625]], ['q'], { keys: ['a', 'b'], ...options });
    return elements(target, 'rect').map((rect) => Number(attributes(rect)['fill-opacity']));
  };
  expect(opacities({})).toEqual([0.25 ** 0.6, 0.0625 ** 0.6].map((value) => Number(value.toFixed(4))));
  expect(opacities({ max: 'auto', gamma: 1 })).toEqual([1, 0.25]);
  expect(opacities({ max: 0.5, gamma: 1 })).toEqual([0.5, 0.125]);
});

test('curves have their values at equal steps', () => {
  const target = svg();
  const loss = [4, 2, 1, 1.5];
  curves(target, { loss, validation: [3, 2.5] }, { x: 'epoch', y: 'loss', width: 300, height: 200 });
  const [axis, first, second] = elements(target, 'polyline').map(pointsOf);
  const [[left, top], [, bottom], [right]] = axis as [number[], number[], number[]];
  loss.forEach((value, i) => {
    expect(first![i]![0]).toBeCloseTo(left! + (i / 3) * (right! - left!), 2);
    expect(first![i]![1]).toBeCloseTo(top! + ((4 - value) / 3) * (bottom! - top!), 2);
  });
  expect(second).toHaveLength(2);
  expect(textsOf(target)).toEqual(expect.arrayContaining(['4', '1', '0', '3', 'epoch', 'loss', 'validation']));
  expect(String(target)).toContain('aria-label="Curves of loss, validation, from 1 to 4"');
});

test('bars start at zero and have their values as heights', () => {
  const target = svg();
  bars(target, [2, -1, 0.5], { labels: ['a', 'b', 'c'] });
  const rects = elements(target, 'rect').map(attributes);
  const [two, one, half] = rects.map((rect) => Number(rect.height));
  expect(two! / one!).toBeCloseTo(2, 5);
  expect(half! / one!).toBeCloseTo(0.5, 5);
  expect(Number(rects[1]!.y)).toBeCloseTo(Number(rects[0]!.y) + two!, 5); // below zero
  expect(textsOf(target)).toEqual(['2', 'a', '-1', 'b', '0.5', 'c']);
});

test('links are as opaque as their weights, and small weights have none', () => {
  const target = svg();
  links(target, [[0.9, 0.1], [0.04, 0.96]], ['a', 'b'], { keys: ['x', 'y'] }); // biome-ignore format: a matrix
  expect(elements(target, 'polyline').map((line) => attributes(line)['stroke-opacity'])).toEqual([
    '0.9',
    '0.1',
    '0.96',
  ]);
  expect(String(target)).toContain('a → y: 0.1');
  const heights = elements(target, 'polyline').map((line) => pointsOf(line).map(([, y]) => y));
  expect(heights[0]![0]).toBe(heights[1]![0]); // both start at the same token
  expect(heights[1]![1]).toBe(heights[2]![1]);
});

test('curves, bars and links are drawn on canvases, too', () => {
  const calls: string[] = [];
  const context = new Proxy({} as Record<string, unknown>, {
    get: (target, name: string) =>
      target[name] ??
      (name === 'measureText'
        ? () => ({ width: 10 })
        : (...args: unknown[]) => void calls.push(`${name} ${args.length}`)),
  });
  const canvas = { width: 0, height: 0, getContext: () => context };
  curves(canvas, { loss: [1, 2] }, { width: 100, height: 80 });
  expect([canvas.width, canvas.height]).toEqual([100, 80]);
  bars(canvas, [1]);
  links(canvas, [[1]], ['a']);
  expect(calls.filter((call) => call.startsWith('stroke')).length).toBe(4); // an axis and a curve, an axis, a link
  expect(calls).toContain('fillRect 4');
});

test.each([
  [() => curves(svg(), {}), 'draw.curves: series: expected at least one series, got none'],
  [() => curves(svg(), { loss: [1, NaN] }), 'draw.curves: series.loss[1]: expected a finite number, got NaN'],
  [() => curves(svg(), { loss: [] }), 'draw.curves: series.loss: expected at least one number'],
  [() => curves(svg(), null as never), 'draw.curves: series: expected an object of numbers by name, got null'],
  [() => bars(svg(), [1, 2], { labels: ['a'] }), 'draw.bars.labels: expected 2 labels, got 1'],
  [() => links(svg(), [[1, 0]], ['a']), 'draw.links: weights: expected shape [1, 1], tokens and keys, got [1, 2]'],
  [() => curves({} as never, { loss: [1] }), 'draw: target: expected a canvas or an SVG element, got an object'],
  [() => attention(svg(), [[1]], ['a'], { max: 'all' as never }), 'draw.attention.max'],
])('%s is refused', (call, message) => {
  expect(call).toThrow(expect.objectContaining({ name: 'HeedError', message: expect.stringContaining(message) }));
});
