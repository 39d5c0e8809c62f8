/**
 * Files whose matrices have lost their names, with nodes in another order: the weights follow from what the graph
 * computes. The results are the same, or one HeedError says what is missing.
 */
import { HeedError, load } from 'heed';
import { describe, expect, test } from 'vitest';
import { expectClose } from './fixtures.js';
import { type Field, fieldsOf, messageOf, shuffled, textOf, valuesOf } from './onnx-edit.js';
import { onnxCases, onnxExpected, onnxFolder, onnxResults } from './onnx-fixtures.js';

const [GRAPH, NODE, INITIALIZER, TENSOR_NAME] = [7, 1, 5, 8];
const [INPUT, OUTPUT, NODE_NAME, OPERATOR, METADATA] = [1, 2, 3, 4, 9];
const textField = (field: number, text: string): Field => ({ field, type: 2, bytes: new TextEncoder().encode(text) });

const isNamed = (name: string) => name.includes('.') && !name.includes('::');

/**
 * The model with other names for initializers that have no name of the state dict, without the names of nodes and their
 * modules, and with another order of nodes. `identity`: with an Identity behind each initializer.
 */
function anonymous(model: Uint8Array, seed: number, identity: boolean): Uint8Array {
  const renamed = new Map<string, string>();
  const nameOf = (name: string) => renamed.get(name) ?? name;
  const inFields = (fields: Field[], which: number[], change: (name: string) => string) =>
    fields.map((each) => (which.includes(each.field) ? textField(each.field, change(textOf(each.bytes))) : each));
  const graphOf = (bytes: Uint8Array) => {
    const graph = fieldsOf(bytes);
    const names = graph.flatMap((each) =>
      each.field === INITIALIZER ? valuesOf(fieldsOf(each.bytes), TENSOR_NAME) : [],
    );
    for (const [i, name] of names.entries()) if (!isNamed(name)) renamed.set(name, `tensor${(i * 7919) % 10007}`);
    const behind = new Map(identity ? names.map((name) => [nameOf(name), `${nameOf(name)}_passed`]) : []);
    const passing = [...behind].map(([from, to]) => [
      textField(INPUT, from),
      textField(OUTPUT, to),
      textField(OPERATOR, 'Identity'),
    ]);
    const nodes = graph
      .filter(({ field }) => field === NODE)
      .map((each) => fieldsOf(each.bytes).filter(({ field }) => field !== NODE_NAME && field !== METADATA))
      .map((fields) =>
        inFields(inFields(fields, [INPUT, OUTPUT], nameOf), [INPUT], (name) => behind.get(name) ?? name),
      );
    const rest = graph
      .filter(({ field }) => field !== NODE)
      .map((each) =>
        each.field === INITIALIZER
          ? { ...each, bytes: messageOf(inFields(fieldsOf(each.bytes), [TENSOR_NAME], nameOf)) }
          : each,
      );
    const all = shuffled([...passing, ...nodes], seed);
    return messageOf([...all.map((fields) => ({ field: NODE, type: 2, bytes: messageOf(fields) })), ...rest]);
  };
  return messageOf(
    fieldsOf(model).map((outer) => (outer.field === GRAPH ? { ...outer, bytes: graphOf(outer.bytes) } : outer)),
  );
}

/**
 * Files with weights that only names tell apart: norms and position embeddings that the exporter has changed, equal tensors
 * that are stored once, and projections of images and texts.
 */
const NEEDS_NAMES =
  /^(gemma3_text\/model(_int8)?|dinov2\/model|clip\/|siglip\/model_dynamo|bert-equal\/model_dynamo|bert-mask\/model_dynamo|bert-quantized\/model_O2_int8)/;
/** Files that store a matrix in two forms of unlike values. Only names say which use has which. */
const TWO_FORMS = /^(albert\/model_q4|bert-mask\/model_(int8|q4))\.onnx$/;

const cases = onnxCases.filter(
  ({ folder, file }) => !TWO_FORMS.test(`${folder}/${file}`) && !/external|parts/.test(file),
);

describe.each(cases)('$folder/$file', ({ folder, file, expected }) => {
  const { 'model.safetensors': _, ...files } = onnxFolder(folder);
  const path = `onnx/${file}`;

  test.each([false, true])('Identity behind the initializers: %s', async (identity) => {
    const heed = await load();
    const model = anonymous(files[path] as Uint8Array, identity ? 11 : 12, identity);
    try {
      using loaded = await heed.fromPretrained({ ...files, [path]: model }, { weights: path });
      const results = await onnxResults(loaded, folder);
      for (const [key, value] of onnxExpected(folder, expected)) expectClose(results.get(key)!, value, key);
    } catch (error) {
      expect(error).toBeInstanceOf(HeedError);
      expect(`${folder}/${file}`).toMatch(NEEDS_NAMES);
    }
  });
});
