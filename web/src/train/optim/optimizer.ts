/** Optimizers as in torch.optim, and gradient clipping. */
import { calling, describe, guarded, HeedError, invalid } from '../../base/error.js';
import { requireIdle } from '../../base/in-progress.js';
import { flag, legal, notNegative, optional, positive, type Reader, readOptions } from '../../base/options.js';
import { Owned, type Runtime } from '../../base/owned.js';
import { diverged, type Parameter, readParameters } from '../graph/parameters.js';
import type { Tape } from '../graph/tape.js';
import type { RawOptimizer } from '../graph/train-core.js';

/** Options of `optim.SGD`. */
export interface SGDOptions {
  /** The learning rate. Default 1e-3. */
  lr?: number | undefined;
  /** The momentum factor. Default 0. */
  momentum?: number | undefined;
  /** Whether to use Nesterov's momentum. Default false. */
  nesterov?: boolean | undefined;
  /** The L2 penalty: this factor times the parameter is added to its gradient. Default 0. */
  weightDecay?: number | undefined;
}

/** Options of `optim.Adam` and `optim.AdamW`. */
export interface AdamOptions {
  /** The learning rate. Default 1e-3. */
  lr?: number | undefined;
  /** The decay rates of the moving averages of the gradients and of their squares. Default [0.9, 0.999]. */
  betas?: readonly [number, number] | undefined;
  /** Added to the denominator. Default 1e-8. */
  eps?: number | undefined;
  /**
   * The weight decay. Adam (default 0): this factor times the parameter is added to its gradient. AdamW (default 0.01):
   * this factor times the learning rate and the parameter is subtracted from the parameter.
   */
  weightDecay?: number | undefined;
  /** Whether to divide by the maximum of the second moments so far (Reddi, Kale, Kumar 2018, arXiv:1904.09237). Default false. */
  amsgrad?: boolean | undefined;
}

/** Options of `optim.RMSprop`. */
export interface RMSpropOptions {
  /** The learning rate. Default 1e-2. */
  lr?: number | undefined;
  /** The decay rate of the moving average of the squared gradients. Default 0.99. */
  alpha?: number | undefined;
  /** Whether to divide by an estimate of the standard deviation instead: the mean gradient is subtracted. Default false. */
  centered?: boolean | undefined;
  /** The momentum factor. Default 0. */
  momentum?: number | undefined;
  /** Added to the denominator. Default 1e-8. */
  eps?: number | undefined;
  /** The L2 penalty: this factor times the parameter is added to its gradient. Default 0. */
  weightDecay?: number | undefined;
}

/** Options of `optim.Adafactor`. */
export interface AdafactorOptions {
  /** The learning rate: the limit of the relative step size 1 / sqrt(n) in step n. Default 1e-2. */
  lr?: number | undefined;
  /** The exponent of the decay rate 1 - n^beta2Decay of the second moments; at most 0. Default -0.8. */
  beta2Decay?: number | undefined;
  /** The least root of a second moment, and the least norm of a parameter. Default [1.1920929e-7, 1e-3]. */
  eps?: readonly [number, number] | undefined;
  /** The root mean square, above 0, to which updates are clipped. Default 1. */
  clipThreshold?: number | undefined;
  /** The weight decay: this factor times the learning rate and the parameter is subtracted from the parameter. Default 0. */
  weightDecay?: number | undefined;
}

/** A group of parameters, with the options in which they differ from the rest. */
export type ParameterGroup<Options> = { params: Parameter | Iterable<Parameter> } & Options;

/** The parameters of an optimizer, or groups of them. */
export type OptimizerInput<Options> = Iterable<Parameter> | readonly ParameterGroup<Options>[];

type OptimizerClass<Options> = new (params: OptimizerInput<Options>, options?: Options) => Optimizer;

