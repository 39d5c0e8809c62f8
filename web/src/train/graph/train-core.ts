/**
 * What the modules for training export in addition to `Core`. Handles must be deleted.
 *
 * Functions named `record…` compute on variables, and record the computation in a graph if anything needs a gradient.
 */
import type {
  Core,
  RawEncoderModel,
  RawMask,
  RawModule,
  RawSiteEdit,
  RawSites,
  RawTensor,
} from '../../base/wasm/core.js';

/** `RawSites` of recorded calls. */
export interface RawRecordedSites extends Pick<RawSites, 'reads' | 'columns' | 'map'> {
  edits: (RawSiteEdit & { variable: RawVariable | null })[];
  /** Receives the variable of a site: its rows of features, (T H, D), or its values, (T, 1). */
  read(code: number, values: RawVariable): void;
  /** Receives, in a backward pass, the gradient of a site that was read. */
  retain(code: number, gradient: Float32Array): void;
}

/** A value and its place in a graph. */
export interface RawVariable {
  value(): RawTensor;
  /** For a leaf: the gradient that backward passes have left there, or zeros. */
  gradient(): RawTensor;
  needsGradient(): boolean;
  delete(): void;
}

/** The gradients of a module's parameters, by their indices in `RawModule.parameters()`. */
export interface RawGradients {
  isBuffer(index: number): boolean;
  requiresGradient(index: number): boolean;
  setRequiresGradient(index: number, required: boolean): void;
  /** null before a backward pass has reached the parameter. */
  read(index: number): Float32Array | null;
  /** Not finite if any entry is not. */
  sumOfSquares(index: number): number;
  scale(index: number, factor: number): void;
  zero(index: number): void;
  delete(): void;
}

/** A gradient that is sent between workers: of all rows, or of the rows of a table that were looked up. */
export interface RawGradient {
  rows: Int32Array | null;
  values: Float32Array;
}

/** A backward pass. */
export interface RawPass {
  /** Runs to the next external variable, or to the end and returns null. `gradient` is that of the variable; pass the gradients of its inputs to `give`. */
  proceed(): { external: unknown; gradient: Float32Array } | null;
  /** Whether input `i` of the external variable needs a gradient. */
  wants(i: number): boolean;
  give(i: number, gradient: RawTensor): void;
  delete(): void;
}

export interface RawGraph {
  /** A copy of the values. */
  leaf(tensor: RawTensor, needsGradient: boolean): RawVariable;
  /** A result that JavaScript has computed; backward passes return `external`. */
  external(result: RawTensor, inputs: RawVariable[], external: unknown): RawVariable;
  /** Requests the gradients of a module, until they are forgotten. */
  add(gradients: RawGradients): void;
  forget(gradients: RawGradients): void;
  /** Makes everything that is recorded stale. */
  invalidate(): void;
  /** `cotangent`: null for ones. */
  backward(output: RawVariable, cotangent: RawTensor | null): RawPass;
  delete(): void;
}

/** The tokens of several texts, one text after the other. */
export interface RawTokenBatch {
  ids: Int32Array;
  /** null: all are 0 */
  tokenTypes: Int32Array | null;
  /** null: 0, 1, 2, ... from the model's offset in each text */
  positions: Int32Array | null;
  lengths: Int32Array;
}

/** Rows of a parameter of the core, under another name. */
export interface RawNamedRows {
  name: string;
  parameter: number;
  firstRow: number;
  rows: number;
}

/** Rates by place; see `EncoderDropout` in the core. */
export interface RawDropoutRates {
  embedding: number;
  attention: number;
  attentionOutput: number;
  hidden: number;
  output: number;
  position: number;
}

export interface RawLora extends RawModule {
  /** Adds the updates to the weights. */
  merge(): void;
}

export interface RawOptimizer {
  /** Returns the group's index. The core sets the defaults of missing options. */
  addGroup(options: object): number;
  setRate(group: number, lr: number): void;
  addParameter(group: number, gradients: RawGradients, index: number): void;
  /** Returns false, with the parameters unchanged, if a gradient is not finite. */
  step(): boolean;
  /** The state of a parameter, by its index in the order of `addParameter`. */
  state(parameter: number): RawOptimizerState;
  /** Restores the states of all parameters. Throws `OUT_OF_MEMORY`, with the states unchanged. */
  restore(states: readonly RawOptimizerState[]): void;
  delete(): void;
}

