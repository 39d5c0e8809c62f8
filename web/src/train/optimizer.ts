/** Optimizers as in torch.optim, and clipping. */
import { calling, describe, guarded, HeedError, invalid } from '../error.js';
import { flag, legal, optional, type Reader, readOptions, type Schema } from '../options.js';
import { Owned, type Runtime } from '../owned.js';
import type { RawOptimizer } from './core.js';
import { diverged, type Parameter, readParameters } from './parameters.js';
import type { Tape } from './tape.js';

/** Options of `optim.SGD`. */
export interface SGDOptions {
  /** Learning rate; default 1e-3. */
  lr?: number;
  /** Default 0. */
  momentum?: number;
  /** Nesterov's momentum. Default false. */
  nesterov?: boolean;
  /** Times the parameter, added to its gradient. Default 0. */
  weightDecay?: number;
}

/** Options of `optim.Adam` and `optim.AdamW`. */
export interface AdamOptions {
  /** Learning rate; default 1e-3. */
  lr?: number;
  /** Decay of the averages of gradients and of their squares; default [0.9, 0.999]. */
  betas?: readonly [number, number];
  /** Added to the denominator; default 1e-8. */
  eps?: number;
  /** Of Adam: times the parameter, added to its gradient, default 0. Of AdamW: times learning rate and parameter, subtracted from the parameter, default 0.01. */
  weightDecay?: number;
}

/** Parameters, and options that differ from the optimizer's. */
export type ParameterGroup<Options> = { params: Parameter | Iterable<Parameter> } & Options;

/** What an optimizer takes: parameters, or groups of them. */
export type OptimizerInput<Options> = Iterable<Parameter> | readonly ParameterGroup<Options>[];

/** A group of an optimizer. */
export interface OptimizerGroup {
  readonly params: readonly Parameter[];
  /** Its learning rate, which may be set at any time. */
  lr: number;
}

const notNegative = legal<number>(
  'a finite number >= 0',
  (value) => typeof value === 'number' && value >= 0 && value < Infinity,
);
const beta = legal<number>('a number in [0, 1)', (value) => typeof value === 'number' && value >= 0 && value < 1);
const betas: Reader<[number, number]> = (value, name) =>
  guarded(name, () => {
    if (!Array.isArray(value) || value.length !== 2) throw invalid(name, 'two numbers', describe(value));
    return [beta(value[0], `${name}[0]`), beta(value[1], `${name}[1]`)];
  });

type AdamDefaults = { lr: number; betas: readonly [number, number]; eps: number; weightDecay: number };
type SGDDefaults = { lr: number; momentum: number; nesterov: boolean; weightDecay: number };

const adamSchema = (given: AdamDefaults) =>
  ({
    lr: optional(notNegative, given.lr),
    betas: optional(betas, given.betas),
    eps: optional(notNegative, given.eps),
    weightDecay: optional(notNegative, given.weightDecay),
  }) satisfies Schema<AdamOptions>;

const sgdSchema = (given: SGDDefaults) =>
  ({
    lr: optional(notNegative, given.lr),
    momentum: optional(notNegative, given.momentum),
    nesterov: optional(flag, given.nesterov),
    weightDecay: optional(notNegative, given.weightDecay),
  }) satisfies Schema<SGDOptions>;

const unused = { momentum: 0, nesterov: false, betas: [0.9, 0.999] as const, eps: 1e-8 };
const adamDefaults: AdamDefaults = { lr: 1e-3, betas: [0.9, 0.999], eps: 1e-8, weightDecay: 0 };

/** The kinds of optimizers: a schema of their options, given the defaults of a group. */
const kinds = {
  SGD: { schema: sgdSchema, defaults: { lr: 1e-3, momentum: 0, nesterov: false, weightDecay: 0 } },
  Adam: { schema: adamSchema, defaults: adamDefaults },
  AdamW: { schema: adamSchema, defaults: { ...adamDefaults, weightDecay: 0.01 } },
} as const;

export type Kind = keyof typeof kinds;

/**
 * Base of the optimizers. Their state is kept until `dispose()` or until they are collected.
 *
 * @example
 * const layer = new heed.Linear({ inFeatures: 8, outFeatures: 1 }).train();
 * const optimizer = new heed.optim.AdamW(layer.parameters(), { lr: 1e-3 });
 * optimizer.zeroGrad();
 * heed.losses.mse(layer.forward(x), [[1], [2], [3]]).backward();
 * optimizer.step();
 * optimizer.paramGroups[0].lr = 1e-4;
 * optimizer.dispose();
 */
export class Optimizer extends Owned<RawOptimizer> {
  /** The parameters in groups. */
  readonly paramGroups: readonly OptimizerGroup[];
  /** @internal */
  readonly kind: Kind;
  /** @internal The options of each group, with the learning rates that they began with. */
  readonly settings: readonly object[];
  readonly #tape: Tape;

