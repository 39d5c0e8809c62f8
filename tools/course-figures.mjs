// `node tools/course-figures.mjs` draws the figures of docs/course/ with heed/draw. Needs a build.
import * as fs from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { root, runMain } from './console.mjs';

const folder = join(root, 'docs/course/figures');
const [MARGIN, SCALE] = [16, 1.3];

/** Draws all figures; returns their texts by file name. */
export async function courseFigures() {
  const { load } = await import('../dist/train.js');
  const draw = await import('../dist/draw.js');
  const heed = await load();
  const figures = {};
  const words = ['word 1', 'word 2', 'word 3', 'word 4'];
  /** Draws pictures beside each other, each below its title: [title, draw] of each. The background is white on dark pages, too. */
  const figure = (name, title, ...parts) => {
    let [x, height] = [MARGIN, 0];
    const pictures = parts.map(([caption, make]) => {
      const target = draw.svg();
      make(target);
      const [, width, own] = /width="([\d.]+)" height="([\d.]+)"/.exec(String(target)).map(Number);
      const picture = String(target)
        .replace(/^<svg[^>]*>/, '')
        .replace(/<\/svg>$/, '');
      const room = Math.max(width, caption.length * 8.8);
      const heading = `<text x="0" y="4" font-size="14" font-weight="600" fill="currentColor">${caption}</text>`;
      const group = `<g transform="translate(${x} ${MARGIN + 8})">${heading}<g transform="translate(0 16)">${picture}</g></g>`;
      x += room + 2 * MARGIN;
      height = Math.max(height, own);
      return group;
    });
    const [wide, high] = [x - MARGIN, height + 2 * MARGIN + 24];
    const size = `viewBox="0 0 ${wide} ${high}" width="${SCALE * wide}" height="${SCALE * high}"`;
    const font = 'font-family="system-ui, sans-serif"';
    figures[`${name}.svg`] =
      `<svg xmlns="http://www.w3.org/2000/svg" ${size} ${font} role="img" aria-label="${title}"><rect width="100%" height="100%" rx="6" fill="#fff"/>${pictures.join('')}</svg>\n`.replaceAll(
        'currentColor',
        '#1f2328',
      );
  };
  const matrix = (values, options) => (target) => draw.matrix(target, values, { title: '', cell: 44, ...options });
  const curves = (series, options) => (target) => draw.curves(target, series, { title: '', ...options });

  const byAge = await run('01-why-attention.md', 'byAttention');
  const grid = Array.from({ length: 58 }, (_, i) => 18 + i);
  figure('01-kernel', 'Claims per year by age, for three bandwidths', [
    'Claims per year, estimated at ages 18 to 75',
    curves(Object.fromEntries([2, 6, 20].map((h) => [`h = ${h}`, grid.map((age) => byAge(age, h))])), {
      x: 'years after 18',
      y: 'claims per year',
    }),
  ]);

  const q = [[2, 0], [0, 2], [1, 1], [0, 0]]; // biome-ignore format: rows
  const k = [[1, 0], [0, 1], [1, 1], [0, 0]]; // biome-ignore format: rows
  const v = [[1, 0], [0, 1], [2, 2], [0, 4]]; // biome-ignore format: rows
  const four = heed.attention(q, k, v, { returnWeights: true });
  figure('02-weights', 'Attention weights of four words', [
    'Weights: rows are queries, columns are keys',
    matrix(four.weights, { rows: words, columns: words, decimals: 2 }),
  ]);

  const x = [[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]]; // biome-ignore format: rows
  const weight = [[2, 0, 1], [0, 2, -1]]; // biome-ignore format: rows
  const z = heed.linear(x, { weight, bias: [0, 1], activation: 'relu' });
  figure(
    '03-linear',
    'The input of four words, the weight matrix, and the outputs',
    ['Input X', matrix(x, { rows: words, columns: ['x 1', 'x 2', 'x 3'], decimals: 0 })],
    ['Weight W', matrix(weight, { rows: ['z 1', 'z 2'], columns: ['x 1', 'x 2', 'x 3'], decimals: 0 })],
    ['Output Z', matrix(z, { rows: words, columns: ['z 1', 'z 2'], decimals: 0 })],
  );

  const named = Object.entries(await run('04-self-attention.md', '({ Q, K, V, A })', 2));
  figure(
    '04-self',
    'Queries, keys, values and attention weights of four words',
    ...named.map(([name, values]) => {
      const columns = name === 'A' ? words : ['1', '2'];
      const title = { Q: 'Queries Q', K: 'Keys K', V: 'Values V', A: 'Weights A' }[name];
      return [title, matrix(values, { rows: words, columns, decimals: name === 'A' ? 2 : 0 })];
    }),
  );

  const spoken = ['dog', 'barks', 'cats'];
  const mha = new heed.MultiHeadAttention({ embedDim: 4, numHeads: 2, bias: false });
  const eye = [0, 1, 2, 3].map((i) => [0, 1, 2, 3].map((j) => Number(i === j)));
  const ask = [[0, 4, 0, 0], [0, 0, 0, 0], [0, 0, 4, 0], [0, 0, 0, 4]]; // biome-ignore format: rows
  mha.loadStateDict({ in_proj_weight: [...ask, ...eye, ...eye], 'out_proj.weight': eye });
  const heads = mha
    .forward([[1, 0, 1, 0], [0, 1, 1, 0], [1, 0, 0, 1]], { returnWeights: true }).weights // biome-ignore format: rows
    .toArray();
  figure(
    '05-heads',
    'Attention weights of the first and of the second head',
    ['Head 1: verbs ask for nouns', matrix(heads[0], { rows: spoken, columns: spoken, decimals: 2 })],
    ['Head 2: the same number', matrix(heads[1], { rows: spoken, columns: spoken, decimals: 2 })],
  );

  const equal = [[1, 0], [1, 0], [1, 0], [1, 0]]; // biome-ignore format: rows
  const masked = (options) =>
    heed.attention(equal, equal, equal, { ...options, returnWeights: true }).weights.toArray();
  const numbers = ['1', '2', '3', '4'];
  const squares = (values) => matrix(values, { rows: numbers, columns: numbers, decimals: 2, max: 1 });
  figure(
    '06-masks',
    'Weights under a causal mask, a padding mask and a window',
    ['Causal', squares(masked({ causal: true }))],
    ['Padding: 3 and 4', squares(masked({ mask: [true, true, false, false] }))],
    ['Window of radius 1', squares(masked({ mask: heed.masks.window(4, 1) }))],
  );

  const sourceKeys = eye.slice(0, 3).map((row) => row.slice(0, 3));
  const target = [[0, 4, 0], [0, 0, 4]]; // biome-ignore format: rows
  const cross = heed.attention(target, sourceKeys, sourceKeys, { returnWeights: true });
  figure('07-cross', 'Cross-attention of two target words to three source words', [
    'Rows: target words; columns: source words',
    matrix(cross.weights, { rows: ['verde', 'albero'], columns: ['the', 'green', 'tree'], decimals: 2 }),
  ]);

  const rows = [[1, 2, 3], [3, 6, 9], [2, 4, 6]]; // biome-ignore format: rows
  const byRow = heed.layerNorm(rows).toArray();
  const byColumn = new heed.BatchNorm({ numFeatures: 3 }).train().forward(rows).toArray();
  const labels = { rows: ['row 1', 'row 2', 'row 3'], columns: ['1', '2', '3'], decimals: 1 };
  figure(
    '08-norms',
    'Three rows, then after layer norm, then after batch norm',
    ['Input', matrix(rows, labels)],
    ['Layer norm', matrix(byRow, labels)],
    ['Batch norm', matrix(byColumn, labels)],
  );

  const dropout = new heed.Dropout({ p: 0.5, seed: 3 }).train();
  const steps = Array.from({ length: 10 }, () => dropout.forward([new Array(12).fill(1)]).toArray()[0]);
  figure('09-dropout', 'Ten steps of dropout for twelve entries', [
    'Twelve entries (columns) in ten steps: white is zero',
    matrix(steps, { rows: steps.map((_, i) => `step ${i + 1}`), cell: 28 }),
  ]);

  figure('10-encodings', 'Encodings of 30 positions', [
    'Positions 0 to 29 (rows), 16 features (columns)',
    matrix(heed.positionalEncoding(30, 16), {
      cell: 16,
      rows: Array.from({ length: 30 }, (_, i) => (i % 5 === 0 ? String(i) : '')),
    }),
  ]);
  const { data } = heed.positionalEncoding(150, 32);
  const products = Array.from({ length: 150 }, (_, i) =>
    data.subarray(0, 32).reduce((sum, value, c) => sum + value * data[32 * i + c], 0),
  );
  figure('10-dot-products', 'Dot products of encodings by distance', [
    'Dot product of the encodings of two positions',
    curves({ product: products }, { x: 'distance', y: 'dot product' }),
  ]);

  const norms = await run('11-encoder.md', 'curves');
  figure('11-norms', 'Loss of post-norm and pre-norm by epoch', [
    'Reversing eight digits, four blocks',
    curves(norms, { x: 'epoch', y: 'loss' }),
  ]);

  const sizes = { embedDim: 8, numHeads: 2, feedForwardDim: 16, dropout: 0, seed: 1 };
  const transformer = new heed.Transformer({ ...sizes, numEncoderLayers: 1, numDecoderLayers: 1 });
  const [decoder] = transformer.forward(heed.positionalEncoding(6, 8), heed.positionalEncoding(4, 8), {
    causal: true,
    returnWeights: true,
  }).weights.decoder;
  figure(
    '12-decoder',
    'Causal self-attention and cross-attention of a decoder',
    ['Self-attention', matrix(decoder.self.at(0), { rows: numbers, columns: numbers, decimals: 2, max: 1 })],
    [
      'Cross-attention (columns: source)',
      matrix(decoder.memory.at(0), { rows: numbers, columns: [...numbers, '5', '6'], decimals: 2, max: 1 }),
    ],
  );

  const { loss, validation } = await run('13-series.md', 'history', 4);
  figure('13-loss', 'Loss by epoch', [
    'Mean squared error (scaled values)',
    curves({ training: loss, validation }, { x: 'epoch', y: 'loss' }),
  ]);
  const lifts = await run(
    '14-claims.md',
    "['generalized linear model', 'feature transformer'].map((name) => [name, lift(frequencies[name])])",
    9,
  );
  figure(
    '14-lift',
    'Predicted and observed frequencies of ten groups',
    ...lifts.map(([name, groups]) => [
      `Lift of the ${name}`,
      curves(
        { predicted: groups.map(([value]) => value), observed: groups.map(([, value]) => value) },
        { x: 'group, by predicted frequency', y: 'claims per year', width: 380 },
      ),
    ]),
  );
  return figures;
}

/** Runs the first `blocks` blocks of a chapter, and returns the value of an expression after them. */
async function run(file, result, blocks = Infinity) {
  const text = fs.readFileSync(join(root, 'docs/course', file), 'utf8');
  const code = [...text.matchAll(/```js\n(.*?)```/gs)]
    .slice(0, blocks)
    .map(([, block]) => block)
    .join('\n');
  const entry = (name) => pathToFileURL(join(root, 'dist', `${name ?? 'index'}.js`)).href;
  const script = `${code.replaceAll(/'heed(?:\/([\w-]+))?'/g, (_, name) => `'${entry(name)}'`)}\nexport default ${result};`;
  const source = script.replaceAll('console.log(', '((..._) => {})(');
  return (await import(`data:text/javascript,${encodeURIComponent(source)}`)).default;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href)
  await runMain(async () => {
    fs.mkdirSync(folder, { recursive: true });
    for (const [name, text] of Object.entries(await courseFigures())) fs.writeFileSync(join(folder, name), text);
  });
