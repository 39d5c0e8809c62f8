/** Matches the tensors of a state dict with the parameters of a layer. */
import { calling, describe, formatShape, guarded, invalid } from '../base/error.js';
import { requireIdle } from '../base/in-progress.js';
import { readTensor, type Tensor } from '../base/tensor.js';
import type { RawModule, RawTensor } from '../base/wasm/core.js';
import { viewBytes } from '../io/bytes.js';

/** Parameters by PyTorch's names. */
export type StateDict = Record<string, Tensor>;

/** A parameter as the WebAssembly module lists it. */
export interface ListedParameter {
  name: string;
  shape: readonly number[];
}

/** Values for rows of parameter `index`, beginning at `firstRow`. */
interface Write {
  index: number;
  firstRow: number;
  bytes: Uint8Array;
}

// The packed projection of an attention, or one of its three parts.
const projection = /^(.*\.)?(in|q|k|v)_proj_weight$/;

/** Reads a record of tensors by name. `call`: the name of the call, for messages about one of them. */
export function readState(argument: string, call: string, state: unknown): [name: string, tensor: RawTensor][] {
  return guarded(argument, () => {
    if (typeof state !== 'object' || state === null || Array.isArray(state))
      throw invalid(argument, "a record of tensors by name, { 'weight': tensor, ... }", describe(state));
    return Object.entries(state).map(([name, value]) => [name, readTensor(`${call}: '${name}'`, value)]);
  });
}

/**
 * Plans the writes that set `parameters` to the values of `state`. Reads all of `state` before it returns. @throws
 * HeedError see `Layer.loadStateDict`
 */
export function fitState(argument: string, parameters: readonly ListedParameter[], state: unknown): Write[] {
  const given = new Map(readState(argument, argument, state));
  const shapes = new Map(parameters.map(({ name, shape }) => [name, shape]));
  const used = new Set<string>();
  const missing: string[] = [];
  const misshapen = new Set<string>();
  const writes: Write[] = [];

  /** Uses rows [from, from + shape[0]) of the tensor `name`, which must have `rows` rows in total. */
  const take = (
    index: number,
    firstRow: number,
    name: string,
    shape: readonly number[],
    rows = shape[0] ?? 1,
    from = 0,
  ) => {
    used.add(name);
    const tensor = given.get(name)!;
    const expected = formatShape(shape.length === 0 ? shape : [rows, ...shape.slice(1)]);
    if (formatShape(tensor.shape) !== expected) {
      misshapen.add(`'${name}' (expected ${expected}, got ${formatShape(tensor.shape)})`);
      return;
    }
    const size = tensor.data.length / rows;
    const part = tensor.data.subarray(from * size, (from + (shape[0] ?? 1)) * size);
    writes.push({ index, firstRow, bytes: viewBytes(part) });
  };

  parameters.forEach(({ name, shape }, index) => {
    if (given.has(name)) return take(index, 0, name, shape);
    const [, prefix = '', part] = projection.exec(name) ?? [];
    const packed = `${prefix}in_proj_weight`;
    const parts = ['q', 'k', 'v'].map((one) => `${prefix}${one}_proj_weight`);
    const sizes = parts.map((one) => shapes.get(one));
    const areGiven = parts.map((one) => given.has(one));
    if (part === 'in' && areGiven.every(Boolean)) {
      const rows = shape[0]! / 3;
      parts.forEach((one, i) => take(index, i * rows, one, [rows, shape[1]!]));
      return;
    }
    const isPacked = part && part !== 'in' && given.has(packed) && !areGiven.some(Boolean);
    if (isPacked && sizes.every((size) => size![1] === shape[1])) {
      const rows = sizes.map((size) => size![0]!);
      const sum = (count: number) => rows.slice(0, count).reduce((a, b) => a + b, 0);
      take(index, 0, packed, shape, sum(3), sum('qkv'.indexOf(part)));
    } else missing.push(`'${name}' ${formatShape(shape)}`);
  });

  // PyTorch's BatchNorm counts its training batches; heed does not use the count.
  const unexpected = [...given.keys()].filter((name) => !used.has(name) && !name.endsWith('num_batches_tracked'));
  const faults = Object.entries({
    missing,
    unexpected: unexpected.map((name) => `'${name}'`),
    misshapen: [...misshapen],
  });
  const found = faults.filter(([, names]) => names.length > 0).map(([kind, names]) => `${kind} ${names.join(', ')}`);
  if (found.length === 0) return writes;
  const code = missing.length + unexpected.length > 0 ? 'INVALID_ARGUMENT' : 'SHAPE_MISMATCH';
  const got = `a state dict that does not fit: ${found.join('; ')}`;
  throw invalid(argument, "exactly this layer's parameters", got, code);
}

/**
 * A parameter in a list over several modules: the `index`-th parameter of `raw`, under a name that is unique in the
 * list.
 */
interface OwnedParameter extends ListedParameter {
  readonly raw: RawModule;
  readonly index: number;
}

/**
 * Sets parameters to the values of a state dict, which must contain exactly these. If it throws, nothing is changed.
 * @throws HeedError see `Layer.loadStateDict`
 */
export function writeState(argument: string, parameters: readonly OwnedParameter[], state: unknown): void {
  const writes = fitState(argument, parameters, state);
  requireIdle(argument, new Set(parameters.map(({ raw }) => raw)));
  calling(argument, () => {
    for (const { index, firstRow, bytes } of writes) {
      const { raw, index: own } = parameters[index]!;
      raw.writeParameter(own, firstRow, bytes, 'F32', null);
    }
  });
}