/** A parameter's state: before its first step there are no moments. */
export interface RawOptimizerState {
  steps: number;
  moments: { name: string; values: Float32Array }[];
}

export interface TrainCore extends Core {
  Variable: new () => RawVariable;
  Graph: new () => RawGraph;
  Gradients: new (module: RawModule) => RawGradients;
  Optimizer: new (kind: string) => RawOptimizer;
  /** The parameters of a model, named and divided as in a checkpoint; the model must outlive this object. */
  TrainableEncoder: new (
    model: RawEncoderModel,
    names: readonly RawNamedRows[],
    dropout: RawDropoutRates,
  ) => RawModule;
  /** `modules`: the names of the targets and the indices of their weights among the encoder's parameters. */
  Lora: new (
    encoder: RawModule,
    modules: readonly { name: string; parameter: number }[],
    options: { rank: number; alpha: number; dropout: number },
  ) => RawLora;

  /** The shapes are broadcast. */
  recordAdd(graph: RawGraph, a: RawVariable, b: RawVariable): RawVariable;
  recordMultiply(graph: RawGraph, a: RawVariable, b: RawVariable): RawVariable;
  recordScale(graph: RawGraph, x: RawVariable, factor: number): RawVariable;
  recordReshape(graph: RawGraph, x: RawVariable, shape: readonly number[]): RawVariable;
  recordSlice(graph: RawGraph, x: RawVariable, axis: number, first: number, count: number): RawVariable;
  recordConcatenate(graph: RawGraph, tensors: RawVariable[], axis: number): RawVariable;
  /** mask: bytes, or null */
  recordMean(graph: RawGraph, x: RawVariable, mask: RawMask | null): RawVariable;
  /**
   * `RawLayer.forward` with variables in place of tensors, of additive masks and of those tensors of the result that can be differentiated. `position`: of a part of a batch, that of
   * its first sequence and its first row in the whole batch, so that dropout draws what it draws for the whole batch; else null.
   */
  record(
    graph: RawGraph,
    layer: RawModule,
    given: object,
    position: readonly [sequence: number, row: number] | null,
  ): RawVariable | object;
  /** The same for `RawFunctions.compute`. */
  recordFunction(graph: RawGraph, name: string, given: object): RawVariable | object;
  /** The loss `name`. `given`: its arguments by name, as variables, and its options as the loss's schema has read them. */
  recordLoss(graph: RawGraph, name: string, given: object): RawVariable;

  /** See `ModuleState`. */
  dropoutState(module: RawModule): number[];
  setDropoutState(module: RawModule, words: readonly number[]): void;

  /** null before a backward pass has reached the parameter. */
  takeGradient(gradients: RawGradients, index: number): RawGradient | null;
  addGradient(gradients: RawGradients, index: number, part: RawGradient): void;

  /** The last hidden rows of all texts, [T,E]. */
  recordEncoderModel(
    graph: RawGraph,
    encoder: RawModule,
    batch: RawTokenBatch,
    options: { training: boolean; recompute: boolean },
    sites: RawRecordedSites | null,
  ): RawVariable;
  /** [rows, V] */
  recordWordLogits(graph: RawGraph, encoder: RawModule, x: RawVariable): RawVariable;
  /** Pools rows [T,E] to one per text, [N,E]; `skipped` as in `RawEncoding.pool`. */
  recordPool(
    graph: RawGraph,
    x: RawVariable,
    lengths: Int32Array,
    skipped: Int32Array | null,
    pooling: string,
  ): RawVariable;
  /** Divides each row by its length. */
  recordNormalize(graph: RawGraph, x: RawVariable): RawVariable;
  /** Rows of a matrix. */
  recordGatherRows(graph: RawGraph, x: RawVariable, indices: Int32Array): RawVariable;
  /** A tensor whose rows at `indices` are those of x; all others are zeros. */
  recordScatterRows(graph: RawGraph, x: RawVariable, indices: Int32Array, shape: readonly number[]): RawVariable;
}
