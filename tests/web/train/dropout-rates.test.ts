/** Where each family's published model has dropout, tested with distinct rates for the keys of config.json. */
import { expect, it } from 'vitest';
import { Settings } from '../../../web/src/io/settings.js';
import { textFamilies } from '../../../web/src/models/families/families.js';
import { dropoutRates } from '../../../web/src/train/trainable/dropout-rates.js';

const none = { embedding: 0, attention: 0, attentionOutput: 0, hidden: 0, output: 0, position: 0 };
const keys = { hidden_dropout_prob: 0.2, attention_probs_dropout_prob: 0.3, attention_dropout: 0.4 };
const ratesOf = (type: string, more: object = {}, given: number | null = null) =>
  dropoutRates(type, new Settings({ ...keys, ...more }, 'config.json'), given);

const bert = { ...none, embedding: 0.2, attention: 0.3, attentionOutput: 0.2, output: 0.2 };

it.each([
  ['bert', {}, { ...bert, classifier: 0.2 }],
  ['bert', { classifier_dropout: 0.5 }, { ...bert, classifier: 0.5 }],
  // JinaBERT: after the gate, and not after the feed-forward.
  ['bert', { position_embedding_type: 'alibi' }, { ...bert, hidden: 0.2, output: 0, classifier: 0.2 }],
  ['deberta-v2', { cls_dropout: 0.5 }, { ...bert, position: 0.2, classifier: 0.5 }],
  ['new', {}, { ...bert, hidden: 0.2, classifier: 0.2 }],
  ['qwen3', {}, { ...none, attention: 0.4, classifier: 0 }],
  ['gemma3_text', {}, { ...none, attention: 0.4, classifier: 0 }],
])('%s with %j', (type, more, expected) => {
  expect(ratesOf(type, more)).toEqual(expected);
});

it('one rate at all places', () => {
  expect(ratesOf('deberta-v2', {}, 0.5)).toEqual({
    ...{ embedding: 0.5, attention: 0.5, attentionOutput: 0.5, hidden: 0, output: 0.5, position: 0.5 },
    classifier: 0.5,
  });
});

it.each(textFamilies)('%s has an entry', (type) => {
  expect(ratesOf(type)).toMatchObject({ embedding: expect.any(Number), classifier: expect.any(Number) });
});

it.each(['another', 'constructor', 'clip'])('%s, which has none, is refused', (type) => {
  expect(() => ratesOf(type)).toThrow(expect.objectContaining({ code: 'UNSUPPORTED' }));
});
