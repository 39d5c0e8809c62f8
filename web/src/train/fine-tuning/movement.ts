/** How far training has changed the weights. */
import type { Parameter } from '../parameters.js';

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

/** The parameters as they are before training. */
export class Movement {
  readonly #before: readonly Before[];

  constructor(parameters: readonly Parameter[]) {
    this.#before = parameters.map(readNow);
  }

  /**
   * The norm of the change of all parameters divided by their norm before training, ||now - before|| / ||before||, estimated from at most 65,536 entries of each; null if no entry
   * of any parameter has changed.
   */
  measure(): number | null {
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
    return isSame ? null : Math.sqrt(change / (length || 1));
  }
}
