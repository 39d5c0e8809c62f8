/** Parameters in training: their values, their gradients, and whether they are trained. */
import { calling, describe, formatShape, guarded, type HeedError, invalid } from '../../base/error.js';
import { listOf, type Reader } from '../../base/options.js';
import { Tensor } from '../../base/tensor.js';
import { Unproxied } from '../../base/unproxied.js';
import type { RawModule } from '../../base/wasm/core.js';
import { FreeParameter } from '../../layers/composition/parameter.js';
import type { RecordedModule } from './recorded-module.js';
import type { Tape } from './tape.js';

/** What has parameters: a layer, or a part of a model. */
interface Owner {
  readonly raw: RawModule;
}

/**
 * A parameter of a layer or module. Several `Parameter` objects may represent the same parameter.
 *
 * @example
 * const [weight, bias] = new heed.Linear({ inFeatures: 8, outFeatures: 2 }).parameters();
 * weight.name; // "weight"
 * weight.value.shape; // [2, 8]
 * bias.requiresGrad = false; // as `freeze('bias')`
 */
export class Parameter extends Unproxied {
  /** @internal For messages and consoles, as minification renames classes. */
  static override readonly name: string = 'Parameter';

  /** The name in the state dict of the layer or module that listed it. */
  readonly name: string;
  /** The extents of the axes. */
  readonly shape: readonly number[];
  /** @internal */
  readonly state: RecordedModule;
  /** @internal */
  readonly index: number;
  readonly #layer: Owner; // also prevents the layer from being garbage-collected
  readonly #tape: Tape;

  /** @internal */
  constructor(tape: Tape, layer: Owner, state: RecordedModule, index: number, name: string, shape: readonly number[]) {
    super();
    this.name = name;
    this.shape = shape;
    this.state = state;
    this.index = index;
    this.#layer = layer;
    this.#tape = tape;
  }

  /** A copy of the value. */
  get value(): Tensor {
    return this.#tensor(this.#layer.raw.readParameter(this.index));
  }

  /** A copy of the sum of the gradients since the last `zeroGrad()`; null before the first `backward()`. */
  get grad(): Tensor | null {
    const data = calling(this.name, () => this.gradients.read(this.index));
    return data && this.#tensor(data);
  }

  /** Whether the parameter is trained; false after `freeze`. */
  get requiresGrad(): boolean {
    return this.gradients.requiresGradient(this.index);
  }

  set requiresGrad(required: boolean) {
    this.gradients.setRequiresGradient(this.index, required);
  }

  /** @internal Sets its value. */
  write({ data }: Tensor): void {
    const { buffer, byteOffset, byteLength } = data;
    const bytes = new Uint8Array(buffer, byteOffset, byteLength);
    calling(this.name, () => this.#layer.raw.writeParameter(this.index, 0, bytes, 'F32', null));
  }

  /** @internal The gradients of its layer. @throws HeedError `DISPOSED` */
  get gradients() {
    void this.#layer.raw;
    return this.#tape.gradientsOf(this.state);
  }

  /** @internal Whether the parameter belongs to the same `load()`. */
  belongsTo(tape: Tape): boolean {
    return this.#tape === tape;
  }

  #tensor(data: Float32Array): Tensor {
    return new Tensor(data, this.shape);
  }
}

/**
 * Lists the parameters of a layer, without buffers. `naming`: a prefix of their names, or a function that returns their
 * names; parameters for which it returns null are frozen and left out.
 */
export function parametersOf(
  tape: Tape,
  layer: Owner,
  naming: string | ((name: string) => string | null) = '',
): Parameter[] {
  const { raw } = layer;
  const state = tape.stateOf(raw);
  const nameOf = typeof naming === 'string' ? (name: string) => naming + name : naming;
  const gradients = tape.gradientsOf(state);
  return raw.parameters().flatMap(({ name: own, shape }, i) => {
    const name = nameOf(own);
    if (name === null) gradients.setRequiresGradient(i, false);
    return name === null || gradients.isBuffer(i) ? [] : [new Parameter(tape, layer, state, i, name, shape)];
  });
}

/** A pattern of parameter names: a glob, in which `*` matches any characters and `?` a single one, a regular expression, or a list of these. */
export type NamePattern = string | RegExp | readonly (string | RegExp)[];

/** Recognizes regular expressions of other realms, too. */
export const isRegExp = (value: unknown): value is RegExp =>
  Object.prototype.toString.call(value) === '[object RegExp]';

const pattern: Reader<RegExp> = (value, name) => {
  if (typeof value === 'string') {
    const source = value
      .replace(/[\\^$.|+()[\]{}]/g, '\\$&')
      .replaceAll('*', '.*')
      .replaceAll('?', '.');
    return new RegExp(`^${source}$`, 's');
  }
  const { source, flags } = guarded(name, () => (isRegExp(value) ? value : ({} as Partial<RegExp>)));
  if (source === undefined) throw invalid(name, 'a glob or a RegExp', describe(value));
  return new RegExp(source, flags?.replace(/[gy]/g, '')); // g and y would make `test` depend on earlier calls
};

/** The parameters whose names match. @throws HeedError `INVALID_ARGUMENT` if none does */
export function matching(argument: string, parameters: readonly Parameter[], given: NamePattern = '*'): Parameter[] {
  const patterns = listOf(pattern, '')(Array.isArray(given) ? given : [given], argument);
  for (const one of patterns) {
    if (parameters.some(({ name }) => one.test(name))) continue;
    const names = parameters.map(({ name }) => name).join(', ');
    throw invalid(argument, `a pattern that matches a parameter (${names})`, String(one));
  }
  return parameters.filter(({ name }) => patterns.some((one) => one.test(name)));
}

/** Reads parameters: an array or another iterable. */
export function readParameters(tape: Tape, argument: string, given: unknown): Parameter[] {
  return guarded(argument, () => {
    const isIterable = typeof given === 'object' && given !== null && Symbol.iterator in given;
    const all: unknown[] = isIterable ? [...(given as Iterable<unknown>)] : [given];
    const list = all.flatMap((one) =>
      one instanceof FreeParameter ? (one as FreeParameter & { parameters(): Parameter[] }).parameters() : [one],
    );
    for (const one of list) {
      if (!(one instanceof Parameter))
        throw invalid(argument, 'parameters from parameters() of a layer or model', describe(one));
      if (!one.belongsTo(tape))
        throw invalid(argument, 'parameters of the same load()', 'a parameter of another load()');
    }
    if (list.length === 0) throw invalid(argument, 'at least one parameter', 'none');
    return list as Parameter[];
  });
}

/** Makes the error for a gradient that is not finite. */
export function diverged(argument: string, { name, shape }: Parameter): HeedError {
  const got = `NaN or infinity in that of '${name}' ${formatShape(shape)}`;
  const hint = 'The parameters are unchanged. A lower learning rate or clipGradNorm may help';
  return invalid(argument, 'finite gradients', got, 'DIVERGED', { hint });
}
