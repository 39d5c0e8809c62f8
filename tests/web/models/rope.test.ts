/** The angles of rotary positions beside transformers' (tests/fixtures/families/rope.py). */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { Settings } from '../../../web/src/io/settings.js';
import { plainFrequencies } from '../../../web/src/models/families/family.js';
import { rope, ropeSettings, ropeSettingsOf } from '../../../web/src/models/families/rope.js';

interface Entry {
  config: Record<string, unknown>;
  frequencies: number[];
  factor: number;
}

const file = new URL('../../fixtures/families/rope.json', import.meta.url);
const entries = JSON.parse(readFileSync(file, 'utf8')) as Entry[];
const about = { key: 'rope_theta', fallback: 10_000, dim: 16, maxPositions: 1000 };

test.each(entries.map((entry) => [JSON.stringify(entry.config), entry] as const))('%s', (_, entry) => {
  const s = new Settings(entry.config, 'config.json');
  const { base, frequencies, factor } = rope(s, ropeSettings(s), about);
  const found = frequencies ?? plainFrequencies(base, about.dim);
  expect(found).toHaveLength(entry.frequencies.length);
  for (const [k, w] of found.entries())
    expect(Math.abs(w - entry.frequencies[k]!)).toBeLessThanOrEqual(1e-6 * entry.frequencies[k]!);
  expect(factor).toBeCloseTo(entry.factor, 6);
});

test('the settings of a kind of layers have those of rope_scaling merged into them', () => {
  const of = (config: object, isScaled = true) => {
    const s = new Settings(config, 'config.json');
    return rope(s, ropeSettingsOf(s, 'full_attention', isScaled), about);
  };
  const linear = of({ rope_parameters: { full_attention: { rope_type: 'linear', factor: 2, rope_theta: 70 } } });
  expect(linear.base).toBe(70);
  expect(linear.frequencies![0]).toBe(0.5);
  const scaled = {
    rope_scaling: { factor: 4 },
    rope_parameters: { full_attention: { rope_type: 'linear', factor: 2 } },
  };
  expect(of(scaled).frequencies![0]).toBe(0.25);
  expect(of(scaled, false).frequencies![0]).toBe(0.5);
  expect(of({ rope_scaling: { rope_type: 'linear', factor: 4 } }).frequencies![0]).toBe(0.25);
  // As transformers, which merges this into { rope_type: 'default' }.
  const older = of({ rope_scaling: { type: 'linear', factor: 4, rope_theta: 90 } });
  expect(older).toMatchObject({ base: 90, frequencies: undefined });
});

test.each([
  [{ rope_type: 'longrope', short_factor: [1], long_factor: [2] }, /rope_type: expected one of .*, got 'longrope'/],
  [{ type: 'su', factor: 2 }, /: type: expected one of default, .*, got 'su'/],
  [{ factor: 2 }, /rope_type: expected one of .*, got 'none'/],
  [{ rope_type: 'linear', factor: 2, partial_rotary_factor: 0.5 }, /'linear' with partial_rotary_factor 0.5/],
  [{ rope_type: 'linear' }, /factor: expected a finite number above 0, got nothing/],
  [{ rope_type: 'linear', factor: -1 }, /factor: expected a finite number above 0, got -1/],
  [{ rope_type: 'llama3', factor: 2 }, /low_freq_factor: expected a finite number above 0/],
  [{ rope_type: 'yarn', factor: 2, truncate: 'no' }, /truncate: expected true or false/],
  [{ rope_theta: 0.5 }, /rope_theta: expected a finite number above 1/],
])('%j is rejected', (rope_scaling, message) => {
  const s = new Settings({ rope_scaling }, 'config.json');
  expect(() => rope(s, ropeSettings(s), about)).toThrow(message);
});
