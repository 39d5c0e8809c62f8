/**
 * The exports of the modules for training, in addition to `Core`. Handles must be deleted. Functions named `record…`
 * compute on variables, and record the computation in a graph if anything needs a gradient.
 */
import type { Core, RawEncoderModel, RawModule, RawSiteEdit, RawSites, RawTensor } from '../../base/wasm/core.js';

/** `RawSites` for recorded calls. */
export interface RawRecordedSites extends Pick<RawSites, 'reads' | 'columns' | 'map'> {
  edits: (RawSiteEdit & { variable: RawVariable | null })[];
  /** Receives the variable of a site: its rows of features, (T H, D), or its values, (T, 1). */
  read(code: number, values: RawVariable): void;
  /** Receives, in a backward pass, the gradient of a site that was read. */
  retain(code: number, gradient: Float32Array): void;
}

/** A value in a graph. */
export interface RawVariable {
  value(): RawTensor;
  /** For a leaf: the gradient that backward passes have accumulated, or zeros. */
  gradient(): RawTensor;
  needsGradient(): boolean;
  delete(): void;
}

/** The gradients of a module's parameters, by their indices in `RawModule.parameters()`. */
export interface RawGradients {
  isBuffer(index: number): boolean;
  requiresGradient(index: number): boolean;
  setRequiresGradient(index: number, required: boolean): void;
  /** null until a backward pass has reached the parameter. */
  read(index: number): Float32Array | null;
  /** Not finite if any entry is not. */
  sumOfSquares(index: number): number;
  scale(index: number, factor: number): void;
  zero(index: number): void;
  delete(): void;
}

/** A gradient that is sent between workers: of all rows, or only of the rows of a table that were looked up. */
export interface RawGradient {
  rows: Int32Array | null;
  values: Float32Array;
}

/** A backward pass. */
export interface RawPass {
  /**
   * Runs to the next external variable and returns its gradient, or to the end and returns null. Pass the gradients of
   * the variable's inputs to `give`.
   */
  proceed(): { external: unknown; gradient: Float32Array } | null;
  /** Whether input `i` of the external variable needs a gradient. */
  wants(i: number): boolean;
  give(i: number, gradient: RawTensor): void;
  delete(): void;
}

export interface RawGraph {
  /** Makes a leaf with a copy of the values. */
  leaf(tensor: RawTensor, needsGradient: boolean): RawVariable;
  /** Adds a result that JavaScript has computed. Backward passes return `external`. */
  external(result: RawTensor, inputs: RawVariable[], external: unknown): RawVariable;
  /** Requests the gradients of a module, until `forget` is called. */
  add(gradients: RawGradients): void;
  forget(gradients: RawGradients): void;
  /** Invalidates everything that has been recorded. */
  invalidate(): void;
  /** `cotangent`: null means ones. */
  backward(output: RawVariable, cotangent: RawTensor | null): RawPass;
  delete(): void;
}

/** The tokens of several texts, concatenated. */
export interface RawTokenBatch {
  ids: Int32Array;
  /** null: all are 0 */
  tokenTypes: Int32Array | null;
  /** null: 0, 1, 2, ... plus the model's offset in each text */
  positions: Int32Array | null;
  lengths: Int32Array;
}

/** Rows of a parameter, under another name. */
export interface RawNamedRows {
  name: string;
  parameter: number;
  firstRow: number;
  rows: number;
}

/** Dropout rates, as in the C++ `EncoderDropout`. */
export interface RawDropoutRates {
  embedding: number;
  attention: number;
  attentionOutput: number;
  hidden: number;
  output: number;
  position: number;
}

export interface RawLora extends RawModule {
  /** Adds the adapters to the weights. */
  merge(): void;
}

export interface RawOptimizer {
  /** Adds a group and returns its index. Missing options have the defaults of the C++ optimizer. */
  addGroup(options: object): number;
  setRate(group: number, lr: number): void;
  addParameter(group: number, gradients: RawGradients, index: number): void;
  /** Returns false, leaving the parameters unchanged, if a gradient is not finite. */
  step(): boolean;
  /** The state of a parameter, by its index in the order of `addParameter`. */
  state(parameter: number): RawOptimizerState;
  /** Restores the states of all parameters. Throws `OUT_OF_MEMORY`, leaving the states unchanged. */
  restore(states: readonly RawOptimizerState[]): void;
  delete(): void;
}

