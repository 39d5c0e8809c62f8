/** Invalid numbers in config.json: the message names the key. */
import { readdirSync } from 'node:fs';
import { HeedError, load } from 'heed';
import { describe, expect, test, vi } from 'vitest';
import { bytesOf, fixtures } from './fixtures.js';
import { bert } from './server.js';

const heed = await load();

type Files = Record<string, Uint8Array | string>;
const withConfig = (files: Files, change: object): Files => {
  const config = JSON.parse(Buffer.from(files['config.json'] as Uint8Array).toString());
  return { ...files, 'config.json': JSON.stringify({ ...config, ...change }) };
};

async function failure(files: Files, options = {}): Promise<HeedError | null> {
  try {
    (await heed.fromPretrained(files, options)).dispose();
    return null;
  } catch (error) {
    expect(error).toBeInstanceOf(HeedError);
    return error as HeedError;
  }
}

const folders = readdirSync(fixtures, { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && readdirSync(`${fixtures}${entry.name}`).includes('config.json'))
  .map(({ name }) => name);

test('there are folders to try', () => expect(folders.length).toBeGreaterThan(6));

/** Yields copies of the configuration with one number, at any depth, replaced by `value`. */
function* replacements(config: Record<string, unknown>, value: number): Generator<object> {
  for (const [key, old] of Object.entries(config)) {
    if (typeof old === 'number') yield { [key]: value };
    else if (old && typeof old === 'object' && !Array.isArray(old))
      for (const part of replacements(old as Record<string, unknown>, value)) yield { [key]: { ...old, ...part } };
  }
}

test.each(folders)('%s, each number replaced', async (folder) => {
  const files = bytesOf(`${fixtures}${folder}`);
  const config = JSON.parse(Buffer.from(files['config.json']!).toString()) as Record<string, unknown>;
  expect([...replacements(config, 0)].length).toBeGreaterThan(5);
  for (const value of [-1, 0, 0.5, 1, 3, 5, 1025, 2 ** 16 + 2, 2 ** 24 + 1, 1e9, 1e-60, 1e300]) {
    for (const change of replacements(config, value)) {
      const error = await failure(withConfig(files, change));
      if (!error) continue;
      expect(error.message).not.toMatch(/config\.(?!json)|TypeError|undefined/);
      expect(error.message).toMatch(/^config\.json: |as config\.json says|config\.json's sizes|which takes \d+ bytes/);
      expect(['INVALID_FILE', 'UNSUPPORTED', 'OUT_OF_MEMORY']).toContain(error.code);
    }
  }
});

test.each<[string, object, RegExp]>([
  ['bert', { hidden_size: 70_000 }, /^config\.json: hidden_size: expected a whole number from 1 to 65536, got 70000/],
  ['bert', { num_attention_heads: 5 }, /num_attention_heads: expected a divisor of hidden_size \(24\), got 5/],
  ['bert', { layer_norm_eps: 2 }, /layer_norm_eps: expected a number between 0 and 1, got 2/],
  ['bert', { layer_norm_eps: 1e-60 }, /layer_norm_eps: expected .*, got 1e-60/],
  ['distilbert', { n_heads: 7 }, /n_heads: expected a divisor of dim \(24\), got 7/],
  ['roberta', { max_position_embeddings: 2 }, /max_position_embeddings: expected a whole number from 3 to \d+, got 2/],
  ['mpnet', { relative_attention_num_buckets: 600 }, /relative_attention_num_buckets: expected .*, got 600/],
  ['mpnet', { relative_attention_num_buckets: 5 }, /relative_attention_num_buckets: expected an even number, got 5/],
  [
    'modernbert',
    { global_rope_theta: 0.5, rope_parameters: null },
    /global_rope_theta: expected a finite number above 1, got 0.5/,
  ],
  [
    'modernbert',
    { num_attention_heads: 24 },
    /num_attention_heads: expected a value for an even number of rotated columns, .*, got 24/,
  ],
  [
    'nomic_bert',
    { rotary_emb_fraction: 3 },
    /rotary_emb_fraction: expected a value for an even number of rotated columns, .*, got 3/,
  ],
])('%s with %o', async (folder, change, message) => {
  const error = await failure(withConfig(bytesOf(`${fixtures}${folder}`), change));
  expect(error).toMatchObject({ code: 'INVALID_FILE', message: expect.stringMatching(message) });
});

describe('memory that is refused', () => {
  test.each(['fp32', 'q8'] as const)('for the encoder names its largest parameter (%s)', async (dtype) => {
    const sizes = { vocab_size: 2 ** 24, hidden_size: 60_000, num_attention_heads: 10 };
    const bytes = 2 ** 24 * 60_000 * (dtype === 'q8' ? 1 : 4);
    expect(await failure(withConfig(bert, sizes), { dtype })).toMatchObject({
      code: 'OUT_OF_MEMORY',
      message: expect.stringContaining(
        `embeddings.word.weight: expected a size that fits into memory, got shape [16777216, 60000], which takes ${bytes} bytes`,
      ),
      cause: expect.any(HeedError),
    });
  });

  test('for a tensor of a head names it', async () => {
    // Simulates an engine that cannot allocate the array for the pooler's matrix.
    const refusing = new Proxy(Float32Array, {
      construct(target, given, made) {
        if (given[0] === 24 * 24) throw new RangeError('Array buffer allocation failed');
        return Reflect.construct(target, given, made);
      },
    });
    vi.stubGlobal('Float32Array', refusing);
    try {
      expect(await failure(bert)).toMatchObject({
        code: 'OUT_OF_MEMORY',
        message: expect.stringMatching(
          /pooler\.dense\.weight: expected .*, got shape \[24, 24\], which takes 2304 bytes/,
        ),
      });
    } finally {
      vi.unstubAllGlobals();
    }
    expect(await failure(bert)).toBeNull();
  });
});
