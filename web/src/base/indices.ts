import { read } from './tensor.js';
import type { RawIndices } from './wasm/core.js';

/** Integers in nested arrays. All rows along an axis have the same length. */
export type NestedIntegers = readonly number[] | readonly NestedIntegers[];

/** Ids or class indices: nested arrays of integers, or an `Int32Array` with a shape. */
export type IndexInput = NestedIntegers | { readonly data: Int32Array; readonly shape: readonly number[] };

const LIMIT = 2 ** 31;

/** Reads an `IndexInput`. */
export function readIndices(argument: string, value: unknown): RawIndices {
  return read<Int32Array>(
    argument,
    value,
    'nested arrays of integers or a { data: Int32Array, shape } tensor',
    'an Int32Array',
    {
      Store: Int32Array,
      entryOf: (entry) => (Number.isInteger(entry) && Math.abs(entry as number) < LIMIT ? (entry as number) : null),
      entries: 'integers',
    },
  );
}
