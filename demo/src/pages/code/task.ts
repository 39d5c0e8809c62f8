/** The program that trains the model of “Watch it learn” to the step that is shown, with the same numbers; for the lens, without some of its heads. */

import { layerCount } from '../../engine/learning/model';
import { symbols, type TaskName, tasks } from '../../engine/learning/tasks';
import { batchSize, heldOut, heldOutStep, type TrainerSettings } from '../../engine/learning/trainer';
import { literal, program } from './writing';

const shuffle = [
  'const shuffled = (length, next) => {',
  '  const order = Array.from({ length }, (_, i) => i);',
  '  for (let i = length - 1; i > 0; i--) {',
  '    const j = Math.floor(next() * (i + 1));',
  '    [order[i], order[j]] = [order[j], order[i]];',
  '  }',
  '  return order;',
  '};',
];
const digitsOf = (count: number) =>
  `const draw = (next) => Array.from({ length: ${count} }, () => Math.floor(next() * 10));`;

/** How each task draws digits, and the example that they make; -100: no answer is asked for. */
const examples: Record<TaskName, string[]> = {
  reverse: [digitsOf(10), 'const exampleOf = (ids) => ({ ids, labels: [...ids].reverse() });'],
  sort: [digitsOf(10), 'const exampleOf = (ids) => ({ ids, labels: [...ids].sort((a, b) => a - b) });'],
  copy: [
    digitsOf(8),
    'const exampleOf = (digits) => {',
    '  const all = [...digits, 10, ...digits]; // 10: an arrow',
    '  return { ids: all.slice(0, -1), labels: all.slice(1).map((id, i) => (i < 8 ? -100 : id)) };',
    '};',
  ],
  repeated: [
    ...shuffle,
    'const draw = (next) => {',
    '  const chosen = shuffled(10, next).slice(0, 8);',
    '  return shuffled(9, next).map((from) => chosen[from] ?? chosen[0]);',
    '};',
    'const exampleOf = (digits) => {',
    '  const twice = digits.find((id, i) => digits.indexOf(id) < i);',
    '  return { ids: [11, ...digits], labels: [twice, ...digits.map(() => -100)] }; // 11: a question mark',
    '};',
  ],
};

