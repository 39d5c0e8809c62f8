/** What all layers share: parameters by PyTorch's names, modes, disposal. */
import type { RawModule } from '../core.js';
import { calling, describe, guarded, HeedError, invalid } from '../error.js';
import { Owned, type Runtime } from '../owned.js';
import { formatShape, readTensor, Tensor, type TensorInput } from '../tensor.js';
import { type FlopsOptions, layerFlops, layerSummary } from './cost.js';

/** Parameters by PyTorch's names. */
export type StateDict = Record<string, Tensor>;

/** Options that every layer takes. */
export interface LayerOptions {
  /** Start of the stream that draws the initial parameters and dropout; chosen at random where left out. */
  seed?: number;
}

/** Base of the layers, as `torch.nn.Module`. New layers hold PyTorch's initial values and are in evaluation mode, in which a call always gives the same result. */
export abstract class Layer<Raw extends RawModule = RawModule> extends Owned<Raw> {
  readonly #name: string;
  #training = false;

  /** @internal `make` builds the core's object. */
  constructor(name: string, runtime: Runtime, seed: number, make: () => Raw) {
    const raw = calling(name, make);
    super(name, runtime, raw);
    this.#name = name;
    calling(name, () => {
      raw.initialize(seed);
      raw.seed(seed);
    });
  }

  /** Whether dropout draws: true after `train()`, false at first and after `eval()`. */
  get training(): boolean {
    return this.#training;
  }

  /** Training mode: dropout draws anew on each call. */
  train(): this {
    return this.#setTraining(true);
  }

  /** Evaluation mode, in which dropout is the identity. */
  eval(): this {
    return this.#setTraining(false);
  }

  /** Number of scalars in all parameters. */
  get parameterCount(): number {
    return this.raw.parameters().reduce((sum, { name, shape }) => (isBuffer(name) ? sum : sum + sizeOf(shape)), 0);
  }

