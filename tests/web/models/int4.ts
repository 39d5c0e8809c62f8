/** Decodes 4-bit rows as described in docs/quantization.md, for comparison with the WebAssembly module. */
import type { writeSafetensors } from '../../../web/src/io/safetensors.js';

type Tensors = Parameters<typeof writeSafetensors>[0];

const positive = [3, 8, 13, 18, 24, 29, 36, 42, 48, 55, 62, 71, 80, 90, 105, 127];
const levels = [...positive.map((level) => -level).reverse(), ...positive];
/** The next state for an even and for an odd index. */
const transitions = [
  [0, 1],
  [6, 7],
  [1, 0],
  [7, 6],
  [2, 3],
  [4, 5],
  [3, 2],
  [5, 4],
];

/** The values of rows of `width`, one per scale. */
export function int4Values(bytes: Uint8Array, scales: ArrayLike<number>, width: number): Float32Array {
  const rowBytes = bytes.length / scales.length;
  const half = (at: number, k: number) => Math.floor(bytes[at + Math.floor(k / 2)]! / (k % 2 ? 16 : 1)) % 16;
  const values: number[] = [];
  for (let row = 0; row < scales.length; row++) {
    const factors = row * rowBytes;
    const indices = factors + Math.ceil(width / 128);
    let state = 0;
    for (let k = 0; k < width; k++) {
      if (k % 64 === 0) state = 0;
      const q = half(indices, k);
      values.push(scales[row]! * (1 + half(factors, Math.floor(k / 64))) * levels[2 * q + (state % 2)]!);
      state = transitions[state]![q % 2]!;
    }
  }
  return Float32Array.from(values);
}

/** Copies tensors with 4-bit rows decoded to fp32. `widthOf`: width of a tensor's rows. */
export function int4Decoded(tensors: Tensors, widthOf: (name: string) => number): Tensors {
  const decoded = tensors.filter(({ dtype }) => dtype === 'U8').map(({ name }) => name);
  const scalesOf = (name: string) => {
    const { data } = tensors.find((each) => each.name === `${name}_scale`)!;
    const bits = new Uint16Array(data.buffer.slice(data.byteOffset, data.byteOffset + data.byteLength) as ArrayBuffer);
    return new Float32Array(Uint32Array.from(bits, (half) => half << 16).buffer);
  };
  return tensors
    .filter(({ name }) => !decoded.some((each) => name === `${each}_scale`))
    .map((tensor) => {
      if (tensor.dtype !== 'U8') return tensor;
      const width = widthOf(tensor.name);
      const data = int4Values(tensor.data as Uint8Array, scalesOf(tensor.name), width);
      return { name: tensor.name, dtype: 'F32', shape: [tensor.shape[0]!, width], data };
    });
}
