/** Sites of recorded calls: the values that are read can be differentiated and have gradients, and so do the tensors of edits. */
import { elementCount, Tensor } from '../../base/tensor.js';
import type { RawSiteLayout, RawSites, RawTensor } from '../../base/wasm/core.js';

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

  /** Receives gradients. A function of its own: graphs keep it, and with it what it refers to. */
  readonly add = (code: number, values: Float32Array): void => {
    const before = this.#found.get(code);
    this.#found.set(code, before ? values.map((value, i) => value + before[i]!) : values);
  };

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
export function placesOf({ shape, heads, rows, keys }: RawSiteLayout): Int32Array {
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
