/** Decodes weights of 3 and 4 bits as described in docs/quantization.md, for comparison with the WebAssembly module. */
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

/** The level of a state of the trellis. */
function levelOf(state: number): number {
  const z = (2853375093n * BigInt(state) + 2917156712n) % 2n ** 32n;
  return [0n, 8n, 16n, 24n].reduce((sum, shift) => sum + Number((z >> shift) % 256n), 0) - 510;
}
const trellisLevels = Array.from({ length: 8192 }, (_, state) => levelOf(state));

/** The values of a trellis-coded matrix; `scales`: of rows, `columnScales`: of columns, whose number is the width. */
export function trellisValues(
  bytes: Uint8Array,
  bits: number,
  scales: ArrayLike<number>,
  columnScales: ArrayLike<number>,
  alongColumns: boolean,
): Float32Array {
  const [rows, width] = [scales.length, columnScales.length];
  const plane = Math.ceil(width / 8);
  const numberAt = (r: number, c: number) => {
    let number = 0;
    for (let b = bits - 1; b >= 0; b--)
      number = 2 * number + (Math.floor(bytes[(r * bits + b) * plane + Math.floor(c / 8)]! / 2 ** (c % 8)) % 2);
    return number;
  };
  const values = new Float32Array(rows * width);
  const [outer, inner] = alongColumns ? [width, rows] : [rows, width];
  for (let o = 0; o < outer; o++) {
    let state = 0;
    for (let i = 0; i < inner; i++) {
      const [r, c] = alongColumns ? [i, o] : [o, i];
      state = (state * 2 ** bits + numberAt(r, c)) % 8192;
      values[r * width + c] = Math.fround(scales[r]! * columnScales[c]!) * trellisLevels[state]!;
    }
  }
  return values;
}

/** Copies tensors with their weights of 3 and 4 bits decoded to fp32. `widthOf`: width of a tensor's rows. */
export function codedDecoded(tensors: Tensors, widthOf: (name: string) => number): Tensors {
  const decoded = tensors.filter(({ dtype }) => dtype === 'U8').map(({ name }) => name);
  const numbersOf = (name: string) => {
    const { data, dtype } = tensors.find((each) => each.name === name)!;
    const bytes = data.buffer.slice(data.byteOffset, data.byteOffset + data.byteLength) as ArrayBuffer;
    if (dtype === 'F32') return new Float32Array(bytes);
    return new Float32Array(Uint32Array.from(new Uint16Array(bytes), (half) => half << 16).buffer);
  };
  const parts = decoded.flatMap((name) => ['_scale', '_column_scale', '_outliers'].map((end) => name + end));
  return tensors
    .filter(({ name }) => !parts.includes(name))
    .map((tensor) => {
      const { name, dtype, shape } = tensor;
      if (dtype !== 'U8') return tensor;
      const width = widthOf(name);
      const bytes = tensor.data as Uint8Array;
      if (shape.length === 2)
        return {
          name,
          dtype: 'F32',
          shape: [shape[0]!, width],
          data: int4Values(bytes, numbersOf(`${name}_scale`), width),
        };
      const isTable = /word_embeddings|embed_tokens|tok_embeddings/.test(name);
      const columnScales = numbersOf(`${name}_column_scale`);
      const data = trellisValues(bytes, shape[1]!, numbersOf(`${name}_scale`), columnScales, !isTable);
      const outliers = tensors.some((each) => each.name === `${name}_outliers`) ? numbersOf(`${name}_outliers`) : [];
      for (let i = 0; i < outliers.length; i += 3) data[outliers[i]! * width + outliers[i + 1]!] = outliers[i + 2]!;
      return { name, dtype: 'F32', shape: [shape[0]!, width], data };
    });
}
