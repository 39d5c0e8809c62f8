/**
 * Records calls in training: which tensors are variables, which forward passes are live, and the gradients of the
 * layers' parameters.
 *
 * A tensor that a recorded call returned is recognized by its `data`: wherever that array is passed again, in the same
 * or another shape, the graph continues. Its values are a copy. A forward pass is live, that is, its graph is not
 * freed, until its `backward()`, until the next `zeroGrad()` or `step()`, or until its tensors have been
 * garbage-collected.
 */
import { calling, formatShape, HeedError, invalid } from '../../base/error.js';
import { enterCall, leaveCall, whenIdle } from '../../base/in-progress.js';
import type { RawObject } from '../../base/owned.js';
import { registry } from '../../base/platform.js';
import { elementCount, type PartRecorder, readTensor, Tensor, type TensorInput } from '../../base/tensor.js';
import type { RawModule, RawTensor } from '../../base/wasm/core.js';
import { CallGraph, type Entry, Graph } from './graph.js';
import { RecordedModule } from './recorded-module.js';
import { type ExternalBackward, Recording } from './recording.js';
import type { RawGradients, RawGraph, RawVariable, TrainCore } from './train-core.js';

/** Frees the graph of a call with `backward: true` when its `backward` is garbage-collected. */
const dropped = registry<CallGraph>((graph) => graph.delete());

/** Frees the variable of a garbage-collected tensor. */
const collected = registry<{ graph: Graph; entry: Entry }>(({ graph, entry }) => graph.end(entry));

/** The tape of each result of layers in training, by its data. */
const tapes = new WeakMap<Float32Array, Tape>();

const ENDED =
  'backward(), zeroGrad() and step() free the graph of a forward pass: call zeroGrad() before the forward pass or after step(), and run the forward pass again';

/** A parameter, by its layer and its index in the layer, for the gradients of a call. */
export interface Located {
  readonly name: string;
  readonly shape: readonly number[];
  readonly state: RecordedModule;
  readonly index: number;
}

/** The gradients that `backward` returns. Each has the shape of its tensor. */
export interface Gradients<Inputs extends string = string> {
  /** Gradients by the names of the arguments. Boolean masks and absent arguments have none. */
  inputs: Record<Inputs, Tensor>;
  /** Gradients by the names in the state dict. Frozen parameters have none. */
  parameters: Record<string, Tensor>;
  /** Gradients of the sites that `read` names, after their edits. */
  activations?: Record<string, Tensor> | undefined;
  /** The gradient of each edit's tensor or number; null for `map` and 'mean'. */
  edits?: (Tensor | null)[] | undefined;
}

/** The graph of the losses, and the records of single calls. One per `load()`. */
export class Tape extends Graph {
  readonly core: TrainCore;
  /** The objects to delete with the runtime. */
  readonly owned: Set<RawObject>;
  /** The layer whose call is being recorded. */
  owner: object | null = null;
  /** The examples of a batch that are being computed: [first, first + count). null: all. */
  part: { readonly first: number; readonly count: number } | null = null;
  /** Whether a backward pass has failed before its end since the last zeroGrad(). */
  isIncomplete = false;
  /** The models in which new parameters have not been looked for; see `trainableParameter`. */
  newModels: WeakRef<object>[] = [];
  /** The graph of the call with `backward: true` that is being recorded. */
  #callGraph: CallGraph | null = null;
  /** The number of running backward passes, and of calls being recorded in the graph of the losses. */
  #backward = 0;
  #recording = 0;
  #isFreed = false;

  constructor(core: TrainCore, owned: Set<RawObject>) {
    super(new core.Graph());
    this.core = core;
    this.owned = owned;
    this.recorder = this.#part;
    const free = () => {
      this.endAll();
      this.raw.delete();
      this.#isFreed = true;
    };
    owned.add({ delete: () => whenIdle(free) });
  }

  /** Requires that a layer was made for this tape. */
  stateOf(raw: RawModule): RecordedModule {
    if (raw instanceof RecordedModule && raw.tape === this) return raw;
    const name = (raw as Partial<RecordedModule>).name ?? 'layer';
    throw invalid(name, 'a layer of the same load()', 'a layer of another load()');
  }

  override use(module: RecordedModule): void {
    this.gradientsOf(module);
  }

  override remember(data: Float32Array, entry: Entry): void {
    super.remember(data, entry);
    tapes.set(data, this);
    collected?.register(data, { graph: this, entry });
  }

  /** Rejects a result of layers in training that were made through another load(): here it would be a constant. */
  requireOwn(name: string, data: Float32Array): void {
    const tape = tapes.get(data);
    if (!tape || tape === this || !tape.entries.get(data)?.variable) return;
    throw invalid(name, 'results of layers of the same load()', 'a result of another load()', 'INVALID_ARGUMENT', {
      hint: 'Make all layers through one load(), or call eval() on those whose results are constants',
    });
  }

