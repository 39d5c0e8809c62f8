/**
 * Manages the graphs of training: which tensors are variables, which forward passes are live, and the gradients of the
 * layers' parameters.
 *
 * A tensor that a recorded call returned is recognized by its `data`: wherever that array is passed again, in the same
 * or another shape, the graph continues. Its values are a copy. A forward pass is live, that is, its graph is not
 * freed, until its `backward()`, until the next `zeroGrad()` or `step()`, or until its tensors have been
 * garbage-collected.
 */
import { calling, formatShape, HeedError, invalid } from '../../base/error.js';
import { inCall, whenIdle } from '../../base/in-progress.js';
import type { RawObject } from '../../base/owned.js';
import { registry } from '../../base/platform.js';
import { type PartRecorder, readTensor, Tensor, type TensorInput } from '../../base/tensor.js';
import type { RawModule, RawTensor } from '../../base/wasm/core.js';
import { Capture, type ExternalBackward, LossScope, type ModuleState, Recording, Unrecorded } from './scope.js';
import type { RawGradients, RawGraph, RawVariable, TrainCore } from './train-core.js';

/** Frees the graph of a call with `backward: true` when its `backward` is garbage-collected. */
const dropped = registry<Capture>((capture) => capture.delete());

const ENDED =
  'backward(), zeroGrad() and step() free the graph of a forward pass: call zeroGrad() before the forward pass or after step(), and run the forward pass again';

/** A parameter, by its layer and its index in the layer, for the gradients of a call. */
export interface Located {
  readonly name: string;
  readonly shape: readonly number[];
  readonly state: ModuleState;
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

export class Tape {
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
  readonly #modules = new WeakSet<RawModule>();
  readonly #losses: LossScope;
  #capture: Capture | null = null;
  /** The number of running backward passes, and of calls being recorded in the graph of the losses. */
  #backward = 0;
  #recording = 0;
  #isFreed = false;

  constructor(core: TrainCore, owned: Set<RawObject>) {
    this.core = core;
    this.owned = owned;
    const graph = new core.Graph();
    this.#losses = new LossScope(graph, (state) => void this.gradientsOf(state));
    this.#losses.recorder = this.#part;
    const free = () => {
      this.#losses.endAll();
      graph.delete();
      this.#isFreed = true;
    };
    owned.add({ delete: () => whenIdle(free) });
  }

  /** Starts tracking a module. */
  track(module: ModuleState): void {
    this.#modules.add(module);
  }

