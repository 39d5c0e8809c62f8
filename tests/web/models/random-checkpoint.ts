/** Checkpoints of published shapes with random weights. */
import { layersKeyOf, type Published, type Shapes, shapesOf } from './published.js';

let state = 12345;
/** 32 random bits; the upper ones are better. */
function next(): number {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return state;
}

/** A pool of normally distributed numbers (Box, Muller 1958). */
const drawn = Float32Array.from({ length: 2 ** 16 }, () => {
  const radius = Math.sqrt(-2 * Math.log((next() + 1) / 2 ** 32));
  return radius * Math.cos((2 * Math.PI * next()) / 2 ** 32);
});

/**
 * A file of tensors with random values of the standard deviation of initial weights. `gains`: whether the weights of
 * norms are near 1.
 */
export function randomTensors(given: Shapes, gains = true): Uint8Array {
  const header: Record<string, object> = {};
  const shapes = Object.entries(given);
  const count = (shape: number[]) => shape.reduce((a, b) => a * b, 1);
  let size = 0;
  for (const [name, shape] of shapes) {
    const bytes = 4 * count(shape);
    header[name] = { dtype: 'F32', shape, data_offsets: [size, size + bytes] };
    size += bytes;
  }
  let json = JSON.stringify(header);
  json += ' '.repeat(-json.length & 7);
  const file = new Uint8Array(8 + json.length + size);
  new DataView(file.buffer).setBigUint64(0, BigInt(json.length), true);
  file.set(new TextEncoder().encode(json), 8);
  const values = new Float32Array(file.buffer, 8 + json.length);
  let at = 0;
  for (const [name, shape] of shapes) {
    const isGain = shape.length === 1 && name.endsWith('weight') && gains;
    const deviation = shape.length === 1 ? 0.1 : 0.02;
    const end = at + count(shape);
    for (; at < end; at++) values[at] = (isGain ? 1 : 0) + deviation * drawn[next() >>> 16]!;
  }
  return file;
}

/** The checkpoint with fewer layers, a smaller vocabulary and random weights. */
export function filesOf(model: Published, layers: number, vocab: number): Record<string, Uint8Array | string> {
  const { config } = model;
  const { layer_types: types, model_type: family } = config;
  return {
    'config.json': JSON.stringify({
      ...config,
      vocab_size: vocab,
      [layersKeyOf(config)]: layers,
      ...(types && { layer_types: types.slice(-layers) }),
    }),
    'model.safetensors': randomTensors(shapesOf(model, { layers, vocab }), family !== 'gemma3_text'),
  };
}
