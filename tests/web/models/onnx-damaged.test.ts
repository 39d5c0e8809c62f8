/** ONNX files that are damaged, contradictory or hostile: one clear HeedError, and heed works afterwards. */
import { load } from 'heed';
import { afterAll, expect, test } from 'vitest';
import { type OnnxTensor, onnxFile, tensorsOf } from './onnx-writer.js';
import { tinyModel } from './tiny.js';

const heed = await load();
const { 'model.safetensors': safetensors, ...others } = tinyModel();
const tensors = tensorsOf(safetensors as Uint8Array);
const [first, ...rest] = tensors as [OnnxTensor, ...OnnxTensor[]];
const whole = onnxFile(tensors);
const readers = tensors.map(({ name }) => ({ op: 'Identity', inputs: [name], outputs: [`${name}_out`] }));

const loading = async (file: Uint8Array) => (await heed.fromPretrained({ ...others, 'model.onnx': file })).dispose();

afterAll(async () => {
  await loading(whole);
});

const changed = (change: Partial<OnnxTensor>) => onnxFile([{ ...first, ...change }, ...rest], readers);
/** The bytes of a field with a length: its tag, its length and its content. */
const field = (tag: number, length: number[], content: Uint8Array | number[] = []) =>
  Uint8Array.from([tag, ...length, ...content]);
const GRAPH = (7 << 3) | 2;
const HUGE = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];

test.each<[string, Uint8Array]>([
  ['an empty file', new Uint8Array()],
  ['a text', new TextEncoder().encode('version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 90387630\n')],
  ['safetensors', safetensors as Uint8Array],
  ['zeros', new Uint8Array(100)],
  ['a file without a graph', field((1 << 3) | 0, [8])],
  ['a graph that is longer than the file', field(GRAPH, HUGE)],
  ['a length of 10 bytes', field(GRAPH, [...new Array<number>(9).fill(0xff), 1])],
  ['a length without an end', field(GRAPH, new Array<number>(20).fill(0xff))],
  ['a tensor that is longer than the graph', field(GRAPH, [8], field((5 << 3) | 2, HUGE))],
  ['a node that is longer than the graph', field(GRAPH, [8], field((1 << 3) | 2, HUGE))],
  ['a group', field(GRAPH, [1], [(5 << 3) | 3])],
  ['bytes after the model', Uint8Array.from([...whole, 0xff])],
  ['an end within the last tensor', whole.subarray(0, -5)],
  ['an end within the nodes', whole.subarray(0, 50)],
  ['a missing tensor', onnxFile(rest)],
  ['a missing tensor that a node reads', onnxFile(rest, readers)],
  ['two tensors of one name', onnxFile([first, ...tensors], readers)],
  ['another shape', changed({ dims: [first.dims[1]!, first.dims[0]!] })],
  ['a shape of more values than bytes', changed({ dims: [first.dims[0]!, first.dims[1]! + 1] })],
  ['a shape of 2^60 values', changed({ dims: [2 ** 30, 2 ** 30] })],
  ['a negative shape', changed({ dims: [-1, 5] })],
  ['17 axes', changed({ dims: [...first.dims, ...new Array<number>(15).fill(1)] })],
  ['integers without a scale', changed({ type: 3, raw: first.raw!.slice(0, first.raw!.length / 4) })],
  ['no values', changed({ raw: new Uint8Array() })],
  ['values here and in another file', changed({ external: { location: 'model.onnx_data' } })],
  ['values as bytes and as floats', changed({ more: (pbf) => pbf.writePackedFloat(4, [1, 2]) })],
  ['values given twice', changed({ more: (pbf) => pbf.writeBytesField(9, first.raw!) })],
  ['another shape after the values', changed({ more: (pbf) => pbf.writeVarintField(1, 2) })],
  ['another name after the values', changed({ more: (pbf) => pbf.writeStringField(8, 'another') })],
  [
    'floats in the field of integers',
    changed({ raw: undefined as never, more: (pbf) => pbf.writePackedVarint(5, [1]) }),
  ],
])('%s: INVALID_FILE', async (_, file) => {
  await expect(loading(file)).rejects.toMatchObject({ code: 'INVALID_FILE' });
});

test('an end anywhere', async () => {
  for (let end = 0; end < whole.length; end += 997)
    await expect(loading(whole.subarray(0, end)), `${end}`).rejects.toMatchObject({ code: 'INVALID_FILE' });
});

test.each([
  ['complex numbers', changed({ type: 14 })],
  ['integers of 64 bits', changed({ type: 7, raw: new Uint8Array(2 * first.raw!.length) })],
])('%s: UNSUPPORTED', async (_, file) => {
  await expect(loading(file)).rejects.toMatchObject({ code: 'UNSUPPORTED' });
});

test('an operator of an unknown domain on the way to a weight is named, and ignored elsewhere', async () => {
  const on = { op: 'Scramble', domain: 'org.example', inputs: [first.name], outputs: ['scrambled'] };
  await expect(loading(onnxFile(tensors, [...readers.slice(1), on]))).rejects.toMatchObject({
    code: 'UNSUPPORTED',
    message: `model.onnx: expected known operators, got Scramble of domain 'org.example' for '${first.name.replace(/^bert\./, '')}'`,
  });
  const elsewhere = { ...on, inputs: ['input_ids'] };
  await loading(onnxFile(tensors, [...readers, elsewhere]));
});

test('a graph fused otherwise than heed knows is refused with what to do', async () => {
  const query = /self\.(query|key|value)/;
  const others = tensors.filter(({ name }) => !query.test(name));
  const fused = { op: 'MultiHeadAttention', domain: 'com.microsoft', inputs: ['x', 'qkv'], outputs: ['y'] };
  const nodes = readers.filter(({ inputs }) => !query.test(inputs[0]!));
  await expect(loading(onnxFile(others, [...nodes, fused]))).rejects.toMatchObject({
    code: 'UNSUPPORTED',
    message:
      'model.onnx: expected weights by layer, got a graph fused by onnxruntime (MultiHeadAttention). ' +
      "Use the folder's onnx/model.onnx or model.safetensors",
  });
});

test('unknown fields and unused tensors are skipped', async () => {
  const unused = { name: 'unused', dims: [3], type: 14, raw: new Uint8Array(1) };
  await loading(onnxFile([unused, ...tensors, unused], readers));
  await loading(onnxFile(tensors.map((tensor) => ({ ...tensor, more: (pbf) => pbf.writeStringField(12, 'doc') }))));
});
