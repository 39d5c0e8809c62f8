import { HeedError } from '../../base/error.js';
import { Tensor } from '../../base/tensor.js';
import type { RawTensor } from '../../base/wasm/core.js';
import type { Tape } from './tape.js';

/** The entries over which a mean loss was computed. */
export interface Averaged {
  /**
   * The number of entries, or with weights their sum. The mean of several batches is that of their losses, weighted by
   * these numbers.
   */
  readonly share: () => number;
  /** The label whose entries are left out; null if there is none. */
  readonly ignored: number | null;
}

/**
 * A tensor without axes that can be differentiated: a loss, or a sum or multiple of losses.
 *
 * @example
 * const loss = heed.losses.mse(new heed.Linear({ inFeatures: 8, outFeatures: 1 }).train().forward(x), [[1], [2], [3]]);
 * loss.backward();
 * loss.item(); // its value
 */
export class Loss extends Tensor {
  /** @internal For messages and consoles, as minification renames classes. */
  static override readonly name: string = 'Loss';

  readonly #tape: Tape;
  readonly #averaged: Averaged | null;

  /** @internal */
  constructor(tape: Tape, { data, shape }: RawTensor, averaged: Averaged | null = null) {
    super(data, shape);
    this.#tape = tape;
    this.#averaged = averaged;
  }

  /** @internal See `Averaged`; null for a loss that is not a mean, such as a sum of losses. */
  get share(): number | null {
    return this.#averaged?.share() ?? null;
  }

  /** @internal The ignored label if all labels of the batch equal it, so that the loss is NaN; otherwise null. */
  get onlyLabel(): number | null {
    if (!Number.isNaN(this.item())) return null; // first, because the share takes a loop over the labels
    const ignored = this.#averaged?.ignored ?? null;
    return ignored !== null && this.share === 0 ? ignored : null;
  }

  /** Returns the value of the loss. */
  item(): number {
    return this.data[0]!;
  }

  /**
   * Adds the loss's gradient to that of every parameter on which it depends, and frees the graph of its forward pass.
   * If losses share parts of their graphs, compute all of them before the first `backward()`; their `backward()` may
   * then be called in any order.
   *
   * @throws HeedError `DIVERGED` if the loss is not finite; `INVALID_ARGUMENT` if all labels of the batch are ignored,
   *   if it depends on no parameter, if its graph has been freed, or if parameters have changed since the forward pass;
   *   `DISPOSED` if one of its layers was disposed of
   */
  backward(): void {
    const { onlyLabel } = this;
    if (onlyLabel !== null) throw withoutLabels('backward', onlyLabel);
    this.#tape.backward(this.data);
  }
}

/** Makes the error for data whose labels are all `ignored`. */
export const withoutLabels = (argument: string, ignored: number, of = 'the batch'): HeedError =>
  new HeedError('INVALID_ARGUMENT', `${argument}: all labels of ${of} are ${ignored}, so it has no loss`);

/** Converts a result of the WebAssembly module: to a `Loss` if it has no axes, else to a `Tensor`. */
export function toResult(tape: Tape, raw: RawTensor): Tensor {
  return raw.shape.length === 0 ? new Loss(tape, raw) : new Tensor(raw.data, raw.shape);
}
