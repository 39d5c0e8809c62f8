/**
 * Masks as tensors: true / 1 may be attended to. They broadcast from the right against [N,H,L,S].
 * Letters: N batch, H heads, L queries, S keys.
 */
import type { RawMask } from './core.js';
import { calling, guarded, HeedError, invalid } from './error.js';
import { count, flag, integer, listOf, optional, readOptions, type Schema, size } from './options.js';
import type { Runtime } from './owned.js';
import { formatShape, type MaskInput, readMask, readTensor, Tensor, type TensorInput } from './tensor.js';

/** Which keys each query may attend to, one byte each. */
export type BooleanMask = Tensor<Uint8Array>;

export interface RelativeBiasOptions {
  /** Distances from here on share the last bucket; default 128. */
  maxDistance?: number;
  /** Keys after the query have buckets of their own (encoders); default true. */
  bidirectional?: boolean;
}

const relativeSchema = {
  maxDistance: optional(size, 128),
  bidirectional: optional(flag, true),
} satisfies Schema<RelativeBiasOptions>;

/** Makes and joins masks. */
export class Masks {
  readonly #runtime: Runtime;

  /** @internal */
  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  /** Query i sees keys 0..i: [length, keys]; `keys` default `length`. */
  causal(length: number, keys: number = length): BooleanMask {
    return matrix('causal', length, keys, (i, j) => j <= i);
  }

  /** Query i sees the keys j with |i - j| <= radius: [length, keys]; `keys` default `length`. */
  window(length: number, radius: number, keys: number = length): BooleanMask {
    const reach = integer(radius, 'masks.window: radius', 0);
    return matrix('window', length, keys, (i, j) => Math.abs(i - j) <= reach);
  }

  /** Of sequence n only the first `lengths[n]` keys are real: [N, 1, 1, keys]. `keys` default: the longest length. */
  padding(lengths: readonly number[], keys?: number): BooleanMask {
    return guarded('masks.padding', () => {
      const real = listOf(count, 'an array of lengths')(lengths, 'masks.padding: lengths');
      const longest = real.reduce((a, b) => Math.max(a, b), 0);
      const width = keys === undefined ? longest : integer(keys, 'masks.padding: keys', 0);
      if (longest > width)
        throw invalid('masks.padding: lengths', `a length of ${longest}`, `at most the ${width} keys`);
      const data = bytes('masks.padding', real.length * width);
      for (const [n, length] of real.entries()) data.fill(1, n * width, n * width + length);
      return new Tensor(data, [real.length, 1, 1, width]);
    });
  }

  /**
   * What both masks allow; their shapes broadcast against each other. Two boolean masks give a boolean one. Where one is additive the result is additive: the sum, and -Infinity
   * where a boolean mask forbids.
   */
  and(a: MaskInput, b: MaskInput): BooleanMask | Tensor {
    const [left, right] = [readMask('masks.and: a', a), readMask('masks.and: b', b)];
    return guarded('masks.and', () => {
      const shape = broadcastShape(left.shape, right.shape);
      const length = shape.reduce((product, extent) => product * extent, 1);
      const [leftAt, rightAt] = [broadcaster(left.shape, shape), broadcaster(right.shape, shape)];
      if (left.data instanceof Uint8Array && right.data instanceof Uint8Array) {
        const data = bytes('masks.and', length);
        for (let i = 0; i < length; i++) data[i] = left.data[leftAt(i)]! & right.data[rightAt(i)]!;
        return new Tensor(data, shape);
      }
      checkLength('masks.and', length);
      const data = new Float32Array(length);
      for (let i = 0; i < length; i++) data[i] = scoreOf(left, leftAt(i)) + scoreOf(right, rightAt(i));
      return new Tensor(data, shape);
    });
  }

  /**
   * ALiBi (Press et al. 2021, arXiv:2108.12409): -slope_h |i - j| as an additive mask [numHeads, length, keys]; `keys` default `length`.
   */
  alibi(numHeads: number, length: number, keys: number = length): Tensor {
    const heads = integer(numHeads, 'masks.alibi: numHeads', 1);
    const [rows, columns] = [integer(length, 'masks.alibi: length', 0), integer(keys, 'masks.alibi: keys', 0)];
    return calling('masks.alibi', () => {
      const { data, shape } = this.#runtime.core.alibi(heads, rows, columns);
      return new Tensor(data, shape);
    });
  }

  /**
   * T5's relative bias (Raffel et al. 2019, arXiv:1910.10683) as an additive mask [H, length, keys]: distances fall into logarithmic buckets, `table` [numBuckets, H] holds
   * their scores. `keys` default `length`.
   */
  relative(table: TensorInput, length: number, keys: number = length, options: RelativeBiasOptions = {}): Tensor {
    const raw = readTensor('masks.relative: table', table);
    const [queries, columns] = [integer(length, 'masks.relative: length', 0), integer(keys, 'masks.relative: keys', 0)];
    const read = readOptions('masks.relative', relativeSchema, options);
    return calling('masks.relative', () => {
      const { data, shape } = this.#runtime.core.relativeBias(raw, { queries, keys: columns, ...read });
      return new Tensor(data, shape);
    });
  }
}

function matrix(name: string, length: number, keys: number, allowed: (i: number, j: number) => boolean): BooleanMask {
  const [rows, columns] = [integer(length, `masks.${name}: length`, 0), integer(keys, `masks.${name}: keys`, 0)];
  return guarded(`masks.${name}`, () => {
    const data = bytes(`masks.${name}`, rows * columns);
    for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) data[i * columns + j] = allowed(i, j) ? 1 : 0;
    return new Tensor(data, [rows, columns]);
  });
}

function bytes(name: string, length: number): Uint8Array {
  checkLength(name, length);
  return new Uint8Array(length);
}

// A larger mask fits no module's memory beside its scores.
const MAX_ENTRIES = 2 ** 29 - 1;

function checkLength(name: string, length: number): void {
  if (length > MAX_ENTRIES)
    throw new HeedError('OUT_OF_MEMORY', `${name}: got ${length} entries; expected at most ${MAX_ENTRIES}`);
}

function scoreOf(mask: RawMask, at: number): number {
  const entry = mask.data[at]!;
  return mask.data instanceof Uint8Array ? (entry === 1 ? 0 : -Infinity) : entry;
}

function broadcastShape(a: readonly number[], b: readonly number[]): number[] {
  const rank = Math.max(a.length, b.length);
  return Array.from({ length: rank }, (_, axis) => {
    const [m, n] = [a[axis - rank + a.length] ?? 1, b[axis - rank + b.length] ?? 1];
    if (m !== n && m !== 1 && n !== 1) {
      throw new HeedError(
        'SHAPE_MISMATCH',
        `masks.and: got shapes ${formatShape(a)} and ${formatShape(b)}; expected shapes that broadcast`,
      );
    }
    return m === 1 ? n : m;
  });
}

/** Maps a flat index into `target` to one into `shape`. */
function broadcaster(shape: readonly number[], target: readonly number[]): (index: number) => number {
  const strides = new Array<number>(target.length).fill(0);
  for (let axis = shape.length - 1, stride = 1; axis >= 0; axis--) {
    if (shape[axis] !== 1) strides[axis + target.length - shape.length] = stride;
    stride *= shape[axis]!;
  }
  return (index) => {
    let at = 0;
    for (let axis = target.length - 1, rest = index; axis >= 0; axis--) {
      at += (rest % target[axis]!) * strides[axis]!;
      rest = Math.floor(rest / target[axis]!);
    }
    return at;
  };
}