/** A parameter's state. It has no moments before its first step. */
export interface RawOptimizerState {
  steps: number;
  moments: { name: string; shape: readonly number[]; values: Float32Array }[];
}

export interface TrainCore extends Core {
  Variable: new () => RawVariable;
  Graph: new () => RawGraph;
  Gradients: new (module: RawModule) => RawGradients;
  Optimizer: new (kind: string) => RawOptimizer;
  /** The parameters of a model, named and split as in its checkpoint. The model must outlive this object. */
  TrainableEncoder: new (
    model: RawEncoderModel,
    names: readonly RawNamedRows[],
    dropout: RawDropoutRates,
  ) => RawModule;
  /** `modules`: the names of the targets, with the indices of their weights among the encoder's parameters. */
  Lora: new (
    encoder: RawModule,
    modules: readonly { name: string; parameter: number }[],
    options: { rank: number; alpha: number; dropout: number },
  ) => RawLora;

  /** The shapes of `a` and `b` broadcast. */
  recordAdd(graph: RawGraph, a: RawVariable, b: RawVariable): RawVariable;
  recordReshape(graph: RawGraph, x: RawVariable, shape: readonly number[]): RawVariable;
  recordSlice(graph: RawGraph, x: RawVariable, axis: number, first: number, count: number): RawVariable;
  recordConcatenate(graph: RawGraph, tensors: RawVariable[], axis: number): RawVariable;
  /**
   * Records `RawLayer.forward`, with variables in place of tensors, additive masks, and those tensors of the result
   * that can be differentiated. `position`: for a part of a batch, the indices of its first sequence and its first row
   * in the whole batch, so that dropout samples the same mask as for the whole batch; otherwise null.
   */
  record(
    graph: RawGraph,
    layer: RawModule,
    given: object,
    position: readonly [sequence: number, row: number] | null,
  ): RawVariable | object;
  /** Records `RawFunctions.compute`, with variables in place of tensors. */
  recordFunction(graph: RawGraph, name: string, given: object): RawVariable | object;
  /**
   * Records the loss `name`. `given`: its arguments by name, as variables, and its options as the loss's schema has
   * read them.
   */
  recordLoss(graph: RawGraph, name: string, given: object): RawVariable;

  /** See `RecordedModule`. */
  dropoutState(module: RawModule): number[];
  setDropoutState(module: RawModule, words: readonly number[]): void;

  /** null until a backward pass has reached the parameter. */
  takeGradient(gradients: RawGradients, index: number): RawGradient | null;
  addGradient(gradients: RawGradients, index: number, part: RawGradient): void;

  /** The last hidden states of all texts, [T,E]. */
  recordEncoderModel(
    graph: RawGraph,
    encoder: RawModule,
    batch: RawTokenBatch,
    options: { training: boolean; recompute: boolean },
    sites: RawRecordedSites | null,
  ): RawVariable;
  /** The vocabulary logits of x [rows,E], [rows,V]. */
  recordWordLogits(graph: RawGraph, encoder: RawModule, x: RawVariable): RawVariable;
  /** Pools rows [T,E] to one row per text, [N,E]. `skipped`: as in `RawRows.pool`. */
  recordPool(
    graph: RawGraph,
    x: RawVariable,
    lengths: Int32Array,
    skipped: Int32Array | null,
    pooling: string,
  ): RawVariable;
  /** Divides each row by its L2 norm. */
  recordNormalize(graph: RawGraph, x: RawVariable): RawVariable;
  /** Selects rows of a matrix. */
  recordGatherRows(graph: RawGraph, x: RawVariable, indices: Int32Array): RawVariable;
  /** Makes a tensor of shape `shape` that has the rows of x at `indices` and zeros elsewhere. */
  recordScatterRows(graph: RawGraph, x: RawVariable, indices: Int32Array, shape: readonly number[]): RawVariable;
}
