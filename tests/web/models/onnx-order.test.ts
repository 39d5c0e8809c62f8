/**
 * The place of a weight follows from the graph: files whose nodes are in another order, whose sums and products have
 * their operands exchanged, or whose names begin with those of wrappers give the same results.
 */
import { load } from 'heed';
import { describe, expect, test } from 'vitest';
import { expectClose } from './fixtures.js';
import { type Field, fieldsOf, messageOf, shuffled, textOf as text, valuesOf } from './onnx-edit.js';
import { onnxCases, onnxExpected, onnxFolder, onnxResults } from './onnx-fixtures.js';

const [GRAPH, NODE, INITIALIZER, TENSOR_NAME] = [7, 1, 5, 8];
const [INPUT, OUTPUT, NODE_NAME, METADATA] = [1, 2, 3, 9];
const bytesOf = (value: string) => new TextEncoder().encode(value);

/** Changes the nodes of a model's graph, given as lists of fields, and other fields of the graph. */
function changed(
  model: Uint8Array,
  nodesOf: (nodes: Field[][]) => Field[][],
  other: (field: Field) => Field = (field) => field,
): Uint8Array {
  return messageOf(
    fieldsOf(model).map((outer) => {
      if (outer.field !== GRAPH) return outer;
      const graph = fieldsOf(outer.bytes);
      const nodes = nodesOf(graph.filter(({ field }) => field === NODE).map(({ bytes }) => fieldsOf(bytes)));
      const rest = graph.filter(({ field }) => field !== NODE).map(other);
      const written = nodes.map((fields) => ({ field: NODE, type: 2, bytes: messageOf(fields) }));
      return { ...outer, bytes: messageOf([...written, ...rest]) };
    }),
  );
}

/** One file per way in which files name their weights, and per way in which they store them. */
const cases = onnxCases.filter(
  ({ folder, file }) =>
    (/unnamed|int8|q4|dynamo/.test(file) || folder === 'bert') &&
    ['bert', 'mpnet', 'modernbert', 'qwen3', 'gemma3_text', 'nomic_bert', 'deberta-v2'].includes(folder),
);

describe.each(cases)('$folder/$file', ({ folder, file, expected }) => {
  const { 'model.safetensors': _, ...files } = onnxFolder(folder);
  const path = `onnx/${file}`;
  const isSame = async (model: Uint8Array) => {
    const heed = await load();
    using loaded = await heed.fromPretrained({ ...files, [path]: model }, { weights: path });
    const results = await onnxResults(loaded, folder);
    for (const [key, value] of onnxExpected(folder, expected)) expectClose(results.get(key)!, value, key);
  };

  test.each([1, 2, 3])('its nodes in another order (%i)', async (seed) => {
    await isSame(changed(files[path] as Uint8Array, (nodes) => shuffled(nodes, seed)));
  });

  // Other files name norms and biases only by their modules.
  test.runIf(/unnamed/.test(file))('its nodes in another order, without names', async () => {
    const named = ({ field }: Field) => field !== NODE_NAME && field !== METADATA;
    const unnamed = (nodes: Field[][]) => shuffled(nodes, 4).map((fields) => fields.filter(named));
    await isSame(changed(files[path] as Uint8Array, unnamed));
  });
});

describe('wrappers', () => {
  const { 'model.safetensors': _, ...files } = onnxFolder('bert');
  const path = 'onnx/model.onnx';
  /** Writes `prefix` before the names of initializers, and the same modules before the names of nodes. */
  const wrapped = (prefix: string) => {
    const modules = prefix.slice(0, -1).split('.').join('/');
    const named = new Set<string>();
    changed(
      files[path] as Uint8Array,
      (nodes) => nodes,
      (field) => {
        if (field.field === INITIALIZER) named.add(valuesOf(fieldsOf(field.bytes), TENSOR_NAME)[0]!);
        return field;
      },
    );
    const rename = (value: string) => (named.has(value) && value.includes('.') ? prefix + value : value);
    const inField = (fields: Field[], which: number, change: (value: string) => string) =>
      fields.map((each) => (each.field === which ? { ...each, bytes: bytesOf(change(text(each.bytes))) } : each));
    return changed(
      files[path] as Uint8Array,
      (nodes) =>
        nodes.map((fields) => {
          const inputs = inField(inField(fields, INPUT, rename), OUTPUT, rename);
          return inField(inputs, NODE_NAME, (name) => (name.startsWith('/') ? `/${modules}${name}` : name));
        }),
      (field) =>
        field.field === INITIALIZER
          ? { ...field, bytes: messageOf(inField(fieldsOf(field.bytes), TENSOR_NAME, rename)) }
          : field,
    );
  };

  test.each(['encoder.', 'm.', 'st.0.model.', 'sentence_model.0.auto_model.', 'a.b.c.d.', 'model.bert.'])(
    'the names of a class with %s',
    async (prefix) => {
      const heed = await load();
      using loaded = await heed.fromPretrained({ ...files, [path]: wrapped(prefix) }, { weights: path });
      const results = await onnxResults(loaded, 'bert');
      for (const [key, value] of onnxExpected('bert', 'exact')) expectClose(results.get(key)!, value, key);
    },
  );

  test('two models in one file are refused', async () => {
    const graphOf = (model: Uint8Array) =>
      fieldsOf(fieldsOf(model).find(({ field }) => field === GRAPH)!.bytes).filter(({ field }) => field <= INITIALIZER);
    const prefixed = (fields: Field[], which: number[], prefix: string) =>
      fields.map((each) => {
        const isNamed = which.includes(each.field) && each.bytes.length > 0;
        return isNamed ? { ...each, bytes: bytesOf(prefix + text(each.bytes)) } : each;
      });
    const other = graphOf(wrapped('first.')).flatMap((each) => {
      if (each.field === NODE)
        return { ...each, bytes: messageOf(prefixed(fieldsOf(each.bytes), [INPUT, OUTPUT], 'other.')) };
      if (each.field !== INITIALIZER) return [];
      return { ...each, bytes: messageOf(prefixed(fieldsOf(each.bytes), [TENSOR_NAME], 'other.')) };
    });
    const both = fieldsOf(wrapped('first.')).map((outer) =>
      outer.field === GRAPH
        ? { ...outer, bytes: messageOf([...fieldsOf(outer.bytes), ...other].sort((a, b) => a.field - b.field)) }
        : outer,
    );
    const heed = await load();
    const loaded = heed.fromPretrained({ ...files, [path]: messageOf(both) }, { weights: path });
    await expect(loaded).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining(
        "expected one model, got several, with names that begin with 'first.' and 'other.first.'",
      ),
    });
  });
});