  /** The state of a layer, which must have been made for this tape. */
  stateOf(raw: RawModule): ModuleState {
    if (this.#modules.has(raw)) return raw as ModuleState;
    const name = (raw as Partial<ModuleState>).name ?? 'layer';
    throw invalid(name, 'a layer of the same load()', 'a layer of another load()');
  }

  gradientsOf(state: ModuleState): RawGradients {
    if (!state.gradients) {
      state.gradients = new this.core.Gradients(state.inner);
      this.#losses.graph.add(state.gradients);
    }
    return state.gradients;
  }

  /** Deletes a layer's object by calling `free`, and frees the graphs that use it. */
  release(state: ModuleState, free: () => void): void {
    state.deleted = true;
    whenIdle(() => {
      if (state.gradients) {
        if (!this.#isFreed) this.#losses.graph.forget(state.gradients);
        state.gradients.delete();
      }
      free();
    });
  }

  /** Whether a call with these arguments must be recorded. */
  records(state: ModuleState | null, args: readonly unknown[]): boolean {
    return this.#capture !== null || state?.training === true || args.some((value) => this.#isVariable(value));
  }

  #isVariable(value: unknown): boolean {
    if (typeof value !== 'object' || value === null) return false;
    if (ArrayBuffer.isView(value)) return false;
    if ('data' in value) return this.#losses.knows(value.data as Float32Array);
    return Object.values(value).some((part) => this.#isVariable(part));
  }

  /** @throws HeedError `DISPOSED` if the runtime was disposed of */
  requireAlive(): void {
    if (this.#isFreed) throw new HeedError('DISPOSED', 'heed: used after dispose(). Call load() again');
  }

  /** Runs a call that takes only variables. It is recorded if `records` returns true, or if `always` is true. */
  run<T>(
    state: ModuleState,
    body: (recording: Recording) => T,
    others: readonly ModuleState[] = [],
    args: readonly unknown[] = [],
    always = false,
  ): T {
    if (always || this.records(state, args)) return this.record(state, body, others);
    this.requireAlive();
    const scope = new Unrecorded(new this.core.Graph());
    try {
      return this.#call(new Recording(this.core, scope, this.#losses, null, null), body);
    } finally {
      scope.graph.delete();
    }
  }

  /**
   * Runs a call to its end. Calls that its callbacks make are not a part of a call with `backward: true`, and objects
   * that they dispose of are freed after this call.
   */
  #call<T>(recording: Recording, body: (recording: Recording) => T): T {
    const { owner } = this;
    const capture = this.#capture;
    this.owner = this.#capture = null;
    try {
      return inCall(() => {
        try {
          return body(recording);
        } finally {
          recording.end();
        }
      });
    } finally {
      this.owner = owner;
      this.#capture = capture;
    }
  }

  /** See PartRecorder. A part of a result whose graph has been freed counts as such a result, too. */
  readonly #part: PartRecorder = (whole, first, count) => {
    const scope = this.#capture ?? this.#losses;
    const entry = scope.entries.get(whole.data);
    if (!entry || this.#isFreed) return null;
    if (entry.variable)
      return calling('Tensor', () =>
        this.record(null, (call) => {
          const { graph } = call;
          return call.output(this.core.recordSlice(graph, call.input('x', whole), 0, first, count)).data;
        }),
      );
    const size = whole.shape[1]!;
    const part = whole.data.slice(first * size, (first + count) * size);
    scope.remember(part, { ...entry, shape: [count, size] });
    return part;
  };

  /** Records a call. `others`: further modules whose parameters it uses. */
  record<T>(state: ModuleState | null, body: (recording: Recording) => T, others: readonly ModuleState[] = []): T {
    this.requireAlive();
    const scope = this.#capture ?? this.#losses;
    for (const used of state ? [state, ...others] : others) scope.use(used);
    const isOfLosses = scope === this.#losses;
    if (isOfLosses) this.#recording++;
    try {
      return this.#call(new Recording(this.core, scope, this.#losses, state, this.owner), body);
    } finally {
      if (isOfLosses) this.#recording--;
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
    const capture = new Capture(this.core, this.owned, inputs === null);
    capture.recorder = this.#part;
    const outer = this.#capture;
    this.#capture = capture;
    let result: T;
    try {
      for (const [key, tensor] of Object.entries(inputs ?? {})) capture.addInput(key, tensor);
      result = body();
    } catch (error) {
      capture.delete();
      throw error;
    } finally {
      this.#capture = outer;
    }
    const parts: { output: Tensor } = 'output' in result ? result : { output: result };
    const { data, shape } = parts.output;
    const owner = this.owner; // kept alive by the closure
    const backward = (cotangent: TensorInput): Gradients => {
      void owner;
      const seed = readTensor(`${name}: cotangent`, cotangent);
      if (formatShape(seed.shape) !== formatShape(shape))
        throw invalid(
          `${name}: cotangent`,
          `the shape of the output, ${formatShape(shape)}`,
          formatShape(seed.shape),
          'SHAPE_MISMATCH',
        );
      this.requireAlive();
      if (capture.deleted)
        throw invalid(`${name}: backward`, 'one call per forward pass', 'a second call', 'INVALID_ARGUMENT', {
          hint: ENDED,
        });
      for (const [state, { version }] of capture.modules) this.#requireCurrent(name, state, version);
      try {
        return inCall(() => this.#gradients(`${name}: backward`, capture, data, seed, parameters()));
      } finally {
        dropped?.unregister(backward);
        capture.delete();
      }
    };
    dropped?.register(backward, capture, backward);
    return { ...parts, backward } as never;
  }

  #gradients(
    name: string,
    capture: Capture,
    data: Float32Array,
    seed: RawTensor,
    parameters: readonly Located[],
  ): Gradients {
    const output = capture.entries.get(data)?.variable;
    if (output) this.#run(name, capture.graph, output, seed, () => capture.endAll());
    const gradients: Gradients = { inputs: {}, parameters: {} };
    const { sites } = capture;
    if (sites) {
      gradients.activations = sites.all();
      gradients.edits = new Array<Tensor | null>(sites.edits).fill(null);
    }
    for (const { name: key, variable, kind } of capture.leaves.values()) {
      const { data, shape } = calling(name, () => variable.gradient());
      const gradient = new Tensor(data, shape);
      if (kind === 'edits') gradients.edits![Number(key)] = gradient;
      else gradients[kind][key] = gradient;
    }
    for (const { name: key, shape, state, index } of parameters) {
      const found = capture.modules.get(state)?.gradients;
      if (!found?.requiresGradient(index)) continue;
      const size = shape.reduce((a, b) => a * b, 1);
      gradients.parameters[key] = new Tensor(calling(name, () => found.read(index)) ?? new Float32Array(size), shape);
    }
    return gradients;
  }

  /** Adds the gradients of a loss to those of the parameters, and frees its graph. */
  backward(loss: Float32Array): void {
    const name = 'backward';
    const { entries, graph } = this.#losses;
    this.requireAlive();
    const entry = entries.get(loss);
    if (!entry) {
      throw invalid(name, 'a loss that depends on a parameter', 'a constant', 'INVALID_ARGUMENT', {
        hint: 'Call train() on the layers, and do not freeze the parameters to train',
      });
    }
    if (!entry.variable)
      throw new HeedError('INVALID_ARGUMENT', `${name}: the graph of the loss has been freed. ${ENDED}`);
    this.requireIdle();
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
      for (const one of reached) this.#losses.end(one);
    };
    try {
      this.#run(name, graph, entry.variable, null, end);
    } catch (error) {
      this.isIncomplete = true;
      throw error;
    } finally {
      end();
    }
  }

  #requireCurrent(name: string, state: ModuleState, version: number): void {
    if (state.deleted) throw new HeedError('DISPOSED', `${name}: the graph uses a ${state.name} that was disposed of`);
    if (state.version === version) return;
    const problem = `the parameters of a ${state.name} have changed since the forward pass`;
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
    try {
      inCall(() => {
        try {
          for (let stop = proceed(); stop; stop = proceed()) {
            const gradients = (stop.external as ExternalBackward)(stop.gradient);
            for (const [i, gradient] of gradients.entries())
              if (gradient && pass.wants(i)) calling(name, () => pass.give(i, gradient));
          }
        } finally {
          pass.delete();
        }
      });
    } finally {
      this.#backward--;
    }
  }

  /** Frees the graphs of all losses. */
  endPasses(): void {
    this.requireIdle();
    this.#losses.endAll();
    this.#losses.graph.invalidate();
  }

  /** Requires that no backward pass is running. */
  requireNoBackward(): void {
    if (this.#backward === 0) return;
    throw invalid('custom', 'a backward that only computes gradients', 'a backward that trains');
  }

  /** Requires that no backward pass is running and no call is being recorded. */
  requireIdle(): void {
    this.requireNoBackward();
    if (this.#recording === 0) return;
    throw invalid('edit.map', 'a function that only computes', 'a function that trains');
  }
}
