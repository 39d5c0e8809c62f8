/** The program that computes what the page “Lens” shows. */
import type { Over } from '../lens/presets';
import { literal, program } from './writing';

export interface LensState {
  first: string;
  second: string;
  /** "layer.head" */
  off: string[];
  over: Over;
}

export function lensCode({ first, second, off, over }: LensState): string {
  const edits = off.map((name) => {
    const [layer, head] = name.split('.').map(Number);
    return { site: `layers.${layer}.heads`, heads: [head], scale: 0 };
  });
  return program([
    "import { load, similarity } from 'heed';",
    "import { patchGrid } from 'heed/lens';",
    '',
    'const heed = await load();',
    'const model = await heed.fromPretrained();',
    `const [first, second] = ${literal([first, second])};`,
    `const edit = ${literal(edits)};`,
    'const vectors = await model.embed([first, second], { edit });',
    'console.log(similarity(vectors).at(0, 1));',
    '',
    'const meanOf = ({ data, shape: [, rows, width] }) =>',
    '  Array.from({ length: width }, (_, d) => data.reduce((sum, x, i) => (i % width === d ? sum + x / rows : sum), 0));',
    'const target = meanOf((await model.encode(first)).lastHiddenState);',
    'const metric = ({ lastHiddenState }) => similarity([meanOf(lastHiddenState)], [target]).at(0, 0);',
    '// Both sentences need the same number of tokens.',
    `const grid = await patchGrid(model, { clean: first, corrupted: second, over: ${literal(over)}, metric });`,
    'console.log(String(grid));',
  ]);
}