  gradientsOf(module: RecordedModule): RawGradients {
    if (!module.gradients) {
      module.gradients = new this.core.Gradients(module.inner);
      this.raw.add(module.gradients);
    }
    return module.gradients;
  }

  /** Deletes a layer's object by calling `free`, and frees the graphs that use it. */
  release(module: RecordedModule, free: () => void): void {
    module.deleted = true;
    whenIdle(() => {
      if (module.gradients) {
        if (!this.#isFreed) this.raw.forget(module.gradients);
        module.gradients.delete();
      }
      free();
    });
  }

  /** Whether a call with these arguments must be recorded. */
  records(module: RecordedModule | null, args: readonly unknown[]): boolean {
    return this.#callGraph !== null || module?.training === true || args.some((value) => this.#isVariable(value));
  }

  #isVariable(value: unknown): boolean {
    if (typeof value !== 'object' || value === null) return false;
    if (ArrayBuffer.isView(value)) return false;
    if ('data' in value) {
      this.requireOwn('tensor', value.data as Float32Array);
      return this.entries.has(value.data as Float32Array);
    }
    return Object.values(value).some((part) => this.#isVariable(part));
  }

  /** @throws HeedError `DISPOSED` if the runtime was disposed of */
  requireAlive(): void {
    if (this.#isFreed) throw new HeedError('DISPOSED', 'heed: used after dispose(). Call load() again');
  }

  /** See PartRecorder. A part of a result whose graph has been freed counts as such a result, too. */
  readonly #part: PartRecorder = (whole, first, count) => {
    const graph = this.#callGraph ?? this;
    const entry = graph.entries.get(whole.data);
    if (!entry || this.#isFreed) return null;
    if (entry.variable)
      return calling('Tensor', () =>
        this.record(
          null,
          (call) => call.output(this.core.recordSlice(call.graph, call.input('x', whole), 0, first, count)).data,
        ),
      );
    const size = whole.shape[1]!;
    const part = whole.data.slice(first * size, (first + count) * size);
    graph.remember(part, { ...entry, shape: [count, size] });
    return part;
  };

  /**
   * Records a call of `module`. `others`: further modules whose parameters it uses. Calls that its callbacks make are not
   * a part of a call with `backward: true`, and objects that they dispose of are freed after this call.
   */
  record<T>(
    module: RecordedModule | null,
    body: (call: Recording) => T,
    others: readonly RecordedModule[] = [],
    graph: Graph = this.#callGraph ?? this,
  ): T {
    this.requireAlive();
    for (const used of module ? [module, ...others] : others) graph.use(used);
    const { owner } = this;
    const callGraph = this.#callGraph;
    const call = new Recording(this, graph, module, owner);
    this.owner = this.#callGraph = null;
    if (graph === this) this.#recording++;
    enterCall();
    try {
      return body(call);
    } finally {
      try {
        call.end();
      } finally {
        try {
          leaveCall();
        } finally {
          if (graph === this) this.#recording--;
          this.owner = owner;
          this.#callGraph = callGraph;
        }
      }
    }
  }

  /** Runs a call that can only run on variables, in a graph that is freed at its end. */
  compute<T>(body: (call: Recording) => T): T {
    this.requireAlive();
    const graph = new Graph(new this.core.Graph());
    try {
      return this.record(null, body, [], graph);
    } finally {
      graph.raw.delete();
    }
  }

  /**
   * Runs a call whose result can be differentiated by itself. `inputs`: the inputs of a composed call; null for a
   * single layer or function.
   */
  capture<T extends Tensor | { output: Tensor }>(
    name: string,
    inputs: Record<string, Tensor> | null,
    parameters: () => readonly Located[],
    body: () => T,
  ): (T extends Tensor ? { output: T } : T) & { backward(cotangent: TensorInput): Gradients } {
    this.requireAlive();
    const graph = new CallGraph(this.core, this.owned, inputs === null, this.#part);
    const outer = this.#callGraph;
    this.#callGraph = graph;
    let result: T;
    try {
      for (const [key, tensor] of Object.entries(inputs ?? {})) graph.addInput(key, tensor);
      result = body();
    } catch (error) {
      graph.delete();
      throw error;
    } finally {
      this.#callGraph = outer;
    }
    const parts: { output: Tensor } = 'output' in result ? result : { output: result };
    const { data, shape } = parts.output;
    const owner = this.owner; // kept alive by the closure
    const backward = (cotangent: TensorInput): Gradients => {
      void owner;
      const seed = readTensor(`${name}: cotangent`, cotangent);
      const [expected, got] = [formatShape(shape), formatShape(seed.shape)];
      if (got !== expected)
        throw invalid(`${name}: cotangent`, `the shape of the output, ${expected}`, got, 'SHAPE_MISMATCH');
      this.requireAlive();
      if (graph.deleted)
        throw invalid(`${name}: backward`, 'one call per forward pass', 'a second call', 'INVALID_ARGUMENT', {
          hint: ENDED,
        });
      for (const [module, { version }] of graph.modules) this.#requireCurrent(name, module, version);
      enterCall();
      try {
        return this.#gradients(`${name}: backward`, graph, data, seed, parameters());
      } finally {
        try {
          leaveCall();
        } finally {
          dropped?.unregister(backward);
          graph.delete();
        }
      }
    };
    dropped?.register(backward, graph, backward);
    return { ...parts, backward } as never;
  }

  #gradients(
    name: string,
    graph: CallGraph,
    data: Float32Array,
    seed: RawTensor,
    parameters: readonly Located[],
  ): Gradients {
    const output = graph.entries.get(data)?.variable;
    if (output) this.#run(name, graph.raw, output, seed, () => graph.endAll());
    const gradients: Gradients = { inputs: {}, parameters: {} };
    const { sites } = graph;
    if (sites) {
      gradients.activations = sites.all();
      gradients.edits = new Array<Tensor | null>(sites.edits).fill(null);
    }
    for (const { name: key, variable, kind } of graph.leaves.values()) {
      const { data, shape } = calling(name, () => variable.gradient());
      const gradient = new Tensor(data, shape);
      if (kind === 'edits') gradients.edits![Number(key)] = gradient;
      else gradients[kind][key] = gradient;
    }
    for (const { name: key, shape, state, index } of parameters) {
      const found = graph.modules.get(state)?.gradients;
      if (!found?.requiresGradient(index)) continue;
      const read = calling(name, () => found.read(index)) ?? new Float32Array(elementCount(shape));
      gradients.parameters[key] = new Tensor(read, shape);
    }
    return gradients;
  }

  /** Adds the gradients of a loss to those of the parameters, and frees its graph. */
  backward(loss: Float32Array): void {
    const name = 'backward';
    this.requireAlive();
    const entry = this.entries.get(loss);
    if (!entry) {
      throw invalid(name, 'a loss that depends on a parameter', 'a constant', 'INVALID_ARGUMENT', {
        hint: 'Call train() on the layers, and do not freeze the parameters to train',
      });
    }
    if (!entry.variable)
      throw new HeedError('INVALID_ARGUMENT', `${name}: the graph of the loss has been freed. ${ENDED}`);
    this.requireNoPass();
    if (!loss.every(Number.isFinite))
      throw invalid(name, 'a finite loss', String(loss[0]), 'DIVERGED', {
        hint: 'The parameters are unchanged. A lower learning rate may help',
      });
    const reached = new Set([entry]);
    for (const { sources, module, version } of reached) {
      if (module) this.#requireCurrent(name, module, version);
      for (const source of sources) reached.add(source);
    }
    const end = () => {
      for (const one of reached) this.end(one);
    };
    try {
      this.#run(name, this.raw, entry.variable, null, end);
    } catch (error) {
      this.isIncomplete = true;
      throw error;
    } finally {
      end();
    }
  }

  #requireCurrent(name: string, module: RecordedModule, version: number): void {
    if (module.deleted)
      throw new HeedError('DISPOSED', `${name}: the graph uses a ${module.name} that was disposed of`);
    if (module.version === version) return;
    const problem = `the parameters of a ${module.name} have changed since the forward pass`;
    throw new HeedError('INVALID_ARGUMENT', `${name}: ${problem}. ${ENDED}`);
  }

  /**
   * Runs a backward pass, including its JavaScript functions, whose errors are rethrown. `release` frees the variables
   * that only this pass needs, so that nodes can be freed as the pass proceeds.
   */
  #run(name: string, graph: RawGraph, output: RawVariable, seed: RawTensor | null, release: () => void): void {
    const pass = calling(name, () => graph.backward(output, seed));
    release();
    const proceed = () => calling(name, () => pass.proceed());
    this.#backward++;
    enterCall();
    try {
      for (let stop = proceed(); stop; stop = proceed()) {
        const gradients = (stop.external as ExternalBackward)(stop.gradient);
        for (const [i, gradient] of gradients.entries())
          if (gradient && pass.wants(i)) calling(name, () => pass.give(i, gradient));
      }
    } finally {
      try {
        pass.delete();
      } finally {
        try {
          leaveCall();
        } finally {
          this.#backward--;
        }
      }
    }
  }

  /** Frees the graphs of all losses. */
  endPasses(): void {
    this.requireNoPass();
    this.endAll();
    this.raw.invalidate();
  }

  /** Requires that no backward pass is running. */
  requireNoBackward(): void {
    if (this.#backward === 0) return;
    throw invalid('custom', 'a backward that only computes gradients', 'a backward that trains');
  }

  /** Requires that no backward pass is running and no call is being recorded. */
  requireNoPass(): void {
    this.requireNoBackward();
    if (this.#recording === 0) return;
    throw invalid('edit.map', 'a function that only computes', 'a function that trains');
  }
}
