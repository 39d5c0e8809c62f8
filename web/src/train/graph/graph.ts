/** Graphs: which tensors are variables in WebAssembly, and what computed them. */
import type { RawObject } from '../../base/owned.js';
import { type PartRecorder, recordParts } from '../../base/tensor.js';
import type { RawTensor } from '../../base/wasm/core.js';
import type { RecordedModule } from './recorded-module.js';
import type { SiteGradients } from './recorded-sites.js';
import type { RawGradients, RawGraph, RawVariable, TrainCore } from './train-core.js';

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
  readonly module: RecordedModule | null;
  readonly version: number;
  readonly owner: object | null;
}

/** The field of the result of `backward` in which the gradient of a tensor is returned. */
export type LeafKind = 'inputs' | 'parameters' | 'edits';

/** A graph. In this class, nothing needs a gradient. */
export class Graph {
  readonly raw: RawGraph;
  /** The tensors that are variables, keyed by their data. */
  readonly entries = new WeakMap<Float32Array, Entry>();
  /** Records parts of these tensors; null: they are constants. */
  protected recorder: PartRecorder | null = null;
  readonly #live = new Set<Entry>();

  constructor(raw: RawGraph) {
    this.raw = raw;
  }

  /** Requests the gradients of a layer's parameters. */
  use(_module: RecordedModule): void {}

  /** The leaf of a tensor whose gradient is requested; null if it is a constant. */
  leaf(_name: string, _tensor: RawTensor, _kind: LeafKind): RawVariable | null {
    return null;
  }

  /** Called for each call whose sites are read or edited. */
  addSites(_sites: SiteGradients): void {}

  /** Called for a tensor that is a variable in this graph. */
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

/** A tensor whose gradient a call with `backward: true` returns. */
interface Leaf {
  readonly name: string;
  readonly variable: RawVariable;
  readonly kind: LeafKind;
}

/** The graph of one call with `backward: true`, and the gradients of the layers in it. */
export class CallGraph extends Graph implements RawObject {
  readonly leaves = new Map<string, Leaf>();
  /** The gradients at the call's sites; null if it has none. */
  sites: SiteGradients | null = null;
  readonly modules = new Map<RecordedModule, { gradients: RawGradients; version: number }>();
  readonly #core: TrainCore;
  readonly #owned: Set<RawObject>;
  readonly #isSingle: boolean;

  /**
   * `isSingle`: all tensors without a variable are inputs; otherwise only those passed to `addInput`. The object is in
   * `owned` until it is deleted.
   */
  constructor(core: TrainCore, owned: Set<RawObject>, isSingle: boolean, recorder: PartRecorder) {
    super(new core.Graph());
    this.#core = core;
    this.#owned = owned;
    this.#isSingle = isSingle;
    this.recorder = recorder;
    owned.add(this);
  }

  /** Makes a tensor the input `name` of a composed call. */
  addInput(name: string, { data, shape }: RawTensor): void {
    const variable = this.#leaf(name, { data, shape }, 'inputs');
    this.enter(data, { variable, shape, sources: [], module: null, version: 0, owner: null });
  }

  override leaf(name: string, tensor: RawTensor, kind: LeafKind): RawVariable | null {
    return this.#isSingle ? this.#leaf(name, tensor, kind) : null;
  }

  #leaf(name: string, tensor: RawTensor, kind: LeafKind): RawVariable {
    const key = `${kind} ${name}`;
    const leaf = this.leaves.get(key) ?? { name, variable: this.raw.leaf(tensor, true), kind };
    this.leaves.set(key, leaf);
    return leaf.variable;
  }

  override addSites(sites: SiteGradients): void {
    if (this.#isSingle) this.sites = sites;
  }

  override use(module: RecordedModule): void {
    if (this.modules.has(module)) return;
    const gradients = new this.#core.Gradients(module.inner);
    module.parameters().forEach((_, i) => {
      gradients.setRequiresGradient(i, module.gradients?.requiresGradient(i) ?? true);
    });
    this.raw.add(gradients);
    this.modules.set(module, { gradients, version: module.version });
  }

  get deleted(): boolean {
    return !this.#owned.has(this);
  }

  delete(): void {
    if (!this.#owned.delete(this)) return;
    this.endAll();
    for (const { variable } of this.leaves.values()) variable.delete();
    this.raw.delete();
    for (const { gradients } of this.modules.values()) gradients.delete();
  }
}
