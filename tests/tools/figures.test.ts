import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import {
  cosineTable,
  engineRatios,
  kilobytes,
  rangeOf,
  sentenceRatios,
  trainingTable,
  withFigures,
} from '../../tools/figures.mjs';

const read = (name: string) => readFileSync(new URL(`../../bench/${name}`, import.meta.url), 'utf8');

it('writes ranges of ratios, bold where heed is slower', () => {
  expect(rangeOf([1.93, 1.99, 2.04])).toBe('1.9 to 2.0');
  expect(rangeOf([1.98, 2.01])).toBe('2.0');
  expect(rangeOf([1.62, 0.9, 0.91])).toBe('**0.90 to 1.6**');
  expect(rangeOf([0.56])).toBe('**0.56**');
  expect(kilobytes(132_346)).toBe('132 KB');
  expect(kilobytes(4_134_680)).toBe('4,135 KB');
});

it('reads the rows of ENGINES.md', () => {
  const row =
    '| WebKitGTK | simd128 | 1 | q8 | 6.6 ms, 1.67 (1.60–1.70) | 54.5 ms, 1.32 (1.31–1.34) |  | 299.5 ms, 0.97 (0.96–0.99) | 2026-11-22 |';
  const text = `# heed\n\n## A CPU\n\n| engine | build | threads |\n| --- | --- | --- |\n${row}\n`;
  expect(engineRatios(text)).toEqual([{ engine: 'WebKitGTK', threads: 1, dtype: 'q8', ratios: [1.67, 1.32, 0.97] }]);
  const rows = engineRatios(read('ENGINES.md'));
  expect(new Set(rows.map(({ dtype }) => dtype))).toEqual(new Set(['fp32', 'q8']));
  for (const { ratios } of rows) expect(ratios.length).toBeGreaterThan(0);
  expect(rows).toHaveLength(read('ENGINES.md').match(/^\| .* ms, /gm)!.length);
});

it('reads the rates of real sentences, the best of each library', () => {
  const text = [
    '### 1024 real sentences of mixed lengths, Chrome 156',
    '| | texts/s | as fast as transformers.js in calls of 8 |',
    '| --- | --- | --- |',
    '| heed q8, no workers | 100 | 2.50 |',
    '| heed q8, 2 workers | 180 | 4.50 |',
    '| heed fp32, 2 workers | 999 | 9.99 |',
    '| transformers.js q8, calls of 8 | 40 | 1.00 |',
    '| transformers.js q8, calls of 64 | 30 | 0.75 |',
    '## Cold start',
    '| heed q8 | 5000 | |',
  ];
  expect(sentenceRatios(text.join('\n'))).toEqual({ 'Chrome 156': { 'no workers': 2.5, '2 workers': 4.5 } });
  const measured = sentenceRatios(read('RESULTS.md'));
  expect(Object.keys(measured).join()).toMatch(/Node .*Chrome|Chrome.*Node /);
  for (const ratios of Object.values(measured)) {
    expect(Object.keys(ratios)).toEqual(['no workers', '2 workers']);
    for (const ratio of Object.values(ratios)) expect(ratio).toBeGreaterThan(0);
  }
});

it('finds and writes figures that differ, and reports those without a source', () => {
  const figures = { size: () => '132 KB', table: () => '\n| 1 |\n' };
  const text = [
    'A page downloads <!-- figure:size -->131 KB<!-- /figure -->, or <!-- figure:size -->132 KB<!-- /figure -->.',
    '<!-- figure:table -->\n| 0 |\n<!-- /figure -->',
    '<!-- figure:speed -->fast<!-- /figure -->',
  ];
  const result = withFigures(text.join('\n\n'), figures);
  expect(result.differences).toEqual([
    "1: size: expected '132 KB', got '131 KB'",
    "3: table: expected '| 1 |', got '| 0 |'",
  ]);
  expect(result.failures).toEqual(['7: speed: no such figure']);
  expect(result.text).toBe(text.join('\n\n').replace('131', '132').replace('| 0 |', '| 1 |'));
  expect(withFigures(result.text, figures).differences).toEqual([]);
});

it('reads the times of training and the cosines', () => {
  const rows = [
    ['### 1 layer', '', '|  | ms a step | peak MB | heed is times as fast |', '| --- | --- | --- | --- |'],
    [
      '| heed (simd128) | 11.2 | 132 |  |',
      '| PyTorch | 7.0 | 248 | 0.62 (0.60–0.65) |',
      '| tfjs-cpu | minutes |  |  |',
    ],
    ['', '### Download for training', '', '|  | KB |', '| heed/train | 437 |'],
  ].flat();
  expect(trainingTable(`# heed\n\n## Training\n\n${rows.join('\n')}\n\n## Loading\n`)).toBe(
    '| a step compared with | 1 layer |\n| --- | --- |\n| PyTorch | **0.62** |\n| tfjs-cpu | minutes |',
  );
  expect(trainingTable(read('RESULTS.md'))).toMatch(/^\| PyTorch \| .*\d \| .*\d.* \|$/m);
  expect(cosineTable(read('RESULTS.md'))).toMatch(/^\| heed q8 \| 0\.99\d+ \| 0\.99\d+ \|$/m);
});
