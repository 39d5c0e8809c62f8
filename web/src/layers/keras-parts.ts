/** The parts of Keras' layers: their arrays and what becomes of them. */
import { elementCount, type TensorLike } from '../base/tensor.js';

/** Parameters by name. */
export type State = Record<string, TensorLike>;

/** An array that a layer takes. */
export interface Slot {
  /** What it is, such as 'query kernel'. */
  readonly what: string;
  /** The shape, for messages. */
  readonly expected: readonly number[];
  /** Whether another shape is taken, too. Default: no. */
  readonly fits?: ((shape: readonly number[]) => boolean) | undefined;
  /** What to do about an array of this shape, which is not the expected one; undefined if that is unknown. */
  readonly hint?: ((shape: readonly number[]) => string | undefined) | undefined;
  /** The parameters that the array determines, without the layer's prefix. */
  parametersOf(array: TensorLike): State;
}

/** Consecutive arrays: an attention, a dense layer, a norm, ... */
export interface Part {
  readonly kind: string;
  /** The prefix of the layer's parameters in the model. */
  readonly prefix: string;
  readonly slots: readonly Slot[];
  /** Parameters that Keras' layer does not have, with their values. */
  readonly constants?: State | undefined;
}

/** The parameters of a layer. */
export interface Target {
  /** The prefix of their names in the model. */
  readonly prefix: string;
  /** The shapes by name, without the prefix. */
  readonly shapes: ReadonlyMap<string, readonly number[]>;
  readonly numHeads: number;
  readonly scale: boolean;
  readonly center: boolean;
}

/** A matrix [rows, columns] as [columns, rows]. The array may have more axes. */
function turned({ data }: TensorLike, rows: number, columns: number): TensorLike {
  const out = new Float32Array(data.length);
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < columns; column++) out[column * rows + row] = data[row * columns + column]!;
  return { data: out, shape: [columns, rows] };
}

const filled = (shape: readonly number[], value: number): TensorLike => ({
  data: new Float32Array(elementCount(shape)).fill(value),
  shape,
});

/** The shape of a parameter, which must exist. */
const shapeAt = ({ shapes }: Target, name: string) => shapes.get(name)!;

/** `Dense`, `EinsumDense`, or `Conv1D` of width 1: kernel [in, out], bias [out]. The parameters are weight [out, in], bias. */
export function dense(target: Target, at: string): Part {
  const [outputs, inputs] = shapeAt(target, `${at}weight`) as [number, number];
  /** The axes of the kernel over which the outputs extend. */
  let ends: (readonly number[])[] = [[outputs]];
  const kernel: Slot = {
    what: 'dense kernel',
    expected: [inputs, outputs],
    fits: (shape) =>
      shape.some(
        (_, i) => i > 0 && elementCount(shape.slice(0, i)) === inputs && elementCount(shape.slice(i)) === outputs,
      ),
    parametersOf(array) {
      ends = array.shape.map((_, i) => array.shape.slice(i)).filter((end) => elementCount(end) === outputs);
      return { [`${at}weight`]: turned(array, inputs, outputs) };
    },
  };
  const bias: Slot = {
    what: 'dense bias',
    expected: [outputs],
    fits: (shape) => ends.some((end) => String(end) === String(shape)),
    parametersOf: ({ data }) => ({ [`${at}bias`]: { data, shape: [outputs] } }),
  };
  const { prefix, shapes } = target;
  return { kind: 'dense', prefix, slots: shapes.has(`${at}bias`) ? [kernel, bias] : [kernel] };
}

/** `MultiHeadAttention`: kernels [E, H, Dk], [S, H, Dk], [S, H, Dv], [H, Dv, E], each followed by its bias. */
export function attention(target: Target, at: string): Part {
  const { prefix, shapes, numHeads } = target;
  const packed = shapes.get(`${at}in_proj_weight`);
  const [q, k, v] = ['q', 'k', 'v'].map((one) =>
    packed ? [packed[0]! / 3, packed[1]!] : shapeAt(target, `${at}${one}_proj_weight`),
  ) as [readonly number[], readonly number[], readonly number[]];
  const width = q[0]! / numHeads;
  const keyHeads = k[0]! / width; // fewer with grouped queries
  const biases: Float32Array[] = [];
  const projection = (name: string, [rows, columns]: readonly number[], heads: number): Slot[] => {
    const kernel: Slot = {
      what: `${name} kernel`,
      expected: [columns!, heads, rows! / heads],
      hint(shape) {
        if (shape.length !== 3 || shape[0] !== columns || shape[1] !== heads) return undefined;
        const width = shape[2]!;
        return name === 'value'
          ? `Keras' layer has the value_dim ${width}: make heed's layer with valueDim: ${width}`
          : `Keras' layer has the key_dim ${width}: make heed's layer with keyDim: ${width}, and valueDim: ${width} unless value_dim differs`;
      },
      parametersOf: (array) => ({ [`${at}${name[0]}_proj_weight`]: turned(array, columns!, rows!) }),
    };
    const bias: Slot = {
      what: `${name} bias`,
      expected: [heads, rows! / heads],
      parametersOf({ data }) {
        biases.push(data);
        const all = biases.flatMap((each) => [...each]);
        return { [`${at}in_proj_bias`]: { data: Float32Array.from(all), shape: [all.length] } }; // whole with the third
      },
    };
    return shapes.has(`${at}in_proj_bias`) ? [kernel, bias] : [kernel];
  };
  const [outputs, inputs] = shapeAt(target, `${at}out_proj.weight`) as [number, number];
  const output: Slot = {
    what: 'output kernel',
    expected: [numHeads, inputs / numHeads, outputs],
    parametersOf: (array) => ({ [`${at}out_proj.weight`]: turned(array, inputs, outputs) }),
  };
  const slots = [
    ...projection('query', q, numHeads),
    ...projection('key', k, keyHeads),
    ...projection('value', v, keyHeads),
    output,
    ...plain(target, `${at}out_proj.bias`, 'output bias'),
  ];
  return { kind: 'attention', prefix, slots };
}

