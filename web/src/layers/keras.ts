/** How the weights of Keras' layers become parameters: which arrays a layer takes, in which order, and how they are turned. */

import { describe, formatShape, guarded, HeedError, invalid } from '../base/error.js';
import { maxOf } from '../base/lists.js';
import { flag, lengthOf, optional, readOptions, type Schema } from '../base/options.js';
import { readTensor, type TensorInput, type TensorLike } from '../base/tensor.js';
import { bytesOf } from '../io/bytes.js';
import { npzNames, readNpz } from '../io/npz.js';
import { Composite, layersOf } from './composition/composite.js';
import {
  attention,
  convolution,
  dense,
  norm,
  type Part,
  recurrent,
  type Slot,
  type State,
  type Target,
  table,
} from './keras-parts.js';
import { Layer } from './layer.js';

/** Weights of a Keras layer or model: the list of `get_weights()` as nested arrays or tensors, or the bytes of a .npz file. */
export type KerasWeights = readonly TensorInput[] | Uint8Array | ArrayBuffer;

/** Options of `fromKeras`. */
export interface FromKerasOptions {
  /** Whether Keras' normalization layers were made with `scale`, so that they have a gamma. Default true. */
  scale?: boolean | undefined;
  /** Whether Keras' normalization layers were made with `center`, so that they have a beta. Default true. */
  center?: boolean | undefined;
}

const schema = { scale: optional(flag, true), center: optional(flag, true) } satisfies Schema<FromKerasOptions>;

/** Parts that come in any order; of each kind, in this order. */
type Bag = readonly Part[];

/** The names `prefix`0., `prefix`1., ... of the layers of a stack. */
function stacked({ shapes }: Target, prefix: string): string[] {
  const indices = [...shapes.keys()].filter((name) => name.startsWith(prefix)).map((name) => name.slice(prefix.length));
  const count = maxOf(indices.map((rest) => Number.parseInt(rest, 10) + 1));
  return Array.from({ length: count }, (_, i) => `${prefix}${i}.`);
}

/** The parts of an encoder or decoder layer, in the order in which they are used. */
function block(target: Target, at = ''): Bag {
  const has = (name: string) => target.shapes.has(`${at}${name}`);
  const attentions = ['self_attn.', 'multihead_attn.'].filter((name) => has(`${name}out_proj.weight`));
  return [
    ...attentions.map((name) => attention(target, at + name)),
    ...['linear1.', 'linear2.'].map((name) => dense(target, at + name)),
    ...['norm1.', 'norm2.', 'norm3.'].filter((name) => has(`${name}weight`)).map((name) => norm(target, at + name)),
  ];
}

/** The layers of an encoder or decoder, one after another, and its final norm. */
function stack(target: Target, at = ''): Bag[] {
  const layers = stacked(target, `${at}layers.`).map((layer) => block(target, layer));
  return target.shapes.has(`${at}norm.weight`) ? [...layers, [norm(target, `${at}norm.`)]] : layers;
}

const one = (make: (target: Target, at: string) => Part) => (target: Target) => [[make(target, '')]];

/** The arrays of each class of layers. */
const plans: Record<string, (target: Target) => Bag[]> = {
  Linear: one(dense),
  FeedForward: (target) => [[dense(target, 'linear1.'), dense(target, 'linear2.')]],
  Embedding: one(table),
  PositionalEncoding: one(table),
  Dropout: () => [],
  LayerNorm: one(norm),
  BatchNorm: one(norm),
  MultiHeadAttention: one(attention),
  EncoderLayer: (target) => [block(target)],
  DecoderLayer: (target) => [block(target)],
  Encoder: stack,
  Decoder: stack,
  Transformer: (target) => [...stack(target, 'encoder.'), ...stack(target, 'decoder.')],
  Conv1D: one(convolution),
  LSTM: (target) => recurrent(target, 'LSTM').map((part) => [part]),
  GRU: (target) => recurrent(target, 'GRU').map((part) => [part]),
};

/** An array with its name in messages. */
interface Named {
  readonly name: string;
  readonly tensor: TensorLike;
}

const isShape = (a: readonly number[], b: readonly number[]) => formatShape(a) === formatShape(b);
const fits = ({ expected, fits }: Slot, shape: readonly number[]) => isShape(expected, shape) || fits?.(shape) === true;

function fault({ name, tensor }: Named, slots: readonly Slot[]): HeedError {
  const expected = slots.map(({ what, expected }) => `the ${what} ${formatShape(expected)}`).join(' or ');
  const got = `shape ${formatShape(tensor.shape)}`;
  return invalid(`fromKeras: ${name}`, expected, got, 'SHAPE_MISMATCH', {
    hint:
      slots.map(({ hint }) => hint?.(tensor.shape)).find(Boolean) ??
      "Pass the arrays of get_weights() in Keras' order and orientation",
  });
}

