/** The texts that `quantize` fits matrices to are not those with which losses are measured. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { CALIBRATION_TEXTS } from '../../../web/src/folders/calibration-texts.js';

test.each(['documents.json', 'descriptions.json'])('no text occurs in tools/model/%s', (file) => {
  const measured = readFileSync(new URL(`../../../tools/model/${file}`, import.meta.url), 'utf8').toLowerCase();
  expect(CALIBRATION_TEXTS.filter((text) => measured.includes(text.toLowerCase()))).toEqual([]);
});

test('no text occurs twice', () => {
  expect(new Set(CALIBRATION_TEXTS).size).toBe(CALIBRATION_TEXTS.length);
});
