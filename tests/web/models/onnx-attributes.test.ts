/**
 * Attributes of operators with quantized weights: a value that contradicts the stored tensors, or that onnxruntime does
 * not define, is one HeedError; it never changes the results silently.
 */
import { HeedError, load } from 'heed';
import { PbfWriter } from 'pbf';
import { describe, expect, test } from 'vitest';
import { type Field, fieldsOf, messageOf, textOf } from './onnx-edit.js';
import { onnxExpected, onnxFolder, onnxResults } from './onnx-fixtures.js';

const FOLDER = 'bert-quantized';
const { 'model.safetensors': _, ...files } = onnxFolder(FOLDER);
const [GRAPH, NODE, OPERATOR, ATTRIBUTE] = [7, 1, 4, 5];

/** Sets an integer or float attribute of all nodes with an operator; null removes it. */
function withAttribute(
  model: Uint8Array,
  operator: string,
  name: string,
  value: number | null,
  isFloat = false,
): Uint8Array {
  const changed = (node: Uint8Array) => {
    const fields = fieldsOf(node);
    if (fields.every(({ field, bytes }) => field !== OPERATOR || textOf(bytes) !== operator)) return node;
    const kept = fields.filter(
      ({ field, bytes }) =>
        field !== ATTRIBUTE || fieldsOf(bytes).every((each) => each.field !== 1 || textOf(each.bytes) !== name),
    );
    if (value === null) return messageOf(kept);
    const pbf = new PbfWriter();
    pbf.writeStringField(1, name);
    if (isFloat) pbf.writeFloatField(2, value);
    else pbf.writeVarintField(3, value);
    pbf.writeVarintField(20, isFloat ? 1 : 2); // the type
    return messageOf([...kept, { field: ATTRIBUTE, type: 2, bytes: pbf.finish().slice() }]);
  };
  const graphOf = (bytes: Uint8Array) =>
    messageOf(fieldsOf(bytes).map((each) => (each.field === NODE ? { ...each, bytes: changed(each.bytes) } : each)));
  const inner = (each: Field) => (each.field === GRAPH ? { ...each, bytes: graphOf(each.bytes) } : each);
  return messageOf(fieldsOf(model).map(inner));
}

/** null: the results are the same; otherwise the error's code. Fails if the results differ. */
async function outcome(file: string, model: Uint8Array): Promise<string | null> {
  const heed = await load();
  const path = `onnx/${file}.onnx`;
  try {
    using loaded = await heed.fromPretrained({ ...files, [path]: model }, { weights: path });
    const results = await onnxResults(loaded, FOLDER);
    for (const [key, { data }] of onnxExpected(FOLDER, file))
      data.forEach((value, i) => {
        const got = results.get(key)!.data[i]!;
        if (!(Math.abs(got - value) <= 1e-5 + 1e-4 * Math.abs(value))) throw new Error(`${key}: ${got}, not ${value}`);
      });
    return null;
  } catch (error) {
    if (error instanceof HeedError) return error.code;
    throw error;
  }
}

const VALUES = [null, 0, 1, 2, 3, 5, 8, 16, 17, 31, 64, 128, 2 ** 20, 2 ** 31, 2 ** 52, -1, -2, -16];

/** Whether a value is valid but means other weights: the other table, or blocks of another size whose number is the same. */
const isOther = (operator: string, name: string, value: number | null) =>
  name === 'quant_type' ? value === 0 || value === 1 : operator === 'DequantizeLinear' && value === 17;

describe.each<[file: string, operator: string, attributes: Record<string, (number | null)[]>]>([
  // By attribute, the values with the same results. Values that mean something else are not tried.
  ['model_q4', 'MatMulNBits', { bits: [4, null], block_size: [32], N: [], K: [] }],
  ['model_q8_zero', 'MatMulNBits', { bits: [8], block_size: [16], N: [], K: [] }],
  ['model_bnb4', 'MatMulBnb4', { quant_type: [1], block_size: [64], N: [], K: [] }],
  ['model_fp4', 'MatMulBnb4', { quant_type: [0], block_size: [64], N: [], K: [] }],
  [
    'model_q4_tables',
    'GatherBlockQuantized',
    { bits: [4, null], block_size: [16], gather_axis: [0, null], quantize_axis: [1, -1, null] },
  ],
  ['model_q4_qdq', 'DequantizeLinear', { axis: [0, -2], block_size: [16] }],
])('%s: %s', (file, operator, attributes) => {
  const model = files[`onnx/${file}.onnx`] as Uint8Array;

  test.each(Object.entries(attributes))('%s', async (name, same) => {
    for (const value of VALUES) {
      if (isOther(operator, name, value) && !same.includes(value)) continue;
      const got = await outcome(file, withAttribute(model, operator, name, value));
      if (same.includes(value)) expect(got, `${value}`).toBeNull();
      // Sizes that are there already have no effect.
      else if (got !== null || !['N', 'K'].includes(name)) expect(got, `${value}`).toMatch(/INVALID_FILE|UNSUPPORTED/);
    }
  });
});

test.each(['alpha', 'beta'])('a Gemm with %s', async (name) => {
  const { 'model.safetensors': __, ...bert } = onnxFolder('bert');
  const heed = await load();
  const scaled = (value: number) => {
    const model = withAttribute(bert['onnx/model.onnx'] as Uint8Array, 'Gemm', name, value, true);
    return heed.fromPretrained({ ...bert, 'onnx/model.onnx': model }, { weights: 'onnx/model.onnx' });
  };
  (await scaled(1)).dispose();
  await expect(scaled(0.5)).rejects.toMatchObject({ code: 'UNSUPPORTED', message: expect.stringContaining('Gemm') });
});
