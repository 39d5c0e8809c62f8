/** A tiny BERT with a tokenizer that knows a few words, as files in memory. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { bytesOf, fixtures } from './fixtures.js';

const words = [
  '[PAD]',
  '[UNK]',
  '[CLS]',
  '[SEP]',
  '[MASK]',
  'a',
  'x',
  'y',
  'z',
  'the',
  'quick',
  'brown',
  'fox',
  '##es',
  '0',
  '1',
  '2',
  '3',
  '##0',
  '##1',
  '##2',
  '##3',
  ',',
  '.',
];

export function tinyModel(family = 'bert'): Record<string, Uint8Array | string> {
  const tokenizer = JSON.parse(readFileSync(join(fixtures, 'tokenizers/bert-uncased.json'), 'utf8')) as {
    model: { vocab: Record<string, number> };
  };
  tokenizer.model.vocab = Object.fromEntries(words.map((word, id) => [word, id]));
  return { ...bytesOf(join(fixtures, family)), 'tokenizer.json': JSON.stringify(tokenizer) };
}
