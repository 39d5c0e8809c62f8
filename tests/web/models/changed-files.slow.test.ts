/**
 * After any change in any file of a model's folder, loading gives a working model or one HeedError, and heed works
 * afterwards.
 */
import fc from 'fast-check';
import { load } from 'heed';
import { expect, test } from 'vitest';
import { resolved, resultOrError } from '../hostile/values.js';
import { bytesOf, expectClose, fixture } from './fixtures.js';
import { onnxFile, tensorsOf } from './onnx-writer.js';
import { tinyModel } from './tiny.js';

/** `npm run fuzz` sets a larger number. */
const RUNS = Number(process.env.HEED_FUZZ_RUNS ?? 500);

const heed = await load();
const { folder, expected, input } = fixture('sentence');
const { 'model.safetensors': weights, ...small } = bytesOf(folder);
const shard = 'model-00001-of-00001.safetensors';
const names = [...new TextDecoder('latin1').decode(weights!).matchAll(/"([\w.]+)":\{"dtype"/g)].map(
  ([, name]) => name!,
);

/** A complete sentence-transformers folder: sharded weights, tokenizer, prompts, layers after the pooling. */
const files: Record<string, Uint8Array | string> = {
  ...small,
  [shard]: weights!,
  'model.safetensors.index.json': JSON.stringify({
    metadata: { total_size: weights!.length },
    weight_map: Object.fromEntries(names.map((name) => [name, shard])),
  }),
  'tokenizer.json': tinyModel()['tokenizer.json']!,
  'tokenizer_config.json': JSON.stringify({ model_max_length: 30, do_lower_case: true, cls_token: '[CLS]' }),
  'sentence_bert_config.json': JSON.stringify({ max_seq_length: 20, do_lower_case: false }),
  'config_sentence_transformers.json': JSON.stringify({ prompts: { query: 'the ' }, default_prompt_name: 'query' }),
};
const documents = Object.keys(files).filter((name) => name.endsWith('.json') && name !== 'input.json');
const binaries = Object.keys(files).filter((name) => name.endsWith('.safetensors') && name !== 'expected.safetensors');
const textOf = (content: Uint8Array | string) =>
  typeof content === 'string' ? content : new TextDecoder().decode(content);
const bytes = (content: Uint8Array | string) =>
  typeof content === 'string' ? new TextEncoder().encode(content) : content;

const codes = [
  'INVALID_ARGUMENT',
  'INVALID_FILE',
  'NOT_FOUND',
  'OUT_OF_MEMORY',
  'SHAPE_MISMATCH',
  'TOO_LONG',
  'UNSUPPORTED',
];

async function expectModelOrError(changed: Record<string, Uint8Array | string>): Promise<void> {
  using model = await resolved(codes, () => heed.fromPretrained(changed));
  if (!model) return;
  await resolved(codes, () => model.embed('The quick fox, a x'));
  await resolved(codes, () => model.tokenize(['', ' ', 'é [MASK] foxes'], { textPairs: ['x', '', 'y'] }));
}

async function expectStillWorks(): Promise<void> {
  using model = await heed.fromPretrained(files);
  expectClose(await model.embed(input), expected.get('vectors'));
}

/** Copies `value` with the entry at the end of `walk` replaced, removed or renamed. */
function altered(value: unknown, walk: number[], change: { how: 'set' | 'delete' | 'rename'; to: unknown }): unknown {
  const [step, ...rest] = walk;
  if (typeof value !== 'object' || value === null || step === undefined || Object.keys(value).length === 0)
    return change.to;
  const keys = Object.keys(value);
  const key = keys[step % keys.length]!;
  const copy = (Array.isArray(value) ? [...value] : { ...value }) as Record<string, unknown>;
  if (rest.length > 0) copy[key] = altered(copy[key], rest, change);
  else if (change.how === 'set') copy[key] = change.to;
  else {
    if (change.how === 'rename') copy[`${key}x`] = copy[key];
    delete copy[key];
  }
  return copy;
}

const strange = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.constantFrom<unknown>(
      null,
      -1,
      0,
      1,
      1e9,
      0.5,
      '',
      'x',
      true,
      false,
      [],
      {},
      [null],
      [[]],
      '__proto__',
    ),
  },
  { weight: 1, arbitrary: fc.jsonValue() },
);

test('a value changed anywhere in any of its JSON files', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...documents),
      fc.array(fc.nat(), { minLength: 1, maxLength: 6 }),
      fc.record({ how: fc.constantFrom('set' as const, 'delete' as const, 'rename' as const), to: strange }),
      async (name, walk, change) => {
        const content = JSON.stringify(altered(JSON.parse(textOf(files[name]!)), walk, change));
        await expectModelOrError({ ...files, [name]: content });
      },
    ),
    { numRuns: RUNS },
  );
  await expectStillWorks();
});

test('bytes changed, cut off or added anywhere in any of its files', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...documents, ...binaries),
      fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      fc.nat(255),
      fc.constantFrom('change', 'cut', 'insert'),
      async (name, where, value, how) => {
        const all = bytes(files[name]!);
        // In binary files, half of the changes are in the header, which has the structure.
        const at = Math.floor(where * (binaries.includes(name) && value % 2 ? Math.min(all.length, 400) : all.length));
        const content =
          how === 'cut'
            ? all.subarray(0, at)
            : Uint8Array.from([...all.subarray(0, at), value, ...all.subarray(how === 'change' ? at + 1 : at)]);
        await expectModelOrError({ ...files, [name]: content });
      },
    ),
    { numRuns: RUNS },
  );
  await expectStillWorks();
});

test('bytes changed, cut off or added anywhere in ONNX weights', async () => {
  const { 'model.safetensors': tensors, ...others } = tinyModel();
  const whole = onnxFile(tensorsOf(tensors as Uint8Array));
  await fc.assert(
    fc.asyncProperty(fc.nat(whole.length - 1), fc.nat(255), fc.nat(7), async (place, value, kind) => {
      // Half of the changes are in the nodes and in the first tensors' fields.
      const at = kind % 2 ? place % 3000 : place;
      const end = [at, at + 1, at + 1, whole.length][kind >> 1]!;
      const content = Uint8Array.from([...whole.subarray(0, at), ...(kind > 5 ? [] : [value]), ...whole.subarray(end)]);
      await expectModelOrError({ ...others, 'model.onnx': content });
    }),
    { numRuns: RUNS },
  );
  await expectStillWorks();
});

test('the files of an index', async () => {
  const vectors = { data: Float32Array.from({ length: 12 }, (_, i) => Math.sin(i)), shape: [4, 3] };
  const words = 'a\nb\nc\nd\n';
  const file = heed.TextIndex.of(['a', 'b', 'c', 'd'], vectors).toSafetensors();
  await fc.assert(
    fc.asyncProperty(fc.nat(file.length - 1), fc.nat(255), fc.boolean(), fc.string(), async (at, value, cut, extra) => {
      const changed = cut ? file.slice(0, at) : Uint8Array.from(file, (byte, i) => (i === at ? value : byte));
      const index = await resolved(codes, () =>
        heed.TextIndex.load({ 'index.safetensors': changed, 'words.txt': value % 3 ? words : words + extra }),
      );
      if (!index) return;
      const hits = resultOrError(codes, () => index.search(new Float32Array(index.dimensions).fill(1)));
      expect(hits?.length ?? 0).toBeLessThanOrEqual(index.texts.length);
    }),
    { numRuns: RUNS },
  );
});
