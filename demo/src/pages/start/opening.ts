/**
 * What the first page opens with: a sentence, a head of the bundled model, and its weights, so that there is something to see before the model has loaded.
 * tests/demo/examples.test.ts compares the weights with the model's.
 */

export const sentence = 'The bank lent her money';

/** `token` is the index of “bank”. */
export const shown = { layer: 5, head: 7, token: 2 };

export const tokens = ['[CLS]', 'the', 'bank', 'lent', 'her', 'money', '[SEP]'];

/** One row per query, in thousandths. */
export const thousandths = [
  [389, 12, 224, 316, 13, 34, 13],
  [405, 21, 159, 321, 18, 55, 21],
  [202, 7, 236, 509, 4, 36, 6],
  [259, 20, 129, 501, 8, 59, 23],
  [517, 13, 163, 255, 7, 32, 13],
  [83, 8, 212, 560, 3, 127, 7],
  [429, 22, 127, 343, 14, 44, 22],
];

/** Sentences to try, each with the token to which “bank” attends most in this head. */
export const others = [
  { sentence: 'The bank gave her a loan', most: 'loan' },
  { sentence: 'The bank refused the loan', most: 'loan' },
  { sentence: 'The bank gave her a rope', most: 'rope' },
] as const;
