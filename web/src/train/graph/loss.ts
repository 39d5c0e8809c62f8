import { Tensor } from '../../base/tensor.js';
import type { RawTensor } from '../../base/wasm/core.js';
import type { Tape } from './tape.js';

/**
 * A tensor without axes that can be differentiated: a loss, or a sum or multiple of losses.
 *
 * @example
 * const loss = heed.losses.mse(new heed.Linear({ inFeatures: 8, outFeatures: 1 }).train().forward(x), [[1], [2], [3]]);
 * loss.backward();
 * loss.item(); // its value
 */
export class Loss extends Tensor {
  readonly #tape: Tape;

  /** @internal */
  constructor(tape: Tape, { data, shape }: RawTensor) {
    super(data, shape);
    this.#tape = tape;
  }

  /** Its value. */
  item(): number {
    return this.data[0]!;
  }

  /**
   * Adds the loss's gradient to that of every parameter that it depends on, and ends its pass. If losses share a part of their passes, compute all of them before the first
   * `backward()`; their `backward()` may then be called in any order.
   *
   * @throws HeedError `DIVERGED` if the loss is not finite; `INVALID_ARGUMENT` if it depends on no parameter, or if its pass has ended or used other values of the parameters;
   * `DISPOSED` if one of its layers was disposed of
   */
  backward(): void {
    this.#tape.backward(this.data);
  }
}

/** A result of the core: a `Loss` if it has no axes. */
export function toResult(tape: Tape, raw: RawTensor): Tensor {
  return raw.shape.length === 0 ? new Loss(tape, raw) : new Tensor(raw.data, raw.shape);
}