/** An array that a parameter has in the same shape; none if there is no such parameter. */
function plain({ shapes }: Target, name: string, what: string): Slot[] {
  const expected = shapes.get(name);
  return expected ? [{ what, expected, parametersOf: (array) => ({ [name]: array }) }] : [];
}

/** `LayerNormalization`: gamma, beta; `BatchNormalization`: also the moving mean and variance. */
export function norm(target: Target, at: string): Part {
  const { prefix, shapes, scale, center } = target;
  const constants: State = {};
  const [weight, bias] = [shapes.get(`${at}weight`), shapes.get(`${at}bias`)];
  if (weight && !scale) constants[`${at}weight`] = filled(weight, 1);
  if (bias && !center) constants[`${at}bias`] = filled(bias, 0);
  const slots = [
    ...(scale ? plain(target, `${at}weight`, "norm's gamma") : []),
    ...(center ? plain(target, `${at}bias`, "norm's beta") : []),
    ...plain(target, `${at}running_mean`, 'moving mean'),
    ...plain(target, `${at}running_var`, 'moving variance'),
  ];
  return { kind: 'norm', prefix, slots, constants };
}

/** `Embedding` and learned positions: the table. */
export function table(target: Target): Part {
  const [name] = target.shapes.keys();
  return { kind: 'table', prefix: target.prefix, slots: plain(target, name!, 'table') };
}

/** `Conv1D`: kernel [K, C / G, D], bias [D]. The weight is [D, C / G, K]. */
export function convolution(target: Target): Part {
  const [outputs, inputs, width] = shapeAt(target, 'weight') as [number, number, number];
  const kernel: Slot = {
    what: 'kernel',
    expected: [width, inputs, outputs],
    parametersOf({ data }) {
      const weight = filled([outputs, inputs, width], 0);
      for (let k = 0; k < width; k++)
        for (let c = 0; c < inputs; c++)
          for (let d = 0; d < outputs; d++)
            weight.data[(d * inputs + c) * width + k] = data[(k * inputs + c) * outputs + d]!;
      return { weight };
    },
  };
  return { kind: 'convolution', prefix: target.prefix, slots: [kernel, ...plain(target, 'bias', 'bias')] };
}

/** The gates in heed's order, by their places in Keras' order: i f c o for LSTM; z r h for GRU, which has r z n. */
const GATES = { LSTM: [0, 1, 2, 3], GRU: [1, 0, 2] };

/**
 * `LSTM` and `GRU`: kernel [I, G H], recurrent kernel [H, G H] and bias, for each direction. LSTM's bias [4 H] is the sum of
 * PyTorch's two; GRU's, of `reset_after`, is [2, 3 H], that of the input and that of the state.
 */
export function recurrent(target: Target, kind: keyof typeof GATES): Part[] {
  const { prefix, shapes } = target;
  const gates = GATES[kind];
  /** Reorders the gates of the rows of a matrix [G H, columns]. */
  const ordered = ({ data, shape }: TensorLike): TensorLike => {
    const size = data.length / gates.length;
    const out = new Float32Array(data.length);
    for (const [to, from] of gates.entries()) out.set(data.subarray(from * size, (from + 1) * size), to * size);
    return { data: out, shape };
  };
  const suffixes = [...shapes.keys()].flatMap((name) => /^weight_ih(_.*)$/.exec(name)?.[1] ?? []);
  return suffixes.map((suffix) => {
    const matrix = (name: string, what: string): Slot => {
      const [rows, columns] = shapeAt(target, name) as [number, number];
      return {
        what,
        expected: [columns, rows],
        parametersOf: (array) => ({ [name]: ordered(turned(array, columns, rows)) }),
      };
    };
    const slots = [matrix(`weight_ih${suffix}`, 'kernel'), matrix(`weight_hh${suffix}`, 'recurrent kernel')];
    const rows = shapes.get(`bias_ih${suffix}`)?.[0];
    if (rows) {
      const isPair = kind === 'GRU';
      const part = (data: Float32Array, i: number) =>
        ordered({ data: data.subarray(i * rows, (i + 1) * rows), shape: [rows] });
      slots.push({
        what: 'bias',
        expected: isPair ? [2, rows] : [rows],
        parametersOf: ({ data }) => ({
          [`bias_ih${suffix}`]: part(data, 0),
          [`bias_hh${suffix}`]: isPair ? part(data, 1) : filled([rows], 0),
        }),
      });
    }
    return { kind: 'recurrent', prefix, slots };
  });
}
