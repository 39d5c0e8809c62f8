/** Graphs in which calls are recorded, and the recording of a call. */
import { formatShape, invalid } from '../../base/error.js';
import type { RawObject } from '../../base/owned.js';
import { registry } from '../../base/platform.js';
import { kindOf, type PartRecorder, recordParts } from '../../base/tensor.js';
import type { RawModule, RawSites, RawTensor } from '../../base/wasm/core.js';
import { recordSites, SiteGradients } from './recorded-sites.js';
import type { RawGradients, RawGraph, RawRecordedSites, RawVariable, TrainCore } from './train-core.js';

/** Computes the gradients of the inputs of a result that JavaScript computed; null for inputs without a gradient. */
export type ExternalBackward = (gradient: Float32Array) => (RawTensor | null)[];

/** A raw layer or model, with the tape's data about it. */
export interface ModuleState extends RawModule {
  /** The raw object. */
  readonly inner: RawModule;
  readonly name: string;
  training: boolean;
  /** Counts the changes of its parameters. */
  version: number;
  /** Whether its parameters have values other than the initial ones. */
  written: boolean;
  deleted: boolean;
  /** The gradients that backward passes of losses accumulate. Created when first needed. */
  gradients: RawGradients | null;
  /** The state of its dropouts, four words each: the seed and the number of calls, both with the lower half first. */
  dropoutState(): number[];
  /** Sets that state from the same number of words. */
  setDropoutState(words: readonly number[]): void;
}

/** A tensor of a graph, which may have been freed. */
export interface Entry {
  /** null: the graph has been freed. */
  variable: RawVariable | null;
  readonly shape: readonly number[];
  readonly sources: readonly Entry[];
  /**
   * The layer that computed the tensor, and the version of its parameters. `owner` prevents the layer from being
   * garbage-collected.
   */
  readonly module: ModuleState | null;
  readonly version: number;
  readonly owner: object | null;
}

/** A graph in which calls are recorded: that of the losses, or that of one call with `backward: true`. */
export abstract class Scope {
  readonly graph: RawGraph;
  /** The tensors that are variables, keyed by their data. */
  readonly entries = new WeakMap<Float32Array, Entry>();
  /** Records parts of these tensors; null: they are constants. */
  recorder: PartRecorder | null = null;
  readonly #live = new Set<Entry>();

  constructor(graph: RawGraph) {
    this.graph = graph;
  }

  /** Requests the gradients of a layer's parameters. */
  abstract use(state: ModuleState): void;

  /** The leaf of a tensor whose gradient is requested; null if it is a constant. */
  leaf(_name: string, _tensor: RawTensor, _kind: LeafKind): RawVariable | null {
    return null;
  }

  /** Called for each call whose sites are read or edited. */
  addSites(_sites: SiteGradients): void {}

  remember(data: Float32Array, entry: Entry): void {
    this.enter(data, entry);
    if (entry.variable) this.#live.add(entry);
  }

  protected enter(data: Float32Array, entry: Entry): void {
    this.entries.set(data, entry);
    if (this.recorder) recordParts(data, this.recorder);
  }

