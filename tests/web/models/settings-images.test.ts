/**
 * Every key of preprocessor_config.json: heed's values change as transformers' do, or heed rejects the key's value, or
 * the key has no effect in either (tests/fixtures/settings/processors.py).
 */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { HeedError } from '../../../web/src/base/error.js';
import { Preprocessing } from '../../../web/src/images/preprocessing.js';
import { Settings } from '../../../web/src/io/settings.js';
import { reasonFor } from '../../../web/src/loading/without-effect.js';

interface Pixels {
  shape: number[];
  values: number[];
}
const processors = JSON.parse(
  readFileSync(new URL('../../fixtures/settings/processors.json', import.meta.url), 'utf8'),
) as Record<
  string,
  { config: object; base: Pixels; cases: { change: Record<string, unknown>; changed?: Pixels; fails?: string }[] }
>;
const file = 'preprocessor_config.json';
const image = { width: 14, height: 11, data: Uint8Array.from({ length: 11 * 14 * 3 }, (_, i) => (i * 97) % 251) };

function run(name: string, config: object) {
  const settings = new Settings({ image_processor_type: name, ...config }, file);
  try {
    const { values, height, width } = new Preprocessing(settings, 'vit').apply(image);
    const unread = settings.unread().filter((key) => reasonFor(file, key, null) === null);
    return { unread, shape: [3, height, width], values: Array.from(values).filter((_, i) => i % 11 === 0) };
  } catch (error) {
    if (error instanceof HeedError) return { error };
    throw error;
  }
}

describe.each(Object.entries(processors))('%s', (name, { config, base, cases }) => {
  const all: (typeof cases)[number][] = [{ change: {} }, ...cases];
  test.each(all.map((each) => [JSON.stringify(each.change), each] as const))('%s', (json, each) => {
    const { change, changed, fails } = each;
    const found = run(name, { ...config, ...change });
    if (found.error) return void expect(['UNSUPPORTED', 'INVALID_FILE']).toContain(found.error.code);
    expect(found.unread).toEqual(json.includes('invented') ? ['invented'] : []);
    if (fails) for (const key of Object.keys(change)) expect(reasonFor(file, key, null), fails).not.toBeNull();
    const expected = changed ?? base;
    expect(found.shape).toEqual(expected.shape);
    for (const [i, value] of expected.values.entries())
      expect(Math.abs(found.values[i]! - value), `[${i}]: ${found.values[i]} instead of ${value}`).toBeLessThanOrEqual(
        1e-5 + 1e-4 * Math.abs(value),
      );
  });
});
