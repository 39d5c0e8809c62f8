/** How far training has changed the weights. */
import { invalid } from '../../base/error.js';
import type { Parameter } from '../graph/parameters.js';

/** The number of entries of a parameter that are compared; a copy of all weights would take as much memory as the model. */
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

/** FNV-1a of the words of the numbers. */
function hashOf(data: Float32Array): number {
  const words = new Int32Array(data.buffer, data.byteOffset, data.length);
  let hash = 0x811c9dc5;
  for (let i = 0; i < words.length; i++) hash = Math.imul(hash ^ words[i]!, 0x01000193);
  return hash;
}

function readNow(parameter: Parameter): Before {
  const { data } = parameter.value;
  const stride = Math.ceil(data.length / SAMPLE) || 1;
  return { parameter, sample: sampleOf(data, stride), stride, hash: hashOf(data) };
}

/** Half the distance between 1 and the next float32: a relative change below it is lost when numbers are rounded. */
const LEAST = 2 ** -24;

/** The parameters as they are before training. */
export class Movement {
  readonly #before: readonly Before[];

  constructor(parameters: readonly Parameter[]) {
    this.#before = parameters.map(readNow);
  }

  /**
   * The norm of the change of all parameters divided by their norm before training, ||now - before|| / ||before||, estimated from at most 65,536 entries of each; for parameters that
   * were zeros, the norm of the change.
   * @throws HeedError `INVALID_ARGUMENT` if the weights are the same as before, or differ by less than their rounding. `call`: the call that trained them; `how`: in which steps
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
    // The sample may have missed what has changed.
    if (!isSame && (change === 0 || relative >= LEAST)) return relative;
    const got = `${how} that changed ${relative > 0 ? `them by ${relative.toPrecision(1)} of their norm` : 'none'}`;
    throw invalid(call, 'a training that changes weights', got, 'INVALID_ARGUMENT', {
      hint: 'Give a higher `lr` or more `epochs`',
    });
  }
}