/** Takes the arrays of a bag's parts, in the order in which they come. */
function take(bag: Bag, arrays: Iterator<Named>, state: State): void {
  const left = new Set(bag.filter(({ slots }) => slots.length > 0));
  const set = ({ prefix }: Part, parameters: State) => {
    for (const [name, value] of Object.entries(parameters)) state[prefix + name] = value;
  };
  for (const part of bag) set(part, part.constants ?? {});
  /** An array that a dense layer has taken, though it looks like a kernel of an attention of another width. */
  let doubtful: HeedError | undefined;
  while (left.size > 0) {
    const array = arrays.next().value as Named;
    // The first of each kind.
    const candidates = [...left].filter((part, i, all) => all.findIndex(({ kind }) => kind === part.kind) === i);
    const fitting = candidates.filter(({ slots }) => fits(slots[0]!, array.tensor.shape));
    const part = fitting.find(({ slots }) => isShape(slots[0]!.expected, array.tensor.shape)) ?? fitting[0];
    const firsts = candidates.map(({ slots }) => slots[0]!);
    if (!part) throw doubtful ?? fault(array, firsts);
    const alike = firsts.filter(({ hint }) => hint?.(array.tensor.shape));
    if (!alike.includes(part.slots[0]!) && alike.length > 0) doubtful ??= fault(array, alike);
    left.delete(part);
    for (const [i, slot] of part.slots.entries()) {
      const next = i === 0 ? array : (arrays.next().value as Named);
      if (!fits(slot, next.tensor.shape)) throw doubtful ?? fault(next, [slot]);
      set(part, slot.parametersOf(next.tensor));
    }
  }
}

/** Reads the arrays: a list, or the bytes of a .npz file. */
async function readArrays(weights: unknown): Promise<Named[]> {
  const argument = 'fromKeras: weights';
  const bytes = guarded(argument, () => bytesOf(weights));
  const arrays = bytes
    ? await unpacked(bytes.slice())
    : guarded(argument, () => {
        if (!Array.isArray(weights))
          throw invalid(argument, 'the list of get_weights(), or the bytes of a .npz file', describe(weights));
        return Array.from({ length: lengthOf(weights, argument) }, (_, i): Named => {
          const name = `weights[${i}]`;
          return { name, tensor: readTensor(`fromKeras: ${name}`, weights[i] as TensorInput) };
        });
      });
  for (const { name, tensor } of arrays) {
    const at = tensor.data.findIndex((value) => !Number.isFinite(value));
    if (at >= 0)
      throw invalid(
        `fromKeras: ${name}`,
        `finite numbers ${formatShape(tensor.shape)}`,
        `${tensor.data[at]} at entry ${at} of ${formatShape(tensor.shape)}`,
      );
  }
  return arrays;
}

const NPZ = 'Save the weights as .npz: numpy.savez(file, *layer.get_weights())';

async function unpacked(bytes: Uint8Array<ArrayBuffer>): Promise<Named[]> {
  const argument = 'fromKeras: weights';
  const startsWith = (text: string) => [...text].every((letter, i) => bytes[i] === letter.charCodeAt(0));
  if (startsWith('\x89HDF'))
    throw new HeedError('UNSUPPORTED', `${argument}: HDF5 files, such as .weights.h5, are not read. ${NPZ}`);
  if (!startsWith('PK'))
    throw invalid(argument, 'the bytes of a .npz file', `${bytes.length} other bytes`, 'INVALID_FILE', { hint: NPZ });
  const names = npzNames(bytes);
  if (names.some((name) => name.endsWith('.h5') || name === 'config.json'))
    throw new HeedError('UNSUPPORTED', `${argument}: .keras files are not read. ${NPZ}`);
  const wrong = names.find((name) => !/^arr_\d+\.npy$/.test(name));
  if (wrong !== undefined)
    throw invalid(argument, 'arrays named arr_0, arr_1, ...', `'${wrong}'`, 'INVALID_FILE', { hint: NPZ });
  const numberOf = (name: string) => Number(name.slice('arr_'.length));
  const arrays = [...(await readNpz(bytes))].sort(([a], [b]) => numberOf(a) - numberOf(b));
  return arrays.map(([name, tensor]) => ({ name, tensor }));
}

function targetOf(layer: Layer, prefix: string, options: { scale: boolean; center: boolean }): Target {
  const shapes = new Map(layer.raw.parameters().map(({ name, shape }) => [name, shape]));
  const { numHeads = 1 } = (layer as unknown as { options: { numHeads?: number | undefined } }).options;
  return { prefix, shapes, numHeads, ...options };
}

/** See api/on-demand.ts. */
export async function fromKeras<Model extends Layer | Composite>(
  model: Model,
  weights: KerasWeights,
  given?: FromKerasOptions,
): Promise<Model> {
  const options = readOptions('fromKeras', schema, given);
  if (!(model instanceof Layer || model instanceof Composite))
    throw invalid('fromKeras: layer', 'a layer or model of heed', describe(model));
  const layers: [Layer, string][] = model instanceof Layer ? [[model, '']] : layersOf(model);
  const bags = layers.flatMap(([layer, prefix]): Bag[] => {
    const plan = plans[layer.name];
    if (!plan) throw new HeedError('UNSUPPORTED', `fromKeras: ${prefix}${layer.name} has no counterpart in Keras`);
    const target = targetOf(layer, prefix, options);
    return target.shapes.size === 0 ? [] : plan(target);
  });
  const arrays = await readArrays(weights);
  const count = bags.flat().reduce((sum, { slots }) => sum + slots.length, 0);
  if (arrays.length !== count) {
    const own = layers.map(([layer, prefix]) => prefix + layer.name).join(', ');
    throw invalid('fromKeras: weights', `${count} arrays for ${own}`, `${arrays.length}`, 'INVALID_ARGUMENT', {
      hint: 'Biases, and norms without scale or center, must be as in Keras',
    });
  }
  const state: State = {};
  const remaining = arrays.values();
  for (const bag of bags) take(bag, remaining, state);
  model.loadStateDict(state as Record<string, TensorInput>);
  return model;
}
