import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import {
  count,
  flag,
  nearest,
  oneOf,
  optional,
  rate,
  readOptions,
  seed,
  signal,
  size,
} from '../../web/src/base/options.js';

const schema = {
  embedDim: size,
  window: optional(count, null),
  bias: optional(flag, true),
  mode: optional(oneOf(['add', 'concat']), 'add' as const),
  dropout: optional(rate, 0),
  seed,
};
const read = (given: unknown) => readOptions('Layer', schema, given);

describe('readOptions', () => {
  it('fills in defaults', () => {
    expect(read({ embedDim: 4, seed: 1 })).toEqual({
      embedDim: 4,
      window: null,
      bias: true,
      mode: 'add',
      dropout: 0,
      seed: 1,
    });
    expect(read({ embedDim: 4, bias: undefined, mode: null, seed: 1 })).toMatchObject({ bias: true, mode: 'add' });
  });

  it('draws a seed where none is given', () => {
    const seeds = new Set(Array.from({ length: 20 }, () => read({ embedDim: 1 }).seed));
    expect(seeds.size).toBe(20);
  });

  it('reads each option once', () => {
    let reads = 0;
    const given = {
      get embedDim() {
        return ++reads;
      },
    };
    expect(read(given).embedDim).toBe(1);
    expect(reads).toBe(1);
  });

  it.each([
    [
      { embed_dim: 4 },
      "Layer: expected 'embedDim' (all: embedDim, window, bias, mode, dropout, seed), got the unknown option 'embed_dim'",
    ],
    [{ embedDim: 4, biass: true }, "Layer: expected 'bias' (all: "],
    [
      { embedDim: 4, momentum: 1 },
      "Layer: expected one of embedDim, window, bias, mode, dropout, seed, got the unknown option 'momentum'",
    ],
    [{ embedDim: 4, mode: 'multiply' }, "Layer.mode: expected one of 'add', 'concat', got 'multiply'"],
    [{ embedDim: 4, __proto__: { x: 1 }, constructor: 1 }, "unknown option 'constructor'"],
    [{}, 'Layer.embedDim: expected an integer from 1 to 2147483647, got undefined'],
    [{ embedDim: NaN }, 'Layer.embedDim: expected an integer from 1 to 2147483647, got NaN'],
    [{ embedDim: 0 }, 'Layer.embedDim: expected an integer from 1 to 2147483647, got 0'],
    [{ embedDim: -1 }, 'Layer.embedDim: expected an integer from 1 to 2147483647, got -1'],
    [{ embedDim: 1.5 }, 'Layer.embedDim: expected an integer from 1 to 2147483647, got 1.5'],
    [{ embedDim: Infinity }, 'Layer.embedDim: expected an integer from 1 to 2147483647, got Infinity'],
    [{ embedDim: 2 ** 31 }, 'Layer.embedDim: expected an integer from 1 to 2147483647, got 2147483648'],
    [{ embedDim: '4' }, "Layer.embedDim: expected an integer from 1 to 2147483647, got '4'"],
    [{ embedDim: 4n }, 'Layer.embedDim: expected an integer from 1 to 2147483647, got 4n'],
    [{ embedDim: 4, bias: 1 }, 'Layer.bias: expected true or false, got 1'],
    [{ embedDim: 4, mode: 'conact' }, "Layer.mode: expected one of 'add', 'concat' (nearest: 'concat'), got 'conact'"],
    [{ embedDim: 4, dropout: 1.5 }, 'Layer.dropout: expected a number in [0, 1], got 1.5'],
    [{ embedDim: 4, dropout: NaN }, 'Layer.dropout: expected a number in [0, 1], got NaN'],
    [{ embedDim: 4, seed: -1 }, 'Layer.seed: expected an integer from 0 to 2^53 - 1, got -1'],
    [{ embedDim: 4, seed: 0.5 }, 'Layer.seed: expected an integer from 0 to 2^53 - 1, got 0.5'],
    [3, 'Layer: expected an options object, got 3'],
    [null, 'Layer: expected an options object, got null'],
    [[], 'Layer: expected an options object, got an empty array'],
  ])('refuses %o', (given, message) => {
    expect(() => read(given)).toThrow(
      expect.objectContaining({
        name: 'HeedError',
        code: 'INVALID_ARGUMENT',
        message: expect.stringContaining(message),
      }),
    );
  });

  it('turns what a getter or a proxy throws into a HeedError', () => {
    const fail = () => {
      throw new Error('boo');
    };
    const message = 'Layer: reading it threw Error: boo';
    expect(() => read(Object.defineProperty({}, 'embedDim', { get: fail, enumerable: true }))).toThrow(message);
    expect(() => read(new Proxy({}, { ownKeys: fail }))).toThrow(message);
  });
});

it.each([
  ['numHead', 'numHeads'],
  ['num_heads', 'numHeads'],
  ['nhead', 'numHeads'],
  ['HEADS', 'numHeads'],
  ['embedding_dim', 'embedDim'],
  ['bais', 'bias'],
  ['normFirstLayer', 'normFirst'], // begins with it
  ['norm', 'normFirst'],
  ['d_model', null],
  ['temperature', null],
  ['b', null],
  ['', null],
  ['x'.repeat(1000), null],
] as const)('finds a name that is near: %s', (name, expected) => {
  expect(nearest(name, ['embedDim', 'numHeads', 'bias', 'normFirst'])).toBe(expected);
});

describe('signal', () => {
  it('turns what a proxy throws into a HeedError', () => {
    const get = () => {
      throw new TypeError('hostile');
    };
    expect(() => signal(new Proxy({}, { get }), 'encode.signal')).toThrow(
      expect.objectContaining({ code: 'INVALID_ARGUMENT', message: expect.stringContaining('encode.signal') }),
    );
  });
});

it.each([
  ['unknown options are rejected', /throw[^;]*the unknown option/, ['base/options.ts']],
  ['lines of JSON are parsed', /JSON\.parse\(line\)/, ['node/lines.ts']],
  ['options of Node are checked', /checkOptions/, []],
])('%s in one place', (_, pattern, places) => {
  const root = new URL('../../web/src/', import.meta.url);
  const names = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'));
  const found = names.filter((name) =>
    pattern.test(readFileSync(new URL(name, root), 'utf8').replace(/^\s*(\*|\/\/).*$/gm, '')),
  );
  expect(found.map((name) => name.replaceAll('\\', '/'))).toEqual(places);
});
