// Makes the vectors of the bundled dictionary: those of its 20,000 words (web/model/dictionary/words.txt) plus twice the mean of those of
// their definitions in WordNet, by the model as published.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root, say } from '../console.mjs';
import { wordnet } from './sources.mjs';

/** The weight of the mean of a word's definitions, relative to the word's own vector. */
const WEIGHT = 2;
/** The number of principal components. */
const COMPONENTS = 192;
const BITS = 3;
/** Texts embedded at a time. */
const BATCH = 256;

/** Unit vectors of texts, in the order of the texts. Texts of similar lengths are embedded together. */
async function embedAll(model, texts) {
  const order = texts.map((_, i) => i).sort((a, b) => texts[a].length - texts[b].length);
  const rows = [];
  for (let from = 0; from < order.length; from += BATCH) {
    const some = order.slice(from, from + BATCH);
    const { data, shape } = await model.embed(
      some.map((i) => texts[i]),
      { normalize: true },
    );
    some.forEach((i, n) => {
      rows[i] = data.slice(n * shape[1], (n + 1) * shape[1]);
    });
  }
  return rows;
}

/** Writes `dictionary/` into `folder`, which has the small model: the words of web/model/dictionary/words.txt and their index, which recognizes that model. */
export async function makeDictionary(heed, published, folder) {
  const list = readFileSync(join(root, 'web/model/dictionary/words.txt'), 'utf8');
  const words = list.trim().split('\n');
  const place = new Map(words.map((word, i) => [word, i]));
  const synsets = (await wordnet()).filter((synset) => synset.words.some((word) => place.has(word)));
  const exact = await heed.fromPretrained(published, { dtype: 'fp32' });
  const rows = await embedAll(exact, words);
  const definitions = await embedAll(
    exact,
    synsets.map(({ gloss }) => gloss),
  );
  const own = words.map(() => []);
  synsets.forEach((synset, n) => {
    for (const word of new Set(synset.words)) if (place.has(word)) own[place.get(word)].push(definitions[n]);
  });
  const width = rows[0].length;
  const data = Float32Array.from({ length: words.length * width }, (_, at) => {
    const [i, k] = [Math.floor(at / width), at % width];
    const sum = own[i].reduce((total, vector) => total + vector[k], 0);
    return rows[i][k] + (WEIGHT * sum) / (own[i].length || 1);
  });
  const bundled = await heed.fromPretrained(folder, { dtype: 'q8' });
  const index = heed.TextIndex.of(
    words,
    { data, shape: [words.length, width] },
    { embedder: bundled, storage: 'float32' },
  );
  const bytes = await heed.quantizeIndex(index, { components: COMPONENTS, bits: BITS, texts: false });
  mkdirSync(join(folder, 'dictionary'), { recursive: true });
  writeFileSync(join(folder, 'dictionary/words.txt'), list);
  writeFileSync(join(folder, 'dictionary/index.safetensors'), bytes);
  for (const each of [exact, bundled, index]) each.dispose();
  say(`${words.length} words, ${synsets.length} definitions, ${bytes.length} bytes`);
}
