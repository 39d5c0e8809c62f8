/** Measures how far training has changed the weights. */
import { HeedError } from '../../base/error.js';
import { fnv } from '../../base/fnv.js';
import type { Parameter } from '../graph/parameters.js';

/**
 * The maximum number of entries per parameter to compare. A copy of all weights would take as much memory as the model.
 */
const SAMPLE = 2 ** 16;

interface Before {
  readonly parameter: Parameter;
  /** Every `stride`-th entry. */
  readonly sample: Float32Array;
  readonly stride: number;
  readonly hash: number;
}

function sampleOf(data: Float32Array, stride: number): Float32Array {
  return Float32Array.from({ length: Math.ceil(data.length / stride) }, (_, i) => data[i * stride]!);
}

function readNow(parameter: Parameter): Before {
  const { data } = parameter.value;
  const stride = Math.ceil(data.length / SAMPLE) || 1;
  const hash = fnv(new Int32Array(data.buffer, data.byteOffset, data.length));
  return { parameter, sample: sampleOf(data, stride), stride, hash };
}

/** Half the distance between 1 and the next float32. A smaller relative change is lost in rounding. */
const LEAST = 2 ** -24;

/** The parameters before training. */
export class Movement {
  readonly #before: readonly Before[];

  constructor(parameters: readonly Parameter[]) {
    this.#before = parameters.map(readNow);
  }

  /**
   * Returns the norm of the change of all parameters divided by their norm before training, ||now - before|| /
   * ||before||, estimated from at most 65,536 entries per parameter; for parameters that were zero, the norm of the
   * change.
   * @throws HeedError `INVALID_ARGUMENT` if the weights are unchanged, or differ by less than rounding. `call`: the
   * call that trained them; `how`: the steps, for the message
   */
  measure(call: string, how: string): number {
    let [change, length] = [0, 0];
    let isSame = true;
    for (const { parameter, sample, stride, hash } of this.#before) {
      const now = readNow(parameter);
      isSame &&= now.hash === hash;
      for (let i = 0; i < sample.length; i++) {
        change += stride * (now.sample[i]! - sample[i]!) ** 2;
        length += stride * sample[i]! ** 2;
      }
    }
    const relative = Math.sqrt(change / (length || 1));
    // The sample may have missed the changes.
    if (!isSame && (change === 0 || relative >= LEAST)) return relative;
    const what = relative > 0 ? `the weights by only ${relative.toPrecision(1)} of their norm` : 'no weights';
    throw new HeedError('INVALID_ARGUMENT', `${call}: ${how} changed ${what}. Give a higher \`lr\` or more \`epochs\``);
  }
}
