// `node tools/course-figures.mjs` draws the figures of docs/course/ with heed/draw. Needs a build.
import * as fs from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { root, runMain } from './console.mjs';

const folder = join(root, 'docs/course/figures');

/** Draws all figures; returns their texts by file name. */
export async function courseFigures() {
  const { load } = await import('../dist/train.js');
  const draw = await import('../dist/draw.js');
  const heed = await load();
  const figures = {};
  const add = (name, make) => {
    const target = draw.svg();
    make(target);
    // Documents are shown on light and on dark backgrounds, and an image does not inherit the text's color.
    figures[`${name}.svg`] = `${String(target).replaceAll('currentColor', '#777')}\n`;
  };
  const matrix = (name, values, options) => add(name, (target) => draw.matrix(target, values, options));
  const words = ['word 1', 'word 2', 'word 3', 'word 4'];
  /** Pictures beside each other: [values, options] of each. */
  const beside = (name, title, ...parts) => {
    let [x, height] = [0, 0];
    const pictures = parts.map(([values, options]) => {
      const target = draw.svg();
      draw.matrix(target, values, { title: '', ...options });
      const [, width, own] = /width="([\d.]+)" height="([\d.]+)"/.exec(String(target)).map(Number);
      const group = String(target)
        .replace(/^<svg[^>]*>/, `<g transform="translate(${x} 0)">`)
        .replace(/<\/svg>$/, '</g>');
      x += width + 24;
      height = Math.max(height, own);
      return group;
    });
    const size = `viewBox="0 0 ${x - 24} ${height}" width="${x - 24}" height="${height}"`;
    figures[`${name}.svg`] =
      `<svg xmlns="http://www.w3.org/2000/svg" ${size} role="img" aria-label="${title}">${pictures.join('').replaceAll('currentColor', '#777')}</svg>\n`;
  };

  const q = [[2, 0], [0, 2], [1, 1], [0, 0]]; // biome-ignore format: rows
  const k = [[1, 0], [0, 1], [1, 1], [0, 0]]; // biome-ignore format: rows
  const v = [[1, 0], [0, 1], [2, 2], [0, 4]]; // biome-ignore format: rows
  const four = heed.attention(q, k, v, { returnWeights: true });
  matrix('01-weights', four.weights, {
    rows: words,
    columns: words,
    decimals: 2,
    title: 'Attention weights of four words',
  });

  const x = [[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]]; // biome-ignore format: rows
  const z = heed.linear(x, { weight: [[2, 0, 1], [0, 2, -1]], bias: [0, 1], activation: 'relu' }); // biome-ignore format: rows
  beside(
    '02-linear',
    'The input of four words, and their outputs',
    [x, { rows: words, columns: ['x 1', 'x 2', 'x 3'], decimals: 0 }],
    [z, { columns: ['z 1', 'z 2'], decimals: 0 }],
  );

  const half = [[1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0]]; // biome-ignore format: rows
  const mha = new heed.MultiHeadAttention({ embedDim: 4, numHeads: 2, bias: false });
  const eye = (factor) => [0, 1, 2, 3].map((i) => [0, 1, 2, 3].map((j) => (i === j ? factor : 0)));
  mha.loadStateDict({ in_proj_weight: [...eye(4), ...eye(1), ...eye(1)], 'out_proj.weight': eye(1) });
  const heads = mha.forward(half, { returnWeights: true }).weights.toArray();
  const three = words.slice(0, 3);
  beside(
    '03-heads',
    'Attention weights of the first and of the second head',
    [heads[0], { rows: three, columns: three, decimals: 2 }],
    [heads[1], { columns: three, decimals: 2 }],
  );

  const equal = [[1, 0], [1, 0], [1, 0], [1, 0]]; // biome-ignore format: rows
  const masked = (options) =>
    heed.attention(equal, equal, equal, { ...options, returnWeights: true }).weights.toArray();
  beside(
    '04-masks',
    'Weights under a causal mask, a padding mask and a window',
    [masked({ causal: true }), { rows: words, decimals: 2 }],
    [masked({ mask: [true, true, false, false] }), { decimals: 2 }],
    [masked({ mask: heed.masks.window(4, 1) }), { decimals: 2 }],
  );

  const cross = heed.attention([[0, 4, 0], [0, 0, 4]], eye(1).slice(0, 3).map((row) => row.slice(0, 3)), [[0, 0], [5, 0], [0, 7]], { returnWeights: true }); // biome-ignore format: rows
  matrix('05-cross', cross.weights, {
    rows: ['verde', 'albero'],
    columns: ['the', 'green', 'tree'],
    decimals: 2,
    title: 'Cross-attention of two target words to three source words',
  });

  const rows = [[1, 2, 3], [3, 6, 9], [2, 4, 6]]; // biome-ignore format: rows
  const byRow = heed.layerNorm(rows).toArray();
  const byColumn = new heed.BatchNorm({ numFeatures: 3 }).train().forward(rows).toArray();
  beside(
    '06-norms',
    'Three rows, then after layer norm, then after batch norm',
    [rows, { rows: ['row 1', 'row 2', 'row 3'], decimals: 1 }],
    [byRow, { decimals: 1 }],
    [byColumn, { decimals: 1 }],
  );

  const dropout = new heed.Dropout({ p: 0.5, seed: 3 }).train();
  const steps = Array.from({ length: 10 }, () => dropout.forward([new Array(12).fill(1)]).toArray()[0]);
  matrix('07-dropout', steps, {
    rows: steps.map((_, i) => `step ${i + 1}`),
    title: 'Ten draws of dropout for twelve entries',
  });

  matrix('08-encodings', heed.positionalEncoding(30, 16), { cell: 10, title: 'Encodings of 30 positions' });
  const { data } = heed.positionalEncoding(150, 32);
  const products = Array.from({ length: 150 }, (_, i) =>
    data.subarray(0, 32).reduce((sum, value, c) => sum + value * data[32 * i + c], 0),
  );
  add('08-dot-products', (target) =>
    draw.curves(target, { product: products }, { x: 'distance', y: 'dot product', title: 'Dot products by distance' }),
  );

  const encoder = new heed.Encoder({ embedDim: 8, numHeads: 2, feedForwardDim: 16, numLayers: 2, dropout: 0, seed: 1 });
  const { weights } = encoder.forward(heed.positionalEncoding(5, 8), { returnWeights: true });
  beside(
    '09-encoder',
    'Attention weights of two layers with two heads each',
    ...weights.flatMap((layer) => layer.toArray().map((head) => [head, { cell: 24, max: 1 }])),
  );

  const sizes = { embedDim: 8, numHeads: 2, feedForwardDim: 16, dropout: 0, seed: 1 };
  const transformer = new heed.Transformer({ ...sizes, numEncoderLayers: 1, numDecoderLayers: 1 });
  const [decoder] = transformer.forward(heed.positionalEncoding(6, 8), heed.positionalEncoding(4, 8), {
    causal: true,
    returnWeights: true,
  }).weights.decoder;
  beside(
    '10-decoder',
    'Causal self-attention and cross-attention of a decoder',
    [decoder.self.at(0), { rows: ['1', '2', '3', '4'], cell: 24, max: 1 }],
    [decoder.memory.at(0), { cell: 24, max: 1 }],
  );

  const { history, frequencies } = await trained();
  add('11-loss', (target) => draw.curves(target, { loss: history }, { x: 'epoch', y: 'loss', title: 'Loss by epoch' }));
  const ages = ['young', 'middle', 'older'];
  beside(
    '12-frequencies',
    'Frequencies by vehicle and age: the truth, the transformer, a product of factors',
    ...frequencies.map((values, i) => [
      values,
      { ...(i === 0 && { rows: ['small', 'family', 'sports'] }), columns: ages, decimals: 2, max: 1 },
    ]),
  );
  return figures;
}

