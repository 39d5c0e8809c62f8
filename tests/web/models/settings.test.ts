/**
 * Every key of config.json, for all families: heed's result changes as transformers' does, or heed rejects the value, or
 * the key has no effect in either (tests/fixtures/settings/enumerate.py).
 */
import { readFileSync } from 'node:fs';
import { type Heed, HeedError, load, type PretrainedModel, type Tensor } from 'heed';
import { describe, expect, test } from 'vitest';
import { writeSafetensors } from '../../../web/src/io/safetensors.js';
import { reasonFor } from '../../../web/src/loading/without-effect.js';

interface Short {
  step: number;
  values: number[];
}
type Results = Record<string, Short>;
interface Family {
  config: Record<string, unknown>;
  pad: number;
  takesTypes: boolean;
  tensors: Record<string, number[]>;
  base: Results;
  cases: { key: string; value: unknown; changed?: Results; fails?: string }[];
}
const { input, families } = JSON.parse(
  readFileSync(new URL('../../fixtures/settings/settings.json', import.meta.url), 'utf8'),
) as {
  input: { ids: number[][]; mask: number[][]; types: number[][]; maskToken: number };
  families: Record<string, Family>;
};

/** `weight` of enumerate.py. */
function weight(name: string, shape: number[]): Float32Array {
  let seed = 2166136261;
  for (const byte of new TextEncoder().encode(name)) seed = Math.imul(seed ^ byte, 16777619) >>> 0;
  const isNorm = shape.length === 1 && name.endsWith('weight') && /norm|ln|lambda/.test(name.toLowerCase());
  return Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => {
    let x = (Math.imul(i, 0x9e3779b1) + seed) >>> 0;
    x = Math.imul(x ^ (x >>> 16), 0x85ebca6b) >>> 0;
    x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35) >>> 0;
    return ((x ^ (x >>> 16)) >>> 0) / 2 ** 32 - 0.5 + (isNorm ? 1 : 0);
  });
}

/** A tokenizer whose only use is to name the mask token. */
const tokenizer = (size: number) => ({
  model: {
    type: 'WordLevel',
    vocab: Object.fromEntries(
      Array.from({ length: size }, (_, i) => [i === input.maskToken ? '[MASK]' : `t${i}`, i] as const),
    ),
    unk_token: 't1',
  },
});

function filesOf({ config, tensors }: Family, changed: object): Record<string, Uint8Array | string> {
  const weights = Object.entries(tensors).map(([name, shape]) => ({
    name,
    dtype: 'F32',
    shape,
    data: weight(name, shape),
  }));
  return {
    'config.json': JSON.stringify({ ...config, ...changed }),
    'model.safetensors': writeSafetensors(weights),
    ...('vocab_size' in config && { 'tokenizer.json': JSON.stringify(tokenizer(config.vocab_size as number)) }),
    'preprocessor_config.json': JSON.stringify({
      image_processor_type: 'ViTImageProcessor',
      do_resize: false,
      rescale_factor: 1 / 64,
      image_mean: [0.5, 0.5, 0.5],
      image_std: [1, 1, 1],
    }),
  };
}

const image = {
  width: 8,
  height: 8,
  data: Uint8Array.from({ length: 192 }, (_, i) => {
    const [channel, pixel] = [i % 3, Math.floor(i / 3)];
    return ((channel * 64 + pixel) * 37) % 64;
  }),
};

/** heed's results by the names in `base`. */
async function resultsOf(model: PretrainedModel, { pad, base, takesTypes }: Family): Promise<Record<string, Tensor>> {
  const ids = input.ids.map((row, n) => row.map((id, i) => (input.mask[n]![i] ? id : pad)));
  const texts = {
    inputIds: ids,
    attentionMask: input.mask,
    ...(takesTypes && { tokenTypeIds: input.types }),
  };
  const found: Record<string, Tensor> = {};
  const isImage = model.config.hasImageEncoder;
  if ('text' in base) {
    found.text = await model.embed({ inputIds: [ids[0]!] }, { normalize: false });
    found.image = await model.embedImages(image, { normalize: false });
    return found;
  }
  if (isImage) {
    const out = await model.encodeImage(image);
    found.last = out.lastHiddenState;
    if ('pooler' in base) found.pooler = out.poolerOutput;
    if (out.logits) found.ForImageClassification = out.logits;
    return found;
  }
  const out = await model.encode(texts);
  found.last = out.lastHiddenState;
  if (out.poolerOutput) found.pooler = out.poolerOutput;
  const heads = {
    ForSequenceClassification: 'sequence-classification',
    ForTokenClassification: 'token-classification',
    ForQuestionAnswering: 'question-answering',
    ForMaskedLM: 'fill-mask',
  } as const;
  for (const [name, head] of Object.entries(heads))
    if (name in base) found[name] = (await model.predict(head, texts)).logits;
  return found;
}

function expectShort(found: Tensor | undefined, { step, values }: Short, what: string): void {
  const own = found && Array.from(found.data).filter((_, i) => i % step === 0);
  expect(own?.length, what).toBe(values.length);
  for (const [i, value] of values.entries())
    expect(Math.abs(own![i]! - value), `${what}[${i}]: ${own![i]} instead of ${value}`).toBeLessThanOrEqual(
      1e-5 + 1e-4 * Math.abs(value),
    );
}

/** The settings with another value of a key, such as 'text_config.hidden_act'. */
function changedBy(config: Record<string, unknown>, path: string, value: unknown): object {
  const [key, below] = path.split('.');
  return below === undefined ? { [key!]: value } : { [key!]: { ...(config[key!] as object), [below]: value } };
}

/** Loads a folder; an error if it is rejected, also by its first call. */
async function run(heed: Heed, family: Family, changed: object) {
  try {
    using model = await heed.fromPretrained(filesOf(family, changed));
    return { unread: model.config.unread, results: await resultsOf(model, family) };
  } catch (error) {
    if (error instanceof HeedError) return { error };
    throw error;
  }
}

describe.each(Object.entries(families))('%s', (type, family) => {
  test("gives transformers' results", async () => {
    const heed = await load();
    const { unread, results, error } = await run(heed, family, {});
    if (error) throw error;
    expect(unread).toEqual([]);
    for (const [name, short] of Object.entries(family.base)) expectShort(results![name], short, name);
  });

  test.each(family.cases.map(({ key, value, ...rest }) => [key, JSON.stringify(value), rest] as const))(
    '%s: %s',
    async (key, json, { changed, fails }) => {
      const heed = await load();
      const found = await run(heed, family, changedBy(family.config, key, JSON.parse(json)));
      if (found.error) return void expect(['UNSUPPORTED', 'INVALID_FILE']).toContain(found.error.code);
      expect(found.unread).toEqual(key === 'quantization' ? ['config.json: quantization'] : []);
      // What transformers cannot load is rejected, or is a value of a key that changes nothing.
      if (fails) expect(reasonFor('config.json', key, type), fails).not.toBeNull();
      for (const [name, short] of Object.entries({ ...family.base, ...changed }))
        expectShort(found.results[name], short, name);
    },
  );
});