  /** @internal */
  constructor(runtime: Runtime, tape: Tape, kind: Kind, params: unknown, options: unknown) {
    const name = `optim.${kind}`;
    const { schema, defaults } = kinds[kind] as {
      schema: (given: object) => Record<string, Reader<unknown>>;
      defaults: object;
    };
    const common = readOptions(name, schema(defaults), options);
    const groups = readGroups(tape, name, params, schema(common));
    const raw = calling(name, () => new tape.core.Optimizer(kind));
    super(name, runtime, raw);
    this.#tape = tape;
    this.kind = kind;
    this.settings = groups.map(({ params, ...settings }) => settings);
    try {
      this.paramGroups = groups.map((group) => this.#add(group));
    } catch (error) {
      this.dispose();
      throw error;
    }
  }

  /** Drops the gradients of all its parameters, and ends all passes that are live. */
  zeroGrad(): void {
    void this.raw;
    this.#tape.endPasses();
    for (const { gradients, index } of this.#parameters()) gradients.zero(index);
    this.#tape.isIncomplete = false;
  }

  /**
   * Updates its parameters that are not frozen and have a gradient, and ends all passes that are live.
   * @throws HeedError `DIVERGED` if a gradient is not finite; the parameters are then unchanged
   */
  step(): void {
    const { raw, name } = this;
    const tape = this.#tape;
    tape.requireIdle();
    const parameters = this.#parameters();
    if (tape.isIncomplete) {
      const expected = 'the gradients of whole backward passes';
      throw invalid(`${name}.step`, expected, 'those of one that failed', 'INVALID_ARGUMENT', {
        hint: 'Call zeroGrad() and run the passes again',
      });
    }
    if (!calling(`${name}.step`, () => raw.step())) {
      const wrong = parameters.find(({ gradients, index }) => !Number.isFinite(gradients.sumOfSquares(index)));
      throw diverged(`${name}.step`, wrong ?? parameters[0]!);
    }
    for (const { state } of parameters) {
      state.version++;
      state.written = true;
    }
    tape.endPasses();
  }

  /** All parameters. @throws HeedError `DISPOSED` if a layer was disposed of */
  #parameters(): Parameter[] {
    const all = this.paramGroups.flatMap(({ params }) => params);
    const gone = all.find(({ state }) => state.deleted);
    if (gone)
      throw new HeedError('DISPOSED', `${this.name}: the layer of its parameter '${gone.name}' was disposed of`);
    return all;
  }

  #add({ params, ...given }: Group): OptimizerGroup {
    const { raw, name } = this;
    const rawNow = () => this.raw; // throws after dispose()
    const {
      betas: [beta1, beta2],
      ...options
    } = { ...unused, ...given };
    let { lr } = given;
    const index = calling(name, () => raw.addGroup({ ...options, beta1, beta2 }));
    for (const parameter of params) calling(name, () => raw.addParameter(index, parameter.gradients, parameter.index));
    return {
      params,
      get lr() {
        return lr;
      },
      set lr(value) {
        lr = notNegative(value, `${name}.lr`);
        rawNow().setRate(index, lr);
      },
    };
  }
}

type Group = { params: Parameter[]; lr: number; weightDecay: number } & Partial<AdamDefaults & SGDDefaults>;

/** Reads parameters or groups; `schema` reads a group's options. */
function readGroups(tape: Tape, name: string, given: unknown, schema: Record<string, Reader<unknown>>): Group[] {
  const isGroup = (value: unknown): value is { params: unknown } =>
    typeof value === 'object' && value !== null && 'params' in value;
  return guarded(name, () => {
    if (!Array.isArray(given) || !given.some(isGroup)) {
      return [{ params: readParameters(tape, `${name}: params`, given), ...readOptions(name, schema) } as Group];
    }
    return given.map((group: unknown, i) => {
      const argument = `${name}: params[${i}]`;
      if (!isGroup(group)) throw invalid(argument, 'a group { params, ... }, as the others', describe(group));
      const { params, ...options } = group;
      return {
        params: readParameters(tape, `${argument}.params`, params),
        ...readOptions(argument, schema, options),
      } as Group;
    });
  });
}

const maxNormReader = legal<number>('a positive number', (value) => typeof value === 'number' && value > 0);

/** Scales gradients, see `Optim.clipGradNorm`. */
export function clipGradNorm(tape: Tape, params: unknown, maxNorm: unknown): number {
  const name = 'optim.clipGradNorm';
  const parameters = readParameters(tape, `${name}: params`, params);
  const most = maxNormReader(maxNorm, `${name}: maxNorm`);
  const sum = parameters.reduce((total, { gradients, index }) => total + gradients.sumOfSquares(index), 0);
  const norm = Math.sqrt(sum);
  const factor = most / (norm + 1e-6);
  if (factor < 1 && norm < Infinity) for (const { gradients, index } of parameters) gradients.scale(index, factor);
  return norm;
}
