/** The recording of one call of the WebAssembly module. */
import { formatShape } from '../../base/error.js';
import { elementCount, kindOf } from '../../base/tensor.js';
import type { RawModule, RawSites, RawTensor } from '../../base/wasm/core.js';
import type { Entry, Graph, LeafKind } from './graph.js';
import type { RecordedModule, TapeParts } from './recorded-module.js';
import { placesOf, SiteActivation, SiteGradients } from './recorded-sites.js';
import type { RawGraph, RawRecordedSites, RawVariable } from './train-core.js';

/** Computes the gradients of the inputs of a result that JavaScript computed; null for inputs without a gradient. */
export type ExternalBackward = (gradient: Float32Array) => (RawTensor | null)[];

export class Recording {
  readonly graph: RawGraph;
  readonly #tape: TapeParts;
  readonly #graph: Graph;
  readonly #module: RecordedModule | null;
  readonly #owner: object | null;
  readonly #temporary: RawVariable[] = [];
  readonly #sources: Entry[] = [];
  #isStale = false;

  /** `owner`: the layer whose call is recorded. */
  constructor(tape: TapeParts, graph: Graph, module: RecordedModule | null, owner: object | null) {
    this.graph = graph.raw;
    this.#tape = tape;
    this.#graph = graph;
    this.#module = module;
    this.#owner = owner;
  }

  /** The variable of a tensor: its existing variable in the graph, or a new leaf. `name`: the name of the argument. */
  input(name: string, tensor: RawTensor, kind: LeafKind = 'inputs'): RawVariable {
    const entry = this.#graph.entries.get(tensor.data);
    if (entry?.variable) {
      this.#sources.push(entry);
      if (formatShape(entry.shape) === formatShape(tensor.shape)) return entry.variable;
      return this.keep(this.#tape.core.recordReshape(this.graph, entry.variable, tensor.shape));
    }
    this.#tape.requireOwn(name, tensor.data);
    this.#isStale ||= entry !== undefined;
    return this.#graph.leaf(name, tensor, kind) ?? this.keep(this.graph.leaf(tensor, false));
  }

  /** Copies a result, and links the copy to its variable if anything needs a gradient. */
  output(variable: RawVariable): RawTensor {
    let kept: RawVariable | null = null;
    try {
      const tensor = variable.value();
      if (variable.needsGradient() && !this.#isStale) kept = variable;
      if (kept || this.#isStale) {
        this.#graph.remember(tensor.data, {
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
    const sites = this.sites(given.sites ?? null);
    const variables = { ...this.#variables(given), sites: sites?.raw ?? null };
    const result = this.#results(this.#tape.core.record(this.graph, layer, variables, position));
    sites?.finish();
    return result;
  }

  /** The sites of a call, if any are read or edited. `finish` makes the activations after the call has returned. */
  sites(given: RawSites | null): { raw: RawRecordedSites; finish(): void } | null {
    if (!given) return null;
    const { core } = this.#tape;
    const gradients = new SiteGradients(given);
    this.#graph.addSites(gradients);
    const found = new Map<number, RawVariable>();
    const { reads, columns, map } = given;
    const edits = given.edits.map((edit) => ({
      ...edit,
      variable: edit.operand && this.input(String(edit.number), edit.operand, 'edits'),
    }));
    const read = (code: number, values: RawVariable) => void found.set(code, this.keep(values));
    const finish = () => {
      for (const [code, values] of found) {
        const layout = gradients.layoutOf(code);
        const { shape, keys } = layout;
        const size = elementCount(shape);
        const rows = core.recordScatterRows(this.graph, values, placesOf(layout), keys ? [size, 1] : shape);
        const variable = keys ? core.recordReshape(this.graph, this.keep(rows), shape) : rows;
        given.keep(code, new SiteActivation(this.output(variable), gradients, code));
      }
    };
    return { raw: { reads, columns, map, edits, read, retain: gradients.add }, finish };
  }

  /** Calls a function whose weights are parameters. */
  function(name: string, given: object): unknown {
    const variables = this.#variables(given, ['weight', 'bias']);
    return this.#results(this.#tape.core.recordFunction(this.graph, name, variables));
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
    const { Variable } = this.#tape.core;
    if (given instanceof Variable) return this.output(given as RawVariable);
    const entries: [string, unknown][] = Object.entries(given);
    const left = new Set(entries.flatMap(([, value]) => (value instanceof Variable ? [value] : [])));
    const copied = (value: unknown) => (left.delete(value as RawVariable) ? this.output(value as RawVariable) : value);
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
