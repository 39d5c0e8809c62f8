/** The run that the first page plays is the one that “Watch it learn” computes. If not, run node demo/measure.mjs. */
import { load } from 'heed/train';
import { expect, it } from 'vitest';
import { openingSettings, recordedRun } from '../../demo/src/engine/learning/recording';
import { read } from '../../demo/src/engine/learning/recording-format';
import recorded from '../../demo/src/pages/see/recorded.json';
import { initial } from './learning-settings';

it('is recorded with the settings with which the page opens', () => {
  expect(openingSettings).toEqual(initial);
});

it('has the weights and accuracies of that run', async () => {
  const heed = await load({ build: 'simd128' });
  const run = recordedRun(heed);
  heed.dispose();
  expect(run.maps.length).toBe(recorded.maps.length);
  // Over many steps, rounding may differ between machines.
  for (const [i, map] of run.maps.slice(0, 20).entries()) {
    const shown = read(recorded.maps[i]!);
    expect(Math.abs(run.accuracies[i]! - recorded.accuracies[i]!)).toBeLessThan(30);
    for (const [j, weight] of read(map).entries()) expect(Math.abs(weight - shown[j]!)).toBeLessThan(0.05);
  }
  expect(recorded.accuracies[0]).toBeLessThan(300);
  expect(recorded.accuracies.at(-1)).toBeGreaterThan(950);
});
