/**
 * The options of the pretrained encoder stand in three places: the core's struct, which holds the options of its layers; the list that the bindings read, because C++ cannot enumerate
 * a struct's fields; and the type of what the families write. The three have the same fields.
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
  eps: 'number',
  positions: 'names',
  localLayers: 'boolean[]',
  int8: 'boolean',
  tableCode: 'RowCode',
};

/** Fields whose names differ between the core and the families. */
const renamed: Record<string, string> = { precision: 'int8', keyDim: 'headDim' };
const keyOf = (field: string) => renamed[camelCase(field)] ?? camelCase(field);

/** Options of a layer that the model sets itself. */
const ownOptions = ['valueDim', 'attentionNorm', 'dropout'];

const fieldsOf = (header: string, struct: string) =>
  [
    ...between(read(`cpp/include/heed/${header}`), `struct ${struct} {`, '};').matchAll(
      /^ {2}([\w:<>]+) (\w+)(?: = [^;]+)?;/gm,
    ),
  ].map(([, type, field]): [string, string] => [keyOf(field!), converted[keyOf(field!)] ?? kinds[type!]!]);
const inStruct = [
  ...fieldsOf('encoder_model.h', 'EncoderModelConfig'),
  ...fieldsOf('encoder.h', 'EncoderLayerOptions').filter(([key]) => !ownOptions.includes(key)),
];

test('the bindings read all fields of the core, each with its type', () => {
  const bindings = between(read('cpp/bindings/models.cpp'), 'EncoderModelConfig readConfig', '}');
  const listed = [...bindings.matchAll(/read\.operator\(\)<(\w+)>\(\s*\{([\s\S]*?)\}\);/g)].flatMap(([, type, list]) =>
    [...list!.matchAll(/&c\.(?:layer\.)?(\w+), "(\w+)"/g)].map(([, field, key]): [string, string] => {
      expect(keyOf(field!)).toBe(key);
      return [key!, kinds[type!]!];
    }),
  );
  for (const key of Object.keys(converted)) {
    const field = key === 'int8' ? 'precision' : key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    expect(bindings).toMatch(new RegExp(`c\\.(layer\\.)?${field} = `));
  }
  expect(sorted([...listed, ...Object.entries(converted)])).toEqual(sorted(inStruct));
});

test('families write the same fields', () => {
  const type = between(read('web/src/base/wasm/core.ts'), 'export interface RawEncoderModelConfig {', '}');
  const inType = [...type.matchAll(/^ {2}(\w+)\??: ([^;]+?)(?: \| undefined)?;/gm)].map(
    ([, key, type]): [string, string] => [key!, type!.startsWith("'") ? 'names' : type!],
  );
  expect(sorted(inType)).toEqual(sorted(inStruct));
});