/** The optimizers. */
export interface Optimizers {
  /** Stochastic gradient descent, with momentum: `torch.optim.SGD`. */
  readonly SGD: OptimizerClass<SGDOptions>;
  /** `torch.optim.Adam` (Kingma, Ba 2014, arXiv:1412.6980). */
  readonly Adam: OptimizerClass<AdamOptions>;
  /** `torch.optim.AdamW` (Loshchilov, Hutter 2017, arXiv:1711.05101). */
  readonly AdamW: OptimizerClass<AdamOptions>;
  /** `torch.optim.RMSprop` (Tieleman, Hinton 2012, Coursera, lecture 6.5). */
  readonly RMSprop: OptimizerClass<RMSpropOptions>;
  /**
   * `torch.optim.Adafactor` (Shazeer, Stern 2018, arXiv:1804.04235). It stores a row and a column of second moments per
   * matrix instead of a matrix.
   */
  readonly Adafactor: OptimizerClass<AdafactorOptions>;
}

/** A group of parameters in an optimizer. */
export interface OptimizerGroup {
  /** The parameters of the group. */
  readonly params: readonly Parameter[];
  /** The learning rate of the group. May be set at any time. */
  lr: number;
}

/** @internal */
export const belowOne = legal<number>(
  'a number in [0, 1)',
  (value) => typeof value === 'number' && value >= 0 && value < 1,
);
const pairOf =
  (reader: Reader<number>): Reader<[number, number]> =>
  (value, name) =>
    guarded(name, () => {
      if (!Array.isArray(value) || value.length !== 2) throw invalid(name, 'two numbers', describe(value));
      return [reader(value[0], `${name}[0]`), reader(value[1], `${name}[1]`)];
    });
const notPositive = legal<number>(
  'a finite number <= 0',
  (value) => typeof value === 'number' && value <= 0 && value > -Infinity,
);

/** Readers and defaults of options. */
type Defaults<Options> = { readonly [K in keyof Options]-?: readonly [Reader<unknown>, unknown] };

interface OptimizerKind<Options> {
  options: Defaults<Options>;
  /** The moments that the optimizer stores for a parameter of this shape, with their shapes. */
  moments: (options: Options, shape: readonly number[]) => MomentShape[];
}

type MomentShape = readonly [name: string, shape: readonly number[]];

const adam = (weightDecay: number): OptimizerKind<AdamOptions> => ({
  options: {
    lr: [notNegative, 1e-3],
    betas: [pairOf(belowOne), [0.9, 0.999]],
    eps: [notNegative, 1e-8],
    weightDecay: [notNegative, weightDecay],
    amsgrad: [flag, false],
  },
  moments: ({ amsgrad }, shape) =>
    ['exp_avg', 'exp_avg_sq', ...(amsgrad ? ['max_exp_avg_sq'] : [])].map((name) => [name, shape]),
});

const sgd: OptimizerKind<SGDOptions> = {
  options: {
    lr: [notNegative, 1e-3],
    momentum: [notNegative, 0],
    nesterov: [flag, false],
    weightDecay: [notNegative, 0],
  },
  moments: ({ momentum }, shape) => (momentum ? [['momentum_buffer', shape]] : []),
};

const rmsprop: OptimizerKind<RMSpropOptions> = {
  options: {
    lr: [notNegative, 1e-2],
    alpha: [notNegative, 0.99],
    centered: [flag, false],
    momentum: [notNegative, 0],
    eps: [notNegative, 1e-8],
    weightDecay: [notNegative, 0],
  },
  moments: ({ momentum, centered }, shape) =>
    ['square_avg', ...(momentum ? ['momentum_buffer'] : []), ...(centered ? ['grad_avg'] : [])].map((name) => [
      name,
      shape,
    ]),
};

const adafactor: OptimizerKind<AdafactorOptions> = {
  options: {
    lr: [notNegative, 1e-2],
    beta2Decay: [notPositive, -0.8],
    eps: [pairOf(notNegative), [1.1920929e-7, 1e-3]],
    clipThreshold: [positive, 1],
    weightDecay: [notNegative, 0],
  },
  moments: (_, shape) =>
    shape.length < 2
      ? [['variance', shape]]
      : [
          ['row_var', [...shape.slice(0, -1), 1]],
          ['col_var', [...shape.slice(0, -2), 1, ...shape.slice(-1)]],
        ],
};

