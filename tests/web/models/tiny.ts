/** A tiny BERT, whose tokenizer has a few words, as files in memory. */
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

/** A tokenizer_config.json with which tokenizer.json runs as it is. */
export const runsAsItIs = {
  'tokenizer_config.json': JSON.stringify({
    tokenizer_class: 'TokenizersBackend',
    model_input_names: ['input_ids', 'token_type_ids', 'attention_mask'],
  }),
};

export function tinyModel(family = 'bert'): Record<string, Uint8Array | string> {
  const tokenizer = JSON.parse(readFileSync(join(fixtures, 'tokenizers/bert-uncased.json'), 'utf8')) as {
    model: { vocab: Record<string, number> };
  };
  tokenizer.model.vocab = Object.fromEntries(words.map((word, id) => [word, id]));
  return { ...bytesOf(join(fixtures, family)), 'tokenizer.json': JSON.stringify(tokenizer) };
}

/** A post-processor that adds special tokens around a text 'A'. */
export const template = (names: string[], ids: number[]) => ({
  single: names.map((id) => (id === 'A' ? { Sequence: { id, type_id: 0 } } : { SpecialToken: { id, type_id: 0 } })),
  pair: [],
  special_tokens: Object.fromEntries(
    names.filter((id) => id !== 'A').map((id, i) => [id, { id, ids: [ids[i]], tokens: [id] }]),
  ),
});

/** A fixture's folder with a tokenizer whose tokens are 'w0', 'w1', ..., '<start>' and '<end>'. */
export function withWords(name: string, post: object, config: object = {}): Record<string, Uint8Array | string> {
  const words = Array.from({ length: 78 }, (_, i) => `w${i}`);
  const vocab = Object.fromEntries([...words, '<start>', '<end>'].map((word, id) => [word, id]));
  const special = ['<start>', '<end>'].map((content) => ({
    id: vocab[content],
    content,
    special: true,
    normalized: false,
  }));
  return {
    ...bytesOf(join(fixtures, name)),
    'tokenizer_config.json': JSON.stringify(config),
    'tokenizer.json': JSON.stringify({
      added_tokens: special,
      normalizer: null,
      pre_tokenizer: { type: 'WhitespaceSplit' },
      post_processor: { type: 'TemplateProcessing', ...post },
      decoder: null,
      model: {
        type: 'WordPiece',
        vocab,
        unk_token: 'w0',
        continuing_subword_prefix: '##',
        max_input_chars_per_word: 100,
      },
    }),
  };
}

/** A tiny CLIP. */
export const tinyClip = () => withWords('clip', template(['<start>', 'A', '<end>'], [78, 79]));
