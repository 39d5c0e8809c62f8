// What the bundled model is made of: the published checkpoint with fewer words, and the texts to which its matrices are fitted.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ADJECTIVES, PLAIN, PRONOUNS, SENSES } from './sentences.mjs';
import { wordnet } from './sources.mjs';
import { commonTokens } from './vocabulary.mjs';

/** The files of the published folder that are kept. */
const FILES = [
  'config.json',
  'model.safetensors',
  'tokenizer.json',
  'tokenizer_config.json',
  'modules.json',
  'sentence_bert_config.json',
  '1_Pooling/config.json',
];

const POSITIONS = 256;

/** The published folder with about `rows` entries of the vocabulary and 256 positions, and the report of `prune`. */
export async function prunedFolder(heed, published, rows) {
  const { vocab } = JSON.parse(readFileSync(join(published, 'tokenizer.json'), 'utf8')).model;
  const vocabulary = Object.keys(vocab).sort((a, b) => vocab[a] - vocab[b]);
  const keep = [
    ...PLAIN,
    ...[...ADJECTIVES, ...PRONOUNS].map(({ sentence }) => sentence),
    ...SENSES.flatMap(({ senses }) => senses.flatMap(({ sentences }) => sentences)),
  ];
  const tokens = await commonTokens(published, vocabulary, rows);
  const { files, report } = await heed.prune(published, { keep, tokens, positions: POSITIONS });
  return { files: Object.fromEntries(FILES.map((path) => [path, files[path]])), report };
}

/** Definitions and examples of `count` synsets from all of WordNet, and short paragraphs of these. */
export async function calibrationTexts(count = 400) {
  const all = await wordnet();
  const step = all.length / count;
  const some = Array.from({ length: count }, (_, i) => all[Math.floor((i + 0.5) * step)]);
  const texts = some.map(({ gloss, examples }, i) =>
    i % 2 === 0 && examples.length > 0 ? examples.join('. ') : gloss,
  );
  const paragraphs = texts.flatMap((_, i) => (i % 20 === 0 ? [`${texts.slice(i, i + 4).join('. ')}.`] : []));
  return [...texts, ...paragraphs];
}
