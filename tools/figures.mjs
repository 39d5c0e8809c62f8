// Measured figures in the documents. Each is enclosed in two comments, `<!-- figure:download -->132 KB<!-- /figure -->`, and has
// one source: bench/record.json, the tables of bench/RESULTS.md and bench/ENGINES.md, the demo's peers.json, or the model's files.
//   node tools/figures.mjs         lists the figures that differ from their sources (part of `npm run lint`)
//   node tools/figures.mjs --fix   writes them (part of `npm run record` and `npm run format`)
import * as fs from 'node:fs';
import { join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { PlainError, root, runMain, say } from './console.mjs';
import { filesBelow } from './files.mjs';
import { ratiosOf } from './record.mjs';

const read = (name) => fs.readFileSync(join(root, name), 'utf8');
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
const table = (head, rows) =>
  [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');

/** Bytes as KB of 1000 bytes, the unit of all documents. */
export const kilobytes = (bytes) => `${Math.round(bytes / 1000).toLocaleString('en-US')} KB`;
const megabytes = (bytes, decimals = 1) => `${(bytes / 1e6).toFixed(decimals)} MB`;

/**
 * The range of how many times as fast heed is, "1.9 to 2.0". Where heed is slower it is bold.
 * @param {number[]} ratios
 */
export function rangeOf(ratios) {
  const [least, most] = [Math.min(...ratios), Math.max(...ratios)];
  const [low, high] = [least, most].map((ratio) => (ratio < 1 ? ratio.toFixed(2) : ratio.toFixed(1)));
  const text = low === high ? low : `${low} to ${high}`;
  return least < 1 ? `**${text}**` : text;
}

const cellsOf = (line) => line.split('|').slice(1, -1).map((cell) => cell.trim()); // biome-ignore format: one line

/** The cells of the rows of all tables in a text. */
const rowsOf = (text) =>
  text
    .split('\n')
    .filter((line) => line.startsWith('| '))
    .map(cellsOf);

/** The rest of the section after its heading, up to the next heading. */
const sectionAfter = (text, heading) => text.split(heading)[1].split('\n#')[0];
const kRealSentences = /### \d+ real sentences of mixed lengths, Node 24/;

/**
 * The rows of bench/ENGINES.md: `{ engine: 'Node 24', threads: 1, dtype: 'fp32', ratios }`, where ratios are to onnxruntime-web.
 * @param {string} markdown
 */
export function engineRatios(markdown) {
  return markdown
    .split('\n')
    .filter((line) => /^\| [A-Z][A-Za-z]+[ |]/.test(line))
    .map((line) => {
      const [engine, , threads, dtype, ...cells] = cellsOf(line);
      const ratios = cells.flatMap((cell) => cell.match(/ ms, ([\d.]+) \(/)?.[1] ?? []).map(Number);
      return { engine: engine.replace(/\..*/, ''), threads: Number(threads), dtype, ratios };
    });
}

/**
 * How many times as many sentences per second heed embeds as transformers.js, in int8, by place and by heed's workers: the tables of
 * real sentences in bench/RESULTS.md.
 * @param {string} markdown
 */
export function sentenceRatios(markdown) {
  const sections = markdown.split(/^### \d+ real sentences of mixed lengths, /m).slice(1);
  return Object.fromEntries(
    sections.map((section) => {
      const [place] = section.split('\n');
      const rates = rowsOf(section.split('\n#')[0]);
      const of = (name) => rates.filter(([each]) => each.startsWith(name)).map(([each, rate]) => [each, Number(rate)]);
      const theirs = Math.max(...of('transformers.js q8').map(([, rate]) => rate));
      const ratios = of('heed q8, ').map(([each, rate]) => [each.slice('heed q8, '.length), rate / theirs]);
      return [place.replace(/\..*/, ''), Object.fromEntries(ratios)];
    }),
  );
}

/** The rows of the table of speeds: engines, then other libraries. */
function speedRows(engines, results) {
  const rows = [];
  const of = (name, threads, dtype) =>
    engines
      .filter((row) => row.engine === name && row.threads === threads && row.dtype === dtype)
      .flatMap((r) => r.ratios);
  const cell = (ratios) => (ratios.length > 0 ? rangeOf(ratios) : 'not measured');
  for (const threads of [...new Set(engines.map((row) => row.threads))].sort((a, b) => a - b))
    for (const name of new Set(engines.filter((row) => row.threads === threads).map(({ engine }) => engine)))
      rows.push([
        'onnxruntime-web',
        `${name}${name === 'WebKitGTK' ? ' (Safari’s engine)' : ''}${threads > 1 ? `, ${threads} threads` : ''}`,
        ...['fp32', 'q8'].map((dtype) => cell(of(name, threads, dtype))),
      ]);
  const places = ratiosOf(results);
  for (const [peer, wanted] of [
    ['onnxruntime-web', /^Node 20/],
    ['onnxruntime-node', /^Node/],
    ['tfjs-wasm', /^Chrom/],
    ['jax-js', /^(Node 24|Chrom)/],
  ])
    for (const [place, pairs] of Object.entries(places).filter(([name]) => wanted.test(name))) {
      // Node 20 has no relaxed SIMD unless a flag enables it.
      const build = place.startsWith('Node 20') ? 'simd128' : 'relaxed-simd';
      const ratios = ['fp32', 'int8'].map((kind) =>
        Object.values(pairs[`heed ${kind === 'int8' ? 'q8' : kind} (${build}) / ${peer} ${kind}`] ?? {}),
      );
      if (ratios.some((some) => some.length > 0))
        rows.push([
          `${peer}${peer === 'onnxruntime-node' ? ' (native code)' : ''}`,
          place.replace(/\..*/, ''),
          ...ratios.map((some) => (some.length > 0 ? rangeOf(some) : '')),
        ]);
    }
  for (const [place, ratios] of Object.entries(sentenceRatios(results)))
    for (const [workers, ratio] of Object.entries(ratios))
      rows.push([
        `transformers.js${place.startsWith('Node') ? ' (native code)' : ''}: sentences per second`,
        `${place}, heed with ${workers}`,
        '',
        rangeOf([ratio]),
      ]);
  const starts = results.match(/heed starts ([\d.]+) times as fast in fp32 and ([\d.]+) times as fast in int8/);
  if (starts)
    rows.push([
      'onnxruntime-web: first vector in a new process',
      'Node 24',
      ...starts.slice(1).map((ratio) => rangeOf([Number(ratio)])),
    ]);
  return rows;
}

const speedTable = (rows) => table(['compared with', 'in', 'fp32', 'int8'], rows);

/** The three rows of the README: a browser, native code, and a whole library. */
function shortSpeedTable(rows) {
  const wanted = [
    [/^onnxruntime-web$/, /^Chrome \d+$/],
    [/^onnxruntime-node/, /^Node 24$/],
    [/^transformers\.js: sentences/, /^Chrome \d+, heed with no workers$/],
  ];
  return speedTable(wanted.map(([peer, place]) => rows.find((row) => peer.test(row[0]) && place.test(row[1]))));
}

/**
 * The table of training: how many times as fast as each library a step is, by size, from the section "Training" of bench/RESULTS.md.
 * @param {string} markdown
 */
export function trainingTable(markdown) {
  const sections = markdown.split('\n## Training\n')[1].split(/\n## /)[0].split('\n### ').slice(1);
  const sizes = sections.filter((section) => section.includes('heed is times as fast'));
  const columns = sizes.map((section) => {
    return new Map(rowsOf(section).map(([name, step, , ratio]) => [name, ratio ? rangeOf([parseFloat(ratio)]) : step]));
  });
  const names = [...columns[0].keys()].filter((name) => name !== '' && !name.startsWith('heed') && !/^-+$/.test(name));
  const titles = sizes.map((section) => section.split('\n')[0]);
  return table(
    ['a step compared with', ...titles],
    names.map((name) => [name, ...columns.map((column) => column.get(name))]),
  );
}

/**
 * The cosines to heed's fp32 vectors, from bench/RESULTS.md: of random weights in Node 24, and of real sentences.
 * @param {string} markdown
 */
export function cosineTable(markdown) {
  const last = (name, text) => {
    const line = text.split('\n').find((each) => each.startsWith(`| ${name}`));
    return line ? cellsOf(line).at(-1) : '';
  };
  const random = markdown.split('\n## Node 24')[1].split('| times as fast |')[0];
  const real = sectionAfter(markdown, kRealSentences);
  const rows = [
    ['heed q8', last('heed q8 (relaxed-simd)', random), last('heed q8', real)],
    ['onnxruntime-web int8', last('onnxruntime-web int8 |', random), ''],
    ['transformers.js q8', '', last('transformers.js q8', real)],
  ];
  return table(['cosine to fp32', 'random weights of MiniLM-L6’s shape', 'real sentences'], rows);
}

/** The number of parameters of the bundled model, without scales. */
function parameterCount() {
  const bytes = fs.readFileSync(join(root, 'web/model/model.safetensors'));
  const { __metadata__: _, ...tensors } = JSON.parse(bytes.subarray(8, 8 + Number(bytes.readBigUInt64LE())).toString());
  const own = Object.entries(tensors).filter(([name]) => !/_(scale|outliers)$/.test(name));
  const columns = (name, shape) =>
    tensors[`${name}_column_scale`]?.shape[1] ?? shape.slice(1).reduce((a, b) => a * b, 1);
  return sum(own.map(([name, { shape }]) => shape[0] * columns(name, shape)));
}

/** What loading the bundled model downloads: config.json and all that it needs, without the dictionary and the documents. */
const modelFiles = () =>
  filesBelow(join(root, 'web/model')).filter(
    (file) => !/\.md$|LICENSE$/.test(file) && !relative(join(root, 'web/model'), file).startsWith('dictionary'),
  );

const entry = () => JSON.parse(read('bench/record.json'))[JSON.parse(read('package.json')).version];
const recorded = (kind, name) => {
  const value = entry()?.[kind]?.[name];
  if (value === undefined)
    throw new PlainError(`bench/record.json has no ${kind} '${name}'; \`npm run record\` writes it`);
  return value;
};
const peer = (name) =>
  JSON.parse(read('demo/src/pages/speed/peers.json')).libraries.find((each) => each.name.startsWith(name));
const download = () => recorded('sizes', 'wasm + API + glue + tokenizers, brotli');

/** A row of the table of the demo's loading times in bench/RESULTS.md: seconds until a page is usable, and KB until then. */
function demoLoad(page) {
  const [, seconds, kb] =
    read('bench/RESULTS.md').match(new RegExp(`^\\| ${page} \\|[^|]*\\|[^|]*\\| ([\\d.]+) \\| ([^|]*) \\|`, 'm')) ?? [];
  if (!seconds)
    throw new PlainError(`bench/RESULTS.md has no loading time of '${page}'; \`npm run bench\` measures it`);
  return { seconds: `${seconds} s`, kb: `${kb} KB` };
}

const measuredSpeeds = () => speedRows(engineRatios(read('bench/ENGINES.md')), read('bench/RESULTS.md'));

/** The figures by name; each function returns the text between the comments. */
const kFigures = {
  download: () => kilobytes(download()),
  'download-draw': () => kilobytes(recorded('sizes', 'heed/draw on top, brotli')),
  'download-transformers': () => kilobytes(peer('transformers.js').brotli),
  downloads: () => {
    const { libraries } = JSON.parse(read('demo/src/pages/speed/peers.json'));
    const rows = [{ name: 'heed', brotli: download() }, ...libraries];
    return `\n${table(
      ['', 'KB brotli'],
      rows.map(({ name, brotli }) => [name, kilobytes(brotli).replace(' KB', '')]),
    )}\n`;
  },
  'demo-first-page': () => demoLoad('Compute').kb,
  'demo-start': () => demoLoad('First page').seconds,
  'demo-start-lighthouse': () => demoLoad('First page, as Lighthouse throttles').seconds,
  'demo-by-hand': () => demoLoad('Compute').seconds,
  'demo-your-text': () => demoLoad('Meaning').seconds,
  model: () => megabytes(sum(modelFiles().map((file) => fs.statSync(file).size))),
  'model-parameters': () => `${(parameterCount() / 1e6).toFixed(1)} M`,
  speed: () => `\n${speedTable(measuredSpeeds())}\n`,
  'speed-short': () => `\n${shortSpeedTable(measuredSpeeds())}\n`,
  'speed-measured': () => {
    const dates = [...read('bench/ENGINES.md').matchAll(/ (\d{4}-\d\d-\d\d)[^|]*\|$/gm)].map(([, date]) => date);
    const [, date, cpu] = read('bench/RESULTS.md').match(/^Measured on ([\d-]+), (.*), by /m);
    return `${[...dates, date].sort()[0]} to ${[...dates, date].sort().at(-1)}, ${cpu}`;
  },
  'training-speed': () => `\n${trainingTable(read('bench/RESULTS.md'))}\n`,
  'sentences-one-worker': () => {
    const rows = rowsOf(sectionAfter(read('bench/RESULTS.md'), kRealSentences));
    const rates = new Map(rows.map(([name, rate]) => [name, Number(rate)]));
    const theirs = [...rates].filter(([name]) => name.startsWith('transformers.js')).map(([, rate]) => rate);
    return `${Math.round((100 * rates.get('heed q8, no workers')) / Math.max(...theirs))} %`;
  },
  cosines: () => `\n${cosineTable(read('bench/RESULTS.md'))}\n`,
  'download-threads': () => kilobytes(recorded('sizes', 'threads on top: wasm (difference) + glue + script, brotli')),
  'download-worker': () => kilobytes(recorded('sizes', 'worker on top, brotli')),
  'download-training': () => kilobytes(recorded('sizes', 'heed/train: wasm + API + glue + tokenizers, brotli')),
  'training-memory': () => {
    const cell = (name) => megabytes(recorded('memory', name), 0);
    const names = ['all weights', 'LoRA adapters of queries and values'];
    const rows = names.map((name) => [name, cell(name), cell(`${name}, recompute`)]);
    return `\n${table(['', 'default', '`fromPretrained(..., { recompute: true })`'], rows)}\n`;
  },
};

const kMark = /(<!-- figure:([\w-]+) -->)(.*?)(<!-- \/figure -->)/gs;

/**
 * A document with its figures written anew; where they differed, and where a figure has no source, one line each.
 * @param {string} text
 * @param {Record<string, () => string>} figures
 */
export function withFigures(text, figures = kFigures) {
  const [differences, failures] = [[], []];
  const fresh = text.replace(kMark, (_, start, name, old, end, offset) => {
    const line = text.slice(0, offset).split('\n').length;
    try {
      if (!figures[name]) throw new PlainError('no such figure');
      const now = figures[name]();
      if (now !== old) differences.push(`${line}: ${name}: expected '${now.trim()}', got '${old.trim()}'`);
      return start + now + end;
    } catch (error) {
      if (!(error instanceof PlainError)) throw error;
      failures.push(`${line}: ${name}: ${error.message}`);
      return start + old + end;
    }
  });
  return { text: fresh, differences, failures };
}

/** The documents that may have figures. */
const documents = () => [
  ...['README.md', 'CONTRIBUTING.md', 'demo/README.md', 'web/model/README.md', 'bench/RESULTS.md'].map((name) =>
    join(root, name),
  ),
  ...filesBelow(join(root, 'docs')).filter((file) => file.endsWith('.md')),
];

/** Compares the figures of all documents with their sources; writes them with `fix`. */
export function checkFigures({ fix = false } = {}) {
  const wrong = [];
  for (const file of documents()) {
    const { text, differences, failures } = withFigures(fs.readFileSync(file, 'utf8'));
    if (fix && differences.length > 0) fs.writeFileSync(file, text);
    wrong.push(...[...failures, ...(fix ? [] : differences)].map((fault) => `${relative(root, file)}:${fault}`));
  }
  if (wrong.length > 0)
    throw new PlainError(`figures differ:\n  ${wrong.join('\n  ')}\n\`node tools/figures.mjs --fix\` writes them`);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href)
  await runMain(async () => {
    const fix = process.argv.includes('--fix');
    checkFigures({ fix });
    say(fix ? 'the figures of the documents are those of the records' : 'figures: ok');
  });
