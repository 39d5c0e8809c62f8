/**
 * The options of the pretrained encoder stand in three places: the core's struct, the list that the bindings read, since C++ cannot enumerate a struct's fields, and the type of what
 * the families write. The three have the same fields.
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
};

const struct = between(read('cpp/include/heed/encoder_model.h'), 'struct EncoderModelConfig {', '};');
const inStruct = [...struct.matchAll(/^ {2}([\w:<>]+) (\w+)(?: = [^;]+)?;/gm)].map(
  ([, type, name]): [string, string] => {
    const key = name === 'precision' ? 'int8' : camelCase(name!);
    return [key, converted[key] ?? kinds[type!]!];
  },
);

test('the bindings read all fields of the core, each with its type', () => {
  const bindings = between(read('cpp/bindings/models.cpp'), 'EncoderModelConfig readConfig', '}');
  const listed = [...bindings.matchAll(/read\.operator\(\)<(\w+)>\(\s*\{([\s\S]*?)\}\);/g)].flatMap(([, type, list]) =>
    [...list!.matchAll(/&c\.(\w+), "(\w+)"/g)].map(([, field, key]): [string, string] => {
      expect(camelCase(field!)).toBe(key);
      return [key!, kinds[type!]!];
    }),
  );
  for (const key of Object.keys(converted)) {
    const field = key === 'int8' ? 'precision' : key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    expect(bindings).toMatch(new RegExp(`c\\.${field} = `));
  }
  expect(sorted([...listed, ...Object.entries(converted)])).toEqual(sorted(inStruct));
});

test('families write the same fields', () => {
  const type = between(read('web/src/base/wasm/core.ts'), 'export interface RawEncoderModelConfig {', '}');
  const inType = [...type.matchAll(/^ {2}(\w+)\??: ([^;]+);/gm)].map(([, key, type]): [string, string] => [
    key!,
    type!.startsWith("'") ? 'names' : type!,
  ]);
  expect(sorted(inType)).toEqual(sorted(inStruct));
});