  /** Frees the variable of a tensor. */
  end(entry: Entry): void {
    if (!this.#live.delete(entry)) return;
    entry.variable!.delete();
    entry.variable = null;
  }

  /** Frees all variables. */
  endAll(): void {
    for (const entry of this.#live) this.end(entry);
  }
}

/** Frees the variable of a garbage-collected tensor. */
const collected = registry<{ scope: Scope; entry: Entry }>(({ scope, entry }) => scope.end(entry));

/** The scope of each result of layers in training, by its data. */
const scopes = new WeakMap<Float32Array, LossScope>();

/** The graph of the losses. */
export class LossScope extends Scope {
  readonly use: (state: ModuleState) => void;

  constructor(graph: RawGraph, use: (state: ModuleState) => void) {
    super(graph);
    this.use = use;
  }

  override remember(data: Float32Array, entry: Entry): void {
    super.remember(data, entry);
    scopes.set(data, this);
    collected?.register(data, { scope: this, entry });
  }

  /** Whether `data` is a result of layers in training. */
  knows(data: Float32Array): boolean {
    this.requireOwn('tensor', data);
    return this.entries.has(data);
  }

  /** Rejects a result of layers in training that were made through another load(): here it would be a constant. */
  requireOwn(name: string, data: Float32Array): void {
    const scope = scopes.get(data);
    if (!scope || scope === this || !scope.entries.get(data)?.variable) return;
    throw invalid(name, 'results of layers of the same load()', 'a result of another load()', 'INVALID_ARGUMENT', {
      hint: 'Make all layers through one load(), or call eval() on those whose results are constants',
    });
  }
}

/** A graph in which nothing needs a gradient. */
export class Unrecorded extends Scope {
  use(): void {}
}

/** The field of the result of `backward` in which the gradient of a tensor is returned. */
export type LeafKind = 'inputs' | 'parameters' | 'edits';

/** A tensor whose gradient a call with `backward: true` returns. */
interface Leaf {
  readonly name: string;
  readonly variable: RawVariable;
  readonly kind: LeafKind;
}

/** The graph of one call with `backward: true`, and the gradients of the layers in it. */
export class Capture extends Scope implements RawObject {
  readonly leaves = new Map<string, Leaf>();
  /** The gradients at the call's sites; null if it has none. */
  sites: SiteGradients | null = null;
  readonly modules = new Map<ModuleState, { gradients: RawGradients; version: number }>();
  readonly #core: TrainCore;
  readonly #owned: Set<RawObject>;
  readonly #isSingle: boolean;

  /**
   * `isSingle`: all tensors without a variable are inputs; otherwise only those passed to `addInput`. The object is in
   * `owned` until it is deleted.
   */
  constructor(core: TrainCore, owned: Set<RawObject>, isSingle: boolean) {
    super(new core.Graph());
    this.#core = core;
    this.#owned = owned;
    this.#isSingle = isSingle;
    owned.add(this);
  }

  /** Makes a tensor the input `name` of a composed call. */
  addInput(name: string, { data, shape }: RawTensor): void {
    const variable = this.graph.leaf({ data, shape }, true);
    this.leaves.set(`inputs ${name}`, { name, variable, kind: 'inputs' });
    this.enter(data, { variable, shape, sources: [], module: null, version: 0, owner: null });
  }

  override leaf(name: string, tensor: RawTensor, kind: LeafKind): RawVariable | null {
    if (!this.#isSingle) return null;
    const key = `${kind} ${name}`;
    const leaf = this.leaves.get(key) ?? { name, variable: this.graph.leaf(tensor, true), kind };
    this.leaves.set(key, leaf);
    return leaf.variable;
  }

  override addSites(sites: SiteGradients): void {
    if (this.#isSingle) this.sites = sites;
  }

  use(state: ModuleState): void {
    if (this.modules.has(state)) return;
    const gradients = new this.#core.Gradients(state.inner);
    state.parameters().forEach((_, i) => {
      gradients.setRequiresGradient(i, state.gradients?.requiresGradient(i) ?? true);
    });
    this.graph.add(gradients);
    this.modules.set(state, { gradients, version: state.version });
  }

  get deleted(): boolean {
    return !this.#owned.has(this);
  }

  delete(): void {
    if (!this.#owned.delete(this)) return;
    this.endAll();
    for (const { variable } of this.leaves.values()) variable.delete();
    this.graph.delete();
    for (const { gradients } of this.modules.values()) gradients.delete();
  }
}

/** The recording of one call of the WebAssembly module. */
export class Recording {
  readonly graph: RawGraph;
  readonly #core: TrainCore;
  readonly #scope: Scope;
  readonly #losses: LossScope;
  readonly #module: ModuleState | null;
  readonly #owner: object | null;
  readonly #temporary: RawVariable[] = [];
  readonly #sources: Entry[] = [];
  #isStale = false;

  /** `owner`: the layer whose call is recorded. */
  constructor(core: TrainCore, scope: Scope, losses: LossScope, module: ModuleState | null, owner: object | null) {
    this.graph = scope.graph;
    this.#core = core;
    this.#scope = scope;
    this.#losses = losses;
    this.#module = module;
    this.#owner = owner;
  }

  /** The variable of a tensor: its existing variable in the graph, or a new leaf. `name`: the name of the argument. */
  input(name: string, tensor: RawTensor, kind: LeafKind = 'inputs'): RawVariable {
    const entry = this.#scope.entries.get(tensor.data);
    if (entry?.variable) {
      this.#sources.push(entry);
      if (formatShape(entry.shape) === formatShape(tensor.shape)) return entry.variable;
      return this.keep(this.#core.recordReshape(this.graph, entry.variable, tensor.shape));
    }
    this.#losses.requireOwn(name, tensor.data);
    this.#isStale ||= entry !== undefined;
    return this.#scope.leaf(name, tensor, kind) ?? this.keep(this.graph.leaf(tensor, false));
  }

  /** Copies a result, and links the copy to its variable if anything needs a gradient. */
  output(variable: RawVariable): RawTensor {
    let kept: RawVariable | null = null;
    try {
      const tensor = variable.value();
      if (variable.needsGradient() && !this.#isStale) kept = variable;
      if (kept || this.#isStale) {
        this.#scope.remember(tensor.data, {
          variable: kept,
          shape: tensor.shape,
          sources: this.#sources,
          module: this.#module,
          version: this.#module?.version ?? 0,
          owner: this.#owner,
        });
      }
      return tensor;
    } finally {
      if (!kept) variable.delete();
    }
  }

  /** Calls a raw layer. `given`: its arguments by name. `position`: as in `TrainCore.record`. */
  layer(
    layer: RawModule,
    given: { sites?: RawSites | null | undefined },
    position: readonly [number, number] | null,
  ): unknown {
    return this.withSites(given.sites ?? null, (sites) =>
      this.#results(this.#core.record(this.graph, layer, { ...this.#variables(given), sites }, position)),
    );
  }

  /** Runs a call whose sites are read or edited. */
  withSites<T>(sites: RawSites | null, run: (sites: RawRecordedSites | null) => T): T {
    if (!sites) return run(null);
    const gradients = new SiteGradients(sites);
    this.#scope.addSites(gradients);
    const { raw, finish } = recordSites(this.#core, this, sites, gradients);
    const result = run(raw);
    finish();
    return result;
  }

  /** Calls a function whose weights are parameters. */
  function(name: string, given: object): unknown {
    return this.#results(this.#core.recordFunction(this.graph, name, this.#variables(given, ['weight', 'bias'])));
  }

  /** Replaces tensors in the arguments by variables. */
  #variables(given: object, parameters: readonly string[] = []): object {
    const isTensor = (value: { data?: unknown } | null) => kindOf(value?.data) === 'Float32Array';
    return Object.fromEntries(
      Object.entries(given).map(([name, value]) => [
        name,
        isTensor(value) ? this.input(name, value, parameters.includes(name) ? 'parameters' : 'inputs') : value,
      ]),
    );
  }

  /** Replaces variables in a result, or in an object of results, by copies. */
  #results(given: RawVariable | object): unknown {
    const { Variable } = this.#core;
    if (given instanceof Variable) return this.output(given as RawVariable);
    const entries: [string, unknown][] = Object.entries(given);
    const left = new Set(entries.flatMap(([, value]) => (value instanceof Variable ? [value] : [])));
    const copied = (value: unknown) => {
      if (!left.delete(value as RawVariable)) return value;
      return this.output(value as RawVariable);
    };
    try {
      return Object.fromEntries(entries.map(([name, value]) => [name, copied(value)]));
    } finally {
      for (const variable of left) variable.delete();
    }
  }

  /** Adds a result that JavaScript computed from `inputs`. */
  external(result: RawTensor, inputs: RawVariable[], backward: ExternalBackward): RawTensor {
    return this.output(this.graph.external(result, inputs, backward));
  }

  /** Frees the variables that only this call needed. */
  end(): void {
    for (const variable of this.#temporary) variable.delete();
  }

  /** Registers a variable that only this call needs. */
  keep(variable: RawVariable): RawVariable {
    this.#temporary.push(variable);
    return variable;
  }
}
