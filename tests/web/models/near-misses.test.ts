/** Folders that are nearly right: clones without Git LFS, adapters, wrapped models. The message says what to do. */
import { load } from 'heed';
import { afterAll, describe, expect, test } from 'vitest';
import { bytesOf, fixtures } from './fixtures.js';

const heed = await load();
afterAll(() => heed.dispose());

const files = bytesOf(`${fixtures}bert`);
const { 'model.safetensors': weights, ...others } = files as Record<string, Uint8Array>;
const config = new TextDecoder().decode(files['config.json']);
const encode = (text: string) => new TextEncoder().encode(text);
const POINTER = encode('version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 90868376\n');
const PEFT = '{ "peft_type": "LORA", "base_model_name_or_path": "org/name", "r": 8, "target_modules": ["query"] }';

/** The weights with changed names. */
function renamed(change: (name: string) => string): Uint8Array {
  const length = Number(new DataView(weights!.buffer, weights!.byteOffset).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(weights!.subarray(8, 8 + length))) as Record<string, unknown>;
  const json = encode(JSON.stringify(Object.fromEntries(Object.entries(header).map(([k, v]) => [change(k), v]))));
  const out = new Uint8Array(8 + json.length + weights!.length - 8 - length);
  new DataView(out.buffer).setBigUint64(0, BigInt(json.length), true);
  out.set(json, 8);
  out.set(weights!.subarray(8 + length), 8 + json.length);
  return out;
}

// biome-ignore format: a case per line
const cases: [string, Record<string, Uint8Array | string>, string, RegExp][] = [
  ['a Git LFS pointer for the weights', { ...files, 'model.safetensors': POINTER }, 'INVALID_FILE', /model\.safetensors: .*got a Git LFS pointer\. `git lfs pull`/],
  ['a Git LFS pointer for JSON', { ...files, 'config.json': POINTER }, 'INVALID_FILE', /config\.json: .*got a Git LFS pointer/],
  ['an HTML page for the weights', { ...files, 'model.safetensors': encode('<!doctype html><p>Sign in') }, 'INVALID_FILE', /got an HTML page/],
  ['a PEFT adapter', { 'adapter_config.json': PEFT, 'adapter_model.safetensors': weights! }, 'UNSUPPORTED', /adapter_config\.json.*loadAdapter.*merge_and_unload/],
  ['a PEFT adapter with a config.json', { ...others, 'adapter_config.json': PEFT }, 'UNSUPPORTED', /adapter_config\.json.*loadAdapter/],
  ['weights of another name', { ...others, 'model.fp16.safetensors': weights! }, 'UNSUPPORTED', /weights: 'model\.fp16\.safetensors' reads this file/],
  ['NaN in config.json', { ...files, 'config.json': config.replace('{', '{\n "note": "NaN",\n  "x": NaN,') }, 'INVALID_FILE', /config\.json: .*got NaN in line 3, column 8$/],
  ['-Infinity in config.json', { ...files, 'config.json': config.replace('{', '{"x":-Infinity,') }, 'INVALID_FILE', /got -Infinity in line 1, column 6$/],
];

describe('the message says what to do', () => {
  test.each(cases)('%s', async (_, source, code, message) => {
    await expect(heed.fromPretrained(source)).rejects.toEqual(
      expect.objectContaining({ name: 'HeedError', code, message: expect.stringMatching(message) }),
    );
  });
});

describe('names with those of modules around the model', () => {
  const vectorOf = async (source: Record<string, Uint8Array | string>) => {
    using model = await heed.fromPretrained(source);
    return [...(await model.embed({ inputIds: [[5, 6, 7]] })).data];
  };
  const heads = ['cls.', 'pooler.', 'classifier.'];

  test.each(['_orig_mod.', 'module.', '0.auto_model.', '_orig_mod.module.', 'st.0.model.', 'encoder.', 'a.b.c.d.'])(
    '%s',
    async (prefix) => {
      const expected = await vectorOf(files);
      expect(await vectorOf({ ...files, 'model.safetensors': renamed((name) => prefix + name) })).toEqual(expected);
      // A head beside the encoder keeps its names.
      const isHead = (name: string) => heads.some((start) => name.startsWith(start));
      const beside = renamed((name) => (isHead(name) ? name : prefix + name));
      expect(await vectorOf({ ...files, 'model.safetensors': beside })).toEqual(expected);
    },
  );

  test('quantize and inspect find them', async () => {
    const source = { ...files, 'model.safetensors': renamed((name) => `module.${name}`) };
    expect((await heed.inspect(source)).problem).toBeNull();
    const [{ report }, original] = [await heed.quantize(source), await heed.quantize(files)];
    expect(report.int8).toEqual(original.report.int8);
  });
});

test('a file that `weights` names is read under any name', async () => {
  using model = await heed.fromPretrained(
    { ...others, 'model.fp16.safetensors': weights! },
    { weights: 'model.fp16.safetensors' },
  );
  expect(model.config.unusedTensors).toEqual([]);
});

test('the types reject options in the place of files', () => {
  // @ts-expect-error: a folder's files have extensions
  void (() => heed.fromPretrained({ model: 'org/name' }));
});