/** `off`: heads that are switched off after the training, as "layer.head"; undefined: the program has no such option. */
export function taskCode(settings: TrainerSettings, steps: number, ids: number[], off?: readonly string[]): string {
  const { task, heads, width, positions, scale, layerNorm, dropout, learningRate, seed } = settings;
  const { length, causal } = tasks[task];
  const headWidth = width / heads;
  const [input, inputs] = off ? ['x, off', 'ids, off = []'] : ['x', 'ids'];
  return program([
    "import { load } from 'heed/train';",
    '',
    'const heed = await load();',
    '',
    '// Examples. The numbers are drawn as on the page (mulberry32).',
    'const uniform = (seed) => () => {',
    '  seed = (seed + 0x6d2b79f5) | 0;',
    '  let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);',
    '  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;',
    '  return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;',
    '};',
    ...examples[task],
    'const batchOf = (size, step) => {',
    `  const next = uniform(Math.imul(${seed + 1}, 0x9e3779b1) ^ Math.imul(step + 1, 0x85ebca6b));`,
    '  const examples = Array.from({ length: size }, () => exampleOf(draw(next)));',
    '  return { ids: examples.map(({ ids }) => ids), labels: examples.map(({ labels }) => labels) };',
    '};',
    '',
    `// The model: width ${width}, ${heads === 1 ? 'one head' : `${heads} heads`}, ${layerCount} layers.`,
    'let made = 0;',
    `const seed = () => ${1000 * seed} + ++made;`,
    'const linear = (inFeatures, outFeatures, activation) => new heed.Linear({ inFeatures, outFeatures, activation, seed: seed() });',
    positions && `const positions = heed.positionalEncoding(${length}, ${width});`,
    'class Residual extends heed.Module {',
    layerNorm && `  norm = new heed.LayerNorm({ normalizedShape: ${width} });`,
    dropout > 0 && `  dropout = new heed.Dropout({ p: ${dropout}, seed: seed() });`,
    '  forward(x, result) {',
    `    const sum = heed.add(x, ${dropout > 0 ? 'this.dropout.forward(result)' : 'result'});`,
    `    return ${layerNorm ? 'this.norm.forward(sum)' : 'sum'};`,
    '  }',
    '}',
    'class Layer extends heed.Module {',
    ...['query', 'key', 'value', 'output'].map((name) => `  ${name} = linear(${width}, ${width});`),
    `  up = linear(${width}, ${2 * width}, 'relu');`,
    `  down = linear(${2 * width}, ${width});`,
    '  afterAttention = new Residual();',
    '  afterFeedForward = new Residual();',
    `  forward(${input}) {`,
    '    const [query, key, value] = [this.query, this.key, this.value].map((layer) => layer.forward(x));',
    `    const options = { scale: ${scale ? `1 / Math.sqrt(${headWidth})` : '1'}, causal: ${causal} };`,
    ...(heads === 1
      ? [
          `    const ${off ? '{ output }' : 'joined'} = heed.attention(query, key, value, options)${off ? '' : '.output'};`,
          off && '    const joined = off.includes(0) ? heed.multiply(output, 0) : output;',
        ]
      : [
          `    const outputs = ${literal(Array.from({ length: heads }, (_, head) => head))}.map((head) => {`,
          `      const columns = { axis: -1, start: head * ${headWidth}, end: (head + 1) * ${headWidth} };`,
          '      const [q, k, v] = [query, key, value].map((all) => heed.slice(all, columns));',
          ...(off
            ? [
                '      const { output } = heed.attention(q, k, v, options);',
                '      return off.includes(head) ? heed.multiply(output, 0) : output;',
              ]
            : ['      return heed.attention(q, k, v, options).output;']),
          '    });',
          '    const joined = heed.concatenate(outputs);',
        ]),
    '    const mixed = this.afterAttention.forward(x, this.output.forward(joined));',
    '    return this.afterFeedForward.forward(mixed, this.down.forward(this.up.forward(mixed)));',
    '  }',
    '}',
    'class Model extends heed.Module {',
    `  embedding = new heed.Embedding({ numEmbeddings: ${symbols}, embedDim: ${width}, seed: seed() });`,
    `  layers = [${Array.from({ length: layerCount }, () => 'new Layer()').join(', ')}];`,
    `  head = linear(${width}, ${symbols});`,
    `  forward(${inputs}) {`,
    `    const x = ${positions ? 'heed.add(this.embedding.forward(ids), positions)' : 'this.embedding.forward(ids)'};`,
    ...(off
      ? [
          '    const offIn = (layer) => off.filter(([of]) => of === layer).map(([, head]) => head);',
          '    return this.head.forward(this.layers.reduce((rows, layer, i) => layer.forward(rows, offIn(i)), x));',
        ]
      : ['    return this.head.forward(this.layers.reduce((rows, layer) => layer.forward(rows), x));']),
    '  }',
    '}',
    '',
    '// Training.',
    'const model = new Model();',
    `const optimizer = new heed.optim.AdamW(model.parameters(), { lr: ${learningRate} });`,
    `for (let step = 0; step < ${steps}; step++) {`,
    `  const { ids, labels } = batchOf(${batchSize}, step);`,
    '  optimizer.zeroGrad();',
    '  heed.losses.crossEntropy(model.train().forward(ids), labels).backward();',
    '  heed.optim.clipGradNorm(model.parameters(), 1);',
    '  optimizer.step();',
    '}',
    '',
    '// Sequences that it has not been trained on, and the one that is shown.',
    `const { ids, labels } = batchOf(${heldOut}, ${heldOutStep});`,
    'model.eval();',
    'const answersOf = ({ data }) =>',
    `  Array.from({ length: data.length / ${symbols} }, (_, i) => {`,
    `    const row = data.subarray(${symbols} * i, ${symbols} * (i + 1));`,
    '    return row.indexOf(Math.max(...row));',
    '  });',
    'const asked = labels.flat();',
    'const accuracyOf = (logits) => {',
    '  const answers = answersOf(logits);',
    '  const right = asked.filter((label, i) => label === answers[i]).length;',
    '  return (100 * right) / asked.filter((label) => label !== -100).length;',
    '};',
    ...(off ? withoutHeads(settings, off) : withAllHeads),
    `console.log('answers', answersOf(model.forward([${literal(ids)}]${off ? ', off' : ''})).join(' '));`,
  ]);
}

const withAllHeads = [
  'const logits = model.forward(ids);',
  "console.log('loss', heed.losses.crossEntropy(logits, labels).item());",
  "console.log('accuracy', accuracyOf(logits), '%');",
];

function withoutHeads({ heads }: TrainerSettings, off: readonly string[]): string[] {
  const pairs = off.map((name) => name.split('.').map(Number) as [number, number]);
  const those = pairs.filter(([layer, head]) => layer >= 0 && layer < layerCount && head >= 0 && head < heads);
  return [
    `const off = ${literal(those)}; // layer and head, from 0`,
    "console.log('accuracy', accuracyOf(model.forward(ids, off)), '%');",
    "console.log('with all heads', accuracyOf(model.forward(ids)), '%');",
    `for (let layer = 0; layer < ${layerCount}; layer++)`,
    `  for (let head = 0; head < ${heads}; head++)`,
    "    console.log('without', [layer, head], accuracyOf(model.forward(ids, [[layer, head]])), '%');",
  ];
}
