/** Arguments that heed/draw rejects; tests/web/draw.browser.test.ts tests its drawings. */
import * as draw from 'heed/draw';
import { expect, test } from 'vitest';

const context = { fillRect() {}, createImageData: () => ({ data: new Uint8ClampedArray(4) }), putImageData() {} };
const canvas = { width: 1, height: 1, getContext: () => context };
const weights = (...shape: number[]) => ({ data: new Float32Array(shape.reduce((a, b) => a * b)), shape });

test('draws nothing for empty input', () => {
  expect(() => draw.matrix(canvas, [[]], { cell: 1 })).not.toThrow();
  expect([canvas.width, canvas.height]).toEqual([0, 1]);
});

test.each([
  [() => draw.matrix({} as never, [[1]]), 'draw: target: expected a canvas or an SVG element, got an object'],
  [() => draw.matrix(null as never, [[1]]), 'draw: target: expected a canvas or an SVG element, got null'],
  [() => draw.matrix(canvas, [1]), 'draw.matrix: values: expected [rows, columns], got shape [1]'],
  [() => draw.matrix(canvas, [[1]], { rows: ['a', 'b'] }), 'draw.matrix.rows: expected 1 labels, got 2'],
  [() => draw.matrix(canvas, [[1]], { color: [1, 2] as never }), 'draw.matrix.color: expected red, green and blue'],
  [
    () => draw.matrix(canvas, [[1]], { decimals: 11 }),
    'draw.matrix.decimals: expected an integer from 0 to 10, got 11',
  ],
  [() => draw.matrix(canvas, [[1]], { legend: 1 as never }), 'draw.matrix.legend: expected'],
  [() => draw.matrix(canvas, [[1]], { cell: 0 }), 'draw.matrix.cell: expected an integer from 1'],
  [() => draw.matrix(canvas, [[1]], { scale: 2 } as object), "the unknown option 'scale'"],
  [
    () => draw.attention(canvas, weights(2, 3), ['a', 'b'], { head: 1 }),
    'draw.attention.head: expected an integer from 0 to 0, got 1',
  ],
  [
    () => draw.attention(canvas, [weights(1, 1, 1, 1)], ['a'], { layer: 1 }),
    'draw.attention.layer: expected an integer from 0 to 0, got 1',
  ],
  [
    () => draw.attention(canvas, [weights(1, 1, 1, 1)], [['a']], { index: 1 }),
    'draw.attention.index: expected an integer from 0 to 0, got 1',
  ],
  [() => draw.attention(canvas, weights(1), ['a']), 'expected shape [N, H, L, S], [H, L, S] or [L, S], got [1]'],
  [() => draw.attention(canvas, weights(1, 1), ['a', 'b']), 'draw.attention: tokens: expected at most 1 tokens, got 2'],
  [() => draw.grid(canvas, [1]), 'draw.grid: values: expected [layers, columns], got shape [1]'],
  [() => draw.grid(canvas, [[1]], { columns: ['a', 'b'] }), 'draw.grid.columns: expected 1 labels, got 2'],
  [() => draw.grid(canvas, [[1]], { rows: ['a'] } as object), "the unknown option 'rows'"],
  [
    () => draw.attention(canvas, weights(1, 1), 3 as never),
    'draw.attention: tokens: expected an array of texts, got 3',
  ],
])('%s is refused', (call, message) => {
  expect(call).toThrow(expect.objectContaining({ name: 'HeedError', message: expect.stringContaining(message) }));
});
