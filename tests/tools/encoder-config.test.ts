/**
 * The options of the pretrained encoder stand in three places: the core's structs; the lists that the bindings read, because C++ cannot enumerate a struct's fields; and the type of
 * what the families write. The three have the same fields.
 */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

/** The text from `start` to the first line that is `end`. */
const between = (text: string, start: string, end: string) => text.split(start)[1]!.split(`\n${end}\n`)[0]!;

const camelCase = (name: string) => name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());

/** 'bool', 'number' or another type by field, in the order of their names. */
function sorted(fields: Iterable<[string, string]>): [string, string][] {
  return [...fields].sort(([a], [b]) => (a < b ? -1 : 1));
}

const kinds: Record<string, string> = { Index: 'number', double: 'number', float: 'number', bool: 'boolean' };
/** Fields that the bindings convert one by one. */
const converted: Record<string, string> = {
  activation: 'string',
  convolutionActivation: 'string',
  positions: 'names',
  localLayers: 'boolean[]',
  rotaryFrequencies: 'number[]',
  localRotaryFrequencies: 'number[]',
  int8: 'boolean',
  tableCode: 'RowCode',
};

/** The core's structs, with the fields that layers set themselves or that the model's layers do not have. */
const structs: [header: string, struct: string, own: string[]][] = [
  ['encoder_model.h', 'EncoderModelConfig', ['layer']],
  ['encoder.h', 'EncoderLayerOptions', ['attention', 'feedForward', 'norm', 'attentionNorm', 'dropout']],
  [
    'multi_head_attention.h',
    'MultiHeadAttentionOptions',
    // biome-ignore format: one list
    ['embedDim', 'bias', 'dropout', 'int8', 'norm', 'valueDim', 'keyInputDim', 'valueInputDim', 'queryActivation', 'keyActivation', 'valueActivation'],
  ],
  ['feed_forward.h', 'FeedForwardOptions', ['embedDim', 'bias', 'dropout', 'int8']],
  ['norm.h', 'LayerNormOptions', ['normalizedShape', 'elementwiseAffine']],
];
/** Fields whose names differ between the core and the families. */
const renamed: Record<string, string> = {
  precision: 'int8',
  keyDim: 'headDim',
  rms: 'rmsNorm',
  weightOffset: 'normWeightOffset',
};
const keyOf = (struct: string, field: string) =>
  struct === 'LayerNormOptions' && field === 'bias' ? 'normBias' : (renamed[camelCase(field)] ?? camelCase(field));

const inStructs = structs.flatMap(([header, struct, own]) =>
  [
    ...between(read(`cpp/include/heed/${header}`), `struct ${struct} {`, '};').matchAll(
      /^ {2}([\w:<>]+) (\w+)(?: = [^;]+)?[;{]/gm,
    ),
  ]
    .map(([, type, field]): [string, string] => {
      const key = keyOf(struct, field!);
      return [key, converted[key] ?? kinds[type!]!];
    })
    .filter(([key]) => !own.includes(key)),
);

/** Keys of layers that are not options of the model. */
const layerKeys = ['keyDim', 'valueDim', 'dropout'];

test('the bindings read all fields of the core, each with its type', () => {
  const layers = read('cpp/bindings/attention_layers.cpp').split('EncoderCall::EncoderCall(')[0]!;
  const bindings = layers + between(read('cpp/bindings/models.cpp'), 'EncoderModelConfig readConfig', '}');
  const listed = [...bindings.matchAll(/readFields<(\w+)>\(\s*\w+,\s*\{([\s\S]*?)\}\);/g)].flatMap(([, type, list]) =>
    [...list!.matchAll(/\{&[\w.]*\w+, "(\w+)"/g)].map(([, key]): [string, string] => [key!, kinds[type!]!]),
  );
  for (const key of Object.keys(converted)) {
    const field = key === 'int8' ? 'precision' : key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    expect(bindings).toMatch(new RegExp(`\\w\\.${field} = `));
  }
  const inBindings = [...listed.filter(([key]) => !layerKeys.includes(key)), ...Object.entries(converted)];
  expect(sorted(inBindings)).toEqual(sorted(inStructs));
});

test('families write the same fields', () => {
  const type = between(read('web/src/base/wasm/core.ts'), 'export interface RawEncoderModelConfig {', '}');
  const inType = [...type.matchAll(/^ {2}(\w+)\??: ([^;]+?)(?: \| undefined)?;/gm)].map(
    ([, key, type]): [string, string] => [key!, type!.startsWith("'") ? 'names' : type!],
  );
  expect(sorted(inType)).toEqual(sorted(inStructs));
});
