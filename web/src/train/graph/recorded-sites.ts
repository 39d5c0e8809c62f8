/** Sites of recorded calls: the values that are read can be differentiated and have gradients, and so do the tensors of edits. */
import { elementCount, Tensor } from '../../base/tensor.js';
import type { RawSiteLayout, RawSites, RawTensor } from '../../base/wasm/core.js';
import type { RawGraph, RawRecordedSites, RawVariable, TrainCore } from './train-core.js';

/**
 * The values that a recorded call read at a site.
 *
 * @example
 * const layer = new heed.EncoderLayer({ embedDim: 8, numHeads: 2, feedForwardDim: 16 }).train();
 * const { output, activations } = layer.forward(x, { read: ['output'] });
 * heed.losses.mse(output, x).backward();
 * activations.output.grad.shape; // that of the activation
 */
export class SiteActivation extends Tensor {
  /** @internal For messages and consoles, as minification renames classes. */
  static override readonly name: string = 'Tensor';

  readonly #gradients: SiteGradients;
  readonly #code: number;

  /** @internal */
  constructor({ data, shape }: RawTensor, gradients: SiteGradients, code: number) {
    super(data, shape);
    this.#gradients = gradients;
    this.#code = code;
  }

  /**
   * The gradient after the edits of the site: the sum over the backward passes of losses; null before the first one.
   */
  get grad(): Tensor | null {
    return this.#gradients.of(this.#code);
  }
}

/**
 * The gradients that backward passes left at the sites of a call. Graphs refer to this object, so it must not refer to
 * the call's tensors.
 */
export class SiteGradients {
  readonly #layouts: ReadonlyMap<number, RawSiteLayout>;
  readonly #found = new Map<number, Float32Array>();
  /** The number of the call's edits. */
  readonly edits: number;

  constructor({ reads, layoutOf, numEdits }: RawSites) {
    this.#layouts = new Map([...reads].map((code) => [code, layoutOf(code)]));
    this.edits = numEdits;
  }

  add(code: number, values: Float32Array): void {
    const before = this.#found.get(code);
    this.#found.set(code, before ? values.map((value, i) => value + before[i]!) : values);
  }

  of(code: number): Tensor | null {
    const values = this.#found.get(code);
    if (!values) return null;
    const layout = this.layoutOf(code);
    const data = new Float32Array(elementCount(layout.shape));
    const places = placesOf(layout);
    const width = places.length === 0 ? 0 : values.length / places.length;
    places.forEach((place, i) => data.set(values.subarray(i * width, (i + 1) * width), place * width));
    return new Tensor(data, layout.shape);
  }

  /** All gradients, by the names of the sites; zeros for sites that no gradient has reached. */
  all(): Record<string, Tensor> {
    const entries = [...this.#layouts].flatMap(([code, { names, shape }]) =>
      names.map((name) => [name, this.of(code) ?? new Tensor(new Float32Array(elementCount(shape)), shape)] as const),
    );
    return Object.fromEntries(entries);
  }

  layoutOf(code: number): RawSiteLayout {
    return this.#layouts.get(code)!;
  }
}

/**
 * The position in the site's tensor of each row of a head, or of each score or weight, in the WebAssembly module's
 * order.
 */
function placesOf({ shape, heads, rows, keys }: RawSiteLayout): Int32Array {
  const length = shape.at(-2)!;
  const places: number[] = [];
  rows.forEach(({ columns }, n) => {
    const rowOf = (h: number, column: number) => (n * heads + h) * length + column;
    if (!keys) for (const column of columns) for (let h = 0; h < heads; h++) places.push(rowOf(h, column));
    else
      for (let h = 0; h < heads; h++)
        for (const column of columns)
          for (const key of keys[n]!.columns) places.push(rowOf(h, column) * shape.at(-1)! + key);
  });
  return Int32Array.from(places);
}

/**
 * Makes the function that receives gradients. It is made here, because a function keeps alive everything in the scope
 * where it was created.
 */
const retainer = (gradients: SiteGradients) => (code: number, values: Float32Array) => gradients.add(code, values);

/** The operations of a `Recording` that sites use. */
interface Call {
  readonly graph: RawGraph;
  input(name: string, tensor: RawTensor, kind: 'edits'): RawVariable;
  output(variable: RawVariable): RawTensor;
  keep(variable: RawVariable): RawVariable;
}

/** Makes the raw sites of a call, and a function that makes the activations after the call has returned. */
export function recordSites(
  core: TrainCore,
  call: Call,
  given: RawSites,
  gradients: SiteGradients,
): { raw: RawRecordedSites; finish(): void } {
  const found = new Map<number, RawVariable>();
  const { reads, columns, map, edits } = given;
  const raw: RawRecordedSites = {
    reads,
    columns,
    map,
    edits: edits.map((edit) => ({
      ...edit,
      variable: edit.operand && call.input(String(edit.number), edit.operand, 'edits'),
    })),
    read: (code, values) => void found.set(code, call.keep(values)),
    retain: retainer(gradients),
  };
  const finish = () => {
    for (const [code, values] of found) {
      const layout = gradients.layoutOf(code);
      const { shape, keys } = layout;
      const size = elementCount(shape);
      const scattered = core.recordScatterRows(call.graph, values, placesOf(layout), keys ? [size, 1] : shape);
      const variable = keys ? core.recordReshape(call.graph, call.keep(scattered), shape) : scattered;
      given.keep(code, new SiteActivation(call.output(variable), gradients, code));
    }
  };
  return { raw, finish };
}