/** @internal The kinds of optimizers, by the names of PyTorch's classes. */
export const kinds: Record<keyof Optimizers, OptimizerKind<object>> = {
  SGD: sgd,
  Adam: adam(0),
  AdamW: adam(0.01),
  RMSprop: rmsprop,
  Adafactor: adafactor,
};

/** @internal */
export type Kind = keyof Optimizers;

/** The schema of a kind's options, with the values of `given` as defaults. */
function schemaOf(kind: Kind, given: Record<string, unknown> = {}): Record<string, Reader<unknown>> {
  const options = Object.entries(kinds[kind].options as Record<string, readonly [Reader<unknown>, unknown]>);
  return Object.fromEntries(
    options.map(([name, [reader, fallback]]) => [name, optional(reader, given[name] ?? fallback)]),
  );
}

/**
 * Base class of the optimizers. An optimizer's state is freed by `dispose()`, or when it is garbage-collected.
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
  /** The groups of parameters. */
  readonly paramGroups: readonly OptimizerGroup[];
  /** @internal */
  readonly kind: Kind;
  /** @internal The options of each group, with its initial learning rate. */
  readonly settings: readonly object[];
  readonly #tape: Tape;

  /** @internal */
  constructor(runtime: Runtime, tape: Tape, kind: Kind, params: unknown, options: unknown) {
    const name = `optim.${kind}`;
    const common = readOptions(name, schemaOf(kind), options);
    const groups = readGroups(tape, name, params, schemaOf(kind, common));
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

  /** Clears the gradients of all its parameters, and frees the graphs of all forward passes. */
  zeroGrad(): void {
    void this.raw;
    this.#tape.endPasses();
    for (const { gradients, index } of this.#parameters()) gradients.zero(index);
    this.#tape.isIncomplete = false;
  }

  /**
   * Updates the parameters that are not frozen and have a gradient, and frees the graphs of all forward passes.
   * @throws HeedError `DIVERGED` if a gradient is not finite; no parameter is then changed
   */
  step(): void {
    const { raw, name } = this;
    const tape = this.#tape;
    tape.requireNoPass();
    const parameters = this.#parameters();
    requireIdle(
      `${name}.step`,
      parameters.map(({ state }) => state),
    );
    if (tape.isIncomplete) {
      const problem = 'a backward pass has failed, so the gradients are incomplete';
      const hint = 'Call zeroGrad() and run the passes again';
      throw new HeedError('INVALID_ARGUMENT', `${name}.step: ${problem}. ${hint}`);
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

  #add({ params, ...options }: Group): OptimizerGroup {
    const { raw, name } = this;
    const rawNow = () => this.raw; // throws after dispose()
    let { lr } = options;
    const index = calling(name, () => raw.addGroup(options));
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

type Group = { params: Parameter[]; lr: number };

/** Reads parameters or groups. `schema` reads a group's options. */
function readGroups(tape: Tape, name: string, given: unknown, schema: Record<string, Reader<unknown>>): Group[] {
  const isGroup = (value: unknown): value is { params: unknown } =>
    typeof value === 'object' && value !== null && 'params' in value;
  return guarded(name, () => {
    if (!Array.isArray(given) || !given.some(isGroup)) {
      return [{ params: readParameters(tape, `${name}: params`, given), ...readOptions(name, schema) } as Group];
    }
    return given.map((group: unknown, i) => {
      const argument = `${name}: params[${i}]`;
      if (!isGroup(group)) throw invalid(argument, 'a group { params, ... } like the others', describe(group));
      const { params, ...options } = group;
      return {
        params: readParameters(tape, `${argument}.params`, params),
        ...readOptions(argument, schema, options),
      } as Group;
    });
  });
}

const maxNormReader = legal<number>('a positive number', (value) => typeof value === 'number' && value > 0);

/** @internal Scales gradients; see `Optim.clipGradNorm`. */
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
