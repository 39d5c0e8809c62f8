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
  /** @internal For messages and consoles, as minification renames classes. */
  static override readonly name: string = 'Loss';

  readonly #tape: Tape;

  /** @internal */
  constructor(tape: Tape, { data, shape }: RawTensor) {
    super(data, shape);
    this.#tape = tape;
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
   * @throws HeedError `DIVERGED` if the loss is not finite; `INVALID_ARGUMENT` if it depends on no parameter, if its
   * graph has been freed, or if parameters have changed since the forward pass; `DISPOSED` if one of its layers was
   * disposed of
   */
  backward(): void {
    this.#tape.backward(this.data);
  }
}

/** Converts a result of the WebAssembly module: to a `Loss` if it has no axes, else to a `Tensor`. */
export function toResult(tape: Tape, raw: RawTensor): Tensor {
  return raw.shape.length === 0 ? new Loss(tape, raw) : new Tensor(raw.data, raw.shape);
}
