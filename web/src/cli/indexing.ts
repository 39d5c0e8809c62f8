/** From entries to a search index: for each a vector of its text and of what is said about it. */

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type EmbedOptions, HeedError, type PretrainedModel, Tensor, TextIndex } from '../index.js';
import type { Entry } from './records.js';

/** The entries' texts. All are read once before any is embedded, so that a wrong one is found at once. */
export async function wordsOf(entries: AsyncIterable<Entry>, file: string): Promise<string[]> {
  const words: string[] = [];
  for await (const { text } of entries) {
    words.push(text);
    if (/[\r\n]/.test(text))
      throw new HeedError(
        'INVALID_FILE',
        `${file}: entry ${words.length}: got ${JSON.stringify(text).slice(0, 80)}; expected a text without line breaks, as words.txt holds one a line`,
      );
  }
  return words;
}

export interface IndexOptions extends Pick<EmbedOptions, 'pooling' | 'dimensions' | 'prompt'> {
  /** What the mean of the descriptions' vectors counts beside the text's own. */
  weight: number;
  /** Entries done so far. */
  onProgress: (done: number) => void;
}

/** Texts embedded in one call: all that is in memory at a time beside the vectors. */
const GROUP = 256;

/** Each entry's vector, u(text) + weight * mean of u(description), where u has length 1; the index brings the sum to length 1. */
export async function indexOf(
  model: PretrainedModel,
  words: string[],
  entries: AsyncIterable<Entry>,
  { weight, onProgress, ...options }: IndexOptions,
): Promise<TextIndex> {
  let vectors = new Float32Array(0);
  let width = 0;
  let done = 0;
  for await (const group of groups(entries)) {
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

/** Neighbouring entries of some GROUP texts together. */
async function* groups(entries: AsyncIterable<Entry>): AsyncGenerator<Entry[]> {
  let group: Entry[] = [];
  let texts = 0;
  for await (const entry of entries) {
    group.push(entry);
    texts += 1 + entry.descriptions.length;
    if (texts >= GROUP) {
      yield group;
      group = [];
      texts = 0;
    }
  }
  if (group.length > 0) yield group;
}

/** Where an index goes: its vectors to `out`, its texts to words.txt beside it. Refuses to write over a words.txt that belongs to no index. */
export function indexFiles(out: string | undefined, words: string[]): { vectors: string; words: string } {
  if (!out?.endsWith('.safetensors'))
    throw new HeedError('INVALID_ARGUMENT', `--out: got '${out ?? 'none'}'; expected a .safetensors file`);
  const list = join(dirname(out), 'words.txt');
  if (!existsSync(out) && existsSync(list) && readFileSync(list, 'utf8').split(/\r?\n/).join('\n') !== lines(words))
    throw new HeedError(
      'INVALID_ARGUMENT',
      `--out: got '${out}', beside which words.txt has other texts; expected a folder where the index's words.txt can be written`,
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