  /** Multiplications and additions in the matrix products of one pass over a sequence of `length` rows. */
  flops(length: number, options?: FlopsOptions): number {
    return layerFlops(this.#name, this.raw.parameters(), length, options);
  }

  /** A table of the parameters to print; with a `length`, also the flops of a sequence that long. */
  summary(length?: number): string {
    const flops = length === undefined ? null : { length, flops: this.flops(length) };
    return layerSummary(this.#name, this.raw.parameters(), this.parameterCount, flops);
  }

  /** Copies of all parameters, by the names that PyTorch's module of the same name gives them. */
  stateDict(): StateDict {
    const { raw } = this;
    return calling(`${this.#name}.stateDict`, () =>
      Object.fromEntries(raw.parameters().map(({ name, shape }, i) => [name, new Tensor(raw.readParameter(i), shape)])),
    );
  }

  /**
   * Takes the values of a state dict saved here or in PyTorch. Every parameter must be there in its shape and nothing else; query, key and value projections may come packed
   * (`in_proj_weight`) or apart (`q_proj_weight`, `k_proj_weight`, `v_proj_weight`). A failed load changes nothing.
   *
   * @throws HeedError `INVALID_ARGUMENT` or `SHAPE_MISMATCH`, listing all that is missing, unexpected or of another shape.
   */
  loadStateDict(state: Readonly<Record<string, TensorInput>>): this {
    const { raw } = this;
    const argument = `${this.#name}.loadStateDict`;
    const parameters = raw.parameters();
    const given = guarded(argument, () => {
      if (typeof state !== 'object' || state === null || Array.isArray(state)) {
        throw invalid(argument, describe(state), "a record of tensors by parameter name, { 'weight': tensor, ... }");
      }
      return new Map(Object.keys(state).map((name) => [name, readTensor(`${argument}: '${name}'`, state[name])]));
    });
    const writes: { index: number; firstRow: number; data: Float32Array }[] = [];
    const missing: string[] = [];
    const misshapen: string[] = [];
    parameters.forEach(({ name, shape }, index) => {
      const parts = given.has(name) ? [name] : separateNames(name, given);
      if (!parts) {
        missing.push(`'${name}' ${formatShape(shape)}`);
        return;
      }
      let firstRow = 0;
      const rows = shape[0]! / parts.length;
      for (const part of parts) {
        const tensor = given.get(part)!;
        given.delete(part);
        const expected = [rows, ...shape.slice(1)];
        if (formatShape(tensor.shape) !== formatShape(expected)) {
          misshapen.push(`'${part}' got ${formatShape(tensor.shape)}, expected ${formatShape(expected)}`);
        }
        writes.push({ index, firstRow, data: tensor.data });
        firstRow += rows;
      }
    });
    splitPacked(parameters, given, missing, misshapen, writes);
    // PyTorch's BatchNorm counts its training batches; nothing here reads that.
    const unexpected = [...given.keys()]
      .filter((name) => !name.endsWith('num_batches_tracked'))
      .map((name) => `'${name}'`);
    const faults = [
      ['missing', missing],
      ['unexpected', unexpected],
      ['misshapen', misshapen],
    ] as const;
    const found = faults.filter(([, names]) => names.length > 0).map(([kind, names]) => `${kind} ${names.join(', ')}`);
    if (found.length > 0) {
      const code = missing.length + unexpected.length > 0 ? 'INVALID_ARGUMENT' : 'SHAPE_MISMATCH';
      throw new HeedError(
        code,
        `${argument}: got a state dict that does not fit: ${found.join('; ')}; expected exactly this layer's parameters`,
      );
    }
    // All of them before the first is written: a getter of the state may have transferred an earlier one's buffer away.
    const ready = guarded(argument, () =>
      writes.map(({ index, firstRow, data }) => ({
        index,
        firstRow,
        bytes: new Uint8Array(data.buffer, data.byteOffset, data.byteLength),
      })),
    );
    calling(argument, () => {
      for (const { index, firstRow, bytes } of ready) raw.writeParameter(index, firstRow, bytes, 'F32', null);
    });
    return this;
  }

  /** @internal Another layer of this one's class, in the same mode. */
  protected another(...made: unknown[]): this {
    const layer = new (this.constructor as new (...from: unknown[]) => this)(...made);
    return this.training ? layer.train() : layer;
  }

  #setTraining(training: boolean): this {
    this.raw.setTraining(training);
    this.#training = training;
    return this;
  }
}

/** Moving averages are state, not parameters. */
function isBuffer(name: string): boolean {
  return /(^|\.)running_(mean|var)$/.test(name);
}

function sizeOf(shape: readonly number[]): number {
  return shape.reduce((product, extent) => product * extent, 1);
}

const packed = /^(.*\.)?in_proj_weight$/;

/** The names of the three parts of a packed projection, where all are given. */
function separateNames(name: string, given: ReadonlyMap<string, unknown>): string[] | null {
  const prefix = packed.exec(name);
  if (!prefix) return null;
  const parts = ['q', 'k', 'v'].map((part) => `${prefix[1] ?? ''}${part}_proj_weight`);
  return parts.every((part) => given.has(part)) ? parts : null;
}

/** Deals a packed projection out to q, k and v where the layer keeps them apart and all read inputs of one width. */
function splitPacked(
  parameters: readonly { name: string; shape: number[] }[],
  given: Map<string, { data: Float32Array; shape: number[] }>,
  missing: string[],
  misshapen: string[],
  writes: { index: number; firstRow: number; data: Float32Array }[],
): void {
  for (const [name, tensor] of [...given]) {
    const prefix = packed.exec(name)?.[1] ?? '';
    const places = ['q', 'k', 'v'].map((part) =>
      parameters.findIndex((p) => p.name === `${prefix}${part}_proj_weight`),
    );
    if (!packed.test(name) || places.some((index) => index < 0)) continue;
    const shapes = places.map((index) => parameters[index]!.shape);
    const width = shapes[0]![1]!;
    if (shapes.some((shape) => shape[1] !== width)) continue;
    const parts = places.map((index) => `'${parameters[index]!.name}' ${formatShape(parameters[index]!.shape)}`);
    // Where some of the three are given too, the packed projection is one too many, and is listed as unexpected.
    if (!parts.every((part) => missing.includes(part))) continue;
    given.delete(name);
    for (const part of parts) missing.splice(missing.indexOf(part), 1);
    const expected = [shapes.reduce((sum, shape) => sum + shape[0]!, 0), width];
    if (formatShape(tensor.shape) !== formatShape(expected)) {
      misshapen.push(`'${name}' got ${formatShape(tensor.shape)}, expected ${formatShape(expected)}`);
      continue;
    }
    let start = 0;
    places.forEach((index, i) => {
      const size = sizeOf(shapes[i]!);
      writes.push({ index, firstRow: 0, data: tensor.data.subarray(start, start + size) });
      start += size;
    });
  }
}
