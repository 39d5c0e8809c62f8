/** The program that computes what the page “Compute” shows. */
import type { Matrix, StepsInput, StepsResult } from '../../engine/hand';
import { literal, program } from './writing';

const transpose = (rows: Matrix): Matrix => rows[0]!.map((_, column) => rows.map((row) => row[column]!));

export function handCode(input: StepsInput, result: StepsResult): string {
  const { positions, heads, dropout, order } = input;
  const width = result.heads[0]!.query[0]!.length;
  const isShuffled = order.some((from, i) => from !== i);
  const isMasked = result.mask.flat().some((allowed) => !allowed);
  const options = literal({
    scale: input.scale ?? undefined,
    mask: isMasked ? result.mask : undefined,
    returnWeights: true,
  });
  const prepared = (name: string, rows: Matrix, isNew: boolean): (string | false)[] => [
    `${isNew ? 'let' : ''} ${name} = ${literal(rows)};`.trim(),
    positions.mode !== 'none' &&
      `const p${name} = heed.positionalEncoding(${rows.length}, ${positions.mode === 'add' ? rows[0]!.length : positions.dim}, { base: ${positions.base} }).toArray();`,
    positions.mode === 'add' && `${name} = ${name}.map((row, i) => row.map((entry, j) => entry + p${name}[i][j]));`,
    positions.mode === 'concat' && `${name} = ${name}.map((row, i) => [...row, ...p${name}[i]]);`,
    input.layerNorm &&
      `${name} = heed.layerNorm(${name}, { weight: ${name}[0].map(() => 1), bias: ${name}[0].map(() => 0) }).toArray();`,
  ];
  const source = input.y ? 'y' : 'x';
  const from = isShuffled ? `${literal(order)}.map((i) => ${source}[i])` : source;
  const project = (rows: string, weight: Matrix) => `project(${rows}, ${literal(transpose(weight))})`;
  return program([
    "import { load } from 'heed';",
    '',
    'const heed = await load();',
    `// ${input.queryNames.join(', ')}${input.y ? `; y: ${input.keyNames.join(', ')}` : ''}`,
    ...prepared('x', input.x, true),
    ...(input.y ? prepared('y', input.y, true) : []),
    '// As in PyTorch, a weight has one row per output: the matrices of the page, transposed.',
    heads > 1
      ? `const split = (rows) => Array.from({ length: ${heads} }, (_, h) => rows.map((row) => row.slice(${width} * h, ${width} * (h + 1))));`
      : null,
    `const project = (rows, weight) => ${heads > 1 ? 'split(' : ''}heed.linear(rows, { weight }).toArray()${heads > 1 ? ')' : ''};`,
    `const q = ${project('x', input.queryWeight)};`,
    `const k = ${project(from, input.keyWeight)};`,
    `const v = ${project(from, input.valueWeight)};`,
    `const { output, weights } = heed.attention(q, k, v, ${options});`,
    ...(dropout.p > 0 ? withDropout(heads, dropout) : ['const h = output.toArray();']),
    'console.log(weights.toArray(), h);',
    ...(input.outputWeight
      ? [
          'const joined = x.map((_, i) => h.flatMap((head) => head[i]));',
          `console.log(heed.linear(joined, { weight: ${literal(transpose(input.outputWeight))} }).toArray());`,
        ]
      : []),
  ]);
}

function withDropout(heads: number, { p, seed }: StepsInput['dropout']): string[] {
  const transposed = 'value[0].map((_, j) => value.map((row) => row[j]))';
  const drop = (weights: string, seedOf: string) =>
    `heed.dropout(${weights}, { p: ${p}, seed: ${seedOf}, training: true })`;
  return [
    `const average = (dropped, value) => heed.linear(dropped, { weight: ${transposed} }).toArray();`,
    heads > 1
      ? `const h = weights.toArray().map((head, i) => average(${drop('head', `${seed} + i`)}, v[i]));`
      : `const h = average(${drop('weights', String(seed))}, v);`,
  ];
}
