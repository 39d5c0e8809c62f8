// Weights for the baselines: the stored ones, and random ones of the same shapes.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Opens a safetensors file. Returns a function that reads a tensor by name: { data: Float32Array, shape }. */
export function readSafetensors(path) {
  const { header, body } = open(path);
  const raw = (name) => {
    const {
      dtype,
      shape,
      data_offsets: [from, to],
    } = header[name];
    const bytes = body.slice(from, to);
    return { data: dtype === 'I8' ? new Int8Array(bytes) : new Float32Array(bytes), shape, dtype };
  };
  return (name) => {
    const { data, shape, dtype } = raw(name);
    if (dtype !== 'I8') return { data, shape };
    const scale = raw(`${name}_scale`).data;
    return { data: Float32Array.from(data, (x, i) => x * scale[Math.floor(i / shape[1])]), shape };
  };
}

/** The folder's model with random weights as in BERT's initialization: files for `fromPretrained`. */
export function untrained(folder, seed) {
  const { header } = open(join(folder, 'model.safetensors'));
  const uniform = mulberry32(seed);
  const normal = () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
  const tensors = [];
  const plain = {};
  let offset = 0;
  for (const [name, { shape }] of Object.entries(header)) {
    if (name === '__metadata__' || name.endsWith('_scale')) continue;
    const size = shape.reduce((a, b) => a * b, 1);
    const values = new Float32Array(size);
    if (shape.length === 2) for (let i = 0; i < size; i++) values[i] = 0.02 * normal();
    else values.fill(name.endsWith('LayerNorm.weight') ? 1 : 0);
    plain[name] = { dtype: 'F32', shape, data_offsets: [offset, offset + 4 * size] };
    offset += 4 * size;
    tensors.push(Buffer.from(values.buffer));
  }
  const text = JSON.stringify(plain);
  const head = Buffer.from(text.padEnd(Math.ceil(text.length / 8) * 8));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(head.length));
  const files = { 'model.safetensors': Buffer.concat([length, head, ...tensors]) };
  for (const name of ['tokenizer.json', 'tokenizer_config.json', 'modules.json', '1_Pooling/config.json']) {
    files[name] = readFileSync(join(folder, name));
  }
  const { quantization_config: _, ...config } = JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8'));
  files['config.json'] = Buffer.from(JSON.stringify(config));
  return files;
}

function open(path) {
  const file = readFileSync(path);
  const length = Number(file.readBigUInt64LE(0));
  const header = JSON.parse(file.toString('utf8', 8, 8 + length));
  const start = file.byteOffset + 8 + length;
  return { header, body: file.buffer.slice(start, file.byteOffset + file.length) };
}

/** A small seeded generator of uniform numbers in [0, 1). */
function mulberry32(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}