/** Runs chapters 11 and 12 and returns what their figures show. */
async function trained() {
  const run = async (file, result) => {
    const text = fs.readFileSync(join(root, 'docs/course', file), 'utf8');
    const code = [...text.matchAll(/```js\n(.*?)```/gs)].map(([, block]) => block).join('\n');
    const script = `${code.replaceAll("'heed/train'", `'${pathToFileURL(join(root, 'dist/train.js'))}'`)}\nexport default ${result};`;
    const source = script.replaceAll('console.log(', '((..._) => {})(');
    return (await import(`data:text/javascript,${encodeURIComponent(source)}`)).default;
  };
  const history = await run('11-series.md', 'history.loss');
  const cells = '[0, 1, 2].map((vehicle) => [0, 1, 2].map((age) => of([vehicle, age])))';
  const rates = `policies.reduce((sum, { claims }) => sum + claims, 0) / policies.reduce((sum, { exposure }) => sum + exposure, 0)`;
  const of = (feature, level) =>
    `((all) => all.reduce((s, p) => s + p.claims, 0) / all.reduce((s, p) => s + p.exposure, 0))(policies.filter(({ levels }) => levels[${feature}] === ${level}))`;
  const product = `([vehicle, age]) => ${of(0, 'vehicle')} * ${of(1, 'age')} / (${rates})`;
  const frequencies = await run('12-claims.md', `[truth, frequency, ${product}].map((of) => ${cells})`);
  return { history, frequencies };
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href)
  await runMain(async () => {
    fs.mkdirSync(folder, { recursive: true });
    for (const [name, text] of Object.entries(await courseFigures())) fs.writeFileSync(join(folder, name), text);
  });
