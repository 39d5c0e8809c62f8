/** The program that computes what the lens shows. */
import type { Measure } from '../inside/lens/measures';
import type { Over } from '../inside/lens/presets';
import { openedAs } from './encoder';
import { literal, program } from './writing';

export interface LensState {
  /** null: the bundled model. */
  source: string | null;
  dtype: 'fp32' | 'q8';
  measure: Measure;
  first: string;
  second: string;
  /** "layer.head" */
  off: string[];
  over: Over;
}

export function lensCode({ source, dtype, measure, first, second, off, over }: LensState): string {
  const edits = off.map((name) => {
    const [layer, head] = name.split('.').map(Number);
    return { site: `layers.${layer}.heads`, heads: [head], scale: 0 };
  });
  const task = { similarity: 'similarity', word: 'fillMask', label: 'classify' }[measure];
  return program([
    `import { ${['load', task].sort().join(', ')} } from 'heed';`,
    "import { patchGrid } from 'heed/lens';",
    '',
    'const heed = await load();',
    `const model = await heed.fromPretrained(${openedAs(source, dtype)});`,
    `const [first, second] = ${literal([first, second])};`,
    `const edit = ${literal(edits)};`,
    ...results[measure],
    '// Both sentences need the same number of tokens.',
    `const grid = await patchGrid(model, { clean: first, corrupted: second, over: ${literal(over)}, ${measure === 'similarity' ? '' : 'head, '}metric });`,
    'console.log(String(grid));',
  ]);
}

/** The score of the first sentence's best class in the second. */
const ofBest = (head: string) => [
  '',
  `const head = ${literal(head)};`,
  'const { data } = (await model.predict(head, first)).logits;',
  'const at = data.indexOf(data.reduce((a, b) => Math.max(a, b)));',
  'const metric = ({ logits }) => heed.softmax(logits).at(0, at);',
];

/** The result with heads off, and `metric` for the grid. */
const results: Record<Measure, string[]> = {
  similarity: [
    'const vectors = await model.embed([first, second], { edit });',
    'console.log(similarity(vectors).at(0, 1));',
    '',
    'const meanOf = ({ data, shape: [, rows, width] }) =>',
    '  Array.from({ length: width }, (_, d) => data.reduce((sum, x, i) => (i % width === d ? sum + x / rows : sum), 0));',
    'const target = meanOf((await model.encode(first)).lastHiddenState);',
    'const metric = ({ lastHiddenState }) => similarity([meanOf(lastHiddenState)], [target]).at(0, 0);',
  ],
  word: [
    'console.log((await fillMask(model, first, { edit })).flat().map(({ word, score }) => [word, score]));',
    ...ofBest('fill-mask'),
  ],
  label: ['console.log(await classify(model, first, { edit }));', ...ofBest('sequence-classification')],
};
