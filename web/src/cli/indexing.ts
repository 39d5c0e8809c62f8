/** Builds a search index: one vector per entry, from its text and its descriptions. */

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type EmbedOptions, type PretrainedModel, Tensor, TextIndex } from '../index.js';
import { batches } from '../node/batches.js';
import { invalid, invalidFile } from '../node/error.js';
import type { Entry } from './records.js';

/** The entries' texts. All are read before any is embedded, so that errors in the file are found at once. */
export async function wordsOf(entries: AsyncIterable<Entry>, file: string): Promise<string[]> {
  const words: string[] = [];
  for await (const { text } of entries) {
    words.push(text);
    const expected = 'a text without line breaks (words.txt has one text per line)';
    if (/[\r\n]/.test(text))
      throw invalidFile(`${file}: entry ${words.length}`, expected, JSON.stringify(text).slice(0, 80));
  }
  return words;
}

export interface IndexOptions extends Pick<EmbedOptions, 'pooling' | 'dimensions' | 'prompt'> {
  /** The weight of the mean of the descriptions' vectors, relative to the text's own vector. */
  weight: number;
  /** Called with the number of entries done so far. */
  onProgress: (done: number) => void;
}

/** An index of the vectors u(text) + weight * mean(u(description)), where u has length 1. The index normalizes the sums. */
export async function indexOf(
  model: PretrainedModel,
  words: string[],
  entries: AsyncIterable<Entry>,
  { weight, onProgress, ...options }: IndexOptions,
): Promise<TextIndex> {
  let vectors = new Float32Array(0);
  let width = 0;
  let done = 0;
  for await (const group of batches(entries, ({ descriptions }) => 1 + descriptions.length)) {
    const texts = group.flatMap(({ text, descriptions }) => [text, ...descriptions]);
    const { data, shape } = await model.embed(texts, { ...options, normalize: true });
    if (done === 0) {
      width = shape[1]!;
      vectors = new Float32Array(words.length * width);
    }
    let at = 0;
    for (const { descriptions } of group) {
      const sum = vectors.subarray(done * width, (done + 1) * width);
      for (let t = -1; t < descriptions.length; t++) {
        const factor = t < 0 ? 1 : weight / descriptions.length;
        for (let i = 0; i < width; i++) sum[i]! += factor * data[at++]!;
      }
      done++;
    }
    onProgress(done);
  }
  return TextIndex.of(words, new Tensor(vectors, [words.length, width]));
}

/** The files of an index: vectors in `out`, texts in words.txt in the same folder. Throws rather than overwrite a words.txt that is not part of an index. */
export function indexFiles(out: string, words: string[]): { vectors: string; words: string } {
  if (!out.endsWith('.safetensors')) throw invalid('--out', 'a .safetensors file', `'${out}'`);
  const list = join(dirname(out), 'words.txt');
  if (!existsSync(out) && existsSync(list) && readFileSync(list, 'utf8').split(/\r?\n/).join('\n') !== lines(words))
    throw invalid(
      '--out',
      "a folder where the index's words.txt can be written",
      `'${out}', in whose folder words.txt has other texts`,
    );
  return { vectors: out, words: list };
}

export function writeIndex(files: { vectors: string; words: string }, index: TextIndex): number {
  const bytes = index.toSafetensors();
  writeFileSync(files.vectors, bytes);
  writeFileSync(files.words, lines(index.texts));
  return bytes.length;
}

function lines(words: readonly string[]): string {
  return words.map((word) => `${word}\n`).join('');
}
